/* troupe top: the command, run on this program and on children of it. */
#include "support/harness.h"
#include "cli/data/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, EVERYBODY = -1 };

typedef struct result {
    int status;
    char text[4 * H_MIB]; /* other tests may have many devices meanwhile */
} result;

static const char *command_path(void)
{
    const char *path = getenv("TROUPE_COMMAND");
    return path ? path : "troupe";
}

static void exec_top(int64_t pid, const char *option, bool as_nobody)
{
    char number[24];
    char *argv[] = {(char[]){"troupe"}, (char[]){"top"}, number, (char *)(uintptr_t)option, NULL};
    snprintf(number, sizeof number, "%" PRId64, pid);
    if (pid == EVERYBODY) {
        argv[2] = argv[3];
        argv[3] = NULL;
    }
    if (as_nobody && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        _exit(99);
    execv(command_path(), argv);
    _exit(98);
}

/* Runs it to its end. */
static result *top(int64_t pid, const char *option, bool as_nobody)
{
    static result r;
    int ends[2], status = 0;
    size_t length = 0;
    ssize_t n;
    H_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    H_CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        if (pid != EVERYBODY) /* any other process may end meanwhile, which is said there */
            dup2(ends[1], STDERR_FILENO);
        exec_top(pid, option, as_nobody);
    }
    close(ends[1]);
    while ((n = read(ends[0], r.text + length, sizeof r.text - 1 - length)) > 0)
        length += (size_t)n;
    r.text[length] = '\0';
    close(ends[0]);
    H_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    r.status = WEXITSTATUS(status);
    return &r;
}

static void expect(const result *r, int status, const char *word)
{
    if (r->status != status || !strstr(r->text, word))
        h_fail(__FILE__, __LINE__, "exit status %d, expected %d with \"%s\" in:\n%s", r->status,
               status, word, r->text);
}

/* A device at rest with an actor that has done something. */
static h_world at_rest(trp_actor **probe)
{
    h_world w = h_open(NULL);
    H_OK(trp_actor_create(w.device, &(trp_actor_options){.kind = "probe", .name = "my \"probe\""},
                          probe));
    for (int i = 0; i < 5; i++)
        h_probe(*probe, i ? TRP_PROBE_NOP : TRP_PROBE_LIBRARY_ERROR, NULL);
    H_OK(trp_device_drain(w.device, H_LONG));
    return w;
}

static void plain(void)
{
    trp_actor *probe;
    h_world w = at_rest(&probe);
    const char *const options[] = {NULL, "--once"}; /* no terminal: once in any case */
    for (size_t i = 0; i < 2; i++) {
        const result *r = top(getpid(), options[i], false);
        expect(r, 0, "1 device");
        expect(r, 0, "ready");
        expect(r, 0, "ACTOR");
        expect(r, 0, "upload");
        expect(r, 0, "my \"probe\"");
        expect(r, 0, "requests: 5 sent, 1 failed");
        H_CHECK(!strchr(r->text, '\033'));
    }
    /* What runs is named, with its number; if the command gets there before it ends. */
    int64_t end = h_now() + H_LONG;
    bool seen = false;
    while (!seen && h_now() < end) {
        trp_completion c = {0};
        h_spin(probe, 300 * H_MS, &c);
        seen = strstr(top(getpid(), NULL, false)->text, "probe #") != NULL;
        H_OK(h_await_any(c));
    }
    H_CHECK(seen);
    h_close(&w);
}

static void as_json(void)
{
    trp_actor *probe;
    h_world w = at_rest(&probe);
    const result *r = top(getpid(), "--json", false);
    H_EQUAL(r->status, 0);
    cJSON *j = cJSON_Parse(r->text);
    H_CHECK(j);
    H_EQUAL(json_number(j, "pid"), getpid());
    const cJSON *device = cJSON_GetObjectItem(j, "devices")->child;
    H_CHECK(device && !device->next);
    trp_device_info info = h_info(w.device);
    H_CHECK(strcmp(json_string(device, "state"), "ready") == 0);
    H_CHECK(strcmp(json_string(device, "backend"), trp_backend_name(info.backend)) == 0);
    H_EQUAL(json_number(device, "worker_pid"), info.worker_pid);
    H_EQUAL(json_number(device, "sent"), 5);
    const cJSON *actor = cJSON_GetObjectItem(device, "actors")->child;
    for (int i = 0; i < 3; i++)
        actor = actor->next;
    H_CHECK(strcmp(json_string(actor, "name"), "my \"probe\"") == 0);
    H_EQUAL(json_number(actor, "done"), 5);
    H_EQUAL(json_number(actor, "failed"), 1);
    H_EQUAL(json_number(actor, "in_flight"), 0);
    H_CHECK(json_number(cJSON_GetObjectItem(actor, "running_time"), "count") > 0);
    H_CHECK(json_number(cJSON_GetObjectItem(actor, "waiting_time"), "p99_ns") >= 0);
    cJSON_Delete(j);
    h_close(&w);
}

/* The very text that the process would give of itself. */
static void as_metrics(void)
{
    trp_actor *probe;
    h_world w = at_rest(&probe);
    static char own[1 << 18];
    int64_t end = h_now() + H_LONG;
    bool same = false;
    while (!same && h_now() < end) { /* the supervisor may publish between the two */
        H_OK(trp_system_metrics(w.system, own, sizeof own, NULL));
        const result *r = top(getpid(), "--prometheus", false);
        H_EQUAL(r->status, 0);
        same = strcmp(r->text, own) == 0;
    }
    H_CHECK(same);
    h_close(&w);
}

/* Without a number: all processes that have devices. */
static void everybody(void)
{
    trp_actor *probe;
    char line[64];
    h_world w = at_rest(&probe);
    const result *r = top(EVERYBODY, NULL, false);
    snprintf(line, sizeof line, " %d ", (int)getpid());
    expect(r, 0, line);
    expect(r, 0, "PROGRAM");
    expect(r, 0, program_invocation_short_name);
    expect(r, 0, "ready");
    r = top(EVERYBODY, "--json", false);
    H_EQUAL(r->status, 0);
    cJSON *j = cJSON_Parse(r->text);
    H_CHECK(j);
    bool found = false;
    for (const cJSON *p = cJSON_GetObjectItem(j, "processes")->child; p; p = p->next) {
        if ((int64_t)json_number(p, "pid") != getpid())
            continue;
        found = true;
        H_CHECK(strcmp(json_string(p, "program"), program_invocation_short_name) == 0);
        H_CHECK(cJSON_GetObjectItem(p, "devices")->child);
    }
    H_CHECK(found);
    cJSON_Delete(j);
    snprintf(line, sizeof line, "troupe_incarnation{pid=\"%d\"", (int)getpid());
    expect(top(EVERYBODY, "--prometheus", false), 0, line);
    h_close(&w);
    /* No device: not an error, for there may be none at all. */
    r = top(EVERYBODY, NULL, false);
    H_EQUAL(r->status, 0);
}

static void intervals(void)
{
    expect(top(getpid(), "--interval=0", false), 2, "--interval: expected");
    expect(top(getpid(), "--interval=-1", false), 2, "--interval: expected");
    expect(top(getpid(), "--interval=soon", false), 2, "--interval: expected");
    expect(top(getpid(), "--interval=nan", false), 2, "--interval: expected");
    expect(top(getpid(), "--interval=3601", false), 2, "--interval: expected");
}

/* What is at work comes first, and how long its requests take is shown. */
static void active_first(void)
{
    trp_actor *probe, *second = NULL;
    h_world w = at_rest(&probe);
    H_OK(trp_actor_create(w.device, &(trp_actor_options){.kind = "probe", .name = "second"},
                          &second));
    int64_t end = h_now() + H_LONG;
    bool first = false;
    while (!first && h_now() < end) { /* until the command looks while it runs */
        trp_completion c = {0};
        h_spin(second, 300 * H_MS, &c);
        const result *r = top(getpid(), "--once", false);
        const char *titles = strstr(r->text, "ACTOR");
        expect(r, 0, "WAIT p99");
        expect(r, 0, "RUN p50");
        first = titles && strstr(titles, "second") < strstr(titles, "upload");
        H_OK(h_await_any(c));
    }
    H_CHECK(first);
    h_close(&w);
}

static void refusals(void)
{
    expect(top(getpid(), NULL, false), 1, "has no open Troupe device");
    expect(top(INT32_MAX, NULL, false), 1, "there is no process");
    expect(top(0, NULL, false), 2, "expected the number of a process");
    if (geteuid() != 0)
        return;
    result *r = top(getpid(), NULL, true);
    if (r->status == 98) /* the build folder is not for everybody */
        return;
    expect(r, 1, "not allowed");
}

/* ---- on a terminal ---- */

typedef struct terminal {
    int fd;
    pid_t pid;
    char text[1 << 18]; /* all that was shown so far */
    size_t length;
} terminal;

static terminal *open_terminal(int64_t pid)
{
    static terminal t;
    struct winsize size = {.ws_row = 30, .ws_col = 120};
    t.length = 0;
    t.pid = forkpty(&t.fd, NULL, NULL, &size);
    H_CHECK(t.pid >= 0);
    if (t.pid == 0) {
        setenv("TERM", "xterm", 1);
        exec_top(pid, NULL, false);
    }
    return &t;
}

/* Reads what is there; false at the end. */
static bool read_terminal(terminal *t)
{
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    if (poll(&p, 1, 60000) <= 0)
        h_fail(__FILE__, __LINE__, "nothing came for a minute after:\n%s", t->text);
    if (sizeof t->text - t->length < 65536) { /* the last part is enough */
        memmove(t->text, t->text + t->length / 2, t->length - t->length / 2);
        t->length -= t->length / 2;
    }
    ssize_t n = read(t->fd, t->text + t->length, sizeof t->text - 1 - t->length);
    t->length += n > 0 ? (size_t)n : 0;
    t->text[t->length] = '\0';
    return n > 0;
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

static int close_terminal(terminal *t)
{
    int status = 0;
    H_CHECK(waitpid(t->pid, &status, 0) == t->pid);
    close(t->fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Refreshed in place, cut to the terminal's size as it is at the moment, ended by Ctrl-C. */
static void live(void)
{
    trp_actor *probe;
    h_world w = at_rest(&probe);
    terminal *t = open_terminal(getpid());
    while (count(t->text, "\033[H") < 3 || !strstr(t->text, "my \"probe\""))
        H_CHECK(read_terminal(t));
    H_EQUAL(count(t->text, "\033[2J"), 1); /* cleared once, then written over */

    struct winsize small = {.ws_row = 6, .ws_col = 20};
    H_CHECK(ioctl(t->fd, TIOCSWINSZ, &small) == 0);
    bool fits = false;
    t->length = 0;
    t->text[0] = '\0';
    while (!fits) {
        H_CHECK(read_terminal(t));
        /* A whole picture: from one home to the next. */
        const char *from = strstr(t->text, "\033[H"),
                   *to = from ? strstr(from + 1, "\033[H") : NULL;
        for (; from && to && !fits; from = to, to = strstr(from + 1, "\033[H")) {
            size_t lines = 0, widest = 0;
            for (const char *at = from + 3; at < to; lines++) {
                const char *end = strstr(at, "\033[");
                size_t width = (size_t)(end - at);
                widest = width > widest ? width : widest;
                const char *next = strchr(end, '\n');
                at = next && next < to ? next + 1 : to;
            }
            fits = lines <= 6 && widest <= 20;
        }
    }
    H_CHECK(write(t->fd, "\003", 1) == 1); /* Ctrl-C */
    while (read_terminal(t))
        continue;
    H_EQUAL(close_terminal(t), 0);
    H_OK(trp_device_drain(w.device, H_LONG)); /* nobody was disturbed */
    h_close(&w);
}

/* Ends by the key q, and not by others; narrow terminals get the columns that matter most. */
static void keys(void)
{
    trp_actor *probe;
    h_world w = at_rest(&probe);
    terminal *t = open_terminal(getpid());
    while (!strstr(t->text, "RUNNING"))
        H_CHECK(read_terminal(t));
    struct winsize narrow = {.ws_row = 30, .ws_col = 60};
    H_CHECK(ioctl(t->fd, TIOCSWINSZ, &narrow) == 0);
    H_CHECK(write(t->fd, "xyz\n", 4) == 4);
    t->length = 0;
    t->text[0] = '\0';
    const char *titles = NULL;
    while (!titles || strstr(titles, "RUNNING")) { /* a whole picture in the new size */
        H_CHECK(read_terminal(t));
        for (const char *at = t->text; (at = strstr(at, "ACTOR")) && strchr(at, '\n'); at++)
            titles = at;
        if (titles) {
            char *end = strchr(titles, '\n');
            *end = '\0';
            H_CHECK(strlen(t->text) > 0);
            if (!strstr(titles, "RUNNING"))
                break;
            *end = '\n';
            titles = NULL;
            t->length = 0;
            t->text[0] = '\0';
        }
    }
    H_CHECK(strstr(titles, "DONE/S") && strstr(titles, "RUN p99") && !strstr(titles, "KIND"));
    H_CHECK(write(t->fd, "q", 1) == 1);
    t->length = 0;
    while (read_terminal(t))
        continue;
    H_EQUAL(close_terminal(t), 0);
    h_close(&w);
}

/* A process of its own with an open device, that ends when told to. */
static void watched_process_ends(void)
{
    int ready[2], go[2], status;
    char byte = 0;
    H_CHECK(pipe2(ready, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
    pid_t child = fork();
    H_CHECK(child >= 0);
    if (child == 0) {
        close(go[1]);
        h_world w = h_open(NULL);
        H_CHECK(write(ready[1], &byte, 1) == 1);
        H_EQUAL(read(go[0], &byte, 1), 0);
        h_close(&w);
        _exit(0);
    }
    close(go[0]);
    close(ready[1]);
    H_CHECK(read(ready[0], &byte, 1) == 1);
    terminal *t = open_terminal(child);
    while (!strstr(t->text, "upload"))
        H_CHECK(read_terminal(t));
    close(go[1]);
    H_CHECK(waitpid(child, &status, 0) == child && status == 0);
    while (read_terminal(t))
        continue;
    H_CHECK(strstr(t->text, "has ended"));
    H_EQUAL(close_terminal(t), 0);
    close(ready[0]);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"watched_process_ends", watched_process_ends}, /* forks: before any thread */
        {"plain", plain},
        {"as_json", as_json},
        {"as_metrics", as_metrics},
        {"refusals", refusals},
        {"everybody", everybody},
        {"intervals", intervals},
        {"active_first", active_first},
        {"live", live},
        {"keys", keys},
    };
    if (access(command_path(), X_OK) != 0) {
        printf("skipped: TROUPE_COMMAND does not name the command\n");
        return H_EXIT_SKIPPED;
    }
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

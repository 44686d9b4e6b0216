/* TROUPE_TRACE, where the file is no file, and where the program does not close its devices. */
#include "support/faults/adversary.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[PATH_MAX];

static const char *in_folder(const char *name)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "/tmp", name);
    return path;
}

static void use_device(bool close_it)
{
    h_world w = h_open(NULL);
    trp_completion c = {0};
    h_probe(h_actor(w.device, "probe"), TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    if (close_it)
        h_close(&w);
}

/* Whether a whole trace is there; removes it. */
static bool take_trace(const char *file)
{
    char *text = NULL;
    size_t room = 0;
    FILE *trace = fopen(file, "re");
    if (!trace)
        return false;
    ssize_t length = getdelim(&text, &room, '\0', trace);
    bool whole = length > 4 && strcmp(text + length - 4, "\n]}\n") == 0 && strstr(text, "probe");
    free(text);
    fclose(trace);
    H_CHECK(unlink(file) == 0);
    return whole;
}

static void close_with_fifo(void)
{
    use_device(true);
    H_CHECK(h_log_said("nobody reads"));
}

static void fifo_without_reader(void)
{
    setenv("TROUPE_TRACE", in_folder("fifo"), 1);
    H_CHECK(mkfifo(path, 0600) == 0);
    adv_child(close_with_fifo);
    H_CHECK(unlink(path) == 0);
}

/* The reader goes while the trace is written: no SIGPIPE. */
static void close_with_reader_gone(void)
{
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    H_CHECK(reader >= 0);
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    for (int i = 0; i < 2000; i++) {
        trp_completion c = {0};
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
    }
    pid_t child = fork(); /* reads some and ends */
    if (child == 0) {
        char some[1000];
        while (read(reader, some, sizeof some) <= 0)
            h_sleep(H_MS);
        _exit(0);
    }
    close(reader);
    h_close(&w);
    H_CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    H_CHECK(h_log_said("TROUPE_TRACE"));
}

static void fifo_whose_reader_goes(void)
{
    setenv("TROUPE_TRACE", in_folder("fifo"), 1);
    H_CHECK(mkfifo(path, 0600) == 0);
    adv_child(close_with_reader_gone);
    H_CHECK(unlink(path) == 0);
}

static void leave(void)
{
    use_device(false);
    exit(0);
}

static void leave_after_fork(void)
{
    use_device(false);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        exit(0); /* it has no device of its own, and writes nothing */
    int status = 0;
    H_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    H_CHECK(access(path, F_OK) != 0);
    exit(0);
}

static void exit_without_close(void)
{
    setenv("TROUPE_TRACE", in_folder("trace.json"), 1);
    H_EQUAL(adv_child_status(leave), 0);
    H_CHECK(take_trace(in_folder("trace.json")));
    H_EQUAL(adv_child_status(leave_after_fork), 0);
    H_CHECK(take_trace(in_folder("trace.json")));
}

static void close_elsewhere(void)
{
    adv_memory()->value[0] = getpid();
    h_world w = h_open(NULL);
    H_CHECK(chdir("/") == 0);
    trp_completion c = {0};
    h_probe(h_actor(w.device, "probe"), TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    h_close(&w);
}

/* A relative path, which means the folder that the device was opened in. */
static void number_of_the_process(void)
{
    char name[64];
    const char *folder = getenv("TMPDIR");
    H_CHECK(chdir(folder ? folder : "/tmp") == 0);
    setenv("TROUPE_TRACE", "run.%p.100%%.json", 1);
    adv_child(close_elsewhere);
    snprintf(name, sizeof name, "run.%lld.100%%.json", (long long)adv_memory()->value[0]);
    H_CHECK(take_trace(in_folder(name)));
}

/* A forked child with a device of its own: a file of its own, too, beside its parent's. */
static void both_trace(void)
{
    int status = 0;
    adv_memory()->value[0] = getpid();
    use_device(true);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        use_device(true);
        _exit(0);
    }
    H_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    adv_memory()->value[1] = child;
}

static void forked_child_with_a_device(void)
{
    char name[64];
    setenv("TROUPE_TRACE", in_folder("run.%p.json"), 1);
    adv_child(both_trace);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "run.%lld.json", (long long)adv_memory()->value[i]);
        H_CHECK(take_trace(in_folder(name)));
    }
    /* Without the number, the child's is the second. */
    setenv("TROUPE_TRACE", in_folder("run.json"), 1);
    adv_child(both_trace);
    H_CHECK(take_trace(in_folder("run.json")));
    H_CHECK(take_trace(in_folder("run.json.2")));
}

H_CASES(H_CASE(fifo_without_reader), H_CASE(fifo_whose_reader_goes), H_CASE(exit_without_close),
        H_CASE(number_of_the_process), H_CASE(forked_child_with_a_device))

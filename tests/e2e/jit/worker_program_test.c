/* What can be wrong with the worker program, and what opening a device says then.
 *
 * This program is also the wrong worker: started as one, it does what the environment says. It
 * knows of the messages only what no version may change: their first fields. */
#include "support/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char mode_variable[] = "TROUPE_TEST_WORKER_MODE";

typedef struct head {
    uint64_t magic;
    uint32_t abi;
    char version[16];
    uint32_t type;
} head;

enum { SOCKET = 3, MESSAGE_MAX = 65536 };

/* Answers the first message with one like it, changed as `mode` says. */
static int answer(const char *mode)
{
    static char message[MESSAGE_MAX];
    head h;
    ssize_t got = recv(SOCKET, message, sizeof message, 0);
    if (got < (ssize_t)sizeof h)
        return 3;
    memcpy(&h, message, sizeof h);
    if (strcmp(mode, "abi") == 0) {
        h.abi += 41;
        snprintf(h.version, sizeof h.version, "77.8.9");
    } else if (strcmp(mode, "magic") == 0) {
        h.magic ^= 1;
    } else if (strcmp(mode, "longversion") == 0) {
        h.abi++;
        memset(h.version, 'v', sizeof h.version); /* no end */
    }
    memcpy(message, &h, sizeof h);
    size_t length = (size_t)got;
    if (strcmp(mode, "short") == 0)
        length = 10;
    else if (strcmp(mode, "long") == 0)
        length = (size_t)got + 8;
    else if (strcmp(mode, "abi") == 0)
        length = (size_t)got - 16; /* of another version, of another size */
    if (strcmp(mode, "noise") == 0) {
        memset(message, 0xa5, sizeof message);
        length = sizeof message;
    }
    send(SOCKET, message, length, MSG_NOSIGNAL);
    for (int i = 0; i < 3000; i++) { /* the application has to end us */
        if (recv(SOCKET, message, sizeof message, 0) <= 0)
            usleep(10000);
    }
    return 4;
}

static int be_worker(void)
{
    const char *mode = getenv(mode_variable);
    if (!mode)
        return 100;
    if (strcmp(mode, "exit") == 0)
        return 9;
    if (strcmp(mode, "close") == 0) {
        close(SOCKET);
        sleep(30);
        return 1;
    }
    if (strcmp(mode, "abort") == 0)
        abort();
    if (strcmp(mode, "hang") == 0)
        for (;;)
            pause();
    return answer(mode);
}

/* Opening must fail, leave nothing, and take less than `most`. */
static void cannot_open(const char *path, trp_status wanted, uint64_t timeout_ns)
{
    trp_system *system = h_system_create(path);
    trp_device *device = NULL;
    trp_device_options options = h_options();
    options.start_timeout_ns = timeout_ns;
    for (int i = 0; i < 2; i++) {
        size_t fds = h_count_fds();
        H_IS(trp_device_open(system, &options, &device), wanted);
        H_CHECK(device == NULL);
        H_EQUAL(h_count_fds(), fds);
        H_EQUAL(h_count_children(), 0);
    }
    H_OK(trp_system_destroy(system));
}

static void with_mode(const char *mode, trp_status wanted)
{
    setenv(mode_variable, mode, 1);
    cannot_open("/proc/self/exe", wanted, (uint64_t)H_LONG);
}

static void need_process(void)
{
    if (h_isolation() == TRP_ISOLATION_THREAD)
        h_skip("with the worker in a thread there is no worker program");
}

static void another_version(void)
{
    need_process();
    with_mode("abi", TRP_E_VERSION);
    H_SAYS("77.8.9");
    H_SAYS(trp_version());
    with_mode("longversion", TRP_E_VERSION);
    H_SAYS("vvvvvvvvvvvvvvv");
}

static void not_a_worker(void)
{
    need_process();
    with_mode("magic", TRP_E_VERSION);
    with_mode("noise", TRP_E_VERSION);
    with_mode("short", TRP_E_VERSION);
    with_mode("long", TRP_E_VERSION);
}

static void one_that_ends(void)
{
    need_process();
    with_mode("exit", TRP_E_FAULT);
    H_SAYS("9");
    H_EQUAL(trp_error_last()->fault, TRP_FAULT_EXIT);
    H_EQUAL(trp_error_last()->code, 9);
    with_mode("abort", TRP_E_FAULT);
    H_SAYS("ABRT");
    H_EQUAL(trp_error_last()->fault, TRP_FAULT_SIGNAL);
    with_mode("close", TRP_E_FAULT);
}

static void one_that_never_answers(void)
{
    need_process();
    setenv(mode_variable, "hang", 1);
    int64_t start = h_now();
    cannot_open("/proc/self/exe", TRP_E_TIMEOUT, (uint64_t)(200 * H_MS));
    H_CHECK(h_now() - start >= 400 * H_MS);
    H_SAYS("200");
}

static void paths(void)
{
    need_process();
    char folder[512], file[600], very_long[5000];
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/worker", base ? base : "/tmp");
    snprintf(file, sizeof file, "%s/troupe-worker", folder);
    cannot_open("/nonexistent/troupe-worker", TRP_E_MISSING, 0);
    H_SAYS("/nonexistent/troupe-worker");
    H_CHECK(mkdir(folder, 0700) == 0);
    cannot_open(folder, TRP_E_SYSTEM, 0); /* a folder */
    H_SAYS(folder);
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    H_CHECK(fd >= 0 && write(fd, "no program", 10) == 10);
    close(fd);
    cannot_open(file, TRP_E_SYSTEM, 0); /* not executable */
    H_SAYS("ermission");
    H_CHECK(chmod(file, 0700) == 0);
    cannot_open(file, TRP_E_SYSTEM, 0); /* executable, but no program */
    H_SAYS(file);
    H_EQUAL(unlink(file), 0);
    H_EQUAL(rmdir(folder), 0);
    memset(very_long, 'x', sizeof very_long);
    very_long[sizeof very_long - 1] = '\0';
    trp_system *system = NULL;
    H_IS(trp_system_create(&(trp_system_options){.worker_path = very_long}, &system),
         TRP_E_ARGUMENT);
    H_SAYS("worker_path");
    H_CHECK(system == NULL);

    /* An option goes before the environment; the environment is looked at once, at the start. */
    char got[4096];
    system = h_system_create("/from/the/option");
    H_OK(trp_system_worker_path(system, got, sizeof got));
    H_CHECK(strcmp(got, "/from/the/option") == 0);
    H_OK(trp_system_destroy(system));
    system = h_system_create(NULL);
    H_OK(trp_system_worker_path(system, got, sizeof got));
    H_CHECK(strcmp(got, getenv("TROUPE_WORKER")) == 0);
    H_OK(trp_system_destroy(system));
}

/* After all these failures the right program still starts. */
static void the_right_one(void)
{
    for (int i = 0; i < 10; i++) {
        h_world w = h_open(NULL);
        H_EQUAL(h_info(w.device).incarnation, 1);
        h_close(&w);
    }
}

/* As many devices as there may be, in one program. */
static void many_devices(void)
{
    enum { DEVICES = 6 };
    trp_system *system = h_system_create(NULL);
    trp_device *device[DEVICES];
    trp_device_options options = h_options();
    trp_buffer b[DEVICES];
    for (uint32_t i = 0; i < DEVICES; i++) {
        H_OK(trp_device_open(system, &options, &device[i]));
        b[i] = h_buffer(device[i], 100);
        H_OK(trp_fill(device[i], b[i], 0, 100, i, 4, NULL));
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint32_t got = 99;
        h_read(device[i], b[i], 0, &got, 4);
        H_EQUAL(got, i);
        H_IS(trp_buffer_free(device[i], b[(i + 1) % DEVICES]), TRP_E_STALE);
    }
    for (uint32_t i = 0; i < DEVICES; i++)
        trp_device_close(device[(i * 5 + 2) % DEVICES]);
    H_OK(trp_system_destroy(system));
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(another_version), H_CASE(not_a_worker),
                                   H_CASE(one_that_ends),   H_CASE(one_that_never_answers),
                                   H_CASE(paths),           H_CASE(the_right_one),
                                   H_CASE(many_devices)};
    if (argc > 1 && strcmp(argv[1], "--parent") == 0)
        return be_worker();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

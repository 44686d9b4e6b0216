/* A program whose standard streams are closed: nothing that is printed lands in the library's
 * memory, since no descriptor of it has such a number. */
#include "support/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 48 * 1024, REPORT = 100 };

static const char *step;

static void need(bool good, const char *what)
{
    if (good)
        return;
    dprintf(REPORT, "after %s: %s: %s\n", step, what, trp_error_message());
    _exit(1);
}

static bool any_in_use(unsigned closed)
{
    bool any = false;
    for (int fd = 0; fd <= 2; fd++)
        any = any || (closed >> fd & 1 && fcntl(fd, F_GETFD) >= 0);
    return any;
}

/* None of those numbers that were closed stays in use: a new descriptor may have one until it is
 * moved, in another thread. */
static void look(unsigned closed, const char *after)
{
    const int64_t end = h_now() + H_LONG;
    step = after;
    while (any_in_use(closed)) {
        need(h_now() < end, "a standard stream's number is in use");
        h_sleep(H_MS / 10);
    }
}

static void await(trp_completion c, trp_status wanted)
{
    need(trp_await(c.future, H_LONG, NULL) == wanted, "unexpected status");
}

/* The log goes to standard error, where a dead worker is told of. */
static void use(unsigned closed)
{
    static char data[BYTES], got[BYTES];
    trp_system *system = NULL;
    trp_device *device = NULL;
    trp_actor *probe = NULL;
    trp_queue *queue = NULL;
    trp_buffer b;
    trp_device_options options = h_options();
    need(trp_system_create(NULL, &system) == TRP_OK, "system");
    need(trp_queue_create(system, &queue) == TRP_OK, "queue");
    look(closed, "trp_queue_create");
    need(trp_device_open(system, &options, &device) == TRP_OK, "device");
    look(closed, "trp_device_open");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "probe"}, &probe) == TRP_OK,
         "probe");
    need(trp_buffer_create(device, BYTES, &b) == TRP_OK, "buffer");
    look(closed, "trp_buffer_create");
    for (int round = 0; round < 3; round++) {
        trp_completion c = {0}, spin = {0};
        memset(data, round + 1, sizeof data);
        need(trp_write(device, b, 0, data, BYTES, &c) == TRP_OK, "write");
        if (options.isolation == TRP_ISOLATION_PROCESS) {
            need(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_ABORT}, &spin) == TRP_OK,
                 "abort");
            await(spin, TRP_E_FAULT);
        }
        await(c, TRP_OK);
        look(closed, "a death");
        c = (trp_completion){0};
        need(trp_read(device, b, 0, got, BYTES, &c) == TRP_OK, "read");
        await(c, TRP_OK);
        need(memcmp(got, data, BYTES) == 0, "other bytes came back");
    }
    trp_actor_destroy(probe);
    trp_device_close(device);
    need(trp_queue_destroy(queue) == TRP_OK && trp_system_destroy(system) == TRP_OK, "the end");
    _exit(0);
}

static void closed_streams(void)
{
    for (unsigned closed = 1; closed < 8; closed++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            dup2(STDERR_FILENO, REPORT);
            for (int fd = 0; fd <= 2; fd++)
                if (closed >> fd & 1)
                    close(fd);
            use(closed);
        }
        H_CHECK(child > 0 && waitpid(child, &status, 0) == child);
        H_EQUAL(status, 0);
    }
}

H_CASES(H_CASE(closed_streams))

/* Lines on standard error: there is one where nobody else learns of a fault, and none where the
 * program has a log of its own or a watch for such notices. And what notices say. */
#include "support/harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST_FAKE_GPU("no tsan", "FAKE_CUDA_REPORT_MS=5");

typedef struct plan {
    bool log, watch;
    bool off;        /* TROUPE_LOG=off */
    bool complain;   /* an actor whose worker has something to say */
    bool down;       /* no restart is allowed */
    uint32_t events; /* of the watch; 0: all */
} plan;

/* What a program shall do and what it has seen, in memory that both processes have. */
typedef struct report {
    plan plan;
    pthread_mutex_t lock;
    uint32_t lines, faults, takeovers, readies, stops;
    char line[16][400];
    char takeover[256], ready[256], fault[256];
    trp_status takeover_status;
} report;

static report *seen;
static int report_fd;

static void take_line(void *user_data, int level, const char *line)
{
    report *r = user_data;
    (void)level;
    pthread_mutex_lock(&r->lock);
    snprintf(r->line[r->lines++ % 16], sizeof r->line[0], "%s", line);
    pthread_mutex_unlock(&r->lock);
}

static void take_notice(void *user_data, const trp_notice *n)
{
    report *r = user_data;
    pthread_mutex_lock(&r->lock);
    if (n->kind == TRP_NOTICE_FAULT) {
        r->faults++;
        memcpy(r->fault, n->error.message, sizeof r->fault);
    } else if (n->kind == TRP_NOTICE_PROMOTION || n->kind == TRP_NOTICE_RESTART) {
        r->takeovers++;
        r->takeover_status = n->error.status;
        memcpy(r->takeover, n->error.message, sizeof r->takeover);
    } else if (n->kind == TRP_NOTICE_STANDBY_READY) {
        r->readies++;
        memcpy(r->ready, n->error.message, sizeof r->ready);
    } else if (n->kind == TRP_NOTICE_STOP) {
        r->stops++;
    }
    pthread_mutex_unlock(&r->lock);
}

static void await_incarnation(trp_device *device, uint32_t wanted, bool down)
{
    trp_device_info info = {0};
    const int64_t end = h_now() + H_LONG;
    while (down ? info.state != TRP_DEVICE_DOWN
                : info.incarnation < wanted || info.state != TRP_DEVICE_READY) {
        H_CHECK(h_now() < end);
        H_OK(trp_device_get_info(device, &info));
        h_sleep(H_MS);
    }
}

/* Opens a device, kills its worker, and closes it. The supervisor has written what it has to write
 * when the device is closed. */
static void live_through_a_fault(const plan *p)
{
    trp_system *system = NULL;
    trp_device *device = NULL;
    trp_actor *actor = NULL;
    trp_watch *watch = NULL;
    trp_device_info info;
    const trp_system_options options = {.log = p->log ? take_line : NULL, .log_user_data = seen};
    const trp_device_options d = {
        .backend = h_backend(), .standby = TRP_STANDBY_ON, .restart_budget = p->down ? 1 : 0};
    if (p->off)
        setenv("TROUPE_LOG", "off", 1);
    if (p->complain)
        setenv("TROUPE_CACHE_SIZE", "plenty", 1);
    H_OK(trp_system_create(&options, &system));
    H_OK(trp_device_open(system, &d, &device));
    if (p->watch)
        H_OK(trp_device_watch(
            device,
            &(trp_watch_options){.events = p->events, .callback = take_notice, .user_data = seen},
            &watch));
    if (p->complain)
        H_OK(trp_actor_create(device, &(trp_actor_options){.kind = "matmul"}, &actor));
    for (uint32_t k = 1; k <= (p->down ? 2 : 1); k++) {
        await_incarnation(device, k, false);
        H_OK(trp_device_get_info(device, &info));
        H_CHECK(kill((pid_t)info.worker_pid, SIGKILL) == 0);
        await_incarnation(device, k + 1, p->down && k == 2);
    }
    trp_device_close(device);
    H_OK(trp_system_destroy(system));
}

static report *map_report(int fd)
{
    report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    H_CHECK(r != MAP_FAILED);
    return r;
}

/* What a program of its own writes to standard error: a forked child would have a driver that its
 * parent has begun to use. */
static const char *stderr_of(plan p)
{
    static char text[1 << 16];
    int status;
    const int fd = memfd_create("stderr", 0);
    H_CHECK(fd >= 0);
    const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    memset(seen, 0, sizeof *seen);
    seen->lock = fresh;
    seen->plan = p;
    const pid_t child = fork();
    H_CHECK(child >= 0);
    if (child == 0) {
        char number[16], *argv[] = {(char[]){"lines_test"}, (char[]){"--program"}, number, NULL};
        snprintf(number, sizeof number, "%d", report_fd);
        dup2(fd, STDERR_FILENO);
        execv("/proc/self/exe", argv);
        _exit(99);
    }
    H_EQUAL(waitpid(child, &status, 0), child);
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    if (status != 0)
        h_fail(__FILE__, __LINE__, "the child ended with %#x:\n%s", (unsigned)status, text);
    return text;
}

static bool logged(const char *word)
{
    for (uint32_t i = 0; i < seen->lines && i < 16; i++) {
        if (strstr(seen->line[i], word))
            return true;
    }
    return false;
}

static void nobody_watches(void)
{
    const char *text = stderr_of((plan){0});
    H_CHECK(strstr(text, "troupe: worker 1 of device"));
    H_CHECK(strstr(text, "SIGKILL"));
    text = stderr_of((plan){.down = true});
    H_CHECK(strstr(text, "troupe: worker 1 of device") && strstr(text, "the device is down"));
    H_EQUAL(strlen(stderr_of((plan){.off = true})), 0);
}

static void a_log(void)
{
    H_EQUAL(strlen(stderr_of((plan){.log = true})), 0);
    H_CHECK(logged("worker 1 of device"));
    H_EQUAL(strlen(stderr_of((plan){.log = true, .down = true})), 0);
    H_CHECK(logged("the device is down"));
}

static void a_watch(void)
{
    H_EQUAL(strlen(stderr_of((plan){.watch = true})), 0);
    H_EQUAL(seen->faults, 1);
    H_CHECK(strstr(seen->fault, "SIGKILL"));
    H_EQUAL(strlen(stderr_of((plan){.watch = true, .down = true})), 0);
    H_EQUAL(seen->stops, 1);
    /* One for other things does not count. */
    const uint32_t other = TRP_NOTICE_BIT(TRP_NOTICE_LOW_MEMORY);
    H_CHECK(strstr(stderr_of((plan){.watch = true, .events = other}), "worker 1 of device"));
    /* Each line by itself. */
    const uint32_t fault = TRP_NOTICE_BIT(TRP_NOTICE_FAULT);
    const char *text = stderr_of((plan){.watch = true, .events = fault, .down = true});
    H_CHECK(!strstr(text, "worker 1 of device") && strstr(text, "the device is down"));
    /* A log gets its lines beside a watch. */
    H_EQUAL(strlen(stderr_of((plan){.watch = true, .log = true})), 0);
    H_CHECK(logged("worker 1 of device") && seen->faults == 1);
}

/* Who takes over is said by the notice. */
static void notices_have_text(void)
{
    stderr_of((plan){.watch = true});
    H_EQUAL(seen->takeovers, 1);
    H_EQUAL(seen->takeover_status, TRP_OK);
    H_CHECK(strstr(seen->takeover, "worker 2 (pid ") &&
            strstr(seen->takeover, "takes the requests"));
    if (seen->readies)
        H_CHECK(strstr(seen->ready, "(pid ") && strstr(seen->ready, "is ready to take over"));
}

/* What a worker has to say goes where the application's lines go. */
static void lines_of_the_worker(void)
{
    const char *wrong = "TROUPE_CACHE_SIZE: expected bytes";
    const char *text = stderr_of((plan){.complain = true});
    if (!strstr(text, wrong)) {
        printf("  (this backend's actors keep nothing)\n");
        return;
    }
    H_CHECK(strstr(stderr_of((plan){.complain = true, .watch = true}), wrong)); /* no notice */
    H_EQUAL(strlen(stderr_of((plan){.complain = true, .log = true})), 0);
    H_CHECK(logged(wrong));
    H_EQUAL(strlen(stderr_of((plan){.complain = true, .off = true})), 0);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(nobody_watches), H_CASE(a_log), H_CASE(a_watch),
                                   H_CASE(notices_have_text), H_CASE(lines_of_the_worker)};
    if (argc == 3 && strcmp(argv[1], "--program") == 0) {
        seen = map_report(atoi(argv[2]));
        live_through_a_fault(&seen->plan);
        return 0;
    }
    report_fd = memfd_create("report", 0);
    H_CHECK(report_fd >= 0 && ftruncate(report_fd, sizeof *seen) == 0);
    seen = map_report(report_fd);
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

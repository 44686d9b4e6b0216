/* Limits of the process, lowered before a device is opened and while it is open: each call does its
 * work, or fails with an error that names the limit. */
#include "support/faults/adversary.h"

#include <sys/resource.h>
#include <unistd.h>

static void set_resource(int resource, rlim_t limit)
{
    struct rlimit now;
    H_CHECK(getrlimit((unsigned)resource, &now) == 0);
    now.rlim_cur = limit;
    H_CHECK(setrlimit((unsigned)resource, &now) == 0);
}

static void set_limit(rlim_t limit)
{
    set_resource(RLIMIT_NOFILE, limit);
}

/* Fewer descriptors than are open: the death of the worker is noticed all the same, and the
 * standby, which needs no more of them, takes over. A next one can't be started until there are
 * more. */
static void fewer_descriptors(void)
{
    static const rlim_t limits[] = {0, 1, 3, 8, 12};
    struct rlimit before;
    if (h_isolation() == TRP_ISOLATION_THREAD)
        h_skip("there is no standby");
    H_CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        trp_completion c = {0};
        h_await_standby(w.device);
        set_limit(limits[i]);
        h_probe(probe, TRP_PROBE_ABORT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        c = (trp_completion){0};
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
        set_limit(before.rlim_cur);
    }
    h_close(&w);
}

/* What is open goes on, and is closed, when no descriptor more may be opened. */
static void use_with_none_left(void)
{
    h_world w = h_open(NULL);
    trp_buffer b = h_buffer(w.device, 4096);
    uint32_t word = 0;
    h_fill(w.device, b, 3); /* the worker has its memory */
    if (h_isolation() == TRP_ISOLATION_PROCESS)
        h_await_standby(w.device);
    set_limit(0);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0};
    h_probe(probe, TRP_PROBE_ACTOR_ERROR, &c);
    H_IS(h_await_any(c), TRP_E_LIBRARY);
    h_read(w.device, b, 0, &word, sizeof word);
    H_EQUAL(word, 3);
    trp_actor_destroy(probe);
    h_close(&w);
}

static void no_descriptors_later(void)
{
    adv_child(use_with_none_left);
}

/* A device, and all that it is used for. What fails names the limit. */
static bool use_device(const char *limit)
{
    trp_system *system = NULL;
    trp_device *device = NULL;
    trp_queue *queue = NULL;
    trp_buffer b = {0};
    void *host = NULL;
    trp_device_options options = h_options();
    trp_actor *probe = NULL;
    static char data[1 << 20];
    trp_completion c = {0}, large = {0};
    trp_status status = trp_system_create(NULL, &system);
    if (status == TRP_OK)
        status = trp_device_open(system, &options, &device);
    if (status == TRP_OK)
        status = trp_queue_create(system, &queue);
    if (status == TRP_OK)
        status = trp_actor_create(device, &(trp_actor_options){.kind = "probe"}, &probe);
    if (status == TRP_OK)
        status = trp_buffer_create(device, sizeof data, &b);
    if (status == TRP_OK)
        status = trp_host_alloc(device, sizeof data, &host);
    if (status == TRP_OK)
        status = trp_write(device, b, 0, data, sizeof data, &large);
    if (status == TRP_OK)
        status = h_await_any(large);
    if (status == TRP_OK)
        status = trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &c);
    if (status == TRP_OK)
        status = h_await_any(c);
    if (status != TRP_OK)
        H_SAYS(limit);
    trp_device_close(device);
    if (queue)
        H_OK(trp_queue_destroy(queue));
    H_OK(trp_system_destroy(system));
    return status == TRP_OK;
}

static rlim_t limit_now;

static void with_descriptors(void)
{
    set_limit(limit_now);
    bool good = use_device("RLIMIT_NOFILE");
    adv_memory()->value[0] = good;
}

/* However many there may be, up to as many as are enough. */
static void opening_with_few_descriptors(void)
{
    memset(adv_memory(), 0, sizeof(adv_shared));
    for (limit_now = 0; adv_memory()->value[0] == 0; limit_now++) {
        H_CHECK(limit_now < 64);
        adv_child(with_descriptors);
    }
}

static void with_small_files(void)
{
    set_resource(RLIMIT_FSIZE, limit_now);
    adv_memory()->value[0] = use_device("RLIMIT_FSIZE");
}

/* The signal that comes with the error would end the program. */
static void opening_with_small_files(void)
{
    static const rlim_t limits[] = {0, 4096, 1 << 20, 5 << 20, 30 << 20, 110 << 20, 1 << 30};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        limit_now = limits[i];
        adv_child(with_small_files);
        H_EQUAL(adv_memory()->value[0], limit_now >= 110 << 20);
    }
}

static void grow_under_limit(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    void *host;
    trp_buffer b;
    if (h_isolation() == TRP_ISOLATION_PROCESS)
        h_await_standby(w.device);
    set_resource(RLIMIT_FSIZE, 4096);
    H_IS(trp_host_alloc(w.device, 1 << 20, &host), TRP_E_SYSTEM);
    H_SAYS("RLIMIT_FSIZE is 4096");
    if (!h_is_cuda()) {
        H_IS(trp_buffer_create(w.device, 1 << 20, &b), TRP_E_SYSTEM);
        H_SAYS("RLIMIT_FSIZE is 4096");
    }
    trp_completion c = {0};
    if (h_isolation() == TRP_ISOLATION_PROCESS) { /* the next standby can't be started */
        h_probe(probe, TRP_PROBE_ABORT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
    }
    c = (trp_completion){0};
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    h_close(&w);
}

static void small_files_later(void)
{
    adv_child(grow_under_limit);
}

static void with_little_memory(void)
{
    set_resource(RLIMIT_AS, limit_now);
    adv_memory()->value[0] = use_device("RLIMIT_AS");
}

static void opening_with_little_memory(void)
{
    if (H_SANITIZED)
        h_skip("a sanitizer needs address space");
    /* The file of a process's sizes begins with its address space, in pages. */
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    H_CHECK(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    limit_now = pages * (rlim_t)sysconf(_SC_PAGESIZE);
    memset(adv_memory(), 0, sizeof(adv_shared));
    for (int i = 0; adv_memory()->value[0] == 0; i++, limit_now += 24 << 20) {
        H_CHECK(i < 128);
        adv_child(with_little_memory);
    }
}

/* A user of its own, for the limit counts processes and threads of one. */
static void with_few_processes(void)
{
    H_CHECK(setuid(70000 + (uid_t)getppid() % 10000) == 0);
    const char *worker = getenv("TROUPE_WORKER");
    if (worker && access(worker, X_OK) != 0) {
        adv_memory()->value[0] = 1;
        return;
    }
    set_resource(RLIMIT_NPROC, limit_now);
    adv_memory()->value[0] = use_device("RLIMIT_NPROC");
}

static void opening_with_few_processes(void)
{
    if (getuid() != 0)
        h_skip("only root can become a user who has no processes");
    memset(adv_memory(), 0, sizeof(adv_shared));
    for (limit_now = 0; adv_memory()->value[0] == 0; limit_now++) {
        H_CHECK(limit_now < 64);
        adv_child(with_few_processes);
    }
}

H_CASES(H_CASE(fewer_descriptors), H_CASE(no_descriptors_later),
        H_CASE(opening_with_few_descriptors), H_CASE(opening_with_small_files),
        H_CASE(small_files_later), H_CASE(opening_with_little_memory),
        H_CASE(opening_with_few_processes))

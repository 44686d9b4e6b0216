/* The warm standby: it takes over at once, another is made behind it, and it knows everything that
 * was made while it was being started. */
#include "support/folder.h"
#include "support/harness.h"
#include "support/faults/points.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("long", "many workers");
TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { KEPT = 8, KEPT_BYTES = 100000 };

typedef struct stage {
    h_world w;
    trp_actor *probe;
    trp_buffer kept[KEPT];
    uint64_t hash[KEPT];
} stage;

static stage set_up(const trp_device_options *options)
{
    stage s = {.w = h_open(options)};
    char *data = h_malloc(KEPT_BYTES);
    s.probe = h_actor(s.w.device, "probe");
    for (int i = 0; i < KEPT; i++) {
        s.kept[i] = h_buffer(s.w.device, KEPT_BYTES);
        h_random_bytes(h_rng(), data, KEPT_BYTES);
        s.hash[i] = h_hash(data, KEPT_BYTES);
        h_write(s.w.device, s.kept[i], 0, data, KEPT_BYTES);
    }
    free(data);
    return s;
}

static void check_kept(const stage *s)
{
    char *data = h_malloc(KEPT_BYTES);
    for (int i = 0; i < KEPT; i++) {
        H_CHECK(!h_buffer_info(s->w.device, s->kept[i]).lost);
        h_read(s->w.device, s->kept[i], 0, data, KEPT_BYTES);
        H_EQUAL(h_hash(data, KEPT_BYTES), s->hash[i]);
    }
    free(data);
}

static void nop(trp_actor *probe)
{
    trp_completion c = {0};
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
}

static void fault(trp_actor *probe, trp_probe_action action)
{
    trp_completion c = {0};
    h_probe(probe, action, &c);
    H_IS(h_await_any(c), TRP_E_FAULT);
}

/* A signal for a process that may be gone already. */
static void end_process(int64_t pid)
{
    if (pid > 0)
        kill((pid_t)pid, SIGKILL);
}

/* A living child of this process other than `known`; 0 if there is none. */
static int64_t other_child(int64_t known)
{
    int64_t child[8], found = 0;
    size_t count = h_list_children(child, 8);
    for (size_t i = 0; i < count && i < 8; i++) {
        siginfo_t dead = {0};
        bool waits = waitid(P_PID, (id_t)child[i], &dead, WEXITED | WNOHANG | WNOWAIT) == 0;
        if (waits && dead.si_pid == 0 && child[i] != known)
            found = child[i];
    }
    return found;
}

/* Waits for a standby that is ready and is not `old`, which is named for a moment after its end. */
static trp_device_info await_other_standby(trp_device *device, int64_t old)
{
    trp_device_info info;
    int64_t end = h_now() + H_LONG;
    while ((info = h_await_standby(device)).standby_pid == old) {
        H_CHECK(h_now() < end);
        h_sleep(H_MS / 2);
    }
    return info;
}

static void promotion(void)
{
    static const trp_probe_action actions[] = {TRP_PROBE_ABORT, TRP_PROBE_SEGV, TRP_PROBE_EXIT,
                                               TRP_PROBE_ILLEGAL_ADDRESS};
    stage s = set_up(NULL);
    trp_device_info before = h_await_standby(s.w.device);
    H_EQUAL(before.incarnation, 1);
    H_CHECK(before.standby_pid != before.worker_pid);
    for (int i = 0; i < h_rounds(16, 5); i++) {
        fault(s.probe, actions[i % 4]);
        nop(s.probe);
        trp_device_info after = h_info(s.w.device);
        H_EQUAL(after.worker_pid, before.standby_pid);
        H_EQUAL(after.incarnation, before.incarnation + 1);
        H_EQUAL(after.restarts, before.restarts + 1);
        check_kept(&s);
        after = h_await_standby(s.w.device);
        H_CHECK(after.standby_pid != before.standby_pid && after.standby_pid != before.worker_pid);
        H_CHECK(h_process_exists(after.standby_pid));
        h_await_gone(before.worker_pid);
        h_await_count("children", h_count_children, 2);
        before = after;
    }
    h_close(&s.w);
}

/* Whether a file whose path has `part` in it is mapped by a process. */
static bool has_mapped(int64_t pid, const char *part)
{
    char path[64], line[512];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%lld/maps", (long long)pid);
    FILE *file = fopen(path, "re");
    H_CHECK(file != NULL);
    while (!found && fgets(line, sizeof line, file))
        found = strstr(line, part) != NULL;
    fclose(file);
    return found;
}

/* A cold actor's library is loaded by a standby only when it takes over. */
static void cold(void)
{
    const char *library = h_is_cuda() ? "cublas" : "openblas";
    for (int is_cold = 0; is_cold < 2; is_cold++) {
        h_world w = h_open(NULL);
        trp_actor *blas = NULL;
        trp_actor_options options = {.kind = "blas", .cold = is_cold != 0};
        float one[4] = {1, 1, 1, 1}, c[4];
        trp_buffer a = h_buffer(w.device, sizeof one), out = h_buffer(w.device, sizeof one);
        H_OK(trp_actor_create(w.device, &options, &blas));
        h_write(w.device, a, 0, one, sizeof one);
        trp_actor *probe = h_actor(w.device, "probe");
        for (int round = 0; round < 2; round++) {
            trp_completion done = {0};
            trp_device_info info = h_await_standby(w.device);
            /* What was made before is made in the order told: a later actor's answer is not seen
             * from here, so wait for the library where it must come. */
            while (!is_cold && !has_mapped(info.standby_pid, library))
                h_sleep(H_MS);
            H_CHECK(has_mapped(info.worker_pid, library));
            H_CHECK(!is_cold || !has_mapped(info.standby_pid, library));
            fault(probe, TRP_PROBE_ABORT);
            trp_gemm_request r = {
                .type = TRP_F32, .m = 2, .n = 2, .k = 2, .a = a, .b = a, .c = out};
            H_OK(trp_gemm(blas, &r, &done));
            H_OK(h_await_any(done));
            h_read(w.device, out, 0, c, sizeof c);
            for (int i = 0; i < 4; i++)
                H_CHECK(c[i] == 2);
        }
        h_close(&w);
    }
}

static void off(void)
{
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF;
    stage s = set_up(&options);
    for (int i = 0; i < 4; i++) {
        h_sleep(20 * H_MS);
        trp_device_info before = h_info(s.w.device);
        H_EQUAL(before.standby_pid, 0);
        h_await_count("children", h_count_children, 1);
        fault(s.probe, TRP_PROBE_ABORT);
        nop(s.probe);
        check_kept(&s);
        H_EQUAL(h_info(s.w.device).standby_pid, 0);
        H_EQUAL(h_info(s.w.device).incarnation, before.incarnation + 1);
    }
    h_close(&s.w);
    h_world w = {.system = h_system_create(NULL)};
    options.standby = (trp_standby)2;
    H_IS(trp_device_open(w.system, &options, &w.device), TRP_E_ARGUMENT);
    H_SAYS("standby");
    H_OK(trp_system_destroy(w.system));
}

/* A standby that dies costs nobody anything. */
static void killed_while_idle(void)
{
    stage s = set_up(NULL);
    int64_t worker = h_info(s.w.device).worker_pid;
    for (int i = 0; i < h_rounds(8, 3); i++) {
        trp_device_info before = h_await_standby(s.w.device);
        trp_completion c = {0};
        h_spin(s.probe, 5 * H_MS, &c);
        end_process(before.standby_pid);
        H_OK(h_await_any(c));
        h_await_gone(before.standby_pid);
        trp_device_info after = await_other_standby(s.w.device, before.standby_pid);
        H_EQUAL(after.worker_pid, worker);
        H_EQUAL(after.restarts, 0);
        H_EQUAL(after.incarnation, 1);
        H_EQUAL(after.requests_failed, 0);
        check_kept(&s);
    }
    fault(s.probe, TRP_PROBE_ABORT);
    nop(s.probe);
    check_kept(&s);
    h_close(&s.w);
}

/* Killed before it is ready: another is made, a few times at least. */
static void killed_while_it_starts(void)
{
    for (int i = 0; i < h_rounds(10, 3); i++) {
        stage s = set_up(NULL);
        trp_device_info before = h_await_standby(s.w.device);
        end_process(before.standby_pid);
        h_await_gone(before.standby_pid);
        int64_t starting = other_child(before.worker_pid);
        h_sleep((int64_t)ref_rng_below(h_rng(), 2000) * 1000);
        end_process(starting);
        nop(s.probe);
        trp_device_info after = await_other_standby(s.w.device, before.standby_pid);
        H_EQUAL(after.worker_pid, before.worker_pid);
        fault(s.probe, TRP_PROBE_ABORT);
        nop(s.probe);
        check_kept(&s);
        h_close(&s.w);
    }
}

/* Both workers are killed from outside, with work that can run again in flight. */
static void both_at_once(void)
{
    stage s = set_up(NULL);
    trp_actor *other = h_actor(s.w.device, "probe");
    for (int i = 0; i < h_rounds(16, 4); i++) {
        trp_device_info info = h_await_standby(s.w.device);
        trp_completion c[2] = {{0}};
        h_spin(s.probe, 3 * H_MS, &c[0]);
        h_spin(other, 3 * H_MS, &c[1]);
        h_sleep((int64_t)ref_rng_below(h_rng(), 1000) * 1000);
        end_process(i % 2 ? info.standby_pid : info.worker_pid);
        end_process(i % 2 ? info.worker_pid : info.standby_pid);
        for (int k = 0; k < 2; k++) { /* two deaths may have met it, which is one too many */
            trp_status status = h_await_any(c[k]);
            H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
        }
        nop(s.probe);
        nop(other);
        check_kept(&s);
        H_EQUAL(h_info(s.w.device).state, TRP_DEVICE_READY);
    }
    h_await_standby(s.w.device);
    h_await_count("children", h_count_children, 2);
    h_close(&s.w);
}

/* The standby dies while the device recovers, or as soon as it has taken over. */
static void killed_after_promotion(void)
{
    stage s = set_up(NULL);
    for (int i = 0; i < h_rounds(16, 4); i++) {
        trp_device_info before = h_await_standby(s.w.device);
        trp_completion c = {0};
        h_spin(s.probe, 2 * H_MS, &c);
        end_process(before.worker_pid);
        if (i % 2) {
            for (int64_t end = h_now() + H_LONG;
                 h_info(s.w.device).worker_pid != before.standby_pid;)
                H_CHECK(h_now() < end);
        } else {
            h_sleep((int64_t)ref_rng_below(h_rng(), 300) * 1000);
        }
        end_process(before.standby_pid);
        trp_status status = h_await_any(c);
        H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
        nop(s.probe);
        h_await_gone(before.worker_pid);
        h_await_gone(before.standby_pid);
        check_kept(&s);
    }
    h_close(&s.w);
}

/* Faster than standbys can be made. */
static void in_a_row(void)
{
    static const trp_probe_action actions[] = {TRP_PROBE_ABORT, TRP_PROBE_KILL, TRP_PROBE_EXIT,
                                               TRP_PROBE_SEGV, TRP_PROBE_TRAP};
    stage s = set_up(NULL);
    uint32_t incarnation = 1, workers = 0;
    for (int i = 0; i < h_rounds(60, 10); i++) {
        trp_probe_action action = actions[ref_rng_below(h_rng(), 5)];
        fault(s.probe, action);
        workers += action == TRP_PROBE_KILL ? 2 : 1;
        if (i % 3 == 0)
            nop(s.probe);
        uint32_t now = h_info(s.w.device).incarnation;
        H_CHECK(now >= incarnation);
        incarnation = now;
    }
    nop(s.probe);
    check_kept(&s);
    H_EQUAL(h_info(s.w.device).restarts, workers);
    H_EQUAL(h_info(s.w.device).incarnation, workers + 1);
    h_await_standby(s.w.device);
    h_await_count("children", h_count_children, 2);
    h_close(&s.w);
}

/* Everything that a device can have is made, or ended, while the standby is being started; after
 * the fault it is there, or not. */
static void known_to_it(void)
{
    enum { BYTES = 1 << 20 };
    stage s = set_up(NULL);
    trp_device *d = s.w.device;
    char *data = h_malloc(BYTES), *got = h_malloc(BYTES);
    const uint64_t big = (h_is_cuda() ? 200 : 40) * H_MIB; /* more than one arena has */
    trp_actor *old = h_actor(d, "probe");
    void *old_memory = NULL;
    H_OK(trp_host_alloc(d, BYTES, &old_memory));
    trp_buffer old_buffer = h_buffer(d, big);
    for (int i = 0; i < h_rounds(8, 3); i++) {
        trp_completion c = {0};
        void *memory = NULL;
        h_await_standby(d);
        fault(s.probe, TRP_PROBE_ABORT);
        h_sleep((int64_t)ref_rng_below(h_rng(), (h_is_gpu() ? 200 : 4)) * H_MS);
        trp_actor *blas = h_actor(d, "blas"), *probe = h_actor(d, "probe");
        H_OK(trp_host_alloc(d, BYTES, &memory));
        trp_buffer b = h_buffer(d, big);
        trp_actor_destroy(old);
        H_OK(trp_host_free(d, old_memory));
        H_OK(trp_buffer_free(d, old_buffer));
        H_OK(trp_device_trim(d));
        h_random_bytes(h_rng(), data, BYTES);
        memcpy(memory, data, BYTES);
        h_write(d, b, big - BYTES, memory, BYTES);

        h_await_standby(d);
        fault(s.probe, TRP_PROBE_EXIT);
        nop(probe);
        memset(memory, 0, BYTES);
        h_read(d, b, big - BYTES, memory, BYTES);
        H_SAME(memory, data, BYTES);
        h_read(d, b, big - BYTES, got, BYTES);
        H_SAME(got, data, BYTES);
        float one = 2;
        h_write(d, b, 0, &one, sizeof one);
        H_OK(trp_gemm(
            blas,
            &(trp_gemm_request){
                .type = TRP_F32, .m = 1, .n = 1, .k = 1, .a = b, .b = b, .c = b, .c_offset = 256},
            &c));
        H_OK(h_await_any(c));
        h_read(d, b, 256, &one, sizeof one);
        H_CHECK(one == 4);
        trp_actor_destroy(blas);
        old = probe;
        old_memory = memory;
        old_buffer = b;
        check_kept(&s);
    }
    free(data);
    free(got);
    h_close(&s.w);
}

typedef struct maker {
    trp_device *device;
    _Atomic bool stop;
    _Atomic uint64_t made;
} maker;

static void *make_actors(void *argument)
{
    maker *m = argument;
    while (!atomic_load(&m->stop)) {
        trp_completion c = {0};
        void *memory = NULL;
        trp_actor *actor = h_actor(m->device, atomic_load(&m->made) % 2 ? "probe" : "blas");
        H_OK(trp_host_alloc(m->device, 10000, &memory));
        memset(memory, 7, 10000);
        trp_buffer b = h_buffer(m->device, 10000);
        H_OK(trp_write(m->device, b, 0, memory, 10000, &c));
        trp_status status = h_await_any(c);
        H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
        H_OK(trp_buffer_free(m->device, b));
        H_OK(trp_host_free(m->device, memory));
        trp_actor_destroy(actor);
        atomic_fetch_add(&m->made, 1);
    }
    return NULL;
}

/* Faults meet actors, regions and buffers that are being made. */
static void being_made_at_the_fault(void)
{
    enum { MAKERS = 3 };
    stage s = set_up(NULL);
    maker m = {.device = s.w.device};
    h_thread *thread[MAKERS];
    for (int i = 0; i < MAKERS; i++)
        thread[i] = h_start(make_actors, &m);
    for (int i = 0; i < h_rounds(40, 6); i++) {
        h_sleep((int64_t)ref_rng_below(h_rng(), 8000) * 1000);
        trp_device_info info = h_info(s.w.device);
        if (i % 5 == 4)
            end_process(info.standby_pid);
        else if (i % 5 == 3)
            end_process(info.worker_pid);
        else
            fault(s.probe, i % 5 == 2 ? TRP_PROBE_EXIT : TRP_PROBE_ABORT);
        nop(s.probe);
    }
    atomic_store(&m.stop, true);
    for (int i = 0; i < MAKERS; i++)
        h_join(thread[i]);
    H_CHECK(atomic_load(&m.made) > 0);
    check_kept(&s);
    H_EQUAL(h_info(s.w.device).buffers, KEPT);
    /* No number is lost: all actors and regions can be had. */
    trp_actor *actor[61] = {s.probe};
    for (int i = 1; i < 61; i++)
        actor[i] = h_actor(s.w.device, "probe");
    for (int i = 1; i < 61; i++)
        trp_actor_destroy(actor[i]);
    h_close(&s.w);
}

static void close_while_it_starts(void)
{
    for (int i = 0; i < h_rounds(12, 4); i++) {
        h_world w = h_open(NULL);
        h_sleep((int64_t)ref_rng_below(h_rng(), h_is_gpu() ? 200000 : 6000) * 1000);
        if (i % 3 == 0) {
            h_close(&w);
            continue;
        }
        trp_actor *probe = h_actor(w.device, "probe");
        if (i % 3 == 1)
            fault(probe, TRP_PROBE_ABORT);
        else
            h_probe(probe, TRP_PROBE_ABORT, NULL);
        h_sleep((int64_t)ref_rng_below(h_rng(), 3000) * 1000);
        h_close(&w);
    }
}

/* Workers that die while they make one of the device's own lanes, more of them than any actor may
 * kill: the next one makes it. */
static void killed_at_a_lane(void)
{
    enum { DEATHS = 8 };
    char folder[96], hits[128], data[64] = "data";
    trp_device_options options = h_options();
    options.restart_budget = 2 * DEATHS;
    if (!h_points_built())
        h_skip("this build has no fault points");
    h_folder_make(folder, sizeof folder, "lanes");
    snprintf(hits, sizeof hits, "%s/hits", folder);
    H_EQUAL(close(open(hits, O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0);
    H_EQUAL(truncate(hits, 4096), 0);
    setenv("TROUPE_FAULT_POINT_HITS", hits, 1);
    setenv("TROUPE_FAULT_POINT", "ACTOR_STREAM_MADE:1-8:kill-self", 1);
    h_world w = h_open(&options);
    trp_buffer buffer = h_buffer(w.device, sizeof data);
    h_write(w.device, buffer, 0, data, sizeof data);
    h_read(w.device, buffer, 0, data, sizeof data);
    H_CHECK(strcmp(data, "data") == 0);
    H_CHECK(h_point_hits("ACTOR_STREAM_MADE") > DEATHS);
    h_close(&w);
    unsetenv("TROUPE_FAULT_POINT");
    unsetenv("TROUPE_FAULT_POINT_HITS");
    h_folder_remove(folder);
}

H_CASES_OF_PROCESSES(H_CASE(promotion), H_CASE(cold), H_CASE(off), H_CASE(killed_while_idle),
                     H_CASE(killed_while_it_starts), H_CASE(both_at_once),
                     H_CASE(killed_after_promotion), H_CASE(in_a_row), H_CASE(known_to_it),
                     H_CASE(being_made_at_the_fault), H_CASE(close_while_it_starts),
                     H_CASE(killed_at_a_lane))

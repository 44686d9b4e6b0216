/* Sealed buffers when workers die: a write to one is a fault that changes nothing, every later
 * worker keeps the seal, and sealing ends whatever happens meanwhile. */
#include "support/harness.h"

#include <signal.h>
#include <stdatomic.h>

TROUPE_TEST("many workers");

static void send_signal(int64_t pid, int number)
{
    if (pid > 0)
        kill((pid_t)pid, number);
}

static trp_completion probe_with(trp_actor *probe, trp_probe_action action, trp_buffer input,
                                 trp_buffer output)
{
    trp_completion c = {0};
    H_OK(trp_probe(
        probe, &(trp_probe_request){.action = action, .inputs = {input}, .outputs = {output}}, &c));
    return c;
}

static const trp_buffer none;

static void check_sealed(trp_device *device, trp_buffer b, bool sealed)
{
    trp_buffer_info info = h_buffer_info(device, b);
    H_EQUAL(info.sealed, sealed);
    H_CHECK(!info.lost);
}

/* ---- a write that should not be ---- */

/* Whichever worker is there, the standby that took over or one that was started later. */
static void write_faults(void)
{
    enum { BYTES = 200000 };
    for (int way = 0; way < 2; way++) {
        trp_device_options options = h_options();
        options.standby = way == 0 ? TRP_STANDBY_ON : TRP_STANDBY_OFF;
        h_world w = h_open(&options);
        trp_device *d = w.device;
        trp_actor *probe = h_actor(d, "probe");
        trp_buffer s = h_sealable(d, BYTES), later = h_sealable(d, 64), out = h_buffer(d, 64);
        char *data = h_random_block(h_rng(), BYTES), *got = h_malloc(BYTES);
        if (way == 0)
            h_await_standby(d); /* it is told of the seal; the next ones begin with it */
        h_write(d, s, 0, data, BYTES);
        H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
        for (int i = 0; i < h_rounds(4, 4); i++) {
            trp_error error;
            trp_device_info before = h_info(d);
            H_OK(trp_fill(d, out, 0, 64, 1, 1, NULL));
            H_OK(trp_device_drain(d, H_LONG)); /* so that the guilty one is alone */
            trp_completion c = probe_with(probe, TRP_PROBE_WRITE_SEALED, s, i % 2 ? out : none);
            H_IS(h_await(c.future, &error), TRP_E_FAULT);
            H_EQUAL(error.fault, h_is_cuda() ? TRP_FAULT_GPU : TRP_FAULT_SIGNAL);
            if (!h_is_cuda())
                H_EQUAL(error.code, SIGSEGV);
            H_EQUAL(error.incarnation, before.incarnation);
            check_sealed(d, s, true);
            H_EQUAL(h_buffer_info(d, out).lost, i % 2); /* a declared output is, as ever */
            h_read(d, s, 0, got, BYTES);
            H_SAME(got, data, BYTES);
            H_IS(trp_fill(d, s, 0, 8, 0, 4, NULL), TRP_E_ARGUMENT);
            H_OK(trp_buffer_seal(d, s, 0));
            H_EQUAL(h_info(d).restarts, before.restarts + 1);
        }
        /* One that is sealed in a worker after a fault; and back. */
        uint64_t word = 5;
        h_write(d, later, 0, &word, 8);
        H_OK(trp_buffer_seal(d, later, TRP_FOREVER));
        H_IS(h_await_any(probe_with(probe, TRP_PROBE_WRITE_SEALED, later, none)), TRP_E_FAULT);
        H_OK(trp_buffer_unseal(d, later));
        H_OK(h_await_any(probe_with(probe, TRP_PROBE_WRITE_SEALED, later, none)));
        h_read(d, later, 0, &word, 8);
        H_EQUAL(word, 0xdead);
        H_OK(trp_buffer_unseal(d, s));
        H_OK(h_await_any(probe_with(probe, TRP_PROBE_WRITE_SEALED, s, none)));
        H_IS(h_await_any(probe_with(probe, TRP_PROBE_ABORT, none, none)), TRP_E_FAULT);
        h_read(d, s, 0, got, BYTES); /* unsealed in the next worker, too */
        H_SAME(got + 8, data + 8, BYTES - 8);
        h_write(d, s, 0, data, BYTES);
        free(data);
        free(got);
        h_close(&w);
    }
}

/* ---- what is lost can't be sealed ---- */

static void lost_content(void)
{
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer s = h_sealable(d, 1000);
    uint32_t got = 0;
    H_OK(trp_fill(d, s, 0, 1000, 1, 4, NULL));
    H_IS(h_await_any(probe_with(probe, TRP_PROBE_ABORT, none, s)), TRP_E_FAULT);
    H_IS(trp_buffer_seal(d, s, TRP_FOREVER), TRP_E_LOST);
    H_SAYS("buffer");
    H_CHECK(!h_buffer_info(d, s).sealed);
    H_OK(trp_fill(d, s, 4, 4, 1, 4, NULL)); /* it can be written; not enough */
    H_IS(trp_buffer_seal(d, s, TRP_FOREVER), TRP_E_LOST);
    H_OK(trp_fill(d, s, 0, 1000, 2, 4, NULL));
    H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
    check_sealed(d, s, true);
    h_read(d, s, 0, &got, 4);
    H_EQUAL(got, 2);
    h_close(&w);
}

typedef struct sealer {
    trp_device *device;
    trp_buffer buffer;
    trp_status status;
    _Atomic bool ended;
} sealer;

static void *seal_it(void *argument)
{
    sealer *s = argument;
    s->status = trp_buffer_seal(s->device, s->buffer, TRP_FOREVER);
    atomic_store(&s->ended, true);
    return NULL;
}

static void *unseal_it(void *argument)
{
    sealer *s = argument;
    s->status = trp_buffer_unseal(s->device, s->buffer);
    atomic_store(&s->ended, true);
    return NULL;
}

/* Until the thread has closed the buffer to writers. */
static void await_closed(const sealer *s)
{
    trp_completion c = {0};
    h_sleep(5 * H_MS); /* most likely it has; then it has nobody to wait for */
    for (;;) {
        trp_status status = trp_fill(s->device, s->buffer, 0, 4, 7, 4, &c);
        if (status == TRP_E_ARGUMENT)
            return;
        H_CHECK(status == TRP_OK || status == TRP_E_BUSY || status == TRP_E_LOST);
        if (status == TRP_OK)
            trp_future_drop(c.future);
        h_sleep(H_MS);
    }
}

/* The writer that is waited for dies: what it may have half-written is not sealed; what runs again
 * is waited for. */
static void writer_dies(void)
{
    enum { BYTES = 4000 };
    bool hit = false;
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    for (int round = 0; round < 12 && !(hit && round >= 2); round++) {
        bool twice = round % 2; /* whether the writer can run twice */
        trp_buffer s = h_sealable(d, BYTES), gate = h_buffer(d, 8);
        uint32_t got = 0;
        H_OK(trp_fill(d, s, 0, BYTES, 1, 4, NULL));
        H_OK(trp_fill(d, gate, 0, 8, 1, 4, NULL));
        H_OK(trp_device_drain(d, H_LONG));
        trp_probe_request spin = {.action = TRP_PROBE_SPIN,
                                  .duration_ns = (uint64_t)((round + 1) * 200 * H_MS),
                                  .outputs = {twice ? none : s},
                                  .inputs = {twice ? s : gate}};
        trp_completion c = {0};
        H_OK(trp_probe(probe, &spin, &c));
        if (twice) /* waits for the reader */
            H_OK(trp_fill(d, s, 0, BYTES, 2, 4, NULL));
        sealer sealing = {.device = d, .buffer = s};
        h_thread *thread = h_start(seal_it, &sealing);
        await_closed(&sealing);
        h_sleep(20 * H_MS);
        send_signal(h_info(d).worker_pid, SIGKILL);
        trp_status status = h_await_any(c);
        h_join(thread);
        if (!twice && status == TRP_E_FAULT) {
            H_IS(sealing.status, TRP_E_LOST);
            H_CHECK(!h_buffer_info(d, s).sealed);
            H_OK(trp_fill(d, s, 0, BYTES, 3, 4, NULL));
            H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
            hit = true;
        } else {
            H_OK(status);
            H_OK(sealing.status);
        }
        check_sealed(d, s, true);
        h_read(d, s, BYTES - 4, &got, 4);
        H_EQUAL(got, !twice && status != TRP_OK ? 3 : twice ? 2 : 1);
        H_OK(trp_buffer_free(d, s));
    }
    H_CHECK(hit);
    h_close(&w);
}

/* ---- workers that don't answer ---- */

/* A device whose workers have one second, or as much more as this machine needs to start one. */
static h_world open_impatient(int64_t *patience)
{
    trp_device_options options = h_options();
    h_world w = {.system = h_system_create(NULL)};
    trp_status status = TRP_E_TIMEOUT;
    for (*patience = H_SEC; status == TRP_E_TIMEOUT; *patience *= 2) {
        options.start_timeout_ns = (uint64_t)*patience;
        status = trp_device_open(w.system, &options, &w.device);
    }
    H_OK(status);
    return w;
}

/* The active worker is stopped: sealing gives up. What is written then runs as soon as the worker
 * goes on, and has made its mapping writable again. */
static void stuck_worker(void)
{
    int64_t patience;
    h_world w = open_impatient(&patience);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer s = h_sealable(d, 1000);
    uint32_t got = 0;
    H_OK(trp_fill(d, s, 0, 1000, 1, 4, NULL));
    H_OK(trp_device_drain(d, H_LONG));
    h_await_standby(d);
    h_stop_process(h_info(d).worker_pid);
    H_IS(trp_buffer_seal(d, s, 0), TRP_E_TIMEOUT);
    H_SAYS("mapping");
    check_sealed(d, s, false);
    trp_completion c[20] = {{0}};
    for (uint32_t i = 0; i < 20; i++)
        H_OK(trp_fill(d, s, 0, 1000, i, 4, &c[i]));
    H_IS(trp_await(c[0].future, 0, NULL), TRP_E_TIMEOUT);
    send_signal(h_info(d).worker_pid, SIGCONT);
    for (int i = 0; i < 20; i++)
        H_OK(h_await_any(c[i]));
    H_OK(h_await_any(probe_with(probe, TRP_PROBE_WRITE_SEALED, s, none)));
    H_EQUAL(h_info(d).restarts, 0);
    /* The same, and then the worker dies: the answer that is owed is not waited for. */
    h_stop_process(h_info(d).worker_pid);
    H_IS(trp_buffer_seal(d, s, 0), TRP_E_TIMEOUT);
    send_signal(h_info(d).worker_pid, SIGKILL);
    H_OK(trp_fill(d, s, 0, 1000, 9, 4, NULL));
    H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
    h_read(d, s, 996, &got, 4);
    H_EQUAL(got, 9);
    H_IS(h_await_any(probe_with(probe, TRP_PROBE_WRITE_SEALED, s, none)), TRP_E_FAULT);
    check_sealed(d, s, true);
    h_close(&w);
}

/* A worker that does not answer is killed while it is waited for: then nobody is. */
static void killed_while_asked(void)
{
    for (int i = 0; i < 4; i += H_SANITIZED ? 3 : 1) {
        bool standby = i % 2, unseals = i / 2 % 2;
        h_world w = h_open(NULL);
        trp_device *d = w.device;
        trp_actor *probe = h_actor(d, "probe");
        trp_buffer s = h_sealable(d, 100);
        H_OK(trp_fill(d, s, 0, 100, 1, 4, NULL));
        H_OK(trp_device_drain(d, H_LONG));
        trp_device_info info = h_await_standby(d);
        int64_t pid = standby ? info.standby_pid : info.worker_pid;
        sealer call = {.device = d, .buffer = s};
        if (unseals)
            H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
        h_stop_process(pid);
        h_thread *thread = h_start(unseals ? unseal_it : seal_it, &call);
        if (!unseals)
            await_closed(&call);
        h_sleep(50 * H_MS);
        H_CHECK(!atomic_load(&call.ended)); /* the stopped one has not answered */
        H_CHECK(unseals || !h_buffer_info(d, s).sealed);
        send_signal(pid, SIGKILL);
        h_join(thread);
        H_OK(call.status);
        check_sealed(d, s, !unseals);
        if (unseals) { /* writable in whichever worker is there now */
            H_OK(trp_fill(d, s, 0, 100, 2, 4, NULL));
            H_OK(h_await_any(probe_with(probe, TRP_PROBE_WRITE_SEALED, s, none)));
        }
        H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
        H_IS(h_await_any(probe_with(probe, TRP_PROBE_WRITE_SEALED, s, none)), TRP_E_FAULT);
        check_sealed(d, s, true);
        h_await_standby(d);
        h_close(&w);
    }
}

/* ---- a device that goes down ---- */

static void down(void)
{
    for (int way = 0; way < 2; way++) {
        trp_device_options options = h_options();
        options.restart_budget = 1;
        options.restart_window_ns = (uint64_t)(600 * H_SEC);
        h_world w = h_open(&options);
        trp_device *d = w.device;
        trp_actor *probe = h_actor(d, "probe");
        trp_buffer s = h_sealable(d, 100), other = h_sealable(d, 100), b;
        H_OK(trp_fill(d, s, 0, 100, 1, 4, NULL));
        H_OK(trp_fill(d, other, 0, 100, 1, 4, NULL));
        H_OK(trp_buffer_seal(d, other, TRP_FOREVER));
        H_OK(trp_device_drain(d, H_LONG));
        H_IS(h_await_any(probe_with(probe, TRP_PROBE_ABORT, none, none)), TRP_E_FAULT);
        trp_device_info info = h_await_standby(d);
        sealer sealing = {.device = d, .buffer = s};
        h_thread *thread = NULL;
        if (way == 1) { /* a call waits for the worker that will be the last */
            h_stop_process(info.worker_pid);
            thread = h_start(seal_it, &sealing);
            await_closed(&sealing);
        }
        send_signal(info.worker_pid, SIGKILL);
        h_await_state(d, TRP_DEVICE_DOWN);
        if (thread) {
            h_join(thread);
            H_IS(sealing.status, TRP_E_DEVICE_DOWN);
        }
        H_IS(trp_buffer_seal(d, s, TRP_FOREVER), TRP_E_DEVICE_DOWN);
        H_IS(trp_buffer_unseal(d, other), TRP_E_DEVICE_DOWN);
        H_IS(trp_buffer_create_with(d, &(trp_buffer_options){.bytes = 1}, &b), TRP_E_DEVICE_DOWN);
        check_sealed(d, s, false);
        check_sealed(d, other, true);
        H_OK(trp_buffer_free(d, s));
        H_OK(trp_buffer_free(d, other));
        H_EQUAL(h_info(d).memory_reserved, 0);
        h_close(&w);
    }
}

/* ---- deaths at random ---- */

typedef struct storm {
    trp_device *device;
    ref_rng rng;
    _Atomic bool stop;
    _Atomic uint64_t steps; /* calls and requests that the main thread has seen to end */
    _Atomic uint64_t kills;
} storm;

/* Each time after the main thread has come on, so that it does come on, however slow the workers
 * are to start. */
static void *kill_some(void *argument)
{
    storm *s = argument;
    while (!atomic_load(&s->stop)) {
        uint64_t seen = atomic_load(&s->steps), some = seen + 1 + ref_rng_below(&s->rng, 4);
        trp_device_info info = h_info(s->device);
        send_signal(ref_rng_below(&s->rng, 4) ? info.worker_pid : info.standby_pid, SIGKILL);
        atomic_fetch_add(&s->kills, 1);
        while (atomic_load(&s->steps) < some && !atomic_load(&s->stop))
            h_sleep(50000);
        h_sleep((int64_t)ref_rng_below(&s->rng, 2000) * 1000);
    }
    return NULL;
}

enum { STORM_BYTES = 150000 };

/* Writes until it is written. */
static void write_surely(trp_device *device, trp_buffer b, const char *data)
{
    trp_status status;
    do {
        trp_completion c = {0};
        H_OK(trp_write(device, b, 0, data, STORM_BYTES, &c));
        status = h_await_any(c);
        H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
    } while (status != TRP_OK);
}

/* Reads what can't be lost; only the request can. */
static void read_surely(trp_device *device, trp_buffer b, char *got)
{
    trp_status status;
    do {
        trp_completion c = {0};
        H_OK(trp_read(device, b, 0, got, STORM_BYTES, &c));
        status = h_await_any(c);
        H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
    } while (status != TRP_OK);
}

static void in_a_storm(trp_fault_scope scope)
{
    trp_device_options options = h_options();
    options.fault_scope = scope;
    options.restart_budget = 100000;
    h_world w = h_open(&options);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer s = h_sealable(d, STORM_BYTES), kept = h_sealable(d, STORM_BYTES);
    char *data = h_malloc(STORM_BYTES), *got = h_malloc(STORM_BYTES);
    char *kept_data = h_random_block(h_rng(), STORM_BYTES);
    uint64_t seals = 0, lost = 0, drills = 0;
    h_write(d, kept, 0, kept_data, STORM_BYTES);
    H_OK(trp_buffer_seal(d, kept, TRP_FOREVER));
    storm weather = {.device = d, .rng = h_rng_fork()};
    h_thread *thread = h_start(kill_some, &weather);
    int64_t end = h_now() + h_soak_ns(1.5);
    while (h_now() < end || seals == 0 || drills == 0 || atomic_load(&weather.kills) < 5) {
        h_random_bytes(h_rng(), data, STORM_BYTES);
        write_surely(d, s, data);
        atomic_fetch_add(&weather.steps, 1);
        trp_status status = trp_buffer_seal(d, s, TRP_FOREVER);
        atomic_fetch_add(&weather.steps, 1);
        if (status != TRP_OK) { /* with this scope a death between the two costs the content */
            H_IS(status, TRP_E_LOST);
            H_EQUAL(scope, TRP_FAULT_SCOPE_ALL);
            check_sealed(d, kept, true);
            lost++;
            continue;
        }
        seals++;
        for (int i = 0; i < 3; i++) {
            check_sealed(d, s, true);
            read_surely(d, s, got);
            atomic_fetch_add(&weather.steps, 1);
            H_SAME(got, data, STORM_BYTES);
            H_IS(trp_fill(d, s, 0, 4, 0, 4, NULL), TRP_E_ARGUMENT);
            if (i == 0 && seals % 4 == 0) {
                trp_completion c =
                    probe_with(probe, TRP_PROBE_WRITE_SEALED, seals % 8 ? kept : s, none);
                H_IS(h_await_any(c), TRP_E_FAULT);
                drills++;
            }
        }
        read_surely(d, kept, got);
        H_SAME(got, kept_data, STORM_BYTES);
        check_sealed(d, kept, true);
        H_OK(trp_buffer_unseal(d, s));
        atomic_fetch_add(&weather.steps, 1);
    }
    atomic_store(&weather.stop, true);
    h_join(thread);
    printf("  %" PRIu64 " kills, %" PRIu64 " seals, %" PRIu64 " found lost, %" PRIu64
           " forbidden writes\n",
           atomic_load(&weather.kills), seals, lost, drills);
    free(data);
    free(got);
    free(kept_data);
    h_close(&w);
}

static void storm_outputs(void)
{
    in_a_storm(TRP_FAULT_SCOPE_OUTPUTS);
}

static void storm_all(void)
{
    in_a_storm(TRP_FAULT_SCOPE_ALL);
}

H_CASES_OF_PROCESSES(H_CASE(write_faults), H_CASE(lost_content), H_CASE(writer_dies),
                     H_CASE(stuck_worker), H_CASE(killed_while_asked), H_CASE(down),
                     H_CASE(storm_outputs), H_CASE(storm_all))

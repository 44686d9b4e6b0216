/* Actors of one's own that crash, hang and exit, wherever their code runs: each costs what it must,
 * and one that can't be made costs no later worker. */
#include "support/plugin.h"
#include "support/label.h"

#include <signal.h>
#include <unistd.h>

TROUPE_TEST("long");

enum { WORDS = 4096, BYTES = WORDS * 4 };

static trp_device_options options(bool standby)
{
    trp_device_options o = h_options();
    o.standby = standby ? TRP_STANDBY_ON : TRP_STANDBY_OFF;
    return o;
}

static trp_status make(trp_device *device, const char *config, trp_error *error)
{
    trp_actor *actor = NULL;
    trp_status status = trp_actor_create(
        device, &(trp_actor_options){.library = h_plugin("hostile"), .config = config}, &actor);
    *error = *trp_error_last();
    H_CHECK((actor != NULL) == (status == TRP_OK));
    return status;
}

/* Ways in which init() ends a worker. */
static const struct {
    const char *config;
    trp_fault fault;
    int code;
    bool host_only;
} deaths[] = {
    {"segv", TRP_FAULT_SIGNAL, SIGSEGV, false},
    {"abort", TRP_FAULT_SIGNAL, SIGABRT, false},
    {"exit", TRP_FAULT_EXIT, 5, false},
    {"stream-segv", TRP_FAULT_SIGNAL, SIGSEGV, true},
};
enum { DEATHS = sizeof deaths / sizeof *deaths };

static void check_death(size_t i, const trp_error *error)
{
    H_EQUAL(error->status, TRP_E_FAULT);
    H_EQUAL(error->fault, deaths[i].fault);
    H_EQUAL(error->code, deaths[i].code);
    H_CHECK(strcmp(error->actor, "hostile") == 0);
    H_CHECK(strstr(error->message, "while actor \"hostile\" was being made") != NULL);
    H_CHECK(error->incarnation > 0);
}

/* The standby tries it: nothing that runs is harmed. */
static void init_kills_the_standby(void)
{
    trp_device_options o = options(true);
    o.restart_budget = 1;
    h_world w = h_open(&o);
    trp_actor *probe = h_actor(w.device, "probe"), *good = h_hostile(w.device, NULL);
    trp_buffer b = h_buffer(w.device, BYTES);
    h_works(w.device, good, 1);
    trp_device_info before = h_info(w.device);
    for (size_t i = 0; i < DEATHS; i++) {
        trp_completion c = {0};
        trp_error error;
        if (deaths[i].host_only && h_is_cuda())
            continue;
        h_await_standby(w.device);
        /* Work that could not run twice. */
        H_OK(trp_probe(probe,
                       &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                            .duration_ns = (uint64_t)(100 * H_MS),
                                            .inputs = {b},
                                            .outputs = {b}},
                       &c));
        H_IS(make(w.device, deaths[i].config, &error), TRP_E_FAULT);
        check_death(i, &error);
        H_OK(h_await_any(c));
        h_works(w.device, good, (uint32_t)i);
    }
    trp_device_info after = h_info(w.device);
    H_EQUAL(after.restarts, 0);
    H_EQUAL(after.worker_pid, before.worker_pid);
    /* Standbys come up again: they are not told of it. */
    h_await_standby(w.device);
    h_works(w.device, h_hostile(w.device, NULL), 2);
    h_close(&w);
}

/* Without a standby the worker that has requests makes it: one restart each, no more. */
static void init_kills_the_worker(void)
{
    h_world w;
    for (size_t i = 0; i < DEATHS; i++) {
        trp_device_options o = options(false);
        trp_error error;
        o.restart_budget = 2;
        if (deaths[i].host_only && h_is_cuda())
            continue;
        w = h_open(&o);
        trp_actor *good = h_hostile(w.device, NULL);
        H_IS(make(w.device, deaths[i].config, &error), TRP_E_FAULT);
        check_death(i, &error);
        H_EQUAL(error.incarnation, 1);
        h_works(w.device, good, 5);
        H_EQUAL(h_info(w.device).restarts, 1);
        H_EQUAL(h_report(w.device, good).incarnation, 2);
        H_OK(make(w.device, NULL, &error));
        h_close(&w);
    }
}

/* A request is in flight when init() brings its worker down: the next worker tells who did it. */
static void innocent_request(void)
{
    trp_device_options o = options(false);
    h_world w = h_open(&o);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer b = h_buffer(w.device, BYTES);
    trp_error error;
    for (int round = 0; round < 3; round++) {
        trp_completion spin = {0}, fill = {0};
        uint32_t got[WORDS];
        trp_device_info before = h_info(w.device);
        H_OK(trp_probe(probe,
                       &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                            .duration_ns = (uint64_t)(500 * H_MS),
                                            .inputs = {b}},
                       &spin));
        H_OK(trp_fill(w.device, b, 0, BYTES, 0x1234, 4, &fill)); /* waits for it */
        H_IS(make(w.device, "segv", &error), TRP_E_FAULT);
        H_OK(h_await_any(spin));
        H_OK(h_await_any(fill));
        h_read(w.device, b, 0, got, BYTES);
        H_EQUAL(got[WORDS - 1], 0x1234);
        trp_device_info after = h_info(w.device);
        H_CHECK(after.restarts - before.restarts <= 2);
    }
    h_close(&w);
}

/* Somebody kills the worker while it makes an actor: that is not the actor's fault. */
static void sigkill_is_not_held_against_it(void)
{
    for (int standby = 0; standby < 2; standby++) {
        trp_device_options o = options(standby);
        h_world w = h_open(&o);
        trp_error error;
        if (standby)
            h_await_standby(w.device);
        uint32_t now = h_info(w.device).incarnation; /* the worker that tries it first */
        char config[32];
        snprintf(config, sizeof config, "kill@%u", now);
        /* It kills each worker, more often than chance would. */
        H_IS(make(w.device, config, &error), TRP_E_FAULT);
        H_EQUAL(error.code, SIGKILL);
        H_CHECK(h_info(w.device).restarts <= 8);
        h_works(w.device, h_hostile(w.device, NULL), 6);
        h_close(&w);
    }
}

static void *abort_in_recovery(void *argument)
{
    trp_actor *probe = argument;
    trp_device *device = trp_actor_device(probe);
    const uint32_t first = h_info(device).incarnation;
    trp_completion c = {0};
    /* A thread that is kept waiting may find that it is over. */
    while (h_info(device).state != TRP_DEVICE_RECOVERING && h_info(device).incarnation == first)
        h_sleep(H_MS / 10);
    h_probe(probe, TRP_PROBE_ABORT, &c);
    H_IS(h_await_any(c), TRP_E_FAULT);
    return NULL;
}

/* Workers are killed while they make it, the second one before it takes requests; a request that
 * kills its worker waits. The third worker makes it before that request, too. */
static void innocent_actor_after_sigkills(void)
{
    trp_device_options o = options(false);
    h_world w = h_open(&o);
    h_thread *guilty = h_start(abort_in_recovery, h_actor(w.device, "probe"));
    trp_error error;
    char config[32];
    snprintf(config, sizeof config, "late@%u", h_info(w.device).incarnation + 2);
    H_OK(make(w.device, config, &error));
    h_join(guilty);
    h_close(&w);
}

typedef struct victim {
    trp_actor *probe;
    int64_t standby;
} victim;

static void *kill_both(void *argument)
{
    const victim *v = argument;
    trp_completion c = {0};
    h_sleep(100 * H_MS); /* into init() in the standby */
    H_CHECK(kill((pid_t)v->standby, SIGKILL) == 0);
    h_await_gone(v->standby);
    h_sleep(100 * H_MS); /* into init() in the active worker */
    h_probe(v->probe, TRP_PROBE_ABORT, &c);
    H_IS(h_await_any(c), TRP_E_FAULT);
    return NULL;
}

/* The standby that tries it is killed, and then a request kills the active worker that makes it. */
static void innocent_actor_after_its_standby(void)
{
    trp_device_options o = options(true);
    h_world w = h_open(&o);
    trp_error error;
    victim v = {.probe = h_actor(w.device, "probe"),
                .standby = h_await_standby(w.device).standby_pid};
    h_thread *killer = h_start(kill_both, &v);
    H_OK(make(w.device, "late", &error));
    h_join(killer);
    h_works(w.device, h_hostile(w.device, NULL), 1);
    h_close(&w);
}

/* init() never comes back. */
static void init_hangs(void)
{
    static const char *const configs[] = {"hang", "stream-hang"};
    for (int i = 0; i < (h_is_cuda() ? 1 : 2); i++) {
        trp_device_options o = options(i == 0);
        /* It also bounds how long a worker may take that nothing keeps: on a busy GPU seconds. */
        o.start_timeout_ns = (uint64_t)((H_SANITIZED || h_is_gpu() ? 5 : 2) * H_SEC);
        h_world w = h_open(&o);
        trp_error error;
        trp_actor *good = h_hostile(w.device, NULL);
        if (i == 0)
            h_await_standby(w.device);
        H_IS(make(w.device, configs[i], &error), TRP_E_FAULT);
        H_EQUAL(error.fault, TRP_FAULT_HANG);
        H_CHECK(strstr(error.message, "it took longer than") != NULL);
        h_works(w.device, good, 8);
        H_EQUAL(h_info(w.device).restarts, i == 0 ? 0 : 1);
        h_close(&w);
    }
}

static void await_log(const char *word)
{
    int64_t end = h_now() + H_LONG;
    while (!h_log_said(word)) {
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "nothing was logged of \"%s\"", word);
        h_sleep(H_MS);
    }
}

/* An actor that was made, and that later workers die of: two do, then its requests say why, and all
 * else goes on. */
static void quarantined(void)
{
    for (int standby = 0; standby < 2; standby++) {
        trp_device_options o = options(standby);
        h_world w = h_open(&o);
        trp_actor *probe = h_actor(w.device, "probe");
        char config[32];
        trp_error error;
        if (standby)
            h_await_standby(w.device);
        trp_device_info before = h_info(w.device);
        uint32_t made = before.incarnation + (standby ? 1 : 0);
        snprintf(config, sizeof config, "segv@%u", made + 1);
        const char *name = standby ? "quarantined by standbys" : "quarantined by workers";
        trp_actor *bad = NULL, *good = h_hostile(w.device, NULL);
        H_OK(trp_actor_create(
            w.device,
            &(trp_actor_options){.library = h_plugin("hostile"), .config = config, .name = name},
            &bad));
        h_works(w.device, bad, 1);
        /* This worker goes. With a standby the next has made the actor; two standbys behind it die
         * of that. */
        trp_completion c = {0};
        h_probe(probe, TRP_PROBE_EXIT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        h_works(w.device, good, 2);
        if (standby) {
            char line[64];
            snprintf(line, sizeof line, "actor \"%s\": making this actor killed 2", name);
            await_log(line);
            h_works(w.device, bad, 3); /* this one still has it */
            h_await_standby(w.device);
            H_EQUAL(h_info(w.device).restarts, before.restarts + 1);
            h_probe(probe, TRP_PROBE_EXIT, &c);
            H_IS(h_await_any(c), TRP_E_FAULT);
            h_works(w.device, good, 2);
        }
        trp_buffer b = h_buffer(w.device, 64);
        uint32_t value = 1;
        trp_custom_request r = h_custom(HOSTILE_FILL, &value, 1);
        h_add_access(&r, b, TRP_ACCESS_COVER);
        H_IS(h_run(bad, &r, &error), TRP_E_LIBRARY);
        H_SAYS("killed 2 workers");
        H_CHECK(!h_buffer_info(w.device, b).lost);
        H_EQUAL(h_info(w.device).restarts, before.restarts + (standby ? 2 : 3));
        /* It can be ended, and another one made. */
        trp_actor_destroy(bad);
        h_works(w.device, h_hostile(w.device, NULL), 9);
        h_close(&w);
    }
}

/* Requests that bring the worker down, in handle() and in the stream. */
static void requests(void)
{
    static const struct {
        uint32_t code;
        trp_fault fault;
        int number;
        bool host_only, in_stream;
    } rows[] = {
        {HOSTILE_SEGV, TRP_FAULT_SIGNAL, SIGSEGV, false, false},
        {HOSTILE_ABORT, TRP_FAULT_SIGNAL, SIGABRT, false, false},
        {HOSTILE_EXIT, TRP_FAULT_EXIT, 5, false, false},
        {HOSTILE_STREAM_SEGV, TRP_FAULT_SIGNAL, SIGSEGV, true, true},
        {HOSTILE_STREAM_EXIT, TRP_FAULT_EXIT, 5, true, true},
        {HOSTILE_HANG, TRP_FAULT_HANG, 0, false, false},
        {HOSTILE_STREAM_HANG, TRP_FAULT_HANG, 0, true, true},
    };
    h_world w = h_open(NULL);
    trp_actor *bad = h_hostile(w.device, NULL), *good = h_hostile(w.device, NULL);
    trp_buffer out = h_buffer(w.device, BYTES), kept = h_buffer(w.device, BYTES);
    uint32_t *data = h_random_block(h_rng(), BYTES);
    h_write(w.device, kept, 0, data, BYTES);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t value = 0x5a5a5a5a;
        trp_error error;
        if (rows[i].host_only && h_is_cuda())
            continue;
        h_write(w.device, out, 0, data, BYTES);
        h_await_standby(w.device);
        trp_device_info before = h_info(w.device);
        trp_custom_request r = h_custom(rows[i].code, &value, 1);
        if (rows[i].fault == TRP_FAULT_HANG)
            r.header.deadline_ns = (uint64_t)(200 * H_MS);
        h_add_access(&r, kept, TRP_ACCESS_READ);
        h_add_access(&r, out, TRP_ACCESS_WRITE);
        H_IS(h_run(bad, &r, &error), TRP_E_FAULT);
        H_EQUAL(error.fault, rows[i].fault);
        if (rows[i].fault != TRP_FAULT_HANG)
            H_EQUAL(error.code, rows[i].number);
        H_CHECK(strcmp(error.actor, "hostile") == 0);
        H_EQUAL(error.incarnation, before.incarnation);
        H_CHECK(h_buffer_info(w.device, out).lost);
        H_CHECK(!h_buffer_info(w.device, kept).lost);
        h_works(w.device, good, 1);
        h_works(w.device, bad, 2);
        H_EQUAL(h_info(w.device).restarts, before.restarts + 1);
    }
    uint32_t *got = h_malloc(BYTES);
    h_read(w.device, kept, 0, got, BYTES);
    H_SAME(got, data, BYTES);
    free(got);
    free(data);
    h_close(&w);
}

/* What a request says of its buffers decides whether it runs again: one that covers does, and so
 * does one that writes and reads nothing; one that reads what it writes does not. */
static void modes_and_replay(void)
{
    static const struct {
        trp_access_mode mode;
        bool again;
    } rows[] = {{TRP_ACCESS_COVER, true},
                {TRP_ACCESS_WRITE, true},
                {TRP_ACCESS_READ_WRITE, false},
                {TRP_ACCESS_DEFAULT, false}};
    char config[300];
    const char *path = h_note_file(config, sizeof config);
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe"), *actor = h_hostile(w.device, config);
    trp_buffer b = h_buffer(w.device, BYTES), gate = h_buffer(w.device, 64);
    trp_buffer own = h_buffer(w.device, 64);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t value = 77, got[WORDS];
        trp_completion spin = {0}, fill = {0};
        size_t fills = h_count_lines(path, "fill");
        H_OK(trp_fill(w.device, b, 0, BYTES, 1, 4, NULL));
        H_OK(trp_fill(w.device, own, 0, 64, 1, 4, NULL));
        H_OK(trp_fill(w.device, gate, 0, 64, 1, 4, &fill));
        H_OK(h_await_any(fill));
        h_await_standby(w.device);
        /* The fill is issued, and waits in its stream for a spin that never ends. */
        H_OK(trp_probe(probe,
                       &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                            .duration_ns = (uint64_t)(3600 * H_SEC),
                                            .inputs = {gate, own},
                                            .outputs = {own}},
                       &spin));
        trp_custom_request r = h_custom(HOSTILE_FILL, &value, 1);
        h_add_access(&r, b, rows[i].mode);
        h_add_access(&r, gate, TRP_ACCESS_COVER);
        H_OK(trp_custom(actor, &r, &fill));
        h_await_lines(path, "fill", fills + 1);
        H_CHECK(kill((pid_t)h_info(w.device).worker_pid, SIGKILL) == 0);
        H_IS(h_await_any(spin), TRP_E_FAULT);
        H_IS(h_await_any(fill), rows[i].again ? TRP_OK : TRP_E_FAULT);
        H_EQUAL(h_count_lines(path, "fill"), fills + (rows[i].again ? 2 : 1));
        H_EQUAL(h_buffer_info(w.device, b).lost, !rows[i].again);
        H_EQUAL(h_buffer_info(w.device, gate).lost, !rows[i].again);
        if (rows[i].again) {
            h_read(w.device, b, 0, got, BYTES);
            H_EQUAL(got[0], 77);
            H_EQUAL(got[WORDS - 1], 77);
        }
    }
    h_close(&w);
    H_CHECK(unlink(path) == 0); /* now that no actor of it stops any more */
}

/* Each new worker has the actor: its configuration, a fresh state. */
static void made_again(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe"), *actor = h_hostile(w.device, "nothing special");
    for (uint32_t i = 0; i < 5; i++) {
        hostile_report r = h_report(w.device, actor);
        H_EQUAL(r.incarnation, h_info(w.device).incarnation);
        H_EQUAL(r.config_length, strlen("nothing special"));
        H_EQUAL(r.handled, 1);
        H_EQUAL(r.inits, 1);
        H_CHECK(r.state_was_zero);
        trp_completion c = {0};
        h_probe(probe, TRP_PROBE_ABORT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
    }
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(init_kills_the_standby), H_CASE(init_kills_the_worker),
                     H_CASE(innocent_request), H_CASE(sigkill_is_not_held_against_it),
                     H_CASE(innocent_actor_after_sigkills),
                     H_CASE(innocent_actor_after_its_standby), H_CASE(init_hangs),
                     H_CASE(quarantined), H_CASE(requests), H_CASE(modes_and_replay),
                     H_CASE(made_again))

/* Errors that a library call gives, and what is done about them: the actor restarts, memory is
 * given back, the context restarts, the device stops; and others are not disturbed. */
#include "support/harness.h"

TROUPE_TEST("many workers");

typedef struct stage {
    h_world w;
    trp_actor *probe, *other;
    trp_queue *queue;
    trp_watch *watch;
} stage;

static trp_actor *named(trp_device *device, const char *kind, const char *name)
{
    trp_actor *actor = NULL;
    H_OK(trp_actor_create(device, &(trp_actor_options){.kind = kind, .name = name}, &actor));
    return actor;
}

static stage set_up(const trp_device_options *options)
{
    stage s = {.w = h_open(options)};
    s.probe = named(s.w.device, "probe", "one");
    s.other = named(s.w.device, "probe", "two");
    H_OK(trp_queue_create(s.w.system, &s.queue));
    trp_watch_options watch = {.events = ~TRP_NOTICE_BIT(TRP_NOTICE_STANDBY_READY) &
                                         (TRP_NOTICE_BIT(TRP_NOTICE_COUNT) - 2),
                               .queue = s.queue};
    H_OK(trp_device_watch(s.w.device, &watch, &s.watch));
    return s;
}

static void tear_down(stage *s)
{
    trp_watch_end(s->watch);
    H_OK(trp_queue_destroy(s->queue));
    h_close(&s->w);
}

/* As many restarts of actors as one likes. */
static trp_device_options without_window(void)
{
    trp_device_options options = h_options();
    options.restart_window_ns = 1;
    return options;
}

static trp_event next_notice(stage *s, trp_notice_kind kind)
{
    trp_event e;
    H_OK(trp_queue_next(s->queue, H_LONG, &e));
    if (e.notice != kind)
        h_fail(__FILE__, __LINE__, "notice %s (%s), expected %s", trp_notice_name(e.notice),
               e.error.message, trp_notice_name(kind));
    return e;
}

static void no_notice(stage *s)
{
    trp_event e;
    H_IS(trp_queue_next(s->queue, 0, &e), TRP_E_TIMEOUT);
}

static trp_status run(trp_actor *probe, trp_probe_action action, trp_error *error)
{
    trp_completion c = {0};
    h_probe(probe, action, &c);
    return h_await(c.future, error);
}

/* The request fails, the actor works again, and nobody else notices. */
static void an_actor_restarts(void)
{
    enum { BEHIND = 40, BYTES = 5000 };
    stage s = set_up(NULL);
    trp_device_info before = h_info(s.w.device);
    trp_completion long_one = {0}, mine = {0}, bad = {0}, behind[BEHIND] = {{0}};
    trp_error error;
    trp_buffer output = h_buffer(s.w.device, BYTES);
    char *data = h_random_block(h_rng(), BYTES), *got = h_malloc(BYTES);
    h_write(s.w.device, output, 0, data, BYTES);

    int64_t start = h_now();
    h_spin(s.other, 2 * H_SEC, &long_one);
    h_spin(s.probe, 30 * H_MS, &mine);
    trp_probe_request r = {.action = TRP_PROBE_ACTOR_ERROR, .outputs = {output}};
    H_OK(trp_probe(s.probe, &r, &bad));
    for (int i = 0; i < BEHIND; i++)
        h_probe(s.probe, TRP_PROBE_NOP, &behind[i]);
    H_IS(h_await(bad.future, &error), TRP_E_LIBRARY);
    H_OK(h_await_any(mine)); /* issued before it */
    H_CHECK(strcmp(error.domain, "probe") == 0 && strcmp(error.actor, "one") == 0);
    H_EQUAL(error.code, 2);
    H_EQUAL(error.incarnation, before.incarnation);
    for (int i = 0; i < BEHIND; i++)
        H_OK(h_await_any(behind[i]));
    if (h_now() - start < H_SEC) /* else it proves nothing */
        H_IS(trp_await(long_one.future, 0, NULL), TRP_E_TIMEOUT);
    trp_event e = next_notice(&s, TRP_NOTICE_ACTOR_RESTART);
    H_EQUAL(e.error.code, 2);
    H_CHECK(strcmp(e.error.actor, "one") == 0);
    H_EQUAL(e.incarnation, before.incarnation);
    H_CHECK(e.time_ns > start && e.time_ns < h_now());
    H_CHECK(h_log_said("restarted"));

    H_OK(h_await_any(long_one));
    h_read(s.w.device, output, 0, got, BYTES);
    H_SAME(got, data, BYTES);
    trp_device_info after = h_info(s.w.device);
    H_EQUAL(after.worker_pid, before.worker_pid);
    H_EQUAL(after.restarts, 0);
    H_EQUAL(after.requests_failed, 1);
    no_notice(&s);
    free(data);
    free(got);
    tear_down(&s);
}

/* An error that only concerns its request restarts nothing. */
static void only_a_reply(void)
{
    stage s = set_up(NULL);
    for (int i = 0; i < 20; i++) {
        H_IS(run(s.probe, TRP_PROBE_LIBRARY_ERROR, NULL), TRP_E_LIBRARY);
        H_OK(run(s.probe, TRP_PROBE_NOP, NULL));
    }
    no_notice(&s);
    tear_down(&s);
}

/* C = A B with bf16, in which the host uses memory that it gives back when asked. */
static void product(stage *s, trp_actor *blas, trp_completion *c, trp_buffer m)
{
    trp_gemm_request g = {.type = TRP_BF16, .m = 1, .n = 1, .k = 1, .a = m, .b = m, .c = m};
    g.c_offset = 256;
    (void)s;
    H_OK(trp_gemm(blas, &g, c));
}

static void memory_is_given_back(void)
{
    const uint16_t three = 0x4040, nine = 0x4110;
    stage s = set_up(NULL);
    trp_actor *blas = h_actor(s.w.device, "blas");
    trp_buffer m = h_buffer(s.w.device, 512);
    h_write(s.w.device, m, 0, &three, sizeof three);
    for (int i = 0; i < 10; i++) {
        trp_completion c[3] = {{0}};
        uint16_t got = 0;
        product(&s, blas, &c[0], m);
        h_probe(s.probe, TRP_PROBE_OUT_OF_MEMORY, &c[1]);
        product(&s, blas, &c[2], m);
        for (int k = 0; k < 3; k++)
            H_OK(h_await_any(c[k]));
        trp_event e = next_notice(&s, TRP_NOTICE_LOW_MEMORY);
        H_EQUAL(e.status, TRP_E_MEMORY);
        H_CHECK(strcmp(e.error.actor, "one") == 0 && strcmp(e.error.domain, "probe") == 0);
        h_read(s.w.device, m, 256, &got, sizeof got);
        H_EQUAL(got, nine);
        /* The other actor was asked as well: it has what it needs. */
        H_OK(run(s.other, TRP_PROBE_OUT_OF_MEMORY, NULL));
        H_OK(run(s.probe, TRP_PROBE_OUT_OF_MEMORY, NULL));
        e = next_notice(&s, TRP_NOTICE_LOW_MEMORY);
        H_CHECK(strcmp(e.error.actor, "one") == 0);
        no_notice(&s);
        H_OK(run(s.other, TRP_PROBE_OUT_OF_MEMORY, NULL)); /* what it got by that */
        no_notice(&s);
    }
    H_EQUAL(h_info(s.w.device).requests_failed, 0);
    tear_down(&s);
}

/* More restarts within the window than do any good: the worker is replaced. */
static void restarts_that_do_not_help(void)
{
    enum { ALLOWED = 8 };
    trp_device_options options = h_options();
    options.restart_window_ns = (uint64_t)(600 * H_SEC);
    stage s = set_up(&options);
    trp_error error;
    for (int round = 0; round < 2; round++) {
        trp_device_info before = h_await_standby(s.w.device);
        for (int i = 0; i < ALLOWED; i++) {
            H_IS(run(i % 2 ? s.probe : s.other, TRP_PROBE_ACTOR_ERROR, NULL), TRP_E_LIBRARY);
            next_notice(&s, TRP_NOTICE_ACTOR_RESTART);
        }
        H_EQUAL(h_info(s.w.device).incarnation, before.incarnation);
        H_IS(run(s.probe, TRP_PROBE_ACTOR_ERROR, &error), TRP_E_FAULT);
        H_EQUAL(error.fault, TRP_FAULT_LIBRARY);
        H_CHECK(strcmp(error.domain, "probe") == 0);
        H_EQUAL(error.code, 2);
        H_OK(run(s.probe, TRP_PROBE_NOP, NULL));
        H_OK(run(s.other, TRP_PROBE_NOP, NULL));
        H_EQUAL(h_info(s.w.device).incarnation, before.incarnation + 1);
        trp_event e = next_notice(&s, TRP_NOTICE_FAULT);
        H_EQUAL(e.error.fault, TRP_FAULT_LIBRARY);
        next_notice(&s, TRP_NOTICE_PROMOTION);
    }
    tear_down(&s);
    /* What lies behind the window is forgotten. */
    options = without_window();
    s = set_up(&options);
    for (int i = 0; i < 3 * ALLOWED; i++) {
        H_IS(run(s.probe, TRP_PROBE_ACTOR_ERROR, NULL), TRP_E_LIBRARY);
        next_notice(&s, TRP_NOTICE_ACTOR_RESTART);
    }
    H_EQUAL(h_info(s.w.device).restarts, 0);
    tear_down(&s);
}

/* A device that is gone is not looked for again, whatever the budget allows. */
static void the_device_is_gone(void)
{
    stage s = set_up(NULL);
    trp_completion gone = {0}, behind = {0};
    trp_error error;
    trp_buffer b;
    h_await_standby(s.w.device);
    h_probe(s.probe, TRP_PROBE_DEVICE_GONE, &gone);
    trp_status sent = trp_probe(s.probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &behind);
    H_IS(h_await(gone.future, &error), TRP_E_FAULT);
    H_CHECK(strcmp(error.domain, "probe") == 0);
    H_EQUAL(error.code, 4);
    if (sent == TRP_OK)
        H_IS(h_await_any(behind), TRP_E_DEVICE_DOWN);
    h_await_state(s.w.device, TRP_DEVICE_DOWN);
    H_EQUAL(h_info(s.w.device).restarts, 0);
    H_EQUAL(h_info(s.w.device).incarnation, 1);
    H_IS(trp_buffer_create(s.w.device, 1, &b), TRP_E_DEVICE_DOWN);
    H_SAYS("gone");
    H_SAYS("PROBE_DEVICE_GONE");
    H_EQUAL(trp_error_last()->code, 4);
    next_notice(&s, TRP_NOTICE_FAULT);
    trp_event e = next_notice(&s, TRP_NOTICE_STOP);
    H_CHECK(memcmp(&e.error, trp_error_last(), sizeof e.error) == 0);
    h_await_count("children", h_count_children, 0);
    no_notice(&s);
    tear_down(&s);
}

/* Actors are ended, and others made in their places, while they restart. */
static void dropped_while_it_restarts(void)
{
    trp_device_options options = without_window();
    stage s = set_up(&options);
    for (int i = 0; i < (H_SANITIZED ? 40 : 150); i++) {
        trp_completion c = {0};
        trp_actor *actor = h_actor(s.w.device, "probe");
        h_probe(actor, TRP_PROBE_ACTOR_ERROR, &c);
        if (i % 3 == 0)
            h_spin(actor, 100000, NULL);
        if (i % 3 == 1)
            H_IS(h_await_any(c), TRP_E_LIBRARY);
        trp_actor_destroy(actor);
        if (i % 3 != 1)
            H_IS(h_await_any(c), TRP_E_LIBRARY);
    }
    H_OK(run(s.probe, TRP_PROBE_NOP, NULL));
    H_EQUAL(h_info(s.w.device).restarts, 0);
    tear_down(&s);
}

/* The worker dies while an actor of it restarts; what was held runs on the next. */
static void a_fault_meets_a_restart(void)
{
    enum { HELD = 10 };
    trp_device_options options = without_window();
    options.restart_budget = 100000;
    stage s = set_up(&options);
    for (int i = 0; i < (H_SANITIZED ? 6 : 20); i++) {
        trp_completion bad = {0}, fault = {0}, held[HELD] = {{0}};
        h_await_standby(s.w.device);
        h_spin(s.probe, (int64_t)ref_rng_below(h_rng(), 2000) * 1000, NULL);
        h_probe(s.probe, TRP_PROBE_ACTOR_ERROR, &bad);
        for (int k = 0; k < HELD; k++)
            h_probe(s.probe, TRP_PROBE_NOP, &held[k]);
        h_probe(s.other, TRP_PROBE_ABORT, &fault);
        H_IS(h_await_any(fault), TRP_E_FAULT);
        H_IS(h_await_any(bad), TRP_E_LIBRARY);
        for (int k = 0; k < HELD; k++)
            H_OK(h_await_any(held[k]));
    }
    tear_down(&s);
}

typedef struct sender {
    trp_actor *actor;
    ref_rng rng;
} sender;

static void *send_all_sorts(void *argument)
{
    enum { REQUESTS = 300, AT_A_TIME = 16 };
    static const trp_probe_action actions[] = {TRP_PROBE_NOP,           TRP_PROBE_NOP,
                                               TRP_PROBE_NOP,           TRP_PROBE_LIBRARY_ERROR,
                                               TRP_PROBE_OUT_OF_MEMORY, TRP_PROBE_ACTOR_ERROR};
    sender *s = argument;
    for (int i = 0; i < REQUESTS / AT_A_TIME; i++) {
        trp_completion c[AT_A_TIME] = {{0}};
        trp_probe_action action[AT_A_TIME];
        for (int k = 0; k < AT_A_TIME; k++) {
            action[k] = actions[ref_rng_below(&s->rng, sizeof actions / sizeof *actions)];
            h_probe(s->actor, action[k], &c[k]);
        }
        for (int k = 0; k < AT_A_TIME; k++) {
            bool fails = action[k] == TRP_PROBE_LIBRARY_ERROR || action[k] == TRP_PROBE_ACTOR_ERROR;
            H_IS(h_await_any(c[k]), fails ? TRP_E_LIBRARY : TRP_OK);
        }
    }
    return NULL;
}

/* Several actors that restart, trim and work at a time. */
static void all_at_once(void)
{
    enum { SENDERS = 4 };
    trp_device_options options = without_window();
    stage s = set_up(&options);
    sender senders[SENDERS];
    h_thread *thread[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (sender){.actor = h_actor(s.w.device, "probe"), .rng = h_rng_fork()};
        thread[i] = h_start(send_all_sorts, &senders[i]);
    }
    for (int i = 0; i < SENDERS; i++)
        h_join(thread[i]);
    H_EQUAL(h_info(s.w.device).restarts, 0);
    H_EQUAL(h_info(s.w.device).state, TRP_DEVICE_READY);
    tear_down(&s);
}

H_CASES_OF_PROCESSES(H_CASE(an_actor_restarts), H_CASE(only_a_reply), H_CASE(memory_is_given_back),
                     H_CASE(restarts_that_do_not_help), H_CASE(the_device_is_gone),
                     H_CASE(dropped_while_it_restarts), H_CASE(a_fault_meets_a_restart),
                     H_CASE(all_at_once))

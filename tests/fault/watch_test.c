/* Watches: which notices come, when, how many of them are kept, and how a watch ends. */
#include "support/harness.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT = 64 };

/* What a callback has seen. */
typedef struct log {
    _Atomic uint32_t count;
    trp_notice notice[256];
    _Atomic bool hold, inside; /* the callback waits while `hold` */
    _Atomic(trp_watch *) end;  /* a watch that it shall end */
} log;

static void note(void *user_data, const trp_notice *notice)
{
    log *l = user_data;
    uint32_t i = atomic_load(&l->count);
    atomic_store(&l->inside, true);
    if (i < 256)
        l->notice[i] = *notice;
    atomic_store(&l->count, i + 1);
    while (atomic_load(&l->hold))
        h_sleep(H_MS);
    trp_watch_end(atomic_exchange(&l->end, NULL));
    atomic_store(&l->inside, false);
}

static void await_noted(log *l, uint32_t count)
{
    int64_t end = h_now() + H_LONG;
    while (atomic_load(&l->count) < count) {
        H_CHECK(h_now() < end);
        h_sleep(H_MS / 4);
    }
}

static trp_watch *watch_by_callback(trp_device *device, log *l, uint32_t events)
{
    trp_watch *watch = NULL;
    trp_watch_options options = {.events = events, .callback = note, .user_data = l};
    H_OK(trp_device_watch(device, &options, &watch));
    return watch;
}

static trp_watch *watch_by_queue(trp_device *device, trp_queue *queue, uint32_t events)
{
    trp_watch *watch = NULL;
    trp_watch_options options = {.events = events, .queue = queue, .user_data = &options};
    H_OK(trp_device_watch(device, &options, &watch));
    return watch;
}

static trp_queue *make_queue(trp_system *system)
{
    trp_queue *queue = NULL;
    H_OK(trp_queue_create(system, &queue));
    return queue;
}

static trp_event next_event(trp_queue *queue)
{
    trp_event e;
    H_OK(trp_queue_next(queue, H_LONG, &e));
    return e;
}

static void no_event(trp_queue *queue)
{
    trp_event e;
    struct pollfd polled = {.fd = trp_queue_fd(queue), .events = POLLIN};
    H_EQUAL(poll(&polled, 1, 0), 0);
    H_IS(trp_queue_next(queue, 0, &e), TRP_E_TIMEOUT);
}

static trp_status run(trp_actor *probe, trp_probe_action action)
{
    trp_completion c = {0};
    h_probe(probe, action, &c);
    return h_await_any(c);
}

/* Restarts of an actor are notices that cost little. */
static void restart_actor(trp_actor *probe, int times)
{
    for (int i = 0; i < times; i++)
        H_IS(run(probe, TRP_PROBE_ACTOR_ERROR), TRP_E_LIBRARY);
    H_OK(run(probe, TRP_PROBE_NOP)); /* after that the last has come to its end */
}

/* The same, and every watch has got the notice of each before the next is made. */
static void restart_in_step(const h_world *w, trp_actor *probe, int times)
{
    trp_queue *queue = make_queue(w->system);
    trp_watch *watch = watch_by_queue(w->device, queue, TRP_NOTICE_BIT(TRP_NOTICE_ACTOR_RESTART));
    for (int i = 0; i < times; i++) {
        restart_actor(probe, 1);
        H_EQUAL(next_event(queue).notice, TRP_NOTICE_ACTOR_RESTART);
    }
    trp_watch_end(watch);
    H_OK(trp_queue_destroy(queue));
}

static h_world open_without_window(void)
{
    trp_device_options options = h_options();
    options.restart_window_ns = 1;
    return h_open(&options);
}

static void check_same(const trp_notice *n, const trp_event *e)
{
    H_EQUAL(n->kind, e->notice);
    H_EQUAL(n->incarnation, e->incarnation);
    H_EQUAL(n->sequence, e->sequence);
    H_EQUAL(n->dropped, e->dropped);
    H_EQUAL(n->time_ns, e->time_ns);
    H_EQUAL(n->error.status, e->status);
    H_CHECK(memcmp(&n->error, &e->error, sizeof e->error) == 0);
}

/* The next notice in the queue that is not of the first standby, which may be ready before or after
 * the watch begins. */
static trp_event next_of_story(trp_queue *queue)
{
    trp_event e;
    do
        e = next_event(queue);
    while (e.notice == TRP_NOTICE_STANDBY_READY && e.incarnation == 2);
    return e;
}

/* One story, seen by a callback and in a queue. */
static void a_fault_and_what_follows(void)
{
    static const struct {
        trp_notice_kind kind;
        uint32_t incarnation;
        trp_status status;
        int code;
    } story[] = {
        {TRP_NOTICE_FAULT, 1, TRP_E_FAULT, 3},
        {TRP_NOTICE_PROMOTION, 2, TRP_OK, 0},
        {TRP_NOTICE_STANDBY_READY, 3, TRP_OK, 0},
        {TRP_NOTICE_STANDBY_LOST, 3, TRP_E_FAULT, SIGKILL},
        {TRP_NOTICE_STANDBY_READY, 4, TRP_OK, 0},
        {TRP_NOTICE_ACTOR_RESTART, 2, TRP_E_LIBRARY, 2},
        {TRP_NOTICE_LOW_MEMORY, 2, TRP_E_MEMORY, 3},
    };
    enum { NOTICES = sizeof story / sizeof *story };
    static log l;
    trp_event e[NOTICES];
    h_world w = h_open(NULL);
    trp_queue *queue = make_queue(w.system);
    trp_actor *probe = h_actor(w.device, "probe");
    h_await_standby(w.device);
    const uint32_t all = TRP_NOTICE_BIT(TRP_NOTICE_COUNT) - 2;
    trp_watch *by_call = watch_by_callback(w.device, &l, 0);
    trp_watch *by_queue = watch_by_queue(w.device, queue, all);
    int64_t start = h_now();
    H_IS(run(probe, TRP_PROBE_EXIT), TRP_E_FAULT);
    for (int i = 0; i < 3; i++)
        e[i] = next_of_story(queue);
    H_CHECK(kill((pid_t)h_await_standby(w.device).standby_pid, SIGKILL) == 0);
    for (int i = 3; i < 5; i++)
        e[i] = next_of_story(queue);
    H_IS(run(probe, TRP_PROBE_ACTOR_ERROR), TRP_E_LIBRARY);
    H_OK(run(probe, TRP_PROBE_NOP));
    H_OK(run(probe, TRP_PROBE_OUT_OF_MEMORY));
    for (int i = 5; i < NOTICES; i++)
        e[i] = next_of_story(queue);
    for (int i = 0; i < NOTICES; i++) {
        if (e[i].notice != story[i].kind)
            h_fail(__FILE__, __LINE__, "notice %d: %s (%s), expected %s", i,
                   trp_notice_name(e[i].notice), e[i].error.message,
                   trp_notice_name(story[i].kind));
        H_EQUAL(e[i].incarnation, story[i].incarnation);
        H_EQUAL(e[i].status, story[i].status);
        H_EQUAL(e[i].error.status, story[i].status);
        H_EQUAL(e[i].error.code, story[i].code);
        H_EQUAL(e[i].dropped, 0);
        H_CHECK(e[i].time_ns > start && e[i].time_ns < h_now());
        if (i > 0) {
            H_EQUAL(e[i].sequence, e[i - 1].sequence + 1);
            H_CHECK(e[i].time_ns >= e[i - 1].time_ns);
        }
    }
    await_noted(&l, NOTICES);
    uint32_t skipped = l.notice[0].kind == TRP_NOTICE_STANDBY_READY;
    await_noted(&l, NOTICES + skipped);
    for (int i = 0; i < NOTICES; i++)
        check_same(&l.notice[i + (int)skipped], &e[i]);
    no_event(queue);
    trp_watch_end(by_call);
    trp_watch_end(by_queue);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* What the options choose, and nothing else. */
static void only_what_was_asked_for(void)
{
    h_world w = open_without_window();
    trp_queue *queue = make_queue(w.system);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_watch *watch = watch_by_queue(
        w.device, queue, TRP_NOTICE_BIT(TRP_NOTICE_FAULT) | TRP_NOTICE_BIT(TRP_NOTICE_LOW_MEMORY));
    H_OK(run(probe, TRP_PROBE_OUT_OF_MEMORY));
    restart_in_step(&w, probe, 3);
    H_IS(run(probe, TRP_PROBE_ABORT), TRP_E_FAULT);
    H_OK(run(probe, TRP_PROBE_NOP));
    trp_event first = next_event(queue), second = next_event(queue);
    H_EQUAL(first.notice, TRP_NOTICE_LOW_MEMORY);
    H_EQUAL(second.notice, TRP_NOTICE_FAULT);
    H_CHECK(second.sequence >= first.sequence + 4); /* the others were counted */
    H_EQUAL(second.dropped, 0);
    no_event(queue);
    trp_watch_end(watch);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* Ends of requests and notices in one queue: each is told from the other. */
static void among_the_ends_of_requests(void)
{
    enum { ROUNDS = 20 };
    h_world w = open_without_window();
    trp_queue *queue = make_queue(w.system);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_watch *watch = NULL;
    int mine = 0, theirs = 0;
    trp_watch_options options = {
        .events = TRP_NOTICE_BIT(TRP_NOTICE_ACTOR_RESTART), .queue = queue, .user_data = &theirs};
    H_OK(trp_device_watch(w.device, &options, &watch));
    for (int i = 0; i < ROUNDS; i++) {
        trp_completion c[2] = {{.queue = queue, .user_data = &mine},
                               {.queue = queue, .user_data = &mine}};
        h_probe(probe, TRP_PROBE_ACTOR_ERROR, &c[0]);
        h_probe(probe, TRP_PROBE_NOP, &c[1]);
        int ends = 0, notices = 0, failed = 0;
        while (ends + notices < 3) {
            trp_event e = next_event(queue);
            H_CHECK(e.user_data == (e.notice ? &theirs : &mine));
            notices += e.notice == TRP_NOTICE_ACTOR_RESTART;
            ends += e.notice == TRP_NOTICE_NONE;
            failed += e.notice == TRP_NOTICE_NONE && e.status == TRP_E_LIBRARY;
            if (!e.notice)
                H_CHECK(e.sequence == 0 && e.time_ns == 0 && e.incarnation == 0);
        }
        H_EQUAL(notices, 1);
        H_EQUAL(failed, 1);
    }
    no_event(queue);
    trp_watch_end(watch);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* Who does not look loses the oldest, and is told how many. */
static void the_oldest_are_dropped(void)
{
    enum { MADE = 100 };
    static log l;
    h_world w = open_without_window();
    trp_queue *queue = make_queue(w.system);
    trp_actor *probe = h_actor(w.device, "probe");
    const uint32_t events = TRP_NOTICE_BIT(TRP_NOTICE_ACTOR_RESTART);
    trp_watch *by_queue = watch_by_queue(w.device, queue, events);
    trp_watch *by_call = watch_by_callback(w.device, &l, events);
    restart_in_step(&w, probe, MADE);
    uint64_t sequence = 0;
    for (int i = 0; i < KEPT; i++) {
        trp_event e = next_event(queue);
        H_EQUAL(e.notice, TRP_NOTICE_ACTOR_RESTART);
        H_EQUAL(e.dropped, i == 0 ? MADE - KEPT : 0);
        H_CHECK(i == 0 || e.sequence > sequence);
        sequence = e.sequence;
    }
    no_event(queue);
    await_noted(&l, MADE);
    for (int i = 0; i < MADE; i++)
        H_EQUAL(l.notice[i].dropped, 0);
    /* After that all is as before. */
    restart_in_step(&w, probe, 1);
    H_EQUAL(next_event(queue).dropped, 0);
    trp_watch_end(by_queue);
    trp_watch_end(by_call);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* A flood of shortages does not push out what matters. */
static void shortages_take_one_place(void)
{
    enum { FLOOD = 50 };
    h_world w = open_without_window();
    trp_queue *queue = make_queue(w.system), *other = make_queue(w.system);
    trp_actor *probe = h_actor(w.device, "probe");
    const uint32_t shortage = TRP_NOTICE_BIT(TRP_NOTICE_LOW_MEMORY);
    trp_watch *watch =
        watch_by_queue(w.device, queue, shortage | TRP_NOTICE_BIT(TRP_NOTICE_ACTOR_RESTART));
    trp_watch *last = watch_by_queue(w.device, other, shortage);
    restart_in_step(&w, probe, 1);
    for (int i = 0; i < FLOOD; i++)
        H_OK(run(probe, TRP_PROBE_OUT_OF_MEMORY));
    uint64_t told = 0;
    while (told < FLOOD) { /* the other queue sees when all have come */
        trp_event e = next_event(other);
        told += 1 + e.dropped;
    }
    H_EQUAL(told, FLOOD);
    restart_in_step(&w, probe, 1);
    trp_event e = next_event(queue);
    H_EQUAL(e.notice, TRP_NOTICE_ACTOR_RESTART);
    H_EQUAL(e.dropped, 0);
    e = next_event(queue);
    H_EQUAL(e.notice, TRP_NOTICE_LOW_MEMORY);
    H_EQUAL(e.dropped, FLOOD - 1);
    e = next_event(queue);
    H_EQUAL(e.notice, TRP_NOTICE_ACTOR_RESTART);
    H_EQUAL(e.dropped, 0);
    no_event(queue);
    trp_watch_end(watch);
    trp_watch_end(last);
    H_OK(trp_queue_destroy(queue));
    H_OK(trp_queue_destroy(other));
    h_close(&w);
}

/* The limit of trp_buffer_create(). */
static void the_memory_limit(void)
{
    trp_device_options options = h_options();
    options.memory_limit = 128 * H_MIB;
    h_world w = h_open(&options);
    static log l;
    trp_watch *watch = watch_by_callback(w.device, &l, TRP_NOTICE_BIT(TRP_NOTICE_LOW_MEMORY));
    trp_buffer b;
    H_OK(trp_buffer_create(w.device, H_MIB, &b));
    H_EQUAL(atomic_load(&l.count), 0);
    H_IS(trp_buffer_create(w.device, 256 * H_MIB, &b), TRP_E_MEMORY);
    await_noted(&l, 1);
    H_EQUAL(l.notice[0].kind, TRP_NOTICE_LOW_MEMORY);
    H_EQUAL(l.notice[0].error.status, TRP_E_MEMORY);
    H_CHECK(strstr(l.notice[0].error.message, "limit") != NULL);
    trp_watch_end(watch);
    h_close(&w);
}

/* The device goes down by itself; the notice says what its calls say. */
static void stop(void)
{
    trp_device_options options = h_options();
    options.restart_budget = 1;
    options.restart_window_ns = (uint64_t)(600 * H_SEC);
    h_world w = h_open(&options);
    trp_queue *queue = make_queue(w.system);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_watch *watch = watch_by_queue(
        w.device, queue, TRP_NOTICE_BIT(TRP_NOTICE_FAULT) | TRP_NOTICE_BIT(TRP_NOTICE_STOP));
    trp_watch *late = NULL;
    trp_watch_options again = {.queue = queue};
    H_IS(run(probe, TRP_PROBE_EXIT), TRP_E_FAULT);
    H_IS(run(probe, TRP_PROBE_EXIT), TRP_E_FAULT);
    H_EQUAL(next_event(queue).notice, TRP_NOTICE_FAULT);
    H_EQUAL(next_event(queue).notice, TRP_NOTICE_FAULT);
    trp_event e = next_event(queue);
    H_EQUAL(e.notice, TRP_NOTICE_STOP);
    H_EQUAL(h_info(w.device).state, TRP_DEVICE_DOWN);
    H_EQUAL(e.status, TRP_E_DEVICE_DOWN);
    H_IS(trp_device_watch(w.device, &again, &late), TRP_E_DEVICE_DOWN);
    H_CHECK(late == NULL);
    H_CHECK(strcmp(e.error.message, trp_error_message()) == 0);
    no_event(queue);
    trp_watch_end(watch);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* A watch ends while its notices lie in a queue, or a callback runs, or from inside of it. */
static void ends(void)
{
    static log l, every;
    h_world w = open_without_window();
    trp_queue *queue = make_queue(w.system);
    trp_actor *probe = h_actor(w.device, "probe");
    const uint32_t events = TRP_NOTICE_BIT(TRP_NOTICE_ACTOR_RESTART);
    trp_completion c = {.queue = queue};
    trp_watch *watch[3];
    for (int i = 0; i < 3; i++)
        watch[i] = watch_by_queue(w.device, queue, events);
    H_IS(trp_queue_destroy(queue), TRP_E_BUSY);
    trp_watch *seen = watch_by_callback(w.device, &l, events);
    restart_in_step(&w, probe, 2);
    await_noted(&l, 2);
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(trp_device_drain(w.device, H_LONG));
    trp_watch_end(watch[1]);
    trp_watch_end(watch[0]);
    for (int i = 0; i < 2; i++) /* of the one that is left */
        H_EQUAL(next_event(queue).notice, TRP_NOTICE_ACTOR_RESTART);
    H_EQUAL(next_event(queue).notice, TRP_NOTICE_NONE);
    no_event(queue);
    H_IS(trp_queue_destroy(queue), TRP_E_BUSY);
    trp_watch_end(watch[2]);
    H_OK(trp_queue_destroy(queue));

    trp_watch *witness = watch_by_callback(w.device, &every, events);
    atomic_store(&l.hold, true);
    uint32_t before = atomic_load(&l.count);
    restart_actor(probe, 3);
    await_noted(&l, before + 1);
    H_CHECK(atomic_load(&l.inside));
    atomic_store(&l.hold, false);
    trp_watch_end(seen); /* waits for the callback */
    H_CHECK(!atomic_load(&l.inside));
    uint32_t after = atomic_load(&l.count);
    await_noted(&every, 3); /* else what follows would not be in step */
    trp_watch_end(witness);

    static log own;
    trp_watch *self = watch_by_callback(w.device, &own, events);
    atomic_store(&own.end, self);
    restart_in_step(&w, probe, 8);
    trp_watch *other = watch_by_callback(w.device, &own, events);
    restart_in_step(&w, probe, 1);
    await_noted(&own, 2); /* the second is the other's */
    trp_watch_end(other);
    H_EQUAL(atomic_load(&own.count), 2);
    H_EQUAL(atomic_load(&l.count), after);
    trp_watch_end(NULL);
    h_close(&w);
}

/* Closing ends them: callbacks get what is left, queues lose it. */
static void with_the_device(void)
{
    static log l;
    h_world w = open_without_window();
    trp_queue *queue = make_queue(w.system);
    trp_actor *probe = h_actor(w.device, "probe");
    const uint32_t events = TRP_NOTICE_BIT(TRP_NOTICE_ACTOR_RESTART);
    watch_by_callback(w.device, &l, events);
    watch_by_queue(w.device, queue, events);
    watch_by_queue(w.device, queue, events);
    restart_in_step(&w, probe, 4);
    h_probe(probe, TRP_PROBE_ACTOR_ERROR, NULL);
    trp_device_close(w.device);
    H_CHECK(atomic_load(&l.count) >= 4 && atomic_load(&l.count) <= 5);
    no_event(queue);
    H_OK(trp_queue_destroy(queue));
    H_OK(trp_system_destroy(w.system));
}

static void refuses(void)
{
    h_world w = h_open(NULL);
    trp_system *stranger = h_system_create(NULL);
    trp_queue *queue = make_queue(w.system), *strange = make_queue(stranger);
    trp_watch *watch[KEPT + 1] = {NULL};
    log *l = h_malloc(sizeof *l);
    H_IS(trp_device_watch(NULL, &(trp_watch_options){.queue = queue}, &watch[0]), TRP_E_ARGUMENT);
    H_SAYS("device");
    H_IS(trp_device_watch(w.device, NULL, &watch[0]), TRP_E_ARGUMENT);
    H_SAYS("options");
    H_IS(trp_device_watch(w.device, &(trp_watch_options){.queue = queue}, NULL), TRP_E_ARGUMENT);
    H_SAYS("out");
    H_IS(trp_device_watch(w.device, &(trp_watch_options){0}, &watch[0]), TRP_E_ARGUMENT);
    H_SAYS("none");
    H_IS(trp_device_watch(w.device, &(trp_watch_options){.queue = queue, .callback = note},
                          &watch[0]),
         TRP_E_ARGUMENT);
    H_SAYS("both");
    H_IS(trp_device_watch(w.device, &(trp_watch_options){.queue = strange}, &watch[0]),
         TRP_E_ARGUMENT);
    H_SAYS("queue");
    const uint32_t wrong[] = {1, TRP_NOTICE_BIT(TRP_NOTICE_COUNT), UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        H_IS(trp_device_watch(w.device, &(trp_watch_options){.queue = queue, .events = wrong[i]},
                              &watch[0]),
             TRP_E_ARGUMENT);
        H_SAYS("events");
    }
    H_OK(trp_queue_destroy(queue)); /* what was refused holds nothing */
    for (int i = 0; i < KEPT; i++)
        watch[i] = watch_by_callback(w.device, l, TRP_NOTICE_BIT(TRP_NOTICE_STOP));
    H_IS(trp_device_watch(w.device, &(trp_watch_options){.callback = note}, &watch[KEPT]),
         TRP_E_BUSY);
    pid_t child = fork();
    if (child == 0) {
        trp_watch_end(watch[0]); /* does nothing */
        trp_status status =
            trp_device_watch(w.device, &(trp_watch_options){.callback = note}, &watch[KEPT]);
        _exit(status == TRP_E_FORKED ? 0 : 1);
    }
    int status = 1;
    H_CHECK(waitpid(child, &status, 0) == child);
    H_EQUAL(status, 0);
    for (int i = 0; i < KEPT; i++)
        trp_watch_end(watch[KEPT - 1 - i]);
    for (int i = TRP_NOTICE_NONE; i < TRP_NOTICE_COUNT; i++)
        H_CHECK(strlen(trp_notice_name((trp_notice_kind)i)) > 3);
    H_CHECK(trp_notice_name(TRP_NOTICE_COUNT) == NULL);
    H_OK(trp_queue_destroy(strange));
    h_close(&w);
    H_OK(trp_system_destroy(stranger));
    free(l);
}

typedef struct busy {
    trp_device *device;
    trp_queue *queue;
    _Atomic bool stop;
    _Atomic uint64_t calls;
} busy;

static void count_call(void *user_data, const trp_notice *notice)
{
    busy *b = user_data;
    H_CHECK(notice->kind != TRP_NOTICE_NONE);
    atomic_fetch_add(&b->calls, 1);
}

static void *come_and_go(void *argument)
{
    busy *b = argument;
    for (int i = 0; !atomic_load(&b->stop); i++) {
        trp_watch *watch = NULL;
        trp_watch_options options = {.user_data = b};
        if (i % 2)
            options.queue = b->queue;
        else
            options.callback = count_call;
        H_OK(trp_device_watch(b->device, &options, &watch));
        trp_event e;
        while (trp_queue_next(b->queue, H_MS, &e) == TRP_OK)
            H_CHECK(e.notice != TRP_NOTICE_NONE && e.user_data == b);
        trp_watch_end(watch);
    }
    return NULL;
}

/* Watches come and go while notices are made, and faults happen. */
static void while_notices_are_made(void)
{
    enum { THREADS = 3 };
    h_world w = open_without_window();
    busy b = {.device = w.device, .queue = make_queue(w.system)};
    trp_actor *probe = h_actor(w.device, "probe");
    h_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        thread[i] = h_start(come_and_go, &b);
    for (int i = 0; i < (H_SANITIZED ? 5 : 20); i++) {
        restart_actor(probe, 10);
        H_OK(run(probe, TRP_PROBE_OUT_OF_MEMORY));
        if (i % 5 == 4)
            H_IS(run(probe, TRP_PROBE_ABORT), TRP_E_FAULT);
    }
    atomic_store(&b.stop, true);
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    H_OK(trp_queue_destroy(b.queue));
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(a_fault_and_what_follows), H_CASE(only_what_was_asked_for),
                     H_CASE(among_the_ends_of_requests), H_CASE(the_oldest_are_dropped),
                     H_CASE(shortages_take_one_place), H_CASE(the_memory_limit), H_CASE(stop),
                     H_CASE(ends), H_CASE(with_the_device), H_CASE(refuses),
                     H_CASE(while_notices_are_made))

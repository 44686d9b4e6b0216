/* How the worker carries out directives, with actors and a backend that fail as a script says. */
#include "support/unit.h"

#include "base/os/clock.h"
#include "base/error.h"
#include "wire/directive.h"
#include "wire/message.h"
#include "worker/worker.h"
#include "support/label.h"

#include <troupe/watch.h>

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { ACTORS = 5, ACTOR = 3 };

static trp__worker *w;
static int application; /* the other end of the worker's socket */
static trp_error health_error;
static int trims[TRP__ACTORS], stops, inits, streams;
static trp_status init_status;

/* What handle() is to answer, one after the other; then TRP_OK. */
static const struct answer {
    trp_status status;
    const char *domain;
    int code;
} * script;
static size_t script_length, handled;

static trp_status fake_health(trp__accel *accel, trp_error *error)
{
    (void)accel;
    if (health_error.status != TRP_OK)
        *error = health_error;
    return health_error.status;
}

static trp_status fake_stream_create(trp__accel *accel, trp__stream **out, trp_error *error)
{
    (void)accel;
    (void)error;
    streams++;
    *out = (trp__stream *)(void *)w;
    return TRP_OK;
}

static void fake_stream_destroy(trp__stream *stream)
{
    assert_ptr_equal(stream, w);
    streams--;
}

static trp_status fake_signal(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                              trp_error *error)
{
    (void)stream;
    (void)error;
    atomic_store(word, value);
    return TRP_OK;
}

static void fake_drain(trp__stream *stream)
{
    assert_ptr_equal(stream, w);
}

static void *fake_native(trp__stream *stream)
{
    return stream;
}

static const trp__backend backend = {
    .name = "fake",
    .stream_drain = fake_drain,
    .stream_native = fake_native,
    .health = fake_health,
    .stream_create = fake_stream_create,
    .stream_destroy = fake_stream_destroy,
    .stream_signal = fake_signal,
};

static trp_status fake_init(trp_instance *instance, trp_error *error)
{
    inits++;
    assert_int_equal(*(int *)instance->state, 0);
    *(int *)instance->state = 1;
    return init_status == TRP_OK
               ? TRP_OK
               : trp__error_set_code(error, init_status, "cublas", 1, "no handle");
}

static trp_status fake_handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    (void)instance;
    (void)job;
    if (handled >= script_length) {
        handled++;
        return TRP_OK;
    }
    const struct answer *a = &script[handled++];
    return trp__error_set_code(error, a->status, a->domain, a->code, "scripted");
}

static void fake_trim(trp_instance *instance)
{
    trims[((trp__instance *)instance)->id]++;
}

static void fake_stop(trp_instance *instance)
{
    assert_int_equal(*(int *)instance->state, 1);
    stops++;
}

static const trp_actor_impl impl = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(int),
    .init = fake_init,
    .handle = fake_handle,
    .trim = fake_trim,
    .stop = fake_stop,
};

static int set_up(void **state)
{
    int pair[2];
    (void)state;
    w = calloc(1, sizeof *w);
    w->control = calloc(1, sizeof *w->control);
    w->reply = aligned_alloc(4096, TRP__REPLY_BYTES);
    assert_true(w && w->control && w->reply);
    memset(w->reply, 0, TRP__REPLY_BYTES);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    w->socket = pair[0];
    application = pair[1];
    w->side_fd = eventfd(0, EFD_NONBLOCK);
    w->backend = &backend;
    ((trp__control *)w->control)->restart_window_ns = 3600 * (uint64_t)TRP__SECOND;
    memset(trims, 0, sizeof trims);
    memset(&health_error, 0, sizeof health_error);
    stops = inits = streams = 0;
    init_status = TRP_OK;
    for (uint32_t i = 0; i < ACTORS; i++) {
        trp__worker_actor *a = &w->actor[i];
        a->instance = (trp__instance){.impl = &impl, .backend = &backend, .id = i, .worker = w};
        snprintf(a->instance.name, sizeof a->instance.name, "actor %u", i);
        assert_int_equal(trp__instance_start(w, &a->instance, NULL), TRP_OK);
        atomic_store(&a->state, TRP__READY);
    }
    inits = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ACTORS; i++)
        trp__instance_stop(w, &w->actor[i].instance, false);
    close(w->socket);
    close(application);
    close(w->side_fd);
    free(w->reply);
    free((void *)w->control);
    free(w);
    return 0;
}

static trp_status obey(const struct answer *answers, size_t count, trp_error *error,
                       trp__directive *directive)
{
    trp__job job = {0};
    trp__instance *instance = &w->actor[ACTOR].instance;
    script = answers;
    script_length = count;
    handled = 0;
    assert_int_equal(fake_handle(&instance->api, &job.api, error), answers[0].status);
    return trp__obey(w, instance, &job, error, directive);
}
#define OBEY(error, directive, ...)                                                                \
    obey((const struct answer[]){__VA_ARGS__}, COUNT(((const struct answer[]){__VA_ARGS__})),      \
         error, directive)

/* The next notice that the worker has sent; false if there is none. */
static bool next_notice(trp__message *m)
{
    int fds[TRP__MESSAGE_FDS];
    bool closed;
    char byte;
    if (recv(application, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
        return false;
    assert_int_equal(trp__message_receive(application, m, fds, &closed, NULL), TRP_OK);
    assert_int_equal(m->type, TRP__MSG_NOTICE);
    return true;
}

static void only_a_reply(void **state)
{
    trp_error error;
    trp__directive directive;
    trp__message m;
    (void)state;
    assert_int_equal(OBEY(&error, &directive, {TRP_E_LIBRARY, "cublas", 7}), TRP_E_LIBRARY);
    assert_int_equal(directive, TRP__DIRECTIVE_REPLY);
    assert_int_equal(OBEY(&error, &directive, {TRP_E_UNSUPPORTED, "", 0}), TRP_E_UNSUPPORTED);
    assert_int_equal(directive, TRP__DIRECTIVE_REPLY);
    assert_int_equal(OBEY(&error, &directive, {TRP_E_LIBRARY, "mine", 700}), TRP_E_LIBRARY);
    assert_int_equal(directive, TRP__DIRECTIVE_REPLY);
    assert_int_equal(handled, 1);
    assert_false(next_notice(&m));
}

static void memory_is_given_back(void **state)
{
    static const struct answer shortages[] = {{TRP_E_MEMORY, "cuda", 2},
                                              {TRP_E_MEMORY, "cublas", 3},
                                              {TRP_E_MEMORY, "errno", ENOMEM},
                                              {TRP_E_MEMORY, "", 0},
                                              {TRP_E_MEMORY, "mine", 77}};
    trp_error error;
    trp__directive directive;
    (void)state;
    atomic_store(&w->actor[1].state, TRP__RESTARTING);
    atomic_store(&w->actor[2].state, TRP__FAILED);
    for (int i = 0; i < (int)COUNT(shortages); i++) {
        trp__message m;
        assert_int_equal(obey(&shortages[i], 1, &error, &directive), TRP_OK);
        assert_int_equal(handled, 2); /* once more, and no more */
        assert_int_equal(trims[0], i + 1);
        assert_int_equal(trims[1], 0); /* it is the side thread's */
        assert_int_equal(trims[2], 0);
        assert_int_equal(trims[ACTOR], i + 1);
        assert_int_equal(trims[4], i + 1);
        assert_int_equal(trims[5], 0);
        assert_true(next_notice(&m));
        assert_int_equal(m.about, TRP_NOTICE_LOW_MEMORY);
        assert_string_equal(m.error.actor, "actor 3");
        assert_string_equal(m.error.domain, shortages[i].domain);
        assert_true((int64_t)m.bytes <= trp__now_ns() &&
                    (int64_t)m.bytes > trp__now_ns() - 60 * TRP__SECOND);
        assert_false(next_notice(&m));
    }
}

static void memory_stays_short(void **state)
{
    trp_error error;
    trp__directive directive;
    (void)state;
    assert_int_equal(
        OBEY(&error, &directive, {TRP_E_MEMORY, "cublas", 3}, {TRP_E_LIBRARY, "cuda", 2}),
        TRP_E_MEMORY);
    assert_int_equal(directive, TRP__DIRECTIVE_REPLY);
    assert_int_equal(error.status, TRP_E_MEMORY);
    assert_string_equal(error.domain, "cuda");
    assert_int_equal(handled, 2);
    assert_int_equal(trims[0], 1);
    /* The second try may fail for another reason. */
    assert_int_equal(
        OBEY(&error, &directive, {TRP_E_MEMORY, "cublas", 3}, {TRP_E_LIBRARY, "cublas", 13}),
        TRP_E_LIBRARY);
    assert_int_equal(directive, TRP__DIRECTIVE_RESTART_ACTOR);
    assert_int_equal(handled, 2);
}

static void restarts_are_counted(void **state)
{
    trp_error error;
    trp__directive directive;
    (void)state;
    for (int i = 0; i < TRP__ACTOR_RESTARTS; i++) {
        assert_int_equal(OBEY(&error, &directive, {TRP_E_LIBRARY, "cublas", 14}), TRP_E_LIBRARY);
        assert_int_equal(directive, TRP__DIRECTIVE_RESTART_ACTOR);
    }
    assert_int_equal(OBEY(&error, &directive, {TRP_E_LIBRARY, "cublas", 14}), TRP_E_FAULT);
    assert_int_equal(directive, TRP__DIRECTIVE_RESTART_CONTEXT);
    assert_int_equal(error.status, TRP_E_FAULT);
    assert_int_equal(error.fault, TRP_FAULT_LIBRARY);
    assert_string_equal(error.domain, "cublas");
    assert_int_equal(error.code, 14);
    assert_non_null(strstr(error.message, "scripted"));
    /* Those of a window that has passed do not count. */
    ((trp__control *)w->control)->restart_window_ns = 0;
    assert_int_equal(OBEY(&error, &directive, {TRP_E_LIBRARY, "cublas", 14}), TRP_E_LIBRARY);
    assert_int_equal(directive, TRP__DIRECTIVE_RESTART_ACTOR);
}

static void the_context_is_given_up(void **state)
{
    trp_error error;
    trp__directive directive;
    (void)state;
    /* The table alone says so. */
    assert_int_equal(OBEY(&error, &directive, {TRP_E_LIBRARY, "cuda", 201}), TRP_E_FAULT);
    assert_int_equal(directive, TRP__DIRECTIVE_RESTART_CONTEXT);
    assert_int_equal(error.fault, TRP_FAULT_LIBRARY);
    /* The application's side looks the code up again and stops. */
    assert_int_equal(OBEY(&error, &directive, {TRP_E_LIBRARY, "cuda", 100}), TRP_E_FAULT);
    assert_int_equal(directive, TRP__DIRECTIVE_RESTART_CONTEXT);
    assert_string_equal(error.domain, "cuda");
    assert_int_equal(error.code, 100);
    /* The context is broken, whatever the library calls it. */
    trp__error_set_code(&health_error, TRP_E_FAULT, "cuda", 700, "an illegal address");
    health_error.fault = TRP_FAULT_GPU;
    assert_int_equal(OBEY(&error, &directive, {TRP_E_MEMORY, "cublas", 3}), TRP_E_FAULT);
    assert_int_equal(directive, TRP__DIRECTIVE_RESTART_CONTEXT);
    assert_int_equal(error.fault, TRP_FAULT_GPU);
    assert_int_equal(error.code, 700);
    assert_int_equal(handled, 1);
    assert_int_equal(trims[0], 0);
}

/* Something to read, so that waiting ends. */
static void side_wait(void)
{
    char byte = 0;
    assert_int_equal(send(application, &byte, 1, 0), 1);
    trp__side_wait(w);
    assert_int_equal(recv(w->socket, &byte, 1, 0), 1);
}

static void an_actor_restarts(void **state)
{
    trp_error cause = {.status = TRP_E_LIBRARY, .domain = "cublas", .code = 13};
    trp__worker_actor *a = &w->actor[ACTOR];
    trp__message m;
    (void)state;
    atomic_store(&w->reply->timelines.timeline[ACTOR].value, 41);
    trp__actor_restart(w, ACTOR, 42, &cause);
    assert_int_equal(atomic_load(&a->state), TRP__RESTARTING);
    side_wait(); /* its stream is not empty yet */
    assert_int_equal(atomic_load(&a->state), TRP__RESTARTING);
    assert_int_equal(stops, 0);
    assert_false(next_notice(&m));
    atomic_store(&w->reply->timelines.timeline[ACTOR].value, 42);
    side_wait();
    assert_int_equal(atomic_load(&a->state), TRP__READY);
    assert_int_equal(stops, 1);
    assert_int_equal(inits, 1);
    assert_int_equal(streams, ACTORS);
    assert_int_equal(atomic_load(&w->reply->timelines.timeline[ACTOR].value), 42);
    assert_true(next_notice(&m));
    assert_int_equal(m.about, TRP_NOTICE_ACTOR_RESTART);
    assert_string_equal(m.error.actor, "actor 3");
    assert_int_equal(m.error.code, 13);
    /* One that is about to be dropped is left alone. */
    atomic_store(&a->state, TRP__ABSENT);
    trp__actor_restart(w, ACTOR, 42, &cause);
    side_wait();
    assert_int_equal(atomic_load(&a->state), TRP__ABSENT);
    assert_int_equal(stops, 1);
}

static void an_actor_can_not_restart(void **state)
{
    trp_error cause = {.status = TRP_E_LIBRARY, .domain = "cublas", .code = 13};
    trp__worker_actor *a = &w->actor[ACTOR];
    trp__message m;
    (void)state;
    init_status = TRP_E_MEMORY;
    trp__actor_restart(w, ACTOR, 0, &cause);
    side_wait();
    assert_int_equal(atomic_load(&a->state), TRP__FAILED);
    assert_int_equal(a->error.status, TRP_E_MEMORY);
    assert_int_equal(a->error.code, 1);
    assert_null(a->instance.stream);
    assert_int_equal(streams, ACTORS - 1);
    assert_int_equal(stops, 1); /* init() cleans up after itself */
    assert_true(next_notice(&m));
    assert_int_equal(m.about, TRP_NOTICE_ACTOR_FAILED);
    assert_int_equal(m.error.status, TRP_E_MEMORY);
}

/* The worker does not wait for an application that does not read; what it could not say is counted.
 */
static void notices_that_find_no_room(void **state)
{
    trp_error error;
    trp__directive directive;
    trp__message m;
    uint32_t made = 0, got = 0;
    (void)state;
    while (atomic_load(&w->unsent) < 3 && made < 100000) {
        assert_int_equal(OBEY(&error, &directive, {TRP_E_MEMORY, "cublas", 3}), TRP_OK);
        made++;
    }
    assert_int_equal(atomic_load(&w->unsent), 3);
    for (; next_notice(&m); got++)
        assert_int_equal(m.id, 0);
    assert_int_equal(got, made - 3);
    assert_int_equal(OBEY(&error, &directive, {TRP_E_MEMORY, "cublas", 3}), TRP_OK);
    assert_true(next_notice(&m));
    assert_int_equal(m.id, 3);
    assert_int_equal(atomic_load(&w->unsent), 0);
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(only_a_reply, set_up, tear_down),
          cmocka_unit_test_setup_teardown(memory_is_given_back, set_up, tear_down),
          cmocka_unit_test_setup_teardown(memory_stays_short, set_up, tear_down),
          cmocka_unit_test_setup_teardown(restarts_are_counted, set_up, tear_down),
          cmocka_unit_test_setup_teardown(the_context_is_given_up, set_up, tear_down),
          cmocka_unit_test_setup_teardown(an_actor_restarts, set_up, tear_down),
          cmocka_unit_test_setup_teardown(an_actor_can_not_restart, set_up, tear_down),
          cmocka_unit_test_setup_teardown(notices_that_find_no_room, set_up, tear_down))

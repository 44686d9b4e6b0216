/* What the application never lets happen: a record that writes a sealed buffer reaches the worker,
 * messages of an earlier change come after those of a later one, a worker can't do what it is told.
 * White-box: reaches into a device. */
#include "support/unit.h"

#include "base/os/clock.h"
#include "client/memory/memory.h"

#include <troupe/troupe.h>

enum { BYTES = 4096 };

typedef struct stage {
    trp_system *system;
    trp_device *device;
    trp_actor *probe;
    trp_buffer buffer; /* sealable, full of 1, and nobody uses it */
    trp__buffer_meta *meta;
    trp__client_arena *arena;
    trp__buffer_entry *entry;
    uint32_t id;
} stage;

static void quiet(void *unused, int level, const char *line)
{
    (void)unused;
    (void)level;
    (void)line;
}

static trp_status finish(trp_status sent, trp_completion c)
{
    assert_int_equal(sent, TRP_OK);
    return trp_await(c.future, TRP_FOREVER, NULL);
}

static trp_status fill(const stage *s, uint32_t value)
{
    trp_completion c = {0};
    trp_status sent = trp_fill(s->device, s->buffer, 0, BYTES, value, 4, &c);
    return finish(sent, c);
}

static uint32_t word(const stage *s)
{
    uint32_t value = 0;
    trp_completion c = {0};
    trp_status sent = trp_read(s->device, s->buffer, BYTES - 4, &value, 4, &c);
    assert_int_equal(finish(sent, c), TRP_OK);
    return value;
}

/* Whether a kernel that writes to the buffer, as to an input, gets away with it. */
static bool writable(const stage *s)
{
    trp_completion c = {0};
    trp_probe_request r = {.action = TRP_PROBE_WRITE_SEALED, .inputs = {s->buffer}};
    trp_status sent = trp_probe(s->probe, &r, &c);
    trp_status status = finish(sent, c);
    assert_true(status == TRP_OK || status == TRP_E_FAULT);
    return status == TRP_OK;
}

static stage set_up(void)
{
    stage s = {0};
    const trp_device_options options = {.backend = TRP_BACKEND_HOST, .restart_budget = 100};
    assert_int_equal(trp_system_create(&(trp_system_options){.log = quiet}, &s.system), TRP_OK);
    assert_int_equal(trp_device_open(s.system, &options, &s.device), TRP_OK);
    assert_int_equal(trp_actor_create(s.device, &(trp_actor_options){.kind = "probe"}, &s.probe),
                     TRP_OK);
    assert_int_equal(trp_buffer_create_with(s.device,
                                            &(trp_buffer_options){.bytes = BYTES, .sealable = true},
                                            &s.buffer),
                     TRP_OK);
    uint32_t slot = (uint32_t)s.buffer.id & (TRP__BUFFERS - 1);
    s.meta = &s.device->memory.meta[slot];
    s.entry = &s.device->control->buffer[slot];
    s.id = s.entry->arena;
    s.arena = &s.device->memory.arena[s.id];
    assert_int_equal(fill(&s, 1), TRP_OK);
    return s;
}

static void tear_down(stage *s)
{
    trp_device_close(s->device);
    assert_int_equal(trp_system_destroy(s->system), TRP_OK);
}

/* A request that the worker's side thread serves after all that was sent to it before. */
static void settle(const stage *s)
{
    void *memory = NULL;
    assert_int_equal(trp_host_alloc(s->device, 4096, &memory), TRP_OK);
    assert_int_equal(trp_host_free(s->device, memory), TRP_OK);
}

/* The sender's own check is made to forget that the buffer is closed. */
static void worker_refuses(void **state)
{
    (void)state;
    stage s = set_up();
    trp_error error;
    trp_completion c = {0};
    assert_int_equal(trp_buffer_seal(s.device, s.buffer, TRP_FOREVER), TRP_OK);
    uint32_t writers = atomic_exchange(&s.meta->writers, 0);
    assert_int_equal(trp_fill(s.device, s.buffer, 0, BYTES, 2, 4, &c), TRP_OK);
    assert_int_equal(trp_await(c.future, TRP_FOREVER, &error), TRP_E_ARGUMENT);
    assert_non_null(strstr(error.message, "sealed"));
    assert_int_equal(error.fault, TRP_FAULT_NONE);
    atomic_store(&s.meta->writers, writers);
    assert_int_equal(word(&s), 1);
    assert_int_equal(trp_buffer_unseal(s.device, s.buffer), TRP_OK);
    assert_int_equal(fill(&s, 3), TRP_OK);
    assert_int_equal(word(&s), 3);
    tear_down(&s);
}

static void send_change(const stage *s, uint64_t protection)
{
    trp__lock_take(&s->device->lock);
    trp__broadcast(s->device, &(trp__news){.type = TRP__MSG_PROTECT,
                                           .id = s->id,
                                           .bytes = TRP__SECOND,
                                           .protection = protection,
                                           .fd = -1});
    trp__lock_drop(&s->device->lock);
}

/* A message that was overtaken changes nothing, and its answer ends no wait. */
static void overtaken(void **state)
{
    (void)state;
    stage s = set_up();
    assert_true(writable(&s));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trp_buffer_seal(s.device, s.buffer, TRP_FOREVER), TRP_OK);
        assert_int_equal(s.arena->protection % 2, 1);
        assert_int_equal(atomic_load(&s.entry->protection), s.arena->protection);
        for (uint64_t k = 0; k < s.arena->protection; k++)
            send_change(&s, k);
        settle(&s);
        assert_false(writable(&s));
        assert_int_equal(trp_buffer_unseal(s.device, s.buffer), TRP_OK);
        for (uint64_t k = 0; k < s.arena->protection; k++)
            send_change(&s, k);
        settle(&s);
        assert_int_equal(fill(&s, 9), TRP_OK);
        assert_true(writable(&s));
    }
    tear_down(&s);
}

/* The worker has not come to a change that makes the mapping writable, or to the one before it: who
 * uses the buffer is held back until it has. */
static void held_back(void **state)
{
    (void)state;
    stage s = set_up();
    for (int i = 0; i < 3; i++) {
        trp_completion c = {0}, read = {0};
        uint32_t value = 0;
        trp__lock_take(&s.device->lock);
        uint64_t to_come = s.arena->protection + 2;
        s.arena->protection = to_come;
        atomic_store(&s.entry->protection, to_come);
        trp__lock_drop(&s.device->lock);
        if (i == 1) { /* read-only as yet */
            send_change(&s, to_come - 1);
            settle(&s);
        }
        trp_status sent = trp_read(s.device, s.buffer, 0, &value, 4, &read);
        assert_int_equal(sent, TRP_OK);
        assert_int_equal(trp_fill(s.device, s.buffer, 0, BYTES, 40, 4, &c), TRP_OK);
        assert_int_equal(trp_await(c.future, 50 * TRP__MS, NULL), TRP_E_TIMEOUT);
        assert_int_equal(trp_await(read.future, 0, NULL), TRP_E_TIMEOUT);
        if (i == 2) {
            send_change(&s, to_come - 1);
            settle(&s);
            assert_int_equal(trp_await(c.future, 50 * TRP__MS, NULL), TRP_E_TIMEOUT);
        }
        send_change(&s, to_come);
        assert_int_equal(trp_await(c.future, TRP_FOREVER, NULL), TRP_OK);
        assert_int_equal(trp_await(read.future, TRP_FOREVER, NULL), TRP_OK);
        assert_int_equal(value, i == 0 ? 1 : 40);
        assert_int_equal(word(&s), 40);
    }
    tear_down(&s);
}

/* The mapping is changed when nobody uses the buffer; whoever comes meanwhile waits. */
static void readers_are_waited_for(void **state)
{
    (void)state;
    stage s = set_up();
    const int64_t spin = 300 * TRP__MS;
    trp_completion c = {0}, late = {0};
    trp_probe_request r = {
        .action = TRP_PROBE_SPIN, .duration_ns = (uint64_t)spin, .inputs = {s.buffer}};
    for (int i = 0; i < 2; i++) {
        trp_status status = trp_probe(s.probe, &r, &c);
        assert_int_equal(status, TRP_OK);
        while (atomic_load(&s.device->reply->issued[atomic_load(&s.probe->live)->id].value) <
               s.device->slot[c.future.id & (TRP__SLOTS - 1)].ticket)
            trp__sleep_ns(TRP__MS);
        status = i == 0 ? trp_buffer_seal(s.device, s.buffer, TRP_FOREVER)
                        : trp_buffer_unseal(s.device, s.buffer);
        assert_int_equal(status, TRP_OK);
        assert_int_equal(trp_await(c.future, 0, NULL), TRP_OK);
    }
    /* One that does not end in time: the buffer is as it was. */
    r.duration_ns = (uint64_t)(1500 * TRP__MS);
    assert_int_equal(trp_probe(s.probe, &r, &c), TRP_OK);
    while (atomic_load(&s.device->reply->issued[atomic_load(&s.probe->live)->id].value) <
           s.device->slot[c.future.id & (TRP__SLOTS - 1)].ticket)
        trp__sleep_ns(TRP__MS);
    trp__lock_take(&s.device->lock);
    s.device->options.start_timeout_ns = (uint64_t)TRP__SECOND;
    trp__lock_drop(&s.device->lock);
    assert_int_equal(trp_buffer_seal(s.device, s.buffer, TRP_FOREVER), TRP_E_TIMEOUT);
    assert_non_null(strstr(trp_error_last()->message, "requests that use the buffer"));
    assert_int_equal(trp_await(c.future, 0, NULL), TRP_E_TIMEOUT);
    r.duration_ns = 0;
    assert_int_equal(trp_probe(s.probe, &r, &late), TRP_OK);
    assert_int_equal(trp_await(c.future, TRP_FOREVER, NULL), TRP_OK);
    assert_int_equal(trp_await(late.future, TRP_FOREVER, NULL), TRP_OK);
    assert_int_equal(fill(&s, 5), TRP_OK);
    tear_down(&s);
}

/* What a call waits for, by the messages of both workers. */
static void answers_to_the_last_change_count(void **state)
{
    (void)state;
    stage s = set_up();
    trp__message m = {.id = s.id, .about = TRP__MSG_PROTECT};
    trp_device *d = s.device;
    trp__lock_take(&d->lock);
    trp__client_arena before = *s.arena;
    s.arena->protection = 7;
    s.arena->changing = 3;
    s.arena->guarded = 0;
    for (uint64_t k = 0; k < 10; k++) {
        m.protection = k;
        if (k != 7)
            assert_true(trp__seal_answered(d, d->active, &m));
    }
    assert_int_equal(s.arena->changing, 3);
    assert_int_equal(s.arena->guarded, 0);
    m.protection = 7;
    assert_true(trp__seal_answered(d, d->active, &m));
    assert_int_equal(s.arena->changing, 3 & ~(1U << d->active));
    assert_int_equal(s.arena->guarded, 1U << d->active);
    /* The standby can't: it is given up. */
    trp_error error = {0};
    s.arena->refusal = &error;
    m.error.status = TRP_E_MEMORY;
    assert_true(trp__seal_answered(d, 1 - d->active, &m));
    assert_int_equal(s.arena->changing, 0);
    assert_int_equal(s.arena->refused, 1U << (1 - d->active));
    assert_int_equal(error.status, TRP_E_MEMORY);
    assert_true(atomic_load(&d->standby_unwanted));
    trp__seal_worker_gone(s.arena, 1 - d->active);
    assert_int_equal(s.arena->refused, 0);
    m.id = TRP__ARENAS;
    assert_false(trp__seal_answered(d, 0, &m));
    m = (trp__message){.id = s.id, .about = TRP__MSG_ARENA};
    assert_false(trp__seal_answered(d, 0, &m));
    *s.arena = before;
    trp__lock_drop(&d->lock);
    tear_down(&s);
}

/* Deaths of workers are part of this: a sanitizer in them must leave signals alone. */
static void leave_signals_alone(const char *variable)
{
    char options[512];
    const char *before = getenv(variable);
    snprintf(options, sizeof options, "%s%shandle_segv=0", before ? before : "",
             before && *before ? ":" : "");
    setenv(variable, options, 1);
}

int main(void)
{
    leave_signals_alone("ASAN_OPTIONS");
    leave_signals_alone("TSAN_OPTIONS");
    const struct CMUnitTest tests[] = {
        UNIT(worker_refuses),
        UNIT(overtaken),
        UNIT(held_back),
        UNIT(readers_are_waited_for),
        UNIT(answers_to_the_last_change_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which failed request a reader must not be let past: by itself, one rule at a time, and over
 * random histories against a list of all that has happened. TROUPE_TEST_SEED repeats a random run.
 */
#include "support/unit.h"

#include "support/reference/random.h"
#include "worker/poison.h"
#include "support/label.h"

#include <inttypes.h>
#include <stdbool.h>
#include <time.h>

TROUPE_TEST("no tsan");

enum { BYTES = 4096, UPDATE = TRP__READ | TRP__WRITE, WHOLE = TRP__WRITE | TRP__COVER };

static trp__poisons poisons;

static int setup(void **unused)
{
    (void)unused;
    trp__poisons_free(&poisons);
    assert_int_equal(poisons.count, 0);
    return 0;
}

/* A request that uses all of one buffer, of the first generation. */
static trp__record request(uint64_t ticket, uint8_t mode, uint32_t buffer)
{
    trp__record record = {.ticket = ticket, .access_count = 1};
    record.access[0] =
        (trp__access){.slot = buffer, .generation = 1, .bytes = BYTES, .mode = mode, .whole = true};
    return record;
}

static void add_access(trp__record *record, uint8_t mode, uint32_t buffer)
{
    record->access[record->access_count++] =
        (trp__access){.slot = buffer, .generation = 1, .bytes = BYTES, .mode = mode, .whole = true};
}

static void set_range(trp__access *access, uint64_t offset, uint64_t bytes)
{
    access->offset = offset;
    access->bytes = bytes;
    access->whole = offset == 0 && bytes == BYTES;
}

static void fails(uint64_t ticket, uint32_t buffer)
{
    trp__record record = request(ticket, WHOLE, buffer);
    trp__poisons_add(&poisons, &record, false);
}

/* One that was in flight when a worker died, or, with an even ticket, one that failed midway. */
static void fails_begun(uint64_t ticket, uint32_t buffer)
{
    trp__record record = request(ticket, WHOLE, buffer);
    record.begun = ticket % 2;
    trp__poisons_add(&poisons, &record, ticket % 2 == 0);
}

static void issue(const trp__record *record)
{
    trp__poisons_heal(&poisons, record);
}

/* Why a reader whose sender was told of failures up to `accepted` is refused. */
static uint64_t cause(uint32_t buffer, uint64_t accepted)
{
    trp__record reader = request(UINT32_MAX, TRP__READ, buffer);
    trp__set_accepted(&reader.access[0], accepted);
    return trp__poisons_cause(&poisons, &reader);
}

static void nothing_failed(void **unused)
{
    (void)unused;
    trp__record none = {.ticket = 1}, writer = request(2, WHOLE, 3);
    assert_int_equal(cause(3, 0), 0);
    assert_int_equal(trp__poisons_cause(&poisons, &none), 0);
    issue(&writer);
    assert_int_equal(poisons.count, 0);
    assert_int_equal(cause(3, 0), 0);
}

static void only_readers_of_it(void **unused)
{
    (void)unused;
    fails(7, 3);
    trp__record writer = request(8, TRP__WRITE, 3), update = request(8, UPDATE, 3);
    trp__record second = request(8, WHOLE, 3);
    add_access(&second, TRP__READ, 3);
    assert_int_equal(cause(3, 0), 7);
    assert_int_equal(cause(2, 0), 0);
    assert_int_equal(cause(4, 0), 0);
    assert_int_equal(trp__poisons_cause(&poisons, &writer), 0);
    assert_int_equal(trp__poisons_cause(&poisons, &update), 7);
    assert_int_equal(trp__poisons_cause(&poisons, &second),
                     7);              /* an access that is not the first */
    assert_int_equal(cause(3, 0), 7); /* asking changes nothing */
}

static void only_what_it_writes(void **unused)
{
    (void)unused;
    trp__record record = request(7, TRP__READ, 1);
    add_access(&record, WHOLE, 2);
    add_access(&record, TRP__WRITE, 3);
    add_access(&record, UPDATE, 4);
    trp__poisons_add(&poisons, &record, false);
    assert_int_equal(poisons.count, 3);
    assert_int_equal(cause(1, 0), 0);
    for (uint32_t buffer = 2; buffer <= 4; buffer++)
        assert_int_equal(cause(buffer, 0), 7);
}

static void all_accesses_and_no_more(void **unused)
{
    (void)unused;
    trp__record record = {.ticket = 7};
    for (uint32_t i = 0; i < TRP__ACCESS_MAX; i++)
        add_access(&record, WHOLE, i);
    record.access_count = UINT16_MAX; /* nothing that a sender wrote */
    trp__poisons_add(&poisons, &record, false);
    assert_int_equal(poisons.count, TRP__ACCESS_MAX);
    assert_int_equal(cause(TRP__ACCESS_MAX - 1, 0), 7);
    for (uint32_t i = 0; i < TRP__ACCESS_MAX; i++)
        record.access[i].mode = i == TRP__ACCESS_MAX - 1 ? TRP__READ : TRP__WRITE;
    assert_int_equal(trp__poisons_cause(&poisons, &record), 7);
    record.access[0].slot = 2 * TRP__BUFFERS - 1; /* nor this: it stays inside the table */
    trp__poisons_add(&poisons, &record, false);
    assert_int_equal(cause(TRP__BUFFERS - 1, 0), 7);
}

static void acknowledged_failures(void **unused)
{
    (void)unused;
    fails(7, 3);
    assert_int_equal(cause(3, 6), 7);
    assert_int_equal(cause(3, 7), 0);
    assert_int_equal(cause(3, 8), 0);
    fails(9, 3); /* the last one counts */
    assert_int_equal(cause(3, 7), 9);
    assert_int_equal(cause(3, 8), 9);
    assert_int_equal(cause(3, 9), 0);
    assert_int_equal(poisons.count, 1);
}

/* A ticket of more than 32 bits is told in two parts. */
static void late_tickets(void **unused)
{
    (void)unused;
    uint64_t ticket = (UINT64_C(1) << 48) - 5;
    fails(ticket, 3);
    assert_true(cause(3, ticket - 1) == ticket);
    assert_int_equal(cause(3, ticket), 0);
    fails_begun(ticket, 4);
    assert_true(cause(4, ticket) == ticket);
}

static void half_written_though_acknowledged(void **unused)
{
    (void)unused;
    fails_begun(7, 3);
    assert_int_equal(cause(3, 0), 7);
    assert_int_equal(cause(3, 7), 7);
    fails(9, 3); /* has written nothing, and healed nothing */
    assert_int_equal(cause(3, 8), 9);
    assert_int_equal(cause(3, 9), 7);
    assert_int_equal(cause(3, 1000), 7);
    fails_begun(12, 3); /* the last of those counts */
    assert_int_equal(cause(3, 1000), 12);
    assert_int_equal(cause(4, 0), 0);
    assert_int_equal(poisons.count, 1);
}

static void only_all_of_it_heals(void **unused)
{
    (void)unused;
    const struct {
        uint8_t mode;
        uint64_t offset, bytes;
        bool heals;
    } writers[] = {
        {TRP__READ, 0, BYTES, false}, {TRP__WRITE, 0, BYTES, false},
        {UPDATE, 0, BYTES, false},    {WHOLE, 0, BYTES - 1, false},
        {WHOLE, 1, BYTES - 1, false}, {WHOLE, 1, BYTES, false},
        {WHOLE, 0, BYTES / 2, false}, {WHOLE, BYTES / 2, BYTES / 2, false},
        {WHOLE, 0, BYTES, true},
    };
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        setup(NULL);
        fails_begun(5, 3);
        fails(6, 3);
        fails(6, 4);
        trp__record writer = request(8, writers[i].mode, 3);
        set_range(&writer.access[0], writers[i].offset, writers[i].bytes);
        issue(&writer);
        bool heals = writers[i].heals;
        assert_int_equal(cause(3, 0), heals ? 0 : 6);
        assert_int_equal(cause(3, 6), heals ? 0 : 5);
        assert_int_equal(cause(4, 0), 6);
        assert_int_equal(poisons.count, heals ? 1 : 2);
        fails(9, 3); /* what was healed stays so: not even half of it is left */
        assert_int_equal(cause(3, 9), heals ? 0 : 5);
    }
}

/* Why a reader of a range is refused. */
static uint64_t cause_at(uint64_t offset, uint64_t bytes)
{
    trp__record reader = request(UINT32_MAX, TRP__READ, 3);
    set_range(&reader.access[0], offset, bytes);
    return trp__poisons_cause(&poisons, &reader);
}

static void heals_in_parts(void **unused)
{
    (void)unused;
    fails(6, 3);
    trp__record writer = request(8, WHOLE, 3);
    set_range(&writer.access[0], 0, BYTES / 2);
    issue(&writer);
    assert_int_equal(cause_at(0, BYTES / 2), 0);
    assert_int_equal(cause_at(0, BYTES / 2 + 1), 6);
    assert_int_equal(cause_at(BYTES - 1, 1), 6);
    assert_int_equal(cause_at(BYTES / 2, 0), 0);
    set_range(&writer.access[0], BYTES / 2 - 7, BYTES / 2 + 7);
    issue(&writer);
    assert_int_equal(cause_at(0, BYTES), 0);
    assert_int_equal(poisons.count, 0);
}

/* Failures of ranges, of which each sender was told of some. */
static void acknowledged_failures_of_parts(void **unused)
{
    (void)unused;
    trp__record failed = request(6, WHOLE, 3), reader = request(20, TRP__READ, 3);
    set_range(&failed.access[0], 10, 10);
    trp__poisons_add(&poisons, &failed, false);
    failed.ticket = 9;
    set_range(&failed.access[0], 30, 10);
    trp__poisons_add(&poisons, &failed, false);
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 6);
    reader.acked_last = 9;
    assert_true(trp__ack_failure(&reader, 9)); /* later, and of other bytes: it says nothing of 6 */
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 6);
    assert_true(trp__ack_failure(&reader, 6));
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 0);
    reader.acked_last = 0;
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 6);
    trp__set_accepted(&reader.access[0], 9);
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 0);
    reader = request(5000, TRP__READ, 3);
    reader.acked_last = 4000;
    assert_true(trp__ack_failure(&reader, 4000));
    assert_true(trp__ack_failure(&reader, 4001 - TRP__ACKED_WINDOW));
    assert_false(trp__ack_failure(&reader, 4000 - TRP__ACKED_WINDOW)); /* too old */
    assert_false(trp__ack_failure(&reader, 4001));
    assert_true(trp__is_acked(&reader, &reader.access[0], 4001 - TRP__ACKED_WINDOW));
    assert_false(trp__is_acked(&reader, &reader.access[0], 4000 - TRP__ACKED_WINDOW));
    assert_false(trp__is_acked(&reader, &reader.access[0], 4002 - TRP__ACKED_WINDOW));
    assert_false(trp__is_acked(&reader, &reader.access[0], 4001));
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 6);
}

/* More poisoned ranges than are kept of a buffer. */
static void very_many_parts(void **unused)
{
    (void)unused;
    enum { MANY = 20000 };
    trp__record failed = request(6, WHOLE, 3), writer = request(90000, WHOLE, 3);
    for (uint64_t i = 0; i < MANY; i++, failed.ticket++) {
        set_range(&failed.access[0], 2 * i, 1);
        trp__poisons_add(&poisons, &failed, false);
        assert_true(poisons.buffer[3].parts.count <= 4096);
    }
    for (uint64_t i = 0; i < MANY; i++)
        assert_true(cause_at(2 * i, 1) >= 6 + i); /* none is forgotten */
    trp__record reader = request(90001, TRP__READ, 3);
    reader.access[0].bytes = 2 * MANY;
    trp__set_accepted(&reader.access[0], failed.ticket - 2);
    assert_int_equal(trp__poisons_cause(&poisons, &reader), failed.ticket - 1);
    trp__set_accepted(&reader.access[0], failed.ticket - 1);
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 0);
    for (uint64_t i = 0; i < MANY; i++) { /* what is written anew is good */
        set_range(&writer.access[0], 2 * i, 2);
        issue(&writer);
        assert_int_equal(cause_at(2 * i, 2), 0);
        assert_true(poisons.buffer[3].parts.count <= 4097);
    }
    assert_int_equal(cause_at(0, 2 * MANY), 0);
    assert_int_equal(poisons.count, 0);
}

/* A slot of the table is given out again, when all requests on its buffer have ended. */
static void of_another_generation(void **unused)
{
    (void)unused;
    trp__record reader = request(20, TRP__READ, 3), writer = request(20, WHOLE, 3);
    reader.access[0].generation = writer.access[0].generation = 2;

    fails_begun(7, 3);
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 0);
    assert_int_equal(poisons.count, 0);

    fails_begun(7, 3);
    issue(&writer);
    assert_int_equal(poisons.count, 0);

    fails_begun(7, 3); /* nothing half-written passes from one to the other */
    trp__poisons_add(&poisons, &writer, false);
    assert_int_equal(poisons.count, 1);
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 20);
    trp__set_accepted(&reader.access[0], 20);
    assert_int_equal(trp__poisons_cause(&poisons, &reader), 0);
}

static void counts_buffers(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < TRP__BUFFERS; i++) {
        fails(1 + i, i);
        fails_begun(TRP__BUFFERS + i, i);
        assert_int_equal(poisons.count, i + 1);
    }
    for (uint32_t i = 0; i < TRP__BUFFERS; i++) {
        trp__record writer = request(4 * TRP__BUFFERS, WHOLE, i);
        issue(&writer);
        issue(&writer);
        assert_int_equal(poisons.count, TRP__BUFFERS - i - 1);
    }
}

/* Random histories. */

enum { EVENTS = 3000, FEW = 3, GRAIN = BYTES / 8 };

typedef struct event {
    enum { FAILED, ISSUED } what;
    bool begun;
    trp__record record;
} event;

static event history[EVENTS];
static uint64_t rng;

static bool has_byte(const trp__access *a, uint64_t byte)
{
    return byte >= a->offset && byte < a->offset + a->bytes;
}

/* What is to be said of a byte after all that has happened, from the latest back. */
static uint64_t expected_of(uint32_t events, const trp__record *reader, const trp__access *read,
                            uint64_t byte)
{
    uint64_t last = 0, halfway = 0;
    bool healed = false;
    for (uint32_t i = events; i-- > 0 && !healed;) {
        const event *e = &history[i];
        for (uint32_t k = e->record.access_count; k-- > 0 && !healed;) {
            const trp__access *a = &e->record.access[k];
            if (a->slot != read->slot || a->generation != read->generation ||
                !(a->mode & TRP__WRITE) || !has_byte(a, byte))
                continue;
            healed = e->what == ISSUED && (a->mode & TRP__COVER);
            if (e->what == ISSUED)
                continue;
            last = last ? last : e->record.ticket;
            halfway = halfway || !e->begun ? halfway : e->record.ticket;
        }
    }
    return last != 0 && !trp__is_acked(reader, read, last) ? last : halfway;
}

/* The causes that there are, by ticket; any may be said. Bytes go by GRAIN. */
static bool is_right(uint32_t events, const trp__record *reader, uint64_t said)
{
    bool none = true;
    for (uint32_t k = 0; k < reader->access_count; k++) {
        const trp__access *a = &reader->access[k];
        for (uint64_t byte = a->offset; byte < a->offset + a->bytes; byte += GRAIN) {
            uint64_t wanted = a->mode & TRP__READ ? expected_of(events, reader, a, byte) : 0;
            if (wanted != 0 && wanted == said)
                return true;
            none = none && wanted == 0;
        }
    }
    return none && said == 0;
}

static void random_histories(void **unused)
{
    (void)unused;
    static const uint8_t modes[] = {TRP__READ, TRP__WRITE, UPDATE, WHOLE};
    const char *given = getenv("TROUPE_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    uint32_t generation[FEW] = {1, 1, 1};
    uint32_t refused = 0, let_in = 0;
    print_message("seed %" PRIu64 "\n", seed);
    rng = seed;
    for (uint32_t i = 0; i < EVENTS; i++) {
        event *e = &history[i];
        trp__record *record = &e->record;
        *e = (event){.what = random_below(&rng, 3) ? ISSUED : FAILED};
        record->ticket = i + 1;
        record->begun = e->begun = random_below(&rng, 3) == 0;
        record->access_count = (uint16_t)(1 + random_below(&rng, 3));
        if (random_below(&rng, 50) == 0)
            generation[random_below(&rng, FEW)]++;
        for (uint32_t k = 0; k < record->access_count; k++) {
            uint32_t slot = random_below(&rng, FEW);
            record->access[k] = (trp__access){
                .slot = slot, .generation = generation[slot], .mode = modes[random_below(&rng, 4)]};
            uint32_t first = random_below(&rng, 2) ? 0 : random_below(&rng, 9);
            uint32_t grains = random_below(&rng, 2) ? 8 - first : random_below(&rng, 9 - first);
            set_range(&record->access[k], first * GRAIN, grains * GRAIN);
            trp__set_accepted(&record->access[k],
                              random_below(&rng, 3) ? i : random_below(&rng, i + 1));
        }
        record->acked_last = random_below(&rng, i + 1);
        for (uint32_t k = random_below(&rng, 4); k-- > 0 && record->acked_last > 0;)
            (void)trp__ack_failure(record, 1 + random_below(&rng, i + 1));
        uint64_t said = trp__poisons_cause(&poisons, record);
        assert_true(is_right(i, record, said));
        refused += said != 0;
        let_in += said == 0;
        if (e->what == FAILED)
            trp__poisons_add(&poisons, record, false);
        else
            trp__poisons_heal(&poisons, record);
        /* Each has one if its last generation has: the others are gone when they are looked at. */
        uint32_t count = 0;
        for (uint32_t slot = 0; slot < FEW; slot++) {
            trp__record reader = request(0, TRP__READ, slot);
            reader.access[0].generation = generation[slot];
            count += trp__poisons_cause(&poisons, &reader) != 0;
        }
        assert_int_equal(poisons.count, count);
    }
    assert_true(refused > EVENTS / 20 && let_in > EVENTS / 20);
}

UNIT_MAIN(cmocka_unit_test_setup(nothing_failed, setup),
          cmocka_unit_test_setup(only_readers_of_it, setup),
          cmocka_unit_test_setup(only_what_it_writes, setup),
          cmocka_unit_test_setup(all_accesses_and_no_more, setup),
          cmocka_unit_test_setup(acknowledged_failures, setup),
          cmocka_unit_test_setup(late_tickets, setup),
          cmocka_unit_test_setup(half_written_though_acknowledged, setup),
          cmocka_unit_test_setup(only_all_of_it_heals, setup),
          cmocka_unit_test_setup(heals_in_parts, setup),
          cmocka_unit_test_setup(acknowledged_failures_of_parts, setup),
          cmocka_unit_test_setup(very_many_parts, setup),
          cmocka_unit_test_setup(of_another_generation, setup),
          cmocka_unit_test_setup(counts_buffers, setup),
          cmocka_unit_test_setup(random_histories, setup))

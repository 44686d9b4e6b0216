/* The sender's side of custom actors: what is refused, and what a record says of what is accepted;
 * and what a worker says of libraries without loading one. */
#include "support/unit.h"

#include "actors/custom/custom.h"
#include "base/error.h"
#include "worker/actor.h"
#include "support/label.h"

#include <troupe/troupe.h>

TROUPE_TEST("no tsan");

enum { BUFFER_BYTES = 1000 };

static uint32_t acquired;

/* Buffers are known by their number; 9 is stale, 8 is lost. */
static trp_status acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes)
{
    bool reads = (access->mode & TRP__READ) != 0;
    if (buffer.id == 0 || buffer.id == 9)
        return trp__error_set(encoder->error, TRP_E_STALE, "%s: stale", name);
    if (buffer.id == 8 && reads)
        return trp__error_set(encoder->error, TRP_E_LOST, "%s: lost", name);
    access->slot = (uint32_t)buffer.id;
    access->generation = 1;
    *bytes = BUFFER_BYTES;
    acquired++;
    return TRP_OK;
}

static trp__record record;
static trp_error error;

static trp_status encode(const trp_custom_request *r)
{
    trp__encoder p = {
        .record = &record, .error = &error, .backend = TRP_BACKEND_HOST, .acquire = acquire};
    memset(&record, 0, sizeof record);
    memset(&error, 0, sizeof error);
    memset(record.payload, 0xee, sizeof record.payload);
    acquired = 0;
    trp_status status = trp__custom_class.ops[0].encode(&p, &r->header);
    assert_int_equal(status, error.status);
    /* What was acquired is in the record, so that its owner gives it back. */
    assert_int_equal(record.access_count, acquired);
    return status;
}

static void refused(const trp_custom_request *r, trp_status status, const char *word)
{
    assert_int_equal(encode(r), status);
    if (!strstr(error.message, word))
        fail_msg("\"%s\" does not say %s", error.message, word);
}

static trp_custom_request sample(void)
{
    return (trp_custom_request){
        .code = 0xdeadbeef,
        .access_count = 2,
        .access = {{.buffer = {1}}, {.buffer = {2}, .mode = TRP_ACCESS_COVER}}};
}

static void accepted(void **state)
{
    (void)state;
    unsigned char payload[TRP_CUSTOM_PAYLOAD_MAX];
    for (uint32_t bytes = 0; bytes <= sizeof payload; bytes++) {
        trp_custom_request r = sample();
        memset(payload, (int)bytes, sizeof payload);
        r.payload = bytes ? payload : NULL;
        r.payload_bytes = bytes;
        assert_int_equal(encode(&r), TRP_OK);
        assert_true(record.code == 0xdeadbeef);
        assert_int_equal(record.payload_bytes, bytes);
        assert_memory_equal(record.payload, payload, bytes);
        for (uint32_t i = bytes; i < TRP__PAYLOAD_BYTES; i++)
            assert_int_equal(record.payload[i], 0xee);
        assert_int_equal(record.access[0].mode, TRP__READ | TRP__WRITE);
        assert_int_equal(record.access[0].slot, 1);
        assert_true(record.access[0].offset == 0 && record.access[0].bytes == BUFFER_BYTES);
        assert_int_equal(record.access[1].mode, TRP__WRITE | TRP__COVER);
    }
    /* All the room there is. */
    trp_custom_request r = {.access_count = TRP_CUSTOM_ACCESSES_MAX};
    static const trp_access_mode modes[4] = {TRP_ACCESS_READ, TRP_ACCESS_WRITE,
                                             TRP_ACCESS_READ_WRITE, TRP_ACCESS_COVER};
    for (uint32_t i = 0; i < TRP_CUSTOM_ACCESSES_MAX; i++)
        r.access[i] = (trp_custom_access){
            .buffer = {i % 3 + 1}, .offset = 60 * i, .bytes = i % 2 ? i : 0, .mode = modes[i % 4]};
    assert_int_equal(encode(&r), TRP_OK);
    for (uint32_t i = 0; i < TRP_CUSTOM_ACCESSES_MAX; i++) {
        assert_int_equal(record.access[i].slot, i % 3 + 1);
        assert_int_equal(record.access[i].offset, 60 * i);
        assert_int_equal(record.access[i].bytes, i % 2 ? i : BUFFER_BYTES - 60 * i);
        assert_int_equal(record.access[i].mode, modes[i % 4]);
    }
    /* The whole of a buffer, said either way; its last byte. */
    r = sample();
    r.access[0].bytes = BUFFER_BYTES;
    r.access[1].offset = BUFFER_BYTES - 1;
    r.access[1].bytes = 1;
    assert_int_equal(encode(&r), TRP_OK);
    /* None at all. */
    assert_int_equal(encode(&(trp_custom_request){0}), TRP_OK);
    assert_int_equal(record.access_count, 0);
    /* A lost buffer may be written. */
    r = sample();
    r.access[1].buffer.id = 8;
    assert_int_equal(encode(&r), TRP_OK);
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    const char payload[TRP_CUSTOM_PAYLOAD_MAX + 1] = {0};
#define REFUSED(status, word, ...)                                                                 \
    do {                                                                                           \
        trp_custom_request r = sample();                                                           \
        __VA_ARGS__;                                                                               \
        refused(&r, status, word);                                                                 \
    } while (0)
    REFUSED(TRP_E_ARGUMENT, "payload_bytes: expected at most 160, got 161", r.payload = payload;
            r.payload_bytes = sizeof payload);
    REFUSED(TRP_E_ARGUMENT, "payload_bytes", r.payload = payload; r.payload_bytes = UINT32_MAX);
    REFUSED(TRP_E_ARGUMENT, "payload: expected a pointer to 3 bytes", r.payload_bytes = 3);
    REFUSED(TRP_E_ARGUMENT, "access_count: expected at most 16, got 17", r.access_count = 17);
    REFUSED(TRP_E_ARGUMENT, "access_count", r.access_count = UINT32_MAX);
    for (int mode = -2; mode < 300; mode++) {
        if (mode == 0 || mode == 1 || mode == 2 || mode == 3 || mode == 6)
            continue;
        REFUSED(TRP_E_ARGUMENT, "access[1].mode", r.access[1].mode = (trp_access_mode)mode);
    }
    REFUSED(TRP_E_ARGUMENT, "access[1].offset: expected less than the 1000 bytes",
            r.access[1].offset = BUFFER_BYTES);
    REFUSED(TRP_E_ARGUMENT, "access[0].offset", r.access[0].offset = UINT64_MAX);
    REFUSED(TRP_E_ARGUMENT, "access[0].offset", r.access[0].offset = UINT64_MAX;
            r.access[0].bytes = 2);
    REFUSED(TRP_E_ARGUMENT, "access[1].bytes: expected at most 1000", r.access[1].bytes = 1001);
    REFUSED(TRP_E_ARGUMENT, "access[1].bytes: expected at most 1,", r.access[1].offset = 999;
            r.access[1].bytes = 2);
    REFUSED(TRP_E_ARGUMENT, "access[1].bytes", r.access[1].offset = 999;
            r.access[1].bytes = UINT64_MAX);
    REFUSED(TRP_E_STALE, "access[1]", r.access[1].buffer.id = 9);
    REFUSED(TRP_E_STALE, "access[0]", r.access[0].buffer.id = 0);
    REFUSED(TRP_E_LOST, "access[0]", r.access[0].buffer.id = 8);
    REFUSED(TRP_E_LOST, "access[1]", r.access[1].buffer.id = 8; r.access[1].mode = TRP_ACCESS_READ);
#undef REFUSED
}

static void implementations(void **state)
{
    (void)state;
    const trp_actor_impl *builtin[] = {
        trp__actor_class_find("blas")->cuda,   trp__actor_class_find("blas")->host,
        trp__actor_class_find("probe")->cuda,  trp__actor_class_find("probe")->host,
        trp__actor_class_find("memory")->cuda, trp__actor_class_find("memory")->host};
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++) {
        assert_int_equal(trp__impl_check(builtin[i], "built-in", &error), TRP_OK);
        trp_actor_impl other = *builtin[i];
        other.abi++;
        assert_int_equal(trp__impl_check(&other, "built-in", &error), TRP_E_VERSION);
        other = *builtin[i];
        other.handle = NULL;
        assert_int_equal(trp__impl_check(&other, "built-in", &error), TRP_E_ARGUMENT);
        other = *builtin[i];
        other.state_bytes = TRP_ACTOR_STATE_MAX;
        assert_int_equal(trp__impl_check(&other, "built-in", &error), TRP_OK);
        other.state_bytes = SIZE_MAX;
        assert_int_equal(trp__impl_check(&other, "built-in", &error), TRP_E_ARGUMENT);
    }
}

static void verdicts(void **state)
{
    (void)state;
    for (trp_status given = -3; given < 30; given++) {
        static const trp_status kept[] = {TRP_E_ARGUMENT, TRP_E_MEMORY,  TRP_E_UNSUPPORTED,
                                          TRP_E_LIBRARY,  TRP_E_MISSING, TRP_E_VERSION,
                                          TRP_E_SYSTEM,   TRP_E_INTERNAL};
        trp_status wanted = TRP_E_INTERNAL;
        if (given == TRP_OK)
            continue;
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            wanted = kept[i] == given ? given : wanted;
        trp__error_set_code(&error, given, "mine", 12, "why");
        assert_int_equal(trp__actor_verdict(given, &error), wanted);
        assert_int_equal(error.status, wanted);
        assert_int_equal(error.code, 12);
        assert_string_equal(error.domain, "mine");
        assert_non_null(strstr(error.message, "why"));
        /* An error that says something else, or nothing. */
        error = (trp_error){0};
        assert_int_equal(trp__actor_verdict(given, &error), wanted);
        assert_int_equal(error.status, wanted);
        assert_non_null(strstr(error.message, "without a message"));
        trp__error_set(&error, TRP_E_BUSY, "other");
        assert_int_equal(trp__actor_verdict(given, &error), wanted);
        assert_non_null(strstr(error.message, "other"));
    }
}

UNIT_MAIN(UNIT(accepted), UNIT(bad_arguments_are_named), UNIT(implementations), UNIT(verdicts))

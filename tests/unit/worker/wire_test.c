/* src/wire: the layout that two processes agree on, the table of actors, accesses of a record. And
 * the lock-free list of indices that slots are taken from. */
#include "support/unit.h"

#include "base/error.h"
#include "client/request/request.h"
#include "wire/actor_class.h"
#include "wire/layout.h"

#include <troupe/troupe.h>

#include <pthread.h>

/* What is written by one side and polled by the other shares no line, and nothing overlaps. */
static void layout(void **unused)
{
    (void)unused;
    assert_int_equal(sizeof(trp__record), 960);
    assert_int_equal(sizeof(trp__padded_u64), 64);
    assert_int_equal(offsetof(trp__control, record) % 64, 0);
    assert_int_equal(offsetof(trp__control, ring) % 64, 0);
    assert_int_equal(offsetof(trp__control, next_ticket) % 64, 0);
    assert_int_equal(offsetof(trp__reply, timelines) % 4096, 0);
    assert_int_equal(TRP__CONTROL_BYTES % 4096, 0);
    assert_int_equal(TRP__REPLY_BYTES % 4096, 0);
    assert_int_equal(TRP__STAGING_BYTES % 4096, 0);
    assert_true(TRP__RING >= 2 * TRP__SLOTS);
    assert_true((uint64_t)TRP__BUFFERS == UINT64_C(1) << TRP__BUFFER_BITS);
    assert_true(TRP__BUFFER_BITS + TRP__TAG_BITS <= 32);
    assert_true(TRP__SLOT_BITS + TRP__TAG_BITS <= 32);
}

/* No piece of staging memory overlaps another or the small ones, and all lie inside. */
static void pieces(void **unused)
{
    (void)unused;
    for (uint32_t s = 0; s < TRP__STREAMS; s++) {
        for (uint64_t c = 0; c < 3 * TRP__PIECES; c++) {
            uint64_t at = trp__piece_offset(s, c);
            assert_true(at >= TRP__STAGING_PIECES);
            assert_true(at + TRP__PIECE_BYTES <= TRP__STAGING_BYTES);
            assert_true(at == trp__piece_offset(s, c + TRP__PIECES));
            for (uint64_t other = c + 1; other < c + TRP__PIECES; other++) {
                uint64_t b = trp__piece_offset(s, other);
                assert_true(b + TRP__PIECE_BYTES <= at || at + TRP__PIECE_BYTES <= b);
            }
            uint64_t b = trp__piece_offset(1 - s, c);
            assert_true(b + TRP__PIECE_BYTES <= at || at + TRP__PIECE_BYTES <= b);
        }
    }
}

/* Small pieces lie one behind the other, each at an address that any element may have. */
static void small_pieces(void **unused)
{
    (void)unused;
    uint64_t end = 0;
    for (uint32_t p = 0; p < TRP__SMALL_COUNT; p++) {
        assert_true(trp__small_offset(p) == end);
        assert_true(end % 256 == 0);
        assert_int_equal(trp__small_bytes(p), p < TRP__SLOTS ? TRP__OWN_BYTES : TRP__SMALL_BYTES);
        end += trp__small_bytes(p);
    }
    assert_true(end == TRP__STAGING_PIECES);
    assert_int_equal(trp__small_bytes(TRP__SMALL_COUNT - TRP__SMALL_REQUESTS), TRP__SMALL_BYTES);
}

static void classes(void **unused)
{
    const trp__actor_class *companion = NULL;
    (void)unused;
    const trp__actor_class *blas = trp__actor_class_find("blas");
    const trp__actor_class *probe = trp__actor_class_find("probe");
    assert_non_null(blas);
    assert_non_null(probe);
    assert_ptr_not_equal(blas, probe);
    assert_non_null(trp__actor_class_find("memory"));
    assert_true(trp__actor_class_find("memory")->internal);
    assert_null(trp__actor_class_find(""));
    assert_null(trp__actor_class_find("blas2"));
    assert_null(trp__actor_class_find("BLAS"));
    for (const trp__actor_class *const *c = trp__actor_classes; *c; c++) {
        assert_ptr_equal(trp__actor_class_find((*c)->kind), *c);
        assert_true((*c)->library || (*c)->cuda || (*c)->host);
        if ((*c)->companion) { /* one pool of them serves all */
            assert_true(!companion || companion == (*c)->companion);
            companion = (*c)->companion;
        }
        for (uint32_t i = 0; i < (*c)->op_count; i++) {
            const trp__op_class *op = &(*c)->ops[i];
            assert_int_equal(op->op & 0xff, i + 1);
            assert_ptr_equal(trp__op_class_find(*c, op->op), op);
            /* The client writes the records of the memory actors. */
            const bool sent = strcmp((*c)->kind, "memory") != 0;
            assert_true(!sent || op->request_bytes >= sizeof(trp_request));
            assert_int_equal((op->encode != NULL) != (op->list != NULL), sent);
            assert_true(!op->list || trp__op_class_find(*c, op->list->op));
            /* Numbers are unique among all classes; companions have those of their actor. */
            for (const trp__actor_class *const *d = trp__actor_classes; *d; d++) {
                if (*d != *c && (*d)->companion != *c && (*c)->companion != *d)
                    assert_null(trp__op_class_find(*d, op->op));
            }
        }
    }
    assert_int_equal(trp__op_class_find(blas, TRP_OP_GEMM)->request_bytes,
                     sizeof(trp_gemm_request));
    const uint32_t next = blas->ops[blas->op_count - 1].op + 1;
    const uint32_t none[] = {0, 1, 0x0100, next, 0x01ff, 0x10101, 0x0201, UINT32_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(trp__op_class_find(blas, none[i]));
}

/* ---- accesses ---- */

typedef struct book {
    int acquired;
    trp_status refuse;
    bool reads;
    uint64_t bytes;
} book;

static trp_status acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes)
{
    book *b = encoder->context;
    (void)name;
    b->reads = access->mode & TRP__READ;
    if (b->refuse != TRP_OK)
        return trp__error_set(encoder->error, b->refuse, "%s: refused", name);
    b->acquired++;
    access->slot = (uint32_t)buffer.id;
    access->generation = 9;
    *bytes = b->bytes;
    return TRP_OK;
}

static trp_status add(book *b, trp__record *record, trp_error *error, uint64_t offset,
                      uint64_t bytes, uint64_t alignment, uint32_t mode)
{
    trp__encoder encoder = {.record = record, .error = error, .acquire = acquire, .context = b};
    return trp__encode_access(&encoder, "thing", (trp_buffer){77}, offset, bytes, alignment, mode);
}

static void accesses(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t size, offset, bytes, alignment;
        bool ok;
    } rows[] = {
        {100, 0, 100, 1, true},
        {100, 100, 0, 1, true},
        {100, 0, 0, 4, true},
        {100, 96, 4, 4, true},
        {100, 0, 101, 1, false},
        {100, 1, 100, 1, false},
        {100, 101, 0, 1, false},
        {100, 2, 8, 4, false},
        {100, UINT64_MAX, 1, 1, false},
        {100, 1, UINT64_MAX, 1, false},
        {100, UINT64_MAX - 3, 8, 4, false},
        {100, 50, UINT64_MAX - 49, 1, false},
        {UINT64_MAX, UINT64_MAX - 7, 7, 8, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trp__record record;
        trp_error error = {0};
        book b = {.bytes = rows[i].size};
        memset(&record, 0, sizeof record);
        trp_status status = add(&b, &record, &error, rows[i].offset, rows[i].bytes,
                                rows[i].alignment, TRP__WRITE | TRP__COVER);
        assert_int_equal(status, rows[i].ok ? TRP_OK : TRP_E_ARGUMENT);
        /* What was acquired is in the record, so that its owner gives it back. */
        assert_int_equal(b.acquired, 1);
        assert_int_equal(record.access_count, 1);
        assert_int_equal(record.access[0].slot, 77);
        assert_int_equal(record.access[0].generation, 9);
        assert_int_equal(record.access[0].mode, TRP__WRITE | TRP__COVER);
        if (rows[i].ok) {
            assert_true(record.access[0].offset == rows[i].offset);
            assert_true(record.access[0].bytes == rows[i].bytes);
        } else {
            assert_non_null(strstr(error.message, "thing"));
        }
    }
    /* Refused by the owner of the buffers: not in the record. */
    trp__record record;
    trp_error error = {0};
    book b = {.refuse = TRP_E_LOST, .bytes = 8};
    memset(&record, 0, sizeof record);
    assert_int_equal(add(&b, &record, &error, 0, 8, 1, TRP__READ), TRP_E_LOST);
    assert_true(b.reads);
    assert_int_equal(record.access_count, 0);
    /* As many as there is room for, not one more. */
    b.refuse = TRP_OK;
    for (int i = 0; i < TRP__ACCESS_MAX; i++)
        assert_int_equal(add(&b, &record, &error, 0, 8, 1, TRP__WRITE), TRP_OK);
    assert_false(b.reads);
    assert_int_equal(add(&b, &record, &error, 0, 8, 1, TRP__READ), TRP_E_INTERNAL);
    assert_int_equal(b.acquired, TRP__ACCESS_MAX);
    assert_int_equal(record.access_count, TRP__ACCESS_MAX);
}

/* ---- the list of free indices ---- */

enum { INDICES = 64, TAKERS = 4 };

typedef struct list {
    _Atomic uint64_t head;
    _Atomic uint32_t next[INDICES];
    _Atomic int owner[INDICES];
    _Atomic int failures;
} list;

static void *take_and_give(void *argument)
{
    list *l = argument;
    for (int i = 0; i < 20000; i++) {
        uint32_t mine[3];
        for (int k = 0; k < 3; k++) {
            mine[k] = trp__index_pop(&l->head, l->next, sizeof(uint32_t));
            if (mine[k] != UINT32_MAX && atomic_exchange(&l->owner[mine[k]], 1) != 0)
                atomic_fetch_add(&l->failures, 1); /* somebody else has it */
        }
        for (int k = 0; k < 3; k++) {
            if (mine[k] == UINT32_MAX)
                continue;
            atomic_store(&l->owner[mine[k]], 0);
            trp__index_push(&l->head, l->next, sizeof(uint32_t), mine[k]);
        }
    }
    return NULL;
}

static void indices(void **unused)
{
    (void)unused;
    static list l;
    pthread_t thread[TAKERS];
    bool seen[INDICES] = {false};
    atomic_store(&l.head, UINT32_MAX);
    assert_true(trp__index_pop(&l.head, l.next, sizeof(uint32_t)) == UINT32_MAX);
    for (uint32_t i = 0; i < INDICES; i++)
        trp__index_push(&l.head, l.next, sizeof(uint32_t), i);
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, &l), 0);
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&l.failures), 0);
    for (int i = 0; i < INDICES; i++) {
        uint32_t index = trp__index_pop(&l.head, l.next, sizeof(uint32_t));
        assert_true(index < INDICES);
        assert_false(seen[index]);
        seen[index] = true;
    }
    assert_true(trp__index_pop(&l.head, l.next, sizeof(uint32_t)) == UINT32_MAX);
}

UNIT_MAIN(UNIT(layout), UNIT(pieces), UNIT(small_pieces), UNIT(classes), UNIT(accesses),
          UNIT(indices))

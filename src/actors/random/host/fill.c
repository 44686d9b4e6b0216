/* Tensors of random numbers: batches, cut to the places that are asked for, shared by the team. */
#include "actors/random/host/batch.h"
#include "actors/random/law/counters.h"
#include "base/os/cpu.h"
#include "base/os/team.h"

#include <string.h>

enum { BATCHES = 64, PIECES = 1 << 20 }; /* of a piece, at least; at most */

typedef struct job {
    const trp__random *g;
    trp__random_batch *make;
    char *y;
    int64_t count, each;         /* elements of y, and of a batch */
    int64_t skip;                /* elements of the first block ahead of those of y */
    uint64_t first;              /* block */
    int64_t size, batches, some; /* bytes of an element; batches in all, of a piece */
} job;

trp__random_batch *trp__random_batch_find(void)
{
#if defined(__x86_64__)
    if (trp__cpu_has_avx2_and_fma())
        return trp__random_batch_avx2;
#endif
    return trp__random_batch_plain;
}

#define SCATTER(T)                                                                                 \
    for (int64_t i = 0; i < count; i++)                                                            \
    ((T *)(void *)to)[i * stride] = ((const T *)(const void *)from)[i]

/* `count` elements to places `stride` elements apart. */
static void scatter(const char *from, char *to, int64_t count, int64_t stride, int64_t size)
{
    typedef struct pair {
        uint64_t part[2];
    } pair;
    if (stride == 1)
        memcpy(to, from, (size_t)(count * size));
    else if (size == 1)
        SCATTER(uint8_t);
    else if (size == 2)
        SCATTER(uint16_t);
    else if (size == 4)
        SCATTER(uint32_t);
    else if (size == 8)
        SCATTER(uint64_t);
    else
        SCATTER(pair);
}

/* Stores `count` elements from place `at` on, line by line along the last dimension. */
static void store(const job *j, const char *from, int64_t at, int64_t count)
{
    const trp__random *g = j->g;
    const trp__random_dim *last = &g->dim[g->rank - 1];
    while (count > 0) {
        const int64_t inner = at % last->n, left = last->n - inner;
        const int64_t some = count < left ? count : left;
        int64_t outer = at / last->n, where = inner * last->stride;
        for (int i = g->rank - 2; i >= 0; i--) {
            where += outer % g->dim[i].n * g->dim[i].stride;
            outer /= g->dim[i].n;
        }
        scatter(from, j->y + where * j->size, some, last->stride, j->size);
        from += some * j->size;
        at += some;
        count -= some;
    }
}

static void run_piece(void *context, int64_t piece, int worker)
{
    const job *j = context;
    char batch[TRP__RANDOM_BATCH_BYTES] __attribute__((aligned(64)));
    (void)worker;
    for (int64_t b = piece * j->some; b < (piece + 1) * j->some && b < j->batches; b++) {
        const int64_t begin = b * j->each - j->skip;
        const int64_t from = begin > 0 ? begin : 0;
        const int64_t end = begin + j->each < j->count ? begin + j->each : j->count;
        j->make(j->g, j->first + (uint64_t)b * TRP__RANDOM_BATCH_BLOCKS, batch);
        store(j, batch + (from - begin) * j->size, from, end - from);
    }
}

void trp__random_fill(const trp__random *g, void *y)
{
    const uint64_t first = trp__random_first_element(g->offset, g->words);
    const uint64_t of_block = TRP__PHILOX_WORDS / g->words;
    job j = {.g = g,
             .make = trp__random_batch_find(),
             .y = y,
             .count = 1,
             .each = TRP__RANDOM_BATCH_WORDS / g->words,
             .skip = (int64_t)(first % of_block),
             .first = first / of_block,
             .size = trp_dtype_bits(g->type) / 8};
    for (int i = 0; i < g->rank; i++)
        j.count *= g->dim[i].n;
    j.batches = (j.skip + j.count + j.each - 1) / j.each;
    j.some = (j.batches + PIECES - 1) / PIECES;
    j.some = j.some < BATCHES ? BATCHES : j.some;
    trp__team_run(run_piece, &j, (j.batches + j.some - 1) / j.some);
}

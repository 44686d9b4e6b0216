/* Samples of outputs. */
#include "tuning/prover_parts.h"

#include <stdlib.h>
#include <string.h>

enum { RUN = TRP__PROOF_RUN, RUNS = TRP__PROOF_SAMPLE / RUN };

_Static_assert(RUN *RUNS == TRP__PROOF_SAMPLE, "whole runs");

int64_t trp__proof_elements(const trp__proof_operand *operand)
{
    int64_t count = 1;
    for (int i = 0; i < operand->rank; i++)
        count *= operand->dim[i];
    return count;
}

int64_t trp__proof_extent(const trp__proof_operand *operand)
{
    int64_t last = 0;
    for (int i = 0; i < operand->rank; i++)
        last += (operand->dim[i] - 1) * operand->stride[i];
    return trp__proof_elements(operand) > 0 ? last + 1 : 0;
}

/* A tensor's dimensions from the slowest to the fastest in memory. */
typedef struct order {
    const trp__proof_operand *operand;
    uint8_t dim[TRP__PROOF_RANK];
} order;

static order order_of(const trp__proof_operand *operand)
{
    order o = {.operand = operand};
    for (uint8_t i = 0; i < operand->rank; i++) {
        int at = i;
        for (; at > 0 && operand->stride[o.dim[at - 1]] < operand->stride[i]; at--)
            o.dim[at] = o.dim[at - 1];
        o.dim[at] = i;
    }
    return o;
}

/* Return the index in memory order of the element at some coordinates; and from that index its
 * number and offset. */
static int64_t place_of(const order *o, const int64_t at[])
{
    int64_t place = 0;
    for (int i = 0; i < o->operand->rank; i++)
        place = place * o->operand->dim[o->dim[i]] + at[o->dim[i]];
    return place;
}

static void element_at(const order *o, int64_t place, int64_t *number, int64_t *offset)
{
    const trp__proof_operand *t = o->operand;
    int64_t at[TRP__PROOF_RANK] = {0};
    for (int i = t->rank - 1; i >= 0; i--) {
        /* A tensor that has an element. NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
        at[o->dim[i]] = place % t->dim[o->dim[i]];
        place /= t->dim[o->dim[i]];
    }
    *number = *offset = 0;
    for (int i = 0; i < t->rank; i++) {
        *number = *number * t->dim[i] + at[i];
        *offset += at[i] * t->stride[i];
    }
}

/* Draws a coordinate: at an end, just before the border of a tile of 8 to 256, or anywhere. */
static int64_t coordinate(int64_t size, uint64_t *state)
{
    const uint64_t draw = trp__proof_random(state);
    const int64_t tile = INT64_C(8) << draw / 4 % 6;
    const int64_t border = (int64_t)(draw >> 16) % (size / tile + 1) * tile - 4;
    switch (draw % 4) {
    case 0:
        return 0;
    case 1:
        return size - 1;
    case 2:
        return border < 0 ? 0 : border < size ? border : size - 1;
    default:
        return (int64_t)(trp__proof_random(state) % (uint64_t)size);
    }
}

/* Returns the first index of run `i`: at both ends of the tensor, then at random coordinates. */
static int64_t begin_of_run(const order *o, int64_t elements, size_t i, uint64_t *state)
{
    int64_t at[TRP__PROOF_RANK] = {0};
    for (int k = 0; k < o->operand->rank; k++)
        at[k] = coordinate(o->operand->dim[k], state);
    const int64_t last = elements - RUN;
    const int64_t place = i == 0 ? 0 : i == 1 ? last : place_of(o, at);
    return place < last ? place : last;
}

static void add_run(const order *o, int64_t place, size_t count, trp__proof_picks *p)
{
    trp__proof_run *run = &p->run[p->runs++];
    *run = (trp__proof_run){.first = p->count, .count = count, .begin = INT64_MAX};
    for (size_t i = 0; i < count; i++, p->count++) {
        int64_t *offset = &p->offset[p->count];
        element_at(o, place + (int64_t)i, &p->number[p->count], offset);
        run->begin = *offset < run->begin ? *offset : run->begin;
        run->end = *offset >= run->end ? *offset + 1 : run->end;
    }
}

bool trp__proof_pick(const trp__proof_operand *operand, uint64_t seed, trp__proof_picks *out)
{
    const int64_t elements = trp__proof_elements(operand);
    const order o = order_of(operand);
    const bool all = elements <= TRP__PROOF_SAMPLE;
    const size_t count = all ? (size_t)elements : TRP__PROOF_SAMPLE;
    const size_t runs = all ? (count + RUN - 1) / RUN : RUNS;
    *out = (trp__proof_picks){.number = malloc((count + 1) * sizeof *out->number),
                              .offset = malloc((count + 1) * sizeof *out->offset),
                              .run = malloc((runs + 1) * sizeof *out->run)};
    if (!out->number || !out->offset || !out->run) {
        trp__proof_drop_picks(out);
        return false;
    }
    for (size_t i = 0; i < runs; i++) {
        const size_t left = count - i * RUN;
        add_run(&o, all ? (int64_t)(i * RUN) : begin_of_run(&o, elements, i, &seed),
                left < RUN ? left : RUN, out);
    }
    return true;
}

void trp__proof_drop_picks(trp__proof_picks *picks)
{
    free(picks->number);
    free(picks->offset);
    free(picks->run);
    *picks = (trp__proof_picks){0};
}

/* Results of a proof: gathers them on the device and compares them on the host. */
#include "base/text.h"
#include "tuning/prover_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ALL = 1 << 18,  /* largest tensor that is copied whole, in bytes */
    SPAN = 1 << 16, /* largest run that is copied with its gaps, in bytes */
};

#define OVERFLOW 0.98 /* share of the largest number beyond which rounding may give infinity */

typedef trp__proof_bench bench;
typedef trp__proof_target target;

/* The type of a target in a snapshot, and the bytes of an element. */
static uint8_t type_of(const bench *b, int number, const target *t)
{
    const trp__proof_operand *o = trp__proof_operand_of(b, t->operand);
    return number >= TRP__PROOF_ROUNDS ? trp__proof_exact(o) : o->type;
}

static size_t width_of(const bench *b, int number, const target *t)
{
    return trp__proof_width(type_of(b, number, t));
}

static size_t most_width_of(const bench *b, const target *t)
{
    const size_t own = width_of(b, 0, t), exact = width_of(b, TRP__PROOF_ROUNDS, t);
    return own > exact ? own : exact;
}

/* Snapshots. */

static bool is_dense(const target *t, const trp__proof_run *run)
{
    bool dense = true;
    for (size_t i = 0; i < run->count && dense; i++)
        dense = t->picks.offset[run->first + i] == run->begin + (int64_t)i;
    return dense;
}

static void lay_out_target(const bench *b, target *t)
{
    const size_t width = most_width_of(b, t);
    const uint64_t elements = (uint64_t)trp__proof_extent(trp__proof_operand_of(b, t->operand));
    t->all = elements * width <= ALL;
    uint64_t at = 0; /* elements */
    for (size_t r = 0; r < t->picks.runs; r++) {
        trp__proof_run *run = &t->picks.run[r];
        const uint64_t span = (uint64_t)(run->end - run->begin);
        run->whole = t->all || span * width <= SPAN;
        run->dense = !run->whole || is_dense(t, run);
        run->at = t->all ? (uint64_t)run->begin : at;
        at += run->whole ? span : run->count;
    }
    t->elements = t->all ? elements : at;
    t->bytes = t->elements * width;
}

void trp__proof_lay_out_snapshot(bench *b)
{
    enum { ALIGNMENT = 256 };
    for (uint32_t i = 0; i < b->targets; i++) {
        lay_out_target(b, &b->target[i]);
        b->target[i].at = b->snapshot_bytes;
        b->snapshot_bytes += (b->target[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

/* A target's place in a snapshot. */
typedef struct place {
    const target *t;
    trp__cu_address to;
    uintptr_t from;
    size_t width;
} place;

static bool copy(bench *b, const place *p, uint64_t at, int64_t first, int64_t count)
{
    return count == 0 ||
           trp__proof_called(b,
                             b->proof->cu->cuMemcpyAsync(p->to + at * p->width,
                                                         p->from + (uintptr_t)first * p->width,
                                                         (size_t)count * p->width, b->stream),
                             "cuMemcpyAsync");
}

/* Copies each stretch of adjacent elements. */
static bool copy_stretches(bench *b, const place *p, const trp__proof_run *run)
{
    const int64_t *offset = p->t->picks.offset + run->first;
    size_t end;
    for (size_t i = 0; i < run->count; i = end) {
        for (end = i + 1; end < run->count && offset[end] == offset[end - 1] + 1;)
            end++;
        if (!copy(b, p, run->at + i, offset[i], (int64_t)(end - i)))
            return false;
    }
    return true;
}

static bool copy_target(bench *b, const place *p)
{
    const target *t = p->t;
    if (t->all)
        return copy(b, p, 0, 0, (int64_t)t->elements);
    for (size_t r = 0; r < t->picks.runs; r++) {
        const trp__proof_run *run = &t->picks.run[r];
        if (!(run->whole ? copy(b, p, run->at, run->begin, run->end - run->begin)
                         : copy_stretches(b, p, run)))
            return false;
    }
    return true;
}

static uint64_t begin_of(const bench *b, int number, const target *t)
{
    return (uint64_t)number * b->snapshot_bytes + t->at;
}

bool trp__proof_take_snapshot(bench *b, int number, void *const at[])
{
    for (uint32_t i = 0; i < b->targets; i++) {
        const target *t = &b->target[i];
        const place p = {.t = t,
                         .to = b->gathered + begin_of(b, number, t),
                         .from = (uintptr_t)at[t->operand],
                         .width = width_of(b, number, t)};
        if (!copy_target(b, &p))
            return false;
    }
    return true;
}

static void read_run(const bench *b, int number, const target *t, const trp__proof_run *run,
                     double out[TRP__PROOF_RUN])
{
    const uint8_t type = type_of(b, number, t);
    const size_t width = trp__proof_width(type);
    const unsigned char *from = b->host + begin_of(b, number, t) + run->at * width;
    if (run->dense) {
        trp__proof_read(type, from, out, run->count);
        return;
    }
    for (size_t i = 0; i < run->count; i++) {
        const int64_t at = t->picks.offset[run->first + i] - run->begin;
        out[i] = trp__proof_number(type, from + (size_t)at * width);
    }
}

/* Comparing. */

/* Writes, after the expected numbers, how far the shifts move the reference. */
static void take_shifts(bench *b, const target *t)
{
    double shifted[TRP__PROOF_RUN], *most = t->expected + t->picks.count;
    memset(most, 0, t->picks.count * sizeof *most);
    for (size_t r = 0; r < t->picks.runs; r++) {
        const trp__proof_run *run = &t->picks.run[r];
        for (int k = 1; k <= TRP__PROOF_SHIFTS; k++) {
            read_run(b, TRP__PROOF_ROUNDS + k, t, run, shifted);
            for (size_t i = run->first; i < run->first + run->count; i++)
                most[i] = fmax(most[i], fabs(shifted[i - run->first] - t->expected[i]));
        }
    }
}

void trp__proof_take_expected(bench *b, uint32_t pass)
{
    for (uint32_t k = 0; k < b->targets; k++) {
        target *t = &b->target[k];
        double sum = 0;
        size_t finite = 0;
        for (size_t r = 0; r < t->picks.runs; r++) {
            const trp__proof_run *run = &t->picks.run[r];
            double *expected = t->expected + run->first;
            read_run(b, TRP__PROOF_ROUNDS, t, run, expected);
            for (size_t i = 0; i < run->count; i++) {
                finite += isfinite(expected[i]) ? 1 : 0;
                sum += isfinite(expected[i]) ? expected[i] * expected[i] : 0;
            }
        }
        /* Extreme numbers give no scale for rounding errors. */
        if (pass != TRP__PROOF_EXTREME)
            t->scale = fmax(finite ? sqrt(sum / (double)finite) : 0,
                            trp__proof_operand_of(b, t->operand)->typical);
        if (trp__proof_operand_of(b, t->operand)->shifted)
            take_shifts(b, t);
    }
}

/* Allowed differences of results. */
typedef struct tolerance {
    double relative, of_scale, absolute;
} tolerance;

static tolerance tolerance_of(const trp__proof_operand *o, uint32_t pass)
{
    if (o->whole && pass != TRP__PROOF_SATURATING)
        return (tolerance){o->whole_relative, o->whole_relative, o->absolute};
    return (tolerance){o->relative, o->of_scale, o->absolute};
}

/* `off`: the tolerance that follows from the size of numbers, added to the relative and the
 * absolute one. */
static bool agrees(const trp__proof_operand *o, const tolerance *t, double off, double got,
                   double expected)
{
    const double largest = trp__proof_largest(o->type);
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected);
    if (t->relative == 0 && t->of_scale == 0 && t->absolute == 0)
        return got == expected;
    if (isinf(got) || isinf(expected))
        return signbit(got) == signbit(expected) && fabs(got) >= OVERFLOW * largest &&
               fabs(expected) >= OVERFLOW * largest;
    /* Denormals may be flushed. */
    const double tiny = trp__proof_width(o->type) > 1 ? trp__proof_smallest(o->type) : 0;
    return fabs(got - expected) <= t->relative * fabs(expected) + off + t->absolute + tiny;
}

/* Returns that tolerance. Extreme numbers have no typical size, shifts to infinity no distance. */
static double off_of(const trp__proof_operand *o, const target *t, const tolerance *allowed,
                     uint32_t pass, size_t pick)
{
    const double *shift = t->expected + t->picks.count + pick; /* unset without shifts */
    if (o->shifted && pass != TRP__PROOF_EXTREME && isfinite(*shift))
        return *shift;
    return allowed->of_scale * (isfinite(t->scale) ? t->scale : 0);
}

static const char *pass_name(uint32_t pass)
{
    return pass == TRP__PROOF_ORDINARY     ? "ordinary"
           : pass == TRP__PROOF_SATURATING ? "saturating"
           : pass == TRP__PROOF_LEAVING    ? "overflowing"
           : pass == TRP__PROOF_WIDE       ? "widely spread"
           : pass == TRP__PROOF_TIGHT      ? "tightly spread"
                                           : "extreme";
}

static bool differs(bench *b, const target *t, size_t pick, uint32_t pass, int round, double got)
{
    const trp__proof_operand *o = trp__proof_operand_of(b, t->operand);
    int64_t number = t->picks.number[pick], at[TRP__PROOF_RANK];
    trp__text text = {.out = b->verdict->reason, .size = sizeof b->verdict->reason};
    for (int i = o->rank - 1; i >= 0; i--) {
        at[i] = number % o->dim[i];
        number /= o->dim[i];
    }
    b->verdict->result = TRP__PROOF_WRONG;
    trp__text_add(&text, "%s[", o->name);
    for (int i = 0; i < o->rank; i++)
        trp__text_add(&text, "%s%" PRId64, i ? "," : "", at[i]);
    trp__text_add(&text, "] is %.9g, not %.9g, of %s numbers%s", got, t->expected[pick],
                  pass_name(pass), round > 0 ? ", when it ran again" : "");
    return false;
}

/* Checks that the gaps between a run's elements are untouched. Overwrites the snapshot. */
static bool gaps_are_whole(bench *b, int round, const target *t, const trp__proof_run *run)
{
    const size_t width = width_of(b, round, t);
    const size_t bytes = (size_t)(run->end - run->begin) * width;
    const unsigned char poisoned = trp__proof_rubbish(round);
    unsigned char *at = b->host + begin_of(b, round, t) + run->at * width;
    for (size_t i = 0; i < run->count; i++) /* the elements were compared before */
        memset(at + (size_t)(t->picks.offset[run->first + i] - run->begin) * width, poisoned,
               width);
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] == poisoned)
            continue;
        b->verdict->result = TRP__PROOF_WRONG;
        snprintf(b->verdict->reason, sizeof b->verdict->reason,
                 "it writes between the elements of %s",
                 trp__proof_operand_of(b, t->operand)->name);
        return false;
    }
    return true;
}

static bool compare_target(bench *b, const target *t, uint32_t pass, int round)
{
    const trp__proof_operand *o = trp__proof_operand_of(b, t->operand);
    const tolerance allowed = tolerance_of(o, pass);
    double got[TRP__PROOF_RUN];
    for (size_t r = 0; r < t->picks.runs; r++) {
        const trp__proof_run *run = &t->picks.run[r];
        read_run(b, round, t, run, got);
        for (size_t i = 0; i < run->count; i++) {
            const size_t pick = run->first + i;
            if (!agrees(o, &allowed, off_of(o, t, &allowed, pass, pick), got[i], t->expected[pick]))
                return differs(b, t, pick, pass, round, got[i]);
        }
    }
    for (size_t r = 0; r < t->picks.runs; r++) {
        const trp__proof_run *run = &t->picks.run[r];
        if (run->whole && !run->dense && !gaps_are_whole(b, round, t, run))
            return false;
    }
    return true;
}

bool trp__proof_compare(bench *b, uint32_t pass, int round)
{
    for (uint32_t i = 0; i < b->targets; i++) {
        if (!compare_target(b, &b->target[i], pass, round))
            return false;
    }
    return true;
}

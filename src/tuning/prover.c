#include "tuning/prover.h"

#include "base/os/clock.h"
#include "tuning/prover_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD = TRP__PROOF_GUARD,
    ALIGNMENT = 256, /* base alignment of operands */
    PERIOD = 65521,  /* period of inputs in elements: a prime, so that no row repeats another */
    ROUNDS = TRP__PROOF_ROUNDS,
    GUARD_ROOM = GUARD + 2 * ALIGNMENT, /* room of a guard in the gathered data */
};

typedef trp__proof_bench bench;
typedef trp__proof_piece piece;

static uint64_t bytes_of(const trp__proof_operand *o)
{
    return (uint64_t)trp__proof_extent(o) * trp__proof_width(o->type);
}

static uint64_t reference_bytes_of(const trp__proof_operand *o)
{
    return (uint64_t)trp__proof_extent(o) * trp__proof_width(trp__proof_exact(o));
}

/* Memory. */

static uint64_t add_piece(bench *b, uint64_t at, uint64_t bytes, uint32_t past)
{
    const uint64_t begin = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + past;
    b->piece[b->pieces++] = (piece){begin, begin + bytes};
    return begin + bytes + GUARD;
}

static uint32_t guards(const bench *b)
{
    return b->proof->operands + 2;
}

/* Lays out operands, workspace, the reference's outputs and the gathered data. Returns the size. */
static uint64_t lay_out(bench *b)
{
    const trp__proof *p = b->proof;
    uint64_t at = GUARD;
    for (uint32_t i = 0; i < p->operands; i++)
        at = add_piece(b, at, bytes_of(&p->operand[i]), p->operand[i].alignment);
    at = add_piece(b, at, p->workspace, 0);
    for (uint32_t i = 0; i < p->operands; i++) {
        if (p->operand[i].role == TRP__PROOF_OUTPUT)
            at = add_piece(b, at, reference_bytes_of(&p->operand[i]), p->operand[i].alignment);
    }
    trp__proof_lay_out_snapshot(b);
    b->gathered = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    b->gathered_bytes =
        (uint64_t)b->snapshots * b->snapshot_bytes + (uint64_t)ROUNDS * guards(b) * GUARD_ROOM;
    return b->gathered + b->gathered_bytes;
}

static bool take_host_memory(bench *b)
{
    const uint32_t n = b->proof->operands + 1;
    b->piece = calloc(2 * (size_t)n, sizeof *b->piece);
    b->at = calloc(n, sizeof *b->at);
    b->reference = calloc(n, sizeof *b->reference);
    b->target = calloc(n, sizeof *b->target);
    b->sample = calloc(n, sizeof *b->sample);
    return (b->piece && b->at && b->reference && b->target && b->sample) ||
           trp__proof_impossible(b, "no memory for a proof");
}

static bool add_target(bench *b, uint32_t number)
{
    trp__proof_target *t = &b->target[b->targets];
    t->operand = number;
    if (!trp__proof_pick(trp__proof_operand_of(b, number), number + 1, &t->picks))
        return trp__proof_impossible(b, "no memory for a proof");
    t->expected = malloc((2 * t->picks.count + 1) * sizeof *t->expected);
    if (trp__proof_operand_of(b, number)->shifted)
        b->snapshots = ROUNDS + 1 + TRP__PROOF_SHIFTS;
    b->sample[b->targets++] = (trp__proof_sample){number, t->picks.number, t->picks.count};
    b->verdict->compared += (uint32_t)t->picks.count;
    return t->expected || trp__proof_impossible(b, "no memory for a proof");
}

/* Allocates in stream order, since cuMemAlloc waits for other actors' streams. A pool grows by 32
 * MiB at a time, so cuMemAlloc is the fallback where less is free. */
static bool take_device_memory(bench *b, uint64_t bytes)
{
    const trp__cuda *cu = b->proof->cu;
    if (cu->cuMemAllocAsync(&b->memory, (size_t)bytes, b->stream) == TRP__CU_SUCCESS)
        return true;
    b->waits = cu->cuMemAlloc_v2(&b->memory, (size_t)bytes) == TRP__CU_SUCCESS;
    if (!b->waits)
        b->memory = 0;
    return b->waits || trp__proof_failed(b, TRP__PROOF_IMPOSSIBLE, "no device memory for a proof");
}

static bool open_bench(bench *b)
{
    const trp__cuda *cu = b->proof->cu;
    if (!take_host_memory(b))
        return false;
    for (uint32_t i = 0; i < b->proof->operands; i++) {
        if (trp__proof_operand_of(b, i)->role == TRP__PROOF_OUTPUT && !add_target(b, i))
            return false;
    }
    const uint64_t bytes = lay_out(b);
    b->host = malloc((size_t)b->gathered_bytes);
    if (!b->host)
        return trp__proof_impossible(b, "no memory for a proof");
    if (!trp__proof_called(b, cu->cuStreamCreate(&b->stream, TRP__CU_STREAM_NON_BLOCKING),
                           "no stream"))
        return false;
    if (!take_device_memory(b, bytes))
        return false;
    b->gathered += b->memory;
    uint32_t next = b->proof->operands + 1;
    for (uint32_t i = 0; i < b->proof->operands; i++) {
        b->at[i] = b->reference[i] = (void *)(uintptr_t)(b->memory + b->piece[i].begin);
        if (trp__proof_operand_of(b, i)->role == TRP__PROOF_OUTPUT)
            b->reference[i] = (void *)(uintptr_t)(b->memory + b->piece[next++].begin);
    }
    return trp__proof_called(
        b, cu->cuMemsetD8Async(b->memory, trp__proof_rubbish(0), (size_t)bytes, b->stream),
        "cuMemsetD8Async");
}

static void close_bench(bench *b)
{
    const trp__cuda *cu = b->proof->cu;
    const bool gone = b->verdict->result == TRP__PROOF_BROKE; /* the worker ends */
    if (b->memory && !b->waits && !gone)
        cu->cuMemFreeAsync(b->memory, b->stream);
    if (b->stream && !gone) {
        cu->cuStreamSynchronize(b->stream);
        cu->cuStreamDestroy_v2(b->stream);
    }
    if (b->memory && b->waits && !gone)
        cu->cuMemFree_v2(b->memory);
    for (uint32_t i = 0; i < b->targets; i++) {
        trp__proof_drop_picks(&b->target[i].picks);
        free(b->target[i].expected);
    }
    free(b->piece);
    free(b->at);
    free(b->reference);
    free(b->target);
    free(b->sample);
    free(b->host);
}

/* Inputs. */

/* Fills an input: makes PERIOD elements and repeats them by copies. */
static bool fill_input(bench *b, uint32_t number, uint32_t pass)
{
    const trp__cuda *cu = b->proof->cu;
    const trp__proof_operand *o = trp__proof_operand_of(b, number);
    const uint64_t bytes = bytes_of(o), extent = (uint64_t)trp__proof_extent(o);
    const size_t count = extent < PERIOD ? (size_t)extent : PERIOD;
    const size_t first = count * trp__proof_width(o->type);
    const trp__cu_address to = b->memory + b->piece[number].begin;
    void *from = malloc(first ? first : 1);
    bool good =
        from && trp__proof_numbers(o, pass, b->proof->special, number * 16 + pass, from, count);
    if (!good) {
        free(from);
        return trp__proof_impossible(b, "no memory for a proof");
    }
    good = trp__proof_called(b, trp__cuda_upload(cu, to, from, first), "cuMemcpyHtoD");
    free(from);
    for (uint64_t done = first; good && done < bytes;) {
        uint64_t some = bytes - done < done ? bytes - done : done;
        good = trp__proof_called(b, cu->cuMemcpyAsync(to + done, to, (size_t)some, b->stream),
                                 "cuMemcpyAsync");
        done += some;
    }
    return good;
}

static bool fill_inputs(bench *b, uint32_t pass)
{
    if (!trp__proof_wait(b)) /* for the guards, or the previous pass */
        return false;
    for (uint32_t i = 0; i < b->proof->operands; i++) {
        if (trp__proof_operand_of(b, i)->role == TRP__PROOF_INPUT && !fill_input(b, i, pass))
            return false;
    }
    return true;
}

static bool poison_outputs(bench *b, void *const at[], unsigned char with)
{
    for (uint32_t i = 0; i < b->targets; i++) {
        const uint32_t number = b->target[i].operand;
        const trp__proof_operand *o = trp__proof_operand_of(b, number);
        const uint64_t bytes = at == b->reference ? reference_bytes_of(o) : bytes_of(o);
        if (bytes > 0 &&
            !trp__proof_called(b,
                               b->proof->cu->cuMemsetD8Async((uintptr_t)at[number], with,
                                                             (size_t)bytes, b->stream),
                               "cuMemsetD8Async"))
            return false;
    }
    return true;
}

/* Guards. */

/* Returns the guard before operand 0 for i = 0, otherwise behind operand i - 1; the workspace
 * counts as an operand. */
static piece guard_of(const bench *b, uint32_t i)
{
    if (i == 0)
        return (piece){b->piece[0].begin - GUARD, b->piece[0].begin};
    const uint64_t begin = b->piece[i - 1].end;
    return (piece){begin, i < b->pieces ? b->piece[i].begin : begin + GUARD};
}

static bool set_bytes(bench *b, uint64_t begin, uint64_t end, unsigned char byte)
{
    return begin == end ||
           trp__proof_called(b,
                             b->proof->cu->cuMemsetD8Async(b->memory + begin, byte,
                                                           (size_t)(end - begin), b->stream),
                             "cuMemsetD8Async");
}

/* Fills guards and workspace with rubbish. */
static bool spoil_surroundings(bench *b, unsigned char byte)
{
    const piece *workspace = &b->piece[b->proof->operands];
    for (uint32_t i = 0; i < guards(b); i++) {
        const piece g = guard_of(b, i);
        if (!set_bytes(b, g.begin, g.end, byte))
            return false;
    }
    return set_bytes(b, workspace->begin, workspace->end, byte);
}

static uint64_t gathered_guard(const bench *b, int round, uint32_t i)
{
    return (uint64_t)b->snapshots * b->snapshot_bytes +
           ((uint64_t)round * guards(b) + i) * GUARD_ROOM;
}

static bool gather_guards(bench *b, int round)
{
    for (uint32_t i = 0; i < guards(b); i++) {
        const piece g = guard_of(b, i);
        if (!trp__proof_called(b,
                               b->proof->cu->cuMemcpyAsync(
                                   b->gathered + gathered_guard(b, round, i), b->memory + g.begin,
                                   (size_t)(g.end - g.begin), b->stream),
                               "cuMemcpyAsync"))
            return false;
    }
    return true;
}

static bool is_whole(const bench *b, int round, uint32_t i)
{
    const piece g = guard_of(b, i);
    const unsigned char *at = b->host + gathered_guard(b, round, i);
    const size_t bytes = (size_t)(g.end - g.begin);
    return at[0] == trp__proof_rubbish(round) && memcmp(at, at + 1, bytes - 1) == 0;
}

static bool guards_are_whole(bench *b, int round)
{
    const uint32_t last = guards(b) - 1;
    for (uint32_t i = 0; i <= last; i++) {
        if (is_whole(b, round, i))
            continue;
        b->verdict->result = TRP__PROOF_WRONG;
        snprintf(b->verdict->reason, sizeof b->verdict->reason, "it writes %s %s",
                 i == 0 ? "before" : "behind",
                 i == 0      ? trp__proof_operand_of(b, 0)->name
                 : i == last ? "its workspace"
                             : trp__proof_operand_of(b, i - 1)->name);
        return false;
    }
    return true;
}

/* Passes. */

static bool run_reference(bench *b, uint32_t pass)
{
    trp__proof_place place = {b->reference, NULL, b->stream, pass, 0};
    trp_error error = {0};
    if (!poison_outputs(b, b->reference, trp__proof_rubbish(1)))
        return false;
    for (int i = 0; ROUNDS + i < b->snapshots; i++) {
        place.shift = i < TRP__PROOF_SHIFTS ? i : -1;
        if (b->proof->reference(b->proof->context, &place, b->sample, b->targets, &error) !=
            TRP_OK) {
            b->verdict->error = error;
            return trp__proof_failed(b, TRP__PROOF_IMPOSSIBLE, error.message);
        }
        if (!trp__proof_take_snapshot(b, ROUNDS + i, b->reference))
            return false;
    }
    return true;
}

/* Tries a refused plan once more: the verdict is stored, and a call may fail by chance. A lack of
 * memory says nothing about the plan. */
static bool run_plan(bench *b)
{
    void *workspace = (void *)(uintptr_t)(b->memory + b->piece[b->proof->operands].begin);
    const trp__proof_place place = {b->at, b->proof->workspace ? workspace : NULL, b->stream, 0, 0};
    trp_error error = {0};
    trp_status status = b->proof->run(b->proof->context, &place, &error);
    if (status != TRP_OK && trp__proof_wait(b))
        status = b->proof->run(b->proof->context, &place, &error);
    if (status == TRP_OK)
        return true;
    b->verdict->error = error;
    return trp__proof_failed(b, status == TRP_E_MEMORY ? TRP__PROOF_IMPOSSIBLE : TRP__PROOF_REFUSED,
                             error.message);
}

static bool run_round(bench *b, int round)
{
    const unsigned char byte = trp__proof_rubbish(round);
    return spoil_surroundings(b, byte) && poison_outputs(b, b->at, byte) && run_plan(b) &&
           trp__proof_take_snapshot(b, round, b->at) && gather_guards(b, round);
}

static bool read_gathered(bench *b)
{
    return trp__proof_called(
        b, b->proof->cu->cuMemcpyDtoH_v2(b->host, b->gathered, (size_t)b->gathered_bytes),
        "cuMemcpyDtoH");
}

/* Runs a pass: both rounds are enqueued before the first wait. */
static bool run_pass(bench *b, uint32_t pass)
{
    bool good = fill_inputs(b, pass);
    trp__proof_mark(b, TRP__PROOF_INPUTS);
    good = good && run_reference(b, pass);
    trp__proof_mark(b, TRP__PROOF_SEND_REFERENCE);
    for (int round = 0; round < ROUNDS && good; round++)
        good = run_round(b, round);
    trp__proof_mark(b, TRP__PROOF_SEND_PLAN);
    good = good && trp__proof_wait(b);
    trp__proof_mark(b, TRP__PROOF_WAIT);
    if (!good || !read_gathered(b))
        return false;
    trp__proof_take_expected(b, pass);
    for (int round = 0; round < ROUNDS && good; round++)
        good = guards_are_whole(b, round) && trp__proof_compare(b, pass, round);
    trp__proof_mark(b, TRP__PROOF_COMPARE);
    return good;
}

void trp__prove(const trp__proof *proof, trp__proof_verdict *out)
{
    static const uint32_t passes[] = {TRP__PROOF_ORDINARY, TRP__PROOF_SATURATING,
                                      TRP__PROOF_EXTREME,  TRP__PROOF_LEAVING,
                                      TRP__PROOF_WIDE,     TRP__PROOF_TIGHT};
    bench b = {.proof = proof, .verdict = out, .snapshots = ROUNDS + 1, .marked_ns = trp__now_ns()};
    *out = (trp__proof_verdict){.result = TRP__PROOF_GOOD};
    bool good = open_bench(&b);
    trp__proof_mark(&b, TRP__PROOF_OPEN);
    for (size_t i = 0; i < sizeof passes / sizeof *passes && good; i++) {
        if (proof->passes & passes[i])
            good = run_pass(&b, passes[i]);
    }
    close_bench(&b);
    trp__proof_mark(&b, TRP__PROOF_CLOSE);
}

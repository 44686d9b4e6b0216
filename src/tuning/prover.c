#include "tuning/prover.h"

#include "base/os/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "tuning/prover_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    GUARD = 4096,    /* bytes between operands that no run may write */
    ALIGNMENT = 256, /* of operands, before their own */
    PERIOD = 65521,  /* inputs repeat after so many elements: a prime, so that no row is another */
    SPAN = 1 << 16,  /* bytes that are read at once */
    ROUNDS = 2,      /* of each pass */
    QUERIES = 200,   /* before the thread sleeps between them */
};

/* Work of other actors may hold the device up, and what waits for it is not to blame. */
#define LIMIT_NS (60 * TRP__SECOND)
#define NAP_NS   50000
#define OVERFLOW 0.98 /* of the largest number: who is beyond may round to infinity */

/* The bytes of guards, outputs and workspace before each round. A plan must not depend on them: it
 * would differ between the rounds, for the first is NaN in every type of float, which 0 times what
 * was read keeps, and the other is a finite number. */
static const unsigned char rubbish[ROUNDS] = {0xff, 0x35};

/* One piece of the prover's memory. */
typedef struct piece {
    uint64_t begin, end; /* offsets; a guard follows */
} piece;

/* An output, as it should be. */
typedef struct target {
    uint32_t operand;
    trp__proof_picks picks;
    double *expected; /* of each pick */
    double scale;     /* root mean square of the finite ones */
} target;

typedef struct bench {
    const trp__proof *proof;
    trp__proof_verdict *verdict;
    trp__cu_stream stream;
    trp__cu_address memory;
    piece *piece; /* of each operand, of the workspace, of each output's reference */
    uint32_t pieces;
    void **at, **reference; /* addresses of operands, for the plan and for the reference */
    target *target;
    trp__proof_sample *sample;
    uint32_t targets;
    unsigned char *host; /* SPAN bytes */
} bench;

const char *trp__proof_result_name(trp__proof_result result)
{
    static const char *const names[TRP__PROOF_RESULTS] = {
        [TRP__PROOF_GOOD] = "good",
        [TRP__PROOF_WRONG] = "wrong",
        [TRP__PROOF_REFUSED] = "refused",
        [TRP__PROOF_BROKE] = "broke",
        [TRP__PROOF_IMPOSSIBLE] = "not proven",
    };
    return (unsigned)result < TRP__PROOF_RESULTS ? names[result] : "unknown";
}

static const trp__proof_operand *operand_of(const bench *b, uint32_t number)
{
    return &b->proof->operand[number];
}

static uint64_t bytes_of(const trp__proof_operand *o)
{
    return (uint64_t)trp__proof_extent(o) * trp__proof_width(o->type);
}

/* Ends. All return false, for the caller to pass on. */

static bool impossible(bench *b, const char *why)
{
    b->verdict->result = TRP__PROOF_IMPOSSIBLE;
    trp__error_set(&b->verdict->error, TRP_E_MEMORY, "%s", why);
    trp__copy_string(b->verdict->reason, sizeof b->verdict->reason, why);
    return false;
}

static bool broke(bench *b, trp__cu_result result, const char *what)
{
    b->verdict->result = TRP__PROOF_BROKE;
    trp__error_set_code(&b->verdict->error, TRP_E_LIBRARY, "cuda", result, "a proof: %s", what);
    snprintf(b->verdict->reason, sizeof b->verdict->reason, "%s (CUDA error %d)", what,
             (int)result);
    return false;
}

/* Something failed: whether it has broken the context decides. */
static bool failed(bench *b, trp__proof_result otherwise, const char *why)
{
    const trp__cu_result result =
        b->stream ? b->proof->cu->cuStreamQuery(b->stream) : TRP__CU_SUCCESS;
    if (trp__cuda_sticky(result))
        return broke(b, result, "the context broke");
    if (otherwise == TRP__PROOF_IMPOSSIBLE)
        return impossible(b, why);
    b->verdict->result = otherwise;
    trp__copy_string(b->verdict->reason, sizeof b->verdict->reason, why);
    return false;
}

static bool called(bench *b, trp__cu_result result, const char *call)
{
    return result == TRP__CU_SUCCESS || failed(b, TRP__PROOF_IMPOSSIBLE, call);
}

/* Waits for the stream. A plan that does not end leaves the device to nobody, so that the worker
 * has to end: it counts as a launch that timed out. */
static bool wait_for_end(bench *b)
{
    enum { LAUNCH_TIMEOUT = 702 };
    const int64_t end = trp__deadline(b->proof->limit_ns ? b->proof->limit_ns : LIMIT_NS);
    for (unsigned n = 0;; n++) {
        trp__cu_result result = b->proof->cu->cuStreamQuery(b->stream);
        if (result == TRP__CU_SUCCESS)
            return true;
        if (trp__cuda_sticky(result))
            return broke(b, result, "it broke the context");
        if (result != TRP__CU_NOT_READY)
            return impossible(b, "cuStreamQuery");
        if (trp__now_ns() > end)
            return broke(b, LAUNCH_TIMEOUT, "it did not end in time");
        if (n > QUERIES)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

/* Memory. */

static uint64_t add_piece(bench *b, uint64_t at, uint64_t bytes, uint32_t past)
{
    const uint64_t begin = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + past;
    b->piece[b->pieces++] = (piece){begin, begin + bytes};
    return begin + bytes + GUARD;
}

/* Operands, the workspace, and the outputs of the reference. Returns the size of all. */
static uint64_t lay_out(bench *b)
{
    const trp__proof *p = b->proof;
    uint64_t at = GUARD;
    for (uint32_t i = 0; i < p->operands; i++)
        at = add_piece(b, at, bytes_of(&p->operand[i]), p->operand[i].alignment);
    at = add_piece(b, at, p->workspace, 0);
    for (uint32_t i = 0; i < p->operands; i++) {
        if (p->operand[i].role == TRP__PROOF_OUTPUT)
            at = add_piece(b, at, bytes_of(&p->operand[i]), p->operand[i].alignment);
    }
    return at;
}

static bool take_host_memory(bench *b)
{
    const uint32_t n = b->proof->operands + 1;
    b->piece = calloc(2 * (size_t)n, sizeof *b->piece);
    b->at = calloc(n, sizeof *b->at);
    b->reference = calloc(n, sizeof *b->reference);
    b->target = calloc(n, sizeof *b->target);
    b->sample = calloc(n, sizeof *b->sample);
    b->host = malloc(SPAN + GUARD);
    return (b->piece && b->at && b->reference && b->target && b->sample && b->host) ||
           impossible(b, "no memory for a proof");
}

static bool add_target(bench *b, uint32_t number)
{
    target *t = &b->target[b->targets];
    t->operand = number;
    if (!trp__proof_pick(operand_of(b, number), number + 1, &t->picks))
        return impossible(b, "no memory for a proof");
    t->expected = malloc((t->picks.count + 1) * sizeof *t->expected);
    b->sample[b->targets++] = (trp__proof_sample){number, t->picks.number, t->picks.count};
    b->verdict->compared += (uint32_t)t->picks.count;
    return t->expected || impossible(b, "no memory for a proof");
}

static bool open_bench(bench *b)
{
    const trp__cuda *cu = b->proof->cu;
    if (!take_host_memory(b))
        return false;
    for (uint32_t i = 0; i < b->proof->operands; i++) {
        if (operand_of(b, i)->role == TRP__PROOF_OUTPUT && !add_target(b, i))
            return false;
    }
    const uint64_t bytes = lay_out(b);
    if (!called(b, cu->cuStreamCreate(&b->stream, TRP__CU_STREAM_NON_BLOCKING), "no stream"))
        return false;
    /* In the stream's order: cuMemAlloc would wait for other actors' streams. */
    if (cu->cuMemAllocAsync(&b->memory, (size_t)bytes, b->stream) != TRP__CU_SUCCESS) {
        b->memory = 0;
        return failed(b, TRP__PROOF_IMPOSSIBLE, "no device memory for a proof");
    }
    uint32_t next = b->proof->operands + 1;
    for (uint32_t i = 0; i < b->proof->operands; i++) {
        b->at[i] = b->reference[i] = (void *)(uintptr_t)(b->memory + b->piece[i].begin);
        if (operand_of(b, i)->role == TRP__PROOF_OUTPUT)
            b->reference[i] = (void *)(uintptr_t)(b->memory + b->piece[next++].begin);
    }
    return called(b, cu->cuMemsetD8Async(b->memory, rubbish[0], (size_t)bytes, b->stream),
                  "cuMemsetD8Async");
}

static void close_bench(bench *b)
{
    const trp__cuda *cu = b->proof->cu;
    const bool gone = b->verdict->result == TRP__PROOF_BROKE; /* the worker ends */
    if (b->memory && !gone)
        cu->cuMemFreeAsync(b->memory, b->stream);
    if (b->stream && !gone) {
        cu->cuStreamSynchronize(b->stream);
        cu->cuStreamDestroy_v2(b->stream);
    }
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

/* The first PERIOD elements are made here, the others are copies of them. */
static bool fill_input(bench *b, uint32_t number, uint32_t pass)
{
    const trp__cuda *cu = b->proof->cu;
    const trp__proof_operand *o = operand_of(b, number);
    const uint64_t bytes = bytes_of(o), extent = (uint64_t)trp__proof_extent(o);
    const size_t count = extent < PERIOD ? (size_t)extent : PERIOD;
    const size_t first = count * trp__proof_width(o->type);
    const trp__cu_address to = b->memory + b->piece[number].begin;
    void *from = malloc(first ? first : 1);
    bool good =
        from && trp__proof_numbers(o, pass, b->proof->special, number * 16 + pass, from, count);
    if (!good) {
        free(from);
        return impossible(b, "no memory for a proof");
    }
    good = called(b, trp__cuda_upload(cu, to, from, first), "cuMemcpyHtoD");
    free(from);
    for (uint64_t done = first; good && done < bytes;) {
        uint64_t some = bytes - done < done ? bytes - done : done;
        good =
            called(b, cu->cuMemcpyAsync(to + done, to, (size_t)some, b->stream), "cuMemcpyAsync");
        done += some;
    }
    return good;
}

static bool fill_inputs(bench *b, uint32_t pass)
{
    if (!wait_for_end(b)) /* the guards, or what the pass before has left */
        return false;
    for (uint32_t i = 0; i < b->proof->operands; i++) {
        if (operand_of(b, i)->role == TRP__PROOF_INPUT && !fill_input(b, i, pass))
            return false;
    }
    return true;
}

static bool poison_outputs(bench *b, void *const at[], unsigned char with)
{
    for (uint32_t i = 0; i < b->targets; i++) {
        const uint32_t number = b->target[i].operand;
        const uint64_t bytes = bytes_of(operand_of(b, number));
        if (bytes > 0 && !called(b,
                                 b->proof->cu->cuMemsetD8Async((uintptr_t)at[number], with,
                                                               (size_t)bytes, b->stream),
                                 "cuMemsetD8Async"))
            return false;
    }
    return true;
}

/* Results. */

/* Reads the elements of one run into b->host, which holds offset `begin` on if it returns true in
 * *whole, else one element after the other. */
static bool read_run(bench *b, const target *t, const trp__proof_run *run, const void *at,
                     bool *whole)
{
    const trp__cuda *cu = b->proof->cu;
    const size_t width = trp__proof_width(operand_of(b, t->operand)->type);
    const uintptr_t base = (uintptr_t)at;
    const uint64_t bytes = (uint64_t)(run->end - run->begin) * width;
    *whole = bytes <= SPAN;
    if (*whole)
        return called(
            b, cu->cuMemcpyDtoH_v2(b->host, base + (uint64_t)run->begin * width, (size_t)bytes),
            "cuMemcpyDtoH");
    for (size_t i = 0; i < run->count; i++) {
        if (!called(b,
                    cu->cuMemcpyDtoH_v2(b->host + i * width,
                                        base + (uint64_t)t->picks.offset[run->first + i] * width,
                                        width),
                    "cuMemcpyDtoH"))
            return false;
    }
    return true;
}

static const void *element_of(const bench *b, const target *t, const trp__proof_run *run,
                              bool whole, size_t i)
{
    const size_t width = trp__proof_width(operand_of(b, t->operand)->type);
    const int64_t at = whole ? t->picks.offset[run->first + i] - run->begin : (int64_t)i;
    return b->host + (size_t)at * width;
}

static bool read_expected(bench *b, uint32_t pass)
{
    for (uint32_t k = 0; k < b->targets; k++) {
        target *t = &b->target[k];
        const uint8_t type = operand_of(b, t->operand)->type;
        double sum = 0;
        size_t finite = 0;
        for (size_t r = 0; r < t->picks.runs; r++) {
            const trp__proof_run *run = &t->picks.run[r];
            bool whole;
            if (!read_run(b, t, run, b->reference[t->operand], &whole))
                return false;
            for (size_t i = 0; i < run->count; i++) {
                double x = trp__proof_number(type, element_of(b, t, run, whole, i));
                t->expected[run->first + i] = x;
                finite += isfinite(x) ? 1 : 0;
                sum += isfinite(x) ? x * x : 0;
            }
        }
        /* Extreme numbers say nothing about what a rounding error is measured by. */
        if (pass != TRP__PROOF_EXTREME)
            t->scale = finite ? sqrt(sum / (double)finite) : 0;
    }
    return true;
}

static bool agrees(const trp__proof_operand *o, double scale, double got, double expected)
{
    const double largest = trp__proof_largest(o->type);
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected);
    if (o->relative == 0 && o->of_scale == 0)
        return got == expected;
    if (isinf(got) || isinf(expected))
        return signbit(got) == signbit(expected) && fabs(got) >= OVERFLOW * largest &&
               fabs(expected) >= OVERFLOW * largest;
    /* Denormals may be flushed. */
    const double tiny = trp__proof_width(o->type) > 1 ? trp__proof_smallest(o->type) : 0;
    return fabs(got - expected) <=
           o->relative * fabs(expected) + o->of_scale * (isfinite(scale) ? scale : 0) + tiny;
}

static const char *pass_name(uint32_t pass)
{
    return pass == TRP__PROOF_ORDINARY     ? "ordinary"
           : pass == TRP__PROOF_SATURATING ? "saturating"
                                           : "extreme";
}

static bool differs(bench *b, const target *t, size_t pick, uint32_t pass, int round, double got)
{
    const trp__proof_operand *o = operand_of(b, t->operand);
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

/* Whether all between the elements of a run is as it was. */
static bool gaps_are_whole(bench *b, const target *t, const trp__proof_run *run,
                           unsigned char poisoned)
{
    const size_t width = trp__proof_width(operand_of(b, t->operand)->type);
    const size_t span = (size_t)(run->end - run->begin);
    if (span == run->count)
        return true;
    for (size_t i = 0; i < run->count; i++) /* the elements are looked at by now */
        memset(b->host + (size_t)(t->picks.offset[run->first + i] - run->begin) * width, poisoned,
               width);
    for (size_t i = 0; i < span * width; i++) {
        if (b->host[i] == poisoned)
            continue;
        b->verdict->result = TRP__PROOF_WRONG;
        snprintf(b->verdict->reason, sizeof b->verdict->reason,
                 "it writes between the elements of %s", operand_of(b, t->operand)->name);
        return false;
    }
    return true;
}

static bool compare_target(bench *b, const target *t, uint32_t pass, int round)
{
    const trp__proof_operand *o = operand_of(b, t->operand);
    for (size_t r = 0; r < t->picks.runs; r++) {
        const trp__proof_run *run = &t->picks.run[r];
        bool whole;
        if (!read_run(b, t, run, b->at[t->operand], &whole))
            return false;
        for (size_t i = 0; i < run->count; i++) {
            double got = trp__proof_number(o->type, element_of(b, t, run, whole, i));
            if (!agrees(o, t->scale, got, t->expected[run->first + i]))
                return differs(b, t, run->first + i, pass, round, got);
        }
        if (whole && !gaps_are_whole(b, t, run, rubbish[round]))
            return false;
    }
    return true;
}

/* Guards. */

/* The guard before operand 0, for i = 0, or behind operand i - 1; the workspace counts as one. */
static piece guard_of(const bench *b, uint32_t i)
{
    if (i == 0)
        return (piece){b->piece[0].begin - GUARD, b->piece[0].begin};
    const uint64_t begin = b->piece[i - 1].end;
    return (piece){begin, i < b->pieces ? b->piece[i].begin : begin + GUARD};
}

static uint32_t guards(const bench *b)
{
    return b->proof->operands + 2;
}

static bool set_bytes(bench *b, uint64_t begin, uint64_t end, unsigned char byte)
{
    return begin == end || called(b,
                                  b->proof->cu->cuMemsetD8Async(b->memory + begin, byte,
                                                                (size_t)(end - begin), b->stream),
                                  "cuMemsetD8Async");
}

/* Guards and workspace hold what others have left there. */
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

static bool is_whole(bench *b, piece guard, unsigned char byte, bool *whole)
{
    const size_t bytes = (size_t)(guard.end - guard.begin);
    if (!called(b, b->proof->cu->cuMemcpyDtoH_v2(b->host, b->memory + guard.begin, bytes),
                "cuMemcpyDtoH"))
        return false;
    *whole = true;
    for (size_t i = 0; i < bytes && *whole; i++)
        *whole = b->host[i] == byte;
    return true;
}

static bool guards_are_whole(bench *b, unsigned char byte)
{
    const uint32_t last = guards(b) - 1;
    for (uint32_t i = 0; i <= last; i++) {
        bool whole;
        if (!is_whole(b, guard_of(b, i), byte, &whole))
            return false;
        if (whole)
            continue;
        b->verdict->result = TRP__PROOF_WRONG;
        snprintf(b->verdict->reason, sizeof b->verdict->reason, "it writes %s %s",
                 i == 0 ? "before" : "behind",
                 i == 0      ? operand_of(b, 0)->name
                 : i == last ? "its workspace"
                             : operand_of(b, i - 1)->name);
        return false;
    }
    return true;
}

/* Passes. */

static bool run_reference(bench *b, uint32_t pass)
{
    const trp__proof_place place = {b->reference, NULL, b->stream};
    trp_error error = {0};
    if (!poison_outputs(b, b->reference, rubbish[1]))
        return false;
    if (b->proof->reference(b->proof->context, &place, b->sample, b->targets, &error) != TRP_OK) {
        b->verdict->error = error;
        return failed(b, TRP__PROOF_IMPOSSIBLE, error.message);
    }
    return wait_for_end(b) && read_expected(b, pass);
}

/* What is refused is tried once more: a verdict is kept, and a call may fail for once. A lack of
 * memory says nothing about the plan. */
static bool run_plan(bench *b)
{
    void *workspace = (void *)(uintptr_t)(b->memory + b->piece[b->proof->operands].begin);
    const trp__proof_place place = {b->at, b->proof->workspace ? workspace : NULL, b->stream};
    trp_error error = {0};
    trp_status status = b->proof->run(b->proof->context, &place, &error);
    if (status != TRP_OK && wait_for_end(b))
        status = b->proof->run(b->proof->context, &place, &error);
    if (status == TRP_OK)
        return wait_for_end(b);
    b->verdict->error = error;
    return failed(b, status == TRP_E_MEMORY ? TRP__PROOF_IMPOSSIBLE : TRP__PROOF_REFUSED,
                  error.message);
}

static bool run_pass(bench *b, uint32_t pass)
{
    if (!fill_inputs(b, pass) || !run_reference(b, pass))
        return false;
    for (int round = 0; round < ROUNDS; round++) {
        const unsigned char byte = rubbish[round];
        if (!spoil_surroundings(b, byte) || !poison_outputs(b, b->at, byte) || !run_plan(b) ||
            !guards_are_whole(b, byte))
            return false;
        for (uint32_t i = 0; i < b->targets; i++) {
            if (!compare_target(b, &b->target[i], pass, round))
                return false;
        }
    }
    return true;
}

void trp__prove(const trp__proof *proof, trp__proof_verdict *out)
{
    static const uint32_t passes[] = {TRP__PROOF_ORDINARY, TRP__PROOF_SATURATING,
                                      TRP__PROOF_EXTREME};
    bench b = {.proof = proof, .verdict = out};
    *out = (trp__proof_verdict){.result = TRP__PROOF_GOOD};
    bool good = open_bench(&b);
    for (size_t i = 0; i < sizeof passes / sizeof *passes && good; i++) {
        if (proof->passes & passes[i])
            good = run_pass(&b, passes[i]);
    }
    close_bench(&b);
}

#include "tuning/bench.h"

#include "base/os/clock.h"
#include "tuning/prover_parts.h"

#include <troupe/convert.h>

#include <math.h>
#include <stdlib.h>

enum { PIECE = 1 << 18 }; /* random elements, which are then repeated */

/* Runs recorded in a graph, and the fewest that make recording worthwhile. */
enum { RECORDED = 16, RECORDED_LEAST = 4 };

/* Host time of a request besides the call that launches its work: 2 us and more on hosts of an
 * H100. */
#define REQUEST_US 2.0f

const trp__search_rules trp__bench_quick = {.finalists = 3,
                                            .rounds = 5,
                                            .kinds = TRP__SEARCH_KINDS,
                                            .most = 200,
                                            .length_us = 300,
                                            .final_us = 300,
                                            .enough = 0.98f};
const trp__search_rules trp__bench_full = {.finalists = 8,
                                           .rounds = 11,
                                           .kinds = TRP__SEARCH_KINDS,
                                           .most = 200,
                                           .length_us = 1000,
                                           .final_us = 1000,
                                           .enough = 0.98f};

/* Allocates in stream order: cuMemFree would wait for the other actors' streams. */
static bool allocate(trp__bench *b, uint64_t bytes, trp__cu_address *out)
{
    bool good = b->cu->cuMemAllocAsync(out, (size_t)bytes, b->stream) == 0;
    if (!good)
        *out = 0;
    return good && b->cu->cuStreamSynchronize(b->stream) == 0;
}

static bool take_copies(trp__bench *b, uint64_t l2_bytes)
{
    const uint64_t wanted = 2 * l2_bytes / b->copy_bytes + 1;
    b->copies = wanted < TRP__BENCH_COPIES ? (uint32_t)wanted : TRP__BENCH_COPIES;
    for (; b->copies > 0; b->copies /= 2) { /* one is better than none */
        if (allocate(b, b->copies * b->copy_bytes, &b->memory))
            return true;
    }
    return false;
}

bool trp__bench_open(trp__bench *b, const trp__cuda *cu, uint64_t copy_bytes, uint64_t l2_bytes,
                     uint64_t workspace_bytes)
{
    b->cu = cu;
    b->copy_bytes = copy_bytes ? copy_bytes : 1;
    return cu->cuStreamCreate(&b->stream, TRP__CU_STREAM_NON_BLOCKING) == 0 &&
           cu->cuEventCreate(&b->begin, 0) == 0 && cu->cuEventCreate(&b->end, 0) == 0 &&
           (workspace_bytes == 0 || allocate(b, workspace_bytes, &b->workspace)) &&
           take_copies(b, l2_bytes);
}

void trp__bench_close(trp__bench *b)
{
    const trp__cuda *cu = b->cu;
    if (b->stream)
        cu->cuStreamSynchronize(b->stream);
    if (b->begin)
        cu->cuEventDestroy_v2(b->begin);
    if (b->end)
        cu->cuEventDestroy_v2(b->end);
    if (b->memory)
        cu->cuMemFreeAsync(b->memory, b->stream);
    if (b->workspace)
        cu->cuMemFreeAsync(b->workspace, b->stream);
    if (b->stream)
        cu->cuStreamDestroy_v2(b->stream);
}

bool trp__bench_fill(const trp__bench *b, trp_dtype type, double low, double high,
                     trp__cu_address to, uint64_t bytes)
{
    const trp__proof_operand numbers = {.type = (uint8_t)type, .low = low, .high = high};
    const size_t width = trp__proof_width((uint8_t)type);
    const uint64_t whole = width ? bytes / width : 0;
    const size_t count = whole < PIECE ? (size_t)whole : PIECE, piece = count * width;
    void *from = count ? malloc(piece) : NULL;
    if (count == 0)
        return width > 0;
    bool good = from && trp__proof_numbers(&numbers, TRP__PROOF_ORDINARY, 0, 1, from, count) &&
                trp__cuda_upload(b->cu, to, from, piece) == 0;
    free(from);
    for (uint64_t done = piece; good && done < bytes;) {
        const uint64_t some = bytes - done < done ? bytes - done : done;
        good = b->cu->cuMemcpyAsync(to + done, to, (size_t)some, b->stream) == 0;
        done += some;
    }
    return good;
}

bool trp__bench_copy(const trp__bench *b)
{
    bool good = true;
    for (uint32_t copy = 1; good && copy < b->copies; copy++)
        good = b->cu->cuMemcpyAsync(b->memory + copy * b->copy_bytes, b->memory,
                                    (size_t)b->copy_bytes, b->stream) == 0;
    return good;
}

static bool enqueue(trp__bench *b, uint32_t count, trp__search_kind kind, trp__bench_run *run,
                    void *context)
{
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) {
        good = run(context, kind == TRP__SEARCH_HOT ? 0 : b->next);
        b->next = (b->next + 1) % b->copies;
    }
    return good;
}

/* Records `count` runs as a graph. NULL: they can't be recorded. */
static trp__cu_graph_exec record(trp__bench *b, uint32_t count, trp__search_kind kind,
                                 trp__bench_run *run, void *context)
{
    const trp__cuda *cu = b->cu;
    trp__cu_graph graph = NULL;
    trp__cu_graph_exec exec = NULL;
    if (cu->cuStreamBeginCapture_v2(b->stream, TRP__CU_STREAM_CAPTURE_MODE_RELAXED) != 0)
        return NULL;
    const bool good = enqueue(b, count, kind, run, context);
    if (cu->cuStreamEndCapture(b->stream, &graph) != 0 || !graph)
        return NULL;
    if (!good || cu->cuGraphInstantiateWithFlags(&exec, graph, 0) != 0)
        exec = NULL;
    cu->cuGraphDestroy(graph);
    return exec;
}

static bool replay(const trp__bench *b, trp__cu_graph_exec exec, uint32_t times)
{
    bool good = true;
    for (uint32_t i = 0; good && i < times; i++)
        good = b->cu->cuGraphLaunch(exec, b->stream) == 0;
    return good;
}

float trp__bench_measure(trp__bench *b, uint32_t count, trp__search_kind kind, trp__bench_run *run,
                         void *context)
{
    const trp__cuda *cu = b->cu;
    const uint32_t each = count < RECORDED ? count : RECORDED;
    trp__cu_graph_exec exec =
        b->replays && count >= RECORDED_LEAST ? record(b, each, kind, run, context) : NULL;
    const uint32_t times = exec ? (count + each - 1) / each : 0, runs = exec ? times * each : count;
    float ms = -1;
    bool good = (!exec || replay(b, exec, 1)) && cu->cuEventRecord(b->begin, b->stream) == 0;
    const int64_t from = trp__now_ns();
    good = good && (exec ? replay(b, exec, times) : enqueue(b, count, kind, run, context));
    const float sent = (float)(trp__now_ns() - from) / 1000 / (float)runs;
    good = good && cu->cuEventRecord(b->end, b->stream) == 0 &&
           cu->cuEventSynchronize(b->end) == 0 &&
           cu->cuEventElapsedTime(&ms, b->begin, b->end) == 0;
    if (exec)
        cu->cuGraphExecDestroy(exec);
    const float device = ms * 1000 / (float)runs, host = b->replays ? 0 : sent + REQUEST_US;
    return !good ? -1 : host > device ? host : device;
}

static double tolerance_of(trp_dtype type)
{
    const uint32_t bits = trp_dtype_bits(type);
    return type == TRP_F64 ? 1e-10 : bits >= 32 ? 2e-3 : bits == 16 ? 2e-2 : 0.1;
}

bool trp__bench_alike(trp_dtype type, const void *x, const void *y, size_t count)
{
    const size_t width = trp_dtype_bits(type) / 8;
    double norm = 0, distance = 0;
    for (size_t i = 0; i < count; i++) {
        double u, v;
        if (trp_convert(type, (const char *)x + i * width, TRP_F64, &u, 1) != TRP_OK ||
            trp_convert(type, (const char *)y + i * width, TRP_F64, &v, 1) != TRP_OK)
            return false;
        norm += u * u;
        distance += (u - v) * (u - v);
    }
    return sqrt(distance) <= tolerance_of(type) * sqrt(norm); /* false for a NaN */
}

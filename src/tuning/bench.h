/* A bench measures alternatives on a device: it has a stream of its own, and enough copies of the
 * operands that none is in the cache when its turn comes. */
#ifndef TRP_TUNING_BENCH_H
#define TRP_TUNING_BENCH_H

#include "driver/cuda.h"
#include "tuning/search.h"

#include <troupe/types.h>

#include <stddef.h>

enum { TRP__BENCH_COPIES = 16 };

/* The rules of searches at a bench, for TRP_TUNE_QUICK and TRP_TUNE_FULL. */
extern const trp__search_rules trp__bench_quick, trp__bench_full;

typedef struct trp__bench {
    const trp__cuda *cu;
    trp__cu_stream stream;
    trp__cu_event begin, end;
    trp__cu_address memory, workspace; /* workspace: 0 if none */
    uint64_t copy_bytes;
    uint32_t copies; /* at least 1 */
    uint32_t next;   /* the next copy */
    bool replays;    /* the actor replays repeated requests as a graph, which takes less host than
                        device time; set by the caller */
} trp__bench;

/* Enqueues one run on the stream, on the operands of a copy. False: it was refused. */
typedef bool trp__bench_run(void *context, uint32_t copy);

/* Opens a zeroed bench. Allocates copies of `copy_bytes`, up to twice the cache in all, or as many
 * as there is memory for. The device's context must be current. False: no memory; close the bench
 * then too. */
bool trp__bench_open(trp__bench *b, const trp__cuda *cu, uint64_t copy_bytes, uint64_t l2_bytes,
                     uint64_t workspace_bytes);
void trp__bench_close(trp__bench *b);

/* Fills `bytes` at an address with numbers of a real type from `low` to `high`. Every bit varies,
 * since power and so the clock depend on the data. */
bool trp__bench_fill(const trp__bench *b, trp_dtype type, double low, double high,
                     trp__cu_address to, uint64_t bytes);

/* Copies the first copy to all others. */
bool trp__bench_copy(const trp__bench *b);

/* Measures microseconds per run over at least `count` runs, on all copies in turn or (hot) on the
 * first one. The result is the larger of device time and host time of a worker that sends only such
 * requests: two kernels that a GPU finishes sooner than they are sent are not faster than in an
 * actor. For an actor that replays it is the device time of a replay. Negative: a run was refused,
 * or the device failed. */
float trp__bench_measure(trp__bench *b, uint32_t count, trp__search_kind kind, trp__bench_run *run,
                         void *context);

/* Tells whether two results differ no more than sums in another order do: the norm of the
 * difference relative to that of one. `type` is real. False for a NaN and for types without
 * numbers. */
bool trp__bench_alike(trp_dtype type, const void *x, const void *y, size_t count);

#endif

/* A place to measure ways to do one thing on a device: a stream of its own, and operands as often
 * as it takes that none is in the cache when its turn comes. */
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
    trp__cu_address memory, workspace; /* workspace: 0 if there is none */
    uint64_t copy_bytes;
    uint32_t copies; /* at least 1 */
    uint32_t next;   /* whose turn it is */
    bool replays;    /* the actor sends what it has done often as a graph, which is sent sooner than
                      * the device does it; set by the caller */
} trp__bench;

/* Enqueues one run on the stream, on the operands of a copy. False: it was refused. */
typedef bool trp__bench_run(void *context, uint32_t copy);

/* Zeroed before. Takes as many copies of `copy_bytes` as there is memory for, up to twice the
 * cache. The device's context must be current. False: there is no memory. What was taken is closed
 * alike. */
bool trp__bench_open(trp__bench *b, const trp__cuda *cu, uint64_t copy_bytes, uint64_t l2_bytes,
                     uint64_t workspace_bytes);
void trp__bench_close(trp__bench *b);

/* Fills `bytes` at an address with numbers of a real type from `low` to `high`, of which no bit is
 * always the same, since what a device draws, and so its clock, depends on them. */
bool trp__bench_fill(const trp__bench *b, trp_dtype type, double low, double high,
                     trp__cu_address to, uint64_t bytes);

/* Makes all copies what the first one is. */
bool trp__bench_copy(const trp__bench *b);

/* Microseconds of one run, over `count` or a few more, on one copy after the other or (hot) on the
 * first alone: the device's, or those of a worker that sends nothing but such requests, if they are
 * more. So a way of two kernels that a GPU does sooner than it can be sent is no faster than it is
 * in an actor. Of what an actor replays: the device's, replayed too. Negative: one was refused, or
 * the device has failed. */
float trp__bench_measure(trp__bench *b, uint32_t count, trp__search_kind kind, trp__bench_run *run,
                         void *context);

/* Whether two results are as alike as sums are that were added up in another order: the distance of
 * the two by the size of one. `type` is real. Of a NaN, and of types without numbers: false. */
bool trp__bench_alike(trp_dtype type, const void *x, const void *y, size_t count);

#endif

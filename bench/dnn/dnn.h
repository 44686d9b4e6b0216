/* A convolution of the dnn actor's, in all three passes: tensors of bf16 with their channels last.
 */
#ifndef TRP_BENCH_DNN_DNN_H
#define TRP_BENCH_DNN_DNN_H

#include "bench/suite/scratch.h"

#include <troupe/layers.h>

typedef enum dnn_pass { DNN_FORWARD, DNN_DATA, DNN_FILTER, DNN_PASSES } dnn_pass;

/* Square images and filters; as much padding as makes a stride of 1 keep the size. */
typedef struct dnn_shape {
    int64_t images, channels, filters, input, filter, stride, groups;
    int count; /* how often a network has it */
} dnn_shape;

/* So long a first request may take, with a full search, and all that are timed together. These
 * have no deadline of their own: one that has one shares no timeline write with others, which costs
 * the GPU some microseconds between two kernels, and most programs have none. */
#define DNN_LONGEST_NS (INT64_C(60) * 1000000000)

/* Of the first request of a worker: small, for it is the start that is measured. */
#define DNN_FIRST_SHAPE ((dnn_shape){2, 64, 64, 14, 3, 1, 1, 1})

int64_t dnn_output(const dnn_shape *x);
double dnn_flop(const dnn_shape *x);

/* "3x3/2 128-256 56 n64 g32 dgrad"; bench/peers/torch_dnn.py gives the same names. */
void dnn_name(const dnn_shape *x, dnn_pass pass, char *out, size_t size);

/* The buffers of all passes: what a pass writes lies apart from what any of them reads. */
typedef struct dnn_conv {
    suite *suite;
    trp_actor *actor;
    dnn_shape what;
    dnn_pass pass;
    trp_tune tune;
    bool fused; /* forward: bias and relu too */
    trp_buffer x, w, y, out, bias;
    trp_dnn_ran ran;
} dnn_conv;

/* False: what failed is kept. dnn_end(): also then. */
bool dnn_begin(dnn_conv *c);
void dnn_end(dnn_conv *c);

/* Sends it; a trp_completion may be NULL: then it is one of many, without a deadline. */
trp_status dnn_send(dnn_conv *c, trp_dnn_ran *ran, trp_completion *completion);

/* The first, alone: makes the plan, and says how it was run. */
bool dnn_run_first(dnn_conv *c);

/* A side: sends so many, and waits. */
bool dnn_run(void *context, uint64_t count);

/* A device of the section's own, in place of the suite's, whose worker finds nothing that was made
 * before. False: what failed is kept. */
typedef struct dnn_place {
    scratch files;
    trp_device *before;
} dnn_place;

bool dnn_open(suite *s, dnn_place *p);
void dnn_close(suite *s, dnn_place *p);

/* What PyTorch takes for the row of that name, in nanoseconds, as --torch has it; 0: unknown. */
double dnn_torch_ns(const suite *s, const char *name);

#endif

/* Defines the convolutions of the dnn suite: bf16 tensors with channels last, in all three passes.
 */
#ifndef TRP_BENCH_DNN_DNN_H
#define TRP_BENCH_DNN_DNN_H

#include "bench/suite/scratch.h"

#include <troupe/layers.h>

typedef enum dnn_pass { DNN_FORWARD, DNN_DATA, DNN_FILTER, DNN_PASSES } dnn_pass;

/* A convolution of square images by square filters; at stride 1 the padding preserves the image
 * size. */
typedef struct dnn_shape {
    int64_t images, channels, filters, input, filter, stride, groups;
    int count; /* number of occurrences in the network */
} dnn_shape;

/* Deadline of a first request with a full search, and of the wait for all timed requests. The timed
 * requests have no deadline of their own: a request with a deadline cannot share a timeline write
 * with others, which costs the GPU some microseconds between two kernels, and most programs set
 * none. */
#define DNN_LONGEST_NS (INT64_C(60) * 1000000000)

/* The first request of a worker, small because the start is measured. */
#define DNN_FIRST_SHAPE ((dnn_shape){2, 64, 64, 14, 3, 1, 1, 1})

int64_t dnn_output(const dnn_shape *x);
double dnn_flop(const dnn_shape *x);

/* Formats a name such as "3x3/2 128-256 56 n64 g32 dgrad", equal to that in
 * bench/peers/torch_dnn.py. */
void dnn_name(const dnn_shape *x, dnn_pass pass, char *out, size_t size);

/* The buffers of all passes. No pass writes a buffer that any pass reads. */
typedef struct dnn_conv {
    suite *suite;
    trp_actor *actor;
    dnn_shape what;
    dnn_pass pass;
    trp_tune tune;
    bool fused; /* forward with bias and relu */
    trp_buffer x, w, y, out, bias;
    trp_dnn_ran ran;
} dnn_conv;

/* Returns false after it has recorded the error. Call dnn_end() in either case. */
bool dnn_begin(dnn_conv *c);
void dnn_end(dnn_conv *c);

/* Sends the request. Without a completion the request has no deadline and is one of many. */
trp_status dnn_send(dnn_conv *c, trp_dnn_ran *ran, trp_completion *completion);

/* Runs the first request alone, which creates the plan, and records how it ran. */
bool dnn_run_first(dnn_conv *c);

/* Sends `count` requests and waits: a side of stats_compare(). */
bool dnn_run(void *context, uint64_t count);

/* A separate device of the section whose worker finds no cached plans. dnn_open() returns false
 * after it has recorded the error. */
typedef struct dnn_place {
    scratch files;
    trp_device *before;
} dnn_place;

bool dnn_open(suite *s, dnn_place *p);
void dnn_close(suite *s, dnn_place *p);

/* Returns PyTorch's time for the row of that name from --torch in nanoseconds, or 0 if unknown. */
double dnn_torch_ns(const suite *s, const char *name);

#endif

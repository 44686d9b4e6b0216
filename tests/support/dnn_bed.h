/* The dnn actor on the fake cuDNN and cuBLASLt, which run the graphs that a test lists.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_DNN_BED_H
#define TESTS_SUPPORT_DNN_BED_H

#include "support/kernels.h"

#include <troupe/dnn.h>

typedef struct db_bed {
    h_kernels k;
    trp_actor *dnn;
    trp_device_options options;
    uint64_t deadline_ns; /* deadline of each convolution; 0: that of the device */
} db_bed;

/* options NULL: h_options(). `takes`: the graphs that cuDNN runs at first. */
db_bed db_open(const trp_device_options *options, const char *takes);
void db_close(db_bed *b);
/* Opens the device again: a new worker, as in another process of the application. */
void db_reopen(db_bed *b);

/* Computes relu(conv(x, w) + b) for `n` images of 16 channels and 6 x 6 pixels, f16, all ones, in
 * one request; awaits it and checks results. options.ran is set to `ran`. */
trp_status db_conv(const db_bed *b, int64_t n, trp_dnn_options options, trp_dnn_ran *ran,
                   trp_error *error);

/* Sends the same request, without awaiting it. */
trp_completion db_begin_conv(const db_bed *b, int64_t n);

/* A buffer of f16, with every element `value`. */
trp_buffer db_buffer(const db_bed *b, size_t count, uint16_t value);

#endif

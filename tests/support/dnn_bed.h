/* The dnn actor on fakes of cuDNN and cuBLASLt, which take what a test says.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_DNN_BED_H
#define TESTS_SUPPORT_DNN_BED_H

#include "support/kernels.h"

#include <troupe/dnn.h>

typedef struct db_bed {
    h_kernels k;
    trp_actor *dnn;
    trp_device_options options;
    uint64_t deadline_ns; /* of each convolution; 0: the device's */
} db_bed;

/* options NULL: h_options(). `takes`: what cuDNN takes at first. */
db_bed db_open(const trp_device_options *options, const char *takes);
void db_close(db_bed *b);
/* Another worker, another process of the application's. */
void db_reopen(db_bed *b);

/* relu(conv(x, w) + b) of `n` images of 16 channels and 6 x 6 pixels, f16, all ones, as one
 * request: sent, awaited, and checked if it ends well. options.ran is set to `ran`. */
trp_status db_conv(const db_bed *b, int64_t n, trp_dnn_options options, trp_dnn_ran *ran,
                   trp_error *error);

/* The same, only sent. */
trp_completion db_begin_conv(const db_bed *b, int64_t n);

/* f16, every element `value`. */
trp_buffer db_buffer(const db_bed *b, size_t count, uint16_t value);

#endif

/* Recurrent networks in float64, as rnn.h defines them, number by number: each operation is noted
 * on a tape, along which the gradients go back. Nothing of it knows what the gradient of a cell is.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_RNN_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_RNN_REFERENCE_H

#include <troupe/rnn.h>

/* In the layout of rnn.h. What is not there is NULL. Vectors behind the end of a sequence are not
 * looked at, and become 0 in results. */
typedef struct rr_problem {
    trp_rnn net; /* without dropout */
    int64_t steps, batch;
    bool batch_first;
    const int32_t *lengths;
    const double *x, *w, *h0, *c0;
    double *y, *h1, *c1;
    const double *dy, *dh1, *dc1;
    double *dx, *dh0, *dc0, *dw; /* all of them, or no gradients */
    double kink; /* the number next to 0 that TRP_RNN_RELU took for negative or positive */
} rr_problem;

void rr_run(rr_problem *p);

/* Elements of each array. */
size_t rr_vectors(const rr_problem *p, int64_t elements); /* of x: net.input; of y: rr_outputs() */
size_t rr_outputs(const trp_rnn *net);
size_t rr_states(const rr_problem *p, bool c);

#endif

/* Recurrent networks in float64, as rnn.h defines them, number by number: a tape records each
 * operation, and gradients are propagated along it. No gradient of a cell is written by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_RNN_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_RNN_REFERENCE_H

#include <troupe/rnn.h>

/* Arrays in the layout of rnn.h; NULL: absent. Vectors after the end of a sequence are not read,
 * and are 0 in results. */
typedef struct rr_problem {
    trp_rnn net; /* without dropout */
    int64_t steps, batch;
    bool batch_first;
    const int32_t *lengths;
    const double *x, *w, *h0, *c0;
    double *y, *h1, *c1;
    const double *dy, *dh1, *dc1;
    double *dx, *dh0, *dc0, *dw; /* all of them, or no gradients */
    double kink;                 /* the argument of TRP_RNN_RELU nearest to 0 */
} rr_problem;

void rr_run(rr_problem *p);

/* Elements of each array. */
size_t rr_vectors(const rr_problem *p, int64_t elements); /* of x: net.input; of y: rr_outputs() */
size_t rr_outputs(const trp_rnn *net);
size_t rr_states(const rr_problem *p, bool c);

#endif

/* The matmul actor in one worker, with its own cache folder and a count of calls of its library,
 * for tests of plans and searches. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PLAN_BED_H
#define TESTS_SUPPORT_PLAN_BED_H

#include "support/harness.h"

enum { PB_SIDE = 48, PB_BYTES = 1 << 20 };

typedef struct plan_bed {
    h_world world;
    trp_actor *matmul;
    trp_buffer a, b, d, extra; /* PB_BYTES each */
    char folder[64], counts_file[96];
} plan_bed;

extern plan_bed pb;

/* Opens the device; each worker begins without plans. */
void pb_open(void);
void pb_close(void);

/* Returns a product of PB_SIDE x PB_SIDE matrices of bf16. */
trp_matmul_request pb_plain(void);
trp_status pb_run(const trp_matmul_request *request);
/* Runs that product, with a search or without one. */
trp_status pb_run_tuned(trp_tune tune);

/* Calls of the fake library by a worker that ended in order. */
typedef struct pb_counts {
    unsigned long long heuristics, checks, matmuls, left;
} pb_counts;

/* Reads the last `room` counts of workers that ended in order; returns how many there were in all.
 */
size_t pb_all_counts(pb_counts *out, size_t room);
pb_counts pb_last_counts(void);

void pb_empty_folder(void);
/* Finds the only tuning record. */
void pb_find_record(char path[256]);

/* Claims all searches, as a search in another process would; closing the descriptor releases them.
 */
int pb_hold_searches(void);

/* Runs the cases on a fake or real GPU in their own folder; skipped on the host. */
int pb_main(int argc, char **argv, const h_case *cases, size_t count);

#endif

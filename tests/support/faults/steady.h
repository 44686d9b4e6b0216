/* What a program holds while it runs on and on: it may go up and down, but the least that is seen
 * in a late phase must not be more than in an early one. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_STEADY_H
#define TESTS_SUPPORT_FAULTS_STEADY_H

#include <stddef.h>
#include <stdint.h>

typedef struct h_steady {
    uint64_t samples;
    /* The least that was seen of each. */
    size_t fds, threads, children;
    uint64_t virtual_bytes, resident_bytes;
} h_steady;

/* Looks once more. */
void h_steady_sample(h_steady *least);

/* Prints both phases, and fails if the later one holds more. Memory is not compared under a
 * sanitizer, which keeps freed memory for a while. */
void h_steady_check(const h_steady *early, const h_steady *late);

#endif

/* Resources of a program that runs for a long time. They may rise and fall, but the minimum of a
 * late phase must not exceed that of an early phase. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_STEADY_H
#define TESTS_SUPPORT_FAULTS_STEADY_H

#include <stddef.h>
#include <stdint.h>

typedef struct h_steady {
    uint64_t samples;
    /* minimum of each */
    size_t fds, threads, children;
    uint64_t virtual_bytes, resident_bytes;
} h_steady;

/* Takes another sample. */
void h_steady_sample(h_steady *least);

/* Prints both phases, and fails if the later one holds more. Does not compare memory under a
 * sanitizer, which keeps freed memory for a while. */
void h_steady_check(const h_steady *early, const h_steady *late);

#endif

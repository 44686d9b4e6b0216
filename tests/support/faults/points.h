/* The table of fault points (src/base/fault_point.h), for tests that walk it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_POINTS_H
#define TESTS_SUPPORT_FAULTS_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct h_point {
    const char *name;
    bool in_worker; /* else in the application */
    bool can_fail;  /* the action "fail" means something there */
} h_point;

/* All points of a device, in the order in which the processes count their hits. */
const h_point *h_points(size_t *count);

/* Those of the kernel cache. */
const h_point *h_cache_points(size_t *count);

/* The place of a point in the table; fails if there is none of that name. */
size_t h_point_find(const char *name);

/* How often all processes that share TROUPE_FAULT_POINT_HITS have come to a point so far. */
uint32_t h_point_hits(const char *name);

/* Whether this build has them. */
bool h_points_built(void);

#endif

/* The table of fault points (src/base/fault_point.h), for tests that walk it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_POINTS_H
#define TESTS_SUPPORT_FAULTS_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct h_point {
    const char *name;
    bool in_worker; /* false: in the application */
    bool can_fail;  /* the point supports the action "fail" */
} h_point;

/* Returns the points of a device, in the order in which processes count their hits. */
const h_point *h_points(size_t *count);

/* Returns the points of the kernel cache. */
const h_point *h_cache_points(size_t *count);

/* Returns the index of a point in the table; fails if there is none of that name. */
size_t h_point_find(const char *name);

/* Returns how often all processes that share TROUPE_FAULT_POINT_HITS have reached a point. */
uint32_t h_point_hits(const char *name);

/* Returns whether this build has fault points. */
bool h_points_built(void);

#endif

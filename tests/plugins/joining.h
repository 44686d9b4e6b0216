/* What the test of joining sends to the actor of plugins/joining.c. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef TESTS_PLUGINS_JOINING_H
#define TESTS_PLUGINS_JOINING_H

#include <stdint.h>

enum {
    JOINING_WORDS = 16, /* uint32_t in each buffer */
    /* Codes. Accesses: an output, two inputs; payload: a uint32_t. */
    JOINING_UPDATE = 1, /* out = 3 out + 5 x + 7 y + payload */
    JOINING_COVER,      /* out = 5 x + 7 y + payload */
    JOINING_REFUSED,    /* the same; handle_joined() fails */
    JOINING_APART,      /* the same; never joined */
    JOINING_REPORT,     /* writes a joining_report to its one access */
};

typedef struct joining_report {
    uint32_t calls;   /* of handle() */
    uint32_t joined;  /* of handle_joined() that succeeded */
    uint32_t most;    /* requests in one of them */
    uint32_t refused; /* calls of handle_joined() that failed */
} joining_report;

static inline uint32_t joining_result(uint32_t code, uint32_t out, uint32_t x, uint32_t y,
                                      uint32_t payload)
{
    return (code == JOINING_UPDATE ? 3 * out : 0) + 5 * x + 7 * y + payload;
}

#endif

/* A buffer of a random problem. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_BLOCK_H
#define TESTS_SUPPORT_PROBLEMS_BLOCK_H

#include <troupe/troupe.h>

#include <stdbool.h>
#include <stddef.h>

/* The contents of a buffer before and afterwards, and the bytes that may have changed. */
typedef struct block {
    size_t bytes;
    char *before, *after; /* NULL: the problem does not have this buffer */
    bool *writable;
    trp_buffer buffer;
} block;

/* Makes a block none of whose bytes may change. Takes ownership of `before`, from malloc(); NULL:
 * bytes of 0xff. */
block block_make(size_t bytes, void *before);

void block_free(block *b);

#endif

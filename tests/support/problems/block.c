#include "support/problems/block.h"

#include "support/harness.h"

block block_make(size_t bytes, void *before)
{
    block b = {.bytes = bytes, .before = before, .after = h_malloc(bytes)};
    b.writable = h_malloc(bytes);
    memset(b.writable, false, bytes);
    if (!before) {
        b.before = h_malloc(bytes);
        memset(b.before, 0xff, bytes);
    }
    return b;
}

void block_free(block *b)
{
    free(b->before);
    free(b->after);
    free(b->writable);
}

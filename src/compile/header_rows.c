#include "compile/header_rows.h"

#include "base/checksum.h"

#include <stdlib.h>
#include <string.h>

static size_t *slot_of(const trp__jit_headers *h, bool memory, const char *name)
{
    size_t at = trp__checksum(name, strlen(name)) + memory;
    for (;; at++) {
        size_t *slot = &h->slot[at & (h->slots - 1)];
        if (*slot == 0)
            return slot;
        const trp__jit_header_row *row = &h->row[*slot - 1];
        if ((row->kind == TRP__JIT_FOUND_MEMORY) == memory && strcmp(row->name, name) == 0)
            return slot;
    }
}

const trp__jit_header_row *trp__jit_row_find(const trp__jit_headers *h, bool memory,
                                             const char *name)
{
    size_t slot = h->slots ? *slot_of(h, memory, name) : 0;
    return slot ? &h->row[slot - 1] : NULL;
}

/* Returns the slot of a file's first row, in the second half of the table. */
static size_t *slot_of_file(const trp__jit_headers *h, const trp__jit_stamp *stamp)
{
    const uint64_t file[2] = {stamp->device, stamp->inode};
    for (size_t at = trp__checksum(file, sizeof file);; at++) {
        size_t *slot = &h->slot[h->slots + (at & (h->slots - 1))];
        if (*slot == 0)
            return slot;
        const trp__jit_stamp *other = &h->row[*slot - 1].stamp;
        if (other->device == stamp->device && other->inode == stamp->inode)
            return slot;
    }
}

void trp__jit_row_note(trp__jit_headers *h, size_t row)
{
    const trp__jit_header_row *r = &h->row[row];
    *slot_of(h, r->kind == TRP__JIT_FOUND_MEMORY, r->name) = row + 1;
    if (r->kind == TRP__JIT_FOUND_FILE && r->same_as == row)
        *slot_of_file(h, &r->stamp) = row + 1;
}

bool trp__jit_rows_grow(trp__jit_headers *h)
{
    size_t wanted = h->slots ? 2 * h->slots : 128;
    size_t *slot = calloc(2 * wanted, sizeof *slot);
    if (!slot)
        return false;
    free(h->slot);
    h->slot = slot;
    h->slots = wanted;
    for (size_t i = 0; i < h->count; i++)
        trp__jit_row_note(h, i);
    return true;
}

size_t trp__jit_row_of_file(const trp__jit_headers *h, const trp__jit_stamp *stamp)
{
    size_t slot = h->slots ? *slot_of_file(h, stamp) : 0;
    return slot ? slot - 1 : h->count;
}

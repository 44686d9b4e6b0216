/* Finds rows of a compile's headers by name and by file: a hash table with two halves. */
#ifndef TRP_COMPILE_HEADER_ROWS_H
#define TRP_COMPILE_HEADER_ROWS_H

#include "compile/headers.h"

/* Finds a row by its name. NULL: there is none. */
const trp__jit_header_row *trp__jit_row_find(const trp__jit_headers *h, bool memory,
                                             const char *name);

/* Returns the first row of the same file, or the number of rows. A second name of a file (through a
 * link or another folder) matters since the compiler may skip it (#pragma once). */
size_t trp__jit_row_of_file(const trp__jit_headers *h, const trp__jit_stamp *stamp);

/* Enters an existing row into the table, which has room. */
void trp__jit_row_note(trp__jit_headers *h, size_t row);

/* Doubles the table. False: no memory. */
bool trp__jit_rows_grow(trp__jit_headers *h);

#endif

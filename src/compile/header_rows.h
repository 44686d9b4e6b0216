/* The rows of a compile's headers, found by their names and by file in a table of twice as many
 * places. */
#ifndef TRP_COMPILE_HEADER_ROWS_H
#define TRP_COMPILE_HEADER_ROWS_H

#include "compile/headers.h"

/* NULL: there is none. */
const trp__jit_header_row *trp__jit_row_find(const trp__jit_headers *h, bool memory,
                                             const char *name);

/* Another name of a file, through a link or a second folder, may tell the compiler that it has read
 * it (#pragma once): its first row, or the next one. */
size_t trp__jit_row_of_file(const trp__jit_headers *h, const trp__jit_stamp *stamp);

/* Puts a row that is there into the table, which has a place for it. */
void trp__jit_row_note(trp__jit_headers *h, size_t row);

/* Makes the table larger. False: there is no memory. */
bool trp__jit_rows_grow(trp__jit_headers *h);

#endif

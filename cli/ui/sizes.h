/* Lists of numbers in options: "3,3". */
#ifndef TRP_CLI_UI_SIZES_H
#define TRP_CLI_UI_SIZES_H

#include <stdbool.h>
#include <stdint.h>

enum { SIZES_MAX = 4 };

/* Parses the first of numbers like "3,0,5", each below 2^31, and returns the rest, which may be
 * empty; NULL if there is none. */
const char *sizes_next(const char *text, int64_t *out);

/* Reads up to four numbers; returns the count, 0 after reporting a mistake. `name` is the
 * option's. */
uint32_t sizes_read(const char *name, const char *text, int64_t out[SIZES_MAX]);

/* Reads one number for each dimension, or one for all; a NULL text leaves `out` unchanged. */
bool sizes_each(const char *name, const char *text, uint32_t dims, int64_t *out);

#endif

/* Lists of numbers in options: "3,3". */
#ifndef TRP_CLI_UI_SIZES_H
#define TRP_CLI_UI_SIZES_H

#include <stdbool.h>
#include <stdint.h>

enum { SIZES_MAX = 4 };

/* The first of numbers like "3,0,5", each below 2^31: where the next begins, which may be the end
 * of the text; NULL if there is none. */
const char *sizes_next(const char *text, int64_t *out);

/* Up to four numbers; how many, 0 after telling that they are none. `name` is the option's. */
uint32_t sizes_read(const char *name, const char *text, int64_t out[SIZES_MAX]);

/* One for each dimension, or one for all; a text of NULL leaves `out` as it is. */
bool sizes_each(const char *name, const char *text, uint32_t dims, int64_t *out);

#endif

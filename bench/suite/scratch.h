/* Files that a section makes, below TMPDIR. */
#ifndef TRP_BENCH_SUITE_SCRATCH_H
#define TRP_BENCH_SUITE_SCRATCH_H

#include "suite.h"

enum { SCRATCH_FOLDER = 200, SCRATCH_PATH = SCRATCH_FOLDER + 40 };

/* A folder for the files of a section. While there is one, workers that start have no cache of
 * kernels but what the section sets. */
typedef struct scratch {
    char folder[SCRATCH_FOLDER]; /* empty: there is none */
    char *cache_before, *packs_before;
} scratch;

/* False, and what failed is kept: scratch_end() is due nevertheless. It removes all that there is.
 */
bool scratch_begin(suite *s, scratch *x);
void scratch_end(scratch *x);

/* Where a file of that name is; names are short. */
void scratch_path(const scratch *x, const char *name, char out[SCRATCH_PATH]);

/* Makes a file with this text. */
bool scratch_write(suite *s, const char *path, const char *text);

/* An empty file outside of any folder, open for reading and writing, and its name; -1, and what
 * failed is kept. The caller closes and removes it. */
int scratch_file(suite *s, char path[SCRATCH_FOLDER]);

#endif

/* Creates temporary files of a section below TMPDIR. */
#ifndef TRP_BENCH_SUITE_SCRATCH_H
#define TRP_BENCH_SUITE_SCRATCH_H

#include "suite.h"

enum { SCRATCH_FOLDER = 200, SCRATCH_PATH = SCRATCH_FOLDER + 40 };

/* A folder for the files of a section. Workers that start while it exists have no kernel cache
 * except one that the section sets. */
typedef struct scratch {
    char folder[SCRATCH_FOLDER]; /* empty: no folder */
    char *cache_before, *packs_before;
} scratch;

/* scratch_begin() returns false after it has recorded the error; call scratch_end() in either case.
 * It removes all files of the folder.
 */
bool scratch_begin(suite *s, scratch *x);
void scratch_end(scratch *x);

/* Writes the path of the file of that name; names are short. */
void scratch_path(const scratch *x, const char *name, char out[SCRATCH_PATH]);

/* Creates a file with this text. */
bool scratch_write(suite *s, const char *path, const char *text);

/* Creates an empty file outside any folder and opens it for reading and writing. Returns -1 after
 * it has recorded the error. The caller closes and removes the file. */
int scratch_file(suite *s, char path[SCRATCH_FOLDER]);

#endif

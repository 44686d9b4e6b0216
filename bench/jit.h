/* Shared by the sections about compiled kernels: a separate cache, sources, processes. */
#ifndef TRP_BENCH_JIT_H
#define TRP_BENCH_JIT_H

#include "bench/suite/scratch.h"

#include <sys/types.h>

enum { JIT_STEPS = 1500, JIT_STEPS_SMALL = 20 };

/* A folder with a cache that programs started later use. */
typedef struct jit_place {
    scratch files;
    char cache[SCRATCH_PATH], file[SCRATCH_PATH], list[SCRATCH_PATH], pack[SCRATCH_PATH];
    char target[16]; /* "sm_90" */
    char *source;
} jit_place;

/* Returns false after it has recorded the error; call jit_end() in either case. */
bool jit_begin(suite *s, jit_place *p);
void jit_end(jit_place *p);

/* Returns the source of a kernel of about 50 KB, a chain of products that the compiler cannot
 * shorten. The kernel writes only to a non-null address. Different numbers give different kernels.
 * The caller frees the text; NULL: out of memory. */
char *jit_source(unsigned number, unsigned steps);

bool jit_start(suite *s, const char *const *arguments, pid_t *pid);
bool jit_finish(suite *s, pid_t pid);

#endif

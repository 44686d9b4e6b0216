/* What the sections about compiled kernels share: a cache of their own, sources, processes. */
#ifndef TRP_BENCH_JIT_H
#define TRP_BENCH_JIT_H

#include "bench/suite/scratch.h"

#include <sys/types.h>

enum { JIT_STEPS = 1500, JIT_STEPS_SMALL = 20 };

/* A folder with a cache in it, which the programs that are started from here on use. */
typedef struct jit_place {
    scratch files;
    char cache[SCRATCH_PATH], file[SCRATCH_PATH], list[SCRATCH_PATH], pack[SCRATCH_PATH];
    char target[16]; /* "sm_90" */
    char *source;
} jit_place;

/* False, and what failed is kept: jit_end() is due nevertheless. */
bool jit_begin(suite *s, jit_place *p);
void jit_end(jit_place *p);

/* A kernel of about 50 KB: a chain of products that the compiler can't shorten. It writes nothing
 * unless it is given an address. `number` makes it another one. The caller frees it; NULL: no
 * memory. */
char *jit_source(unsigned number, unsigned steps);

/* The command itself, for what is measured by processes. What it prints goes to a file, or nowhere.
 */
bool jit_start_into(suite *s, const char *const *arguments, const char *output, pid_t *pid);
bool jit_start(suite *s, const char *const *arguments, pid_t *pid);
bool jit_finish(suite *s, pid_t pid);

#endif

/* Libraries of the CUDA toolkit, opened at run time: where they lie, and which of two fits the
 * driver. */
#ifndef TRP_DRIVER_TOOLKIT_H
#define TRP_DRIVER_TOOLKIT_H

#include "base/dynlib.h"

#include <troupe/status.h>

#include <pthread.h>

/* One library of a process. What comes first is filled in by its owner, with `lock` initialised. */
typedef struct trp__toolkit_library {
    const char *name; /* for messages: "cublas" */
    const char *env;  /* the variable that may hold its full path: "TROUPE_CUBLAS" */
    const char *soname_13, *soname_12; /* those that come with CUDA 13 and 12 */
    const char *package_hint;          /* how to get it */
    const trp__dynlib_symbol *symbols;
    size_t symbol_count;
    void *table; /* of the loaded functions, see trp__dynlib_open() */

    pthread_mutex_t lock;
    trp__dynlib library; /* never closed: these libraries keep threads and hooks */
} trp__toolkit_library;

/* Opens it, once per process and for its whole life; after a failure the next call tries again. Any
 * thread. TRP_E_MISSING says in `error` what to install. */
trp_status trp__toolkit_load(trp__toolkit_library *library, trp_error *error);

/* The file that it is loaded from; before that, the one that trp__toolkit_load() would try first,
 * see trp__dynlib_find(). */
bool trp__toolkit_find(trp__toolkit_library *library, char path[TRP__DYNLIB_PATH_SIZE]);

#endif

/* Libraries of the CUDA toolkit, opened at run time: their folders, and the version that fits the
 * driver. */
#ifndef TRP_DRIVER_TOOLKIT_H
#define TRP_DRIVER_TOOLKIT_H

#include "base/os/dynlib.h"
#include "driver/cuda_abi.h"

#include <troupe/status.h>

#include <pthread.h>

/* One library of a process. The owner fills in the members before `lock`, which is initialised. */
typedef struct trp__toolkit_library {
    const char *name; /* for messages: "cublas" */
    const char *env;  /* the variable that may hold its full path: "TROUPE_CUBLAS" */
    /* File names in CUDA 13 and 12; soname_13 is NULL if both have the same. */
    const char *soname_13, *soname_12;
    const char *package_hint; /* how to get it */
    const trp__dynlib_symbol *symbols;
    size_t symbol_count;
    void *table; /* of the loaded functions, see trp__dynlib_open() */

    pthread_mutex_t lock;
    trp__dynlib library; /* never closed: these libraries keep threads and hooks */
} trp__toolkit_library;

/* A library is a table of its functions, an X-macro whose rows are (result, name, parameters,
 * required). From it come the struct that the loaded functions are called through,
 *
 *     typedef struct trp__cufft {
 *         TRP__CUFFT_FUNCTIONS(TRP__TOOLKIT_MEMBER)
 *     } trp__cufft;
 *     TRP__TOOLKIT_DECLARE(trp__cufft);
 *
 * in its header, and all that loads it, in its source:
 *
 *     TRP__TOOLKIT_DEFINE(trp__cufft, TRP__CUFFT_FUNCTIONS(TRP__TOOLKIT_SYMBOL),
 *                         .name = "cuFFT", .env = "TROUPE_CUFFT", ...)
 */
#define TRP__TOOLKIT_MEMBER(result, function, parameters, required) result(*function) parameters;

/* trp__NAME_load() opens the library as trp__toolkit_load() does; trp__NAME_path() is the file that
 * it was loaded from, empty before that has succeeded. */
#define TRP__TOOLKIT_DECLARE(type)                                                                 \
    trp_status type##_load(const type **out, trp_error *error);                                    \
    const char *type##_path(void)

/* Makes a row of a list of symbols. */
#define TRP__TOOLKIT_SYMBOL(result, function, parameters, required)                                \
    {#function, offsetof(__typeof__(functions), function), required},

/* Defines the functions (`functions`) and the library (`library`), one for all actors of a process.
 * The arguments after the symbols are the library's members up to package_hint. */
#define TRP__TOOLKIT_DEFINE(type, symbol_rows, ...)                                                \
    static type functions;                                                                         \
    static const trp__dynlib_symbol symbols[] = {symbol_rows};                                     \
    TRP__TOOLKIT_DEFINE_LOADER(type, __VA_ARGS__)

/* Does the same after definitions of `functions` and `symbols`, for rows from a file. */
#define TRP__TOOLKIT_DEFINE_LOADER(type, ...)                                                      \
    static trp__toolkit_library library = {.symbols = symbols,                                     \
                                           .symbol_count = sizeof symbols / sizeof *symbols,       \
                                           .table = &functions,                                    \
                                           .lock = PTHREAD_MUTEX_INITIALIZER,                      \
                                           __VA_ARGS__};                                           \
    trp_status type##_load(const type **out, trp_error *error)                                     \
    {                                                                                              \
        *out = &functions;                                                                         \
        return trp__toolkit_load(&library, error);                                                 \
    }                                                                                              \
    const char *type##_path(void)                                                                  \
    {                                                                                              \
        return library.library.path;                                                               \
    }

/* Opens the library, once per process and for its whole life; after a failure the next call tries
 * again. Any thread. TRP_E_MISSING says in `error` what to install. */
trp_status trp__toolkit_load(trp__toolkit_library *library, trp_error *error);

/* Finds the file that it is loaded from; before that, the one that trp__toolkit_load() would try
 * first, see trp__dynlib_find(). */
bool trp__toolkit_find(trp__toolkit_library *library, char path[TRP__DYNLIB_PATH_SIZE]);

/* Writes the version, "13.1.0", of a library that has a function for its parts. */
void trp__toolkit_version(int (*get_property)(trp__cuda_property which, int *value), char *out,
                          size_t size);

/* The name of a status of a library that has no function for it: from the table of directives.
 */
const char *trp__toolkit_code_name(const char *domain, int code);

#endif

#include "libs/openblas/openblas.h"

#include "base/os/dynlib.h"
#include "base/error.h"

#include <troupe/blas.h>

#include <pthread.h>
#include <stdio.h>

static const trp__dynlib_symbol symbols[] = {
#define SYMBOL_ROW(result, name, parameters, required)                                             \
    {#name, offsetof(trp__openblas, name), required},
    TRP__OPENBLAS_FUNCTIONS(SYMBOL_ROW)
#undef SYMBOL_ROW
#define ENTRY(op, name, type)                                                                      \
    {#name, offsetof(trp__openblas, routine[TRP_OP_##op & 0xff][type]), false},
#define CBLAS_REAL(op, family, s, d)    ENTRY(op, s, 0) ENTRY(op, d, 1)
#define CBLAS_COMPLEX(op, family, c, z) ENTRY(op, c, 2) ENTRY(op, z, 3)
#define HOST_LAPACK(op, family, s, d, c, z)                                                        \
    CBLAS_REAL(op, family, s, d) CBLAS_COMPLEX(op, family, c, z)
#include "libs/blas/routines.def"
#undef ENTRY
};

/* Shared by all actors of a process; never closed, since OpenBLAS keeps threads. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static trp__dynlib library;
static trp__openblas functions;

trp_status trp__openblas_load(const trp__openblas **out, trp_error *error)
{
    static const char *const sonames[] = {"libopenblas.so.0", NULL};
    static const trp__dynlib_spec spec = {
        .name = "openblas",
        .sonames = sonames,
        .env = "TROUPE_OPENBLAS",
        .package_hint = "apt install libopenblas0-pthread",
    };
    char message[sizeof error->message];
    pthread_mutex_lock(&load_lock);
    bool loaded = library.handle ||
                  trp__dynlib_open(&library, &spec, symbols, sizeof symbols / sizeof *symbols,
                                   &functions, message, sizeof message);
    pthread_mutex_unlock(&load_lock);
    *out = &functions;
    return loaded ? TRP_OK : trp__error_set(error, TRP_E_MISSING, "%s", message);
}

const char *trp__openblas_path(void)
{
    return library.path;
}

/* openblas_get_config() returns "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...". */
void trp__openblas_version(const trp__openblas *blas, char *out, size_t size)
{
    char word[32] = "";
    if (blas->openblas_get_config)
        sscanf(blas->openblas_get_config(), "OpenBLAS %31s", word);
    snprintf(out, size, "%s", word[0] ? word : "unknown");
}

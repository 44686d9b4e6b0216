/* The "blas" actor, see include/troupe/blas.h. */
#ifndef TRP_ACTORS_BLAS_H
#define TRP_ACTORS_BLAS_H

#include "wire/actor_class.h"

extern const trp__actor_class trp__blas_class;
extern const struct trp_actor_impl trp__blas_cuda;
extern const struct trp_actor_impl trp__blas_host;

/* For `troupe doctor`: finds the library, stores its version and the file it is in. TRP_E_MISSING
 * says in `error` what to install. */
trp_status trp__blas_cuda_report(char *version, size_t version_size, const char **path,
                                 trp_error *error);
trp_status trp__blas_host_report(char *version, size_t version_size, const char **path,
                                 trp_error *error);

#endif

/* Lists of gemms. */
#ifndef TRP_ACTORS_BLAS_GEMM_LIST_H
#define TRP_ACTORS_BLAS_GEMM_LIST_H

#include "wire/actor_class.h"

extern const trp__list_class trp__gemm_list;

#endif

/* How a kernel of the catalogue is compiled: a request to the jit actor, with which everyone who
 * compiles the same finds what others have made. */
#ifndef TRP_ACTORS_CUTLASS_PLAN_COMPILE_H
#define TRP_ACTORS_CUTLASS_PLAN_COMPILE_H

#include "actors/cutlass/catalogue/catalogue.h"

#include <troupe/jit.h>

typedef struct trp__cutlass_compile {
    trp_jit_compile_request request; /* its module and deadline are the caller's to set */
    char architecture[16], name[64];
    char *source;
} trp__cutlass_compile;

/* Renders the kernel of a row for a problem that it applies to, and finds the headers. The request
 * points into *out, which must stay where it is. TRP_E_UNSUPPORTED: the row can't have the tree;
 * TRP_E_MISSING: headers; TRP_E_MEMORY. */
trp_status trp__cutlass_compile_begin(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                      trp__cutlass_compile *out, trp_error *error);
void trp__cutlass_compile_end(trp__cutlass_compile *x);

#endif

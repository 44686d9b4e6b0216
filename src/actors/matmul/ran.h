/* The report of how a product was computed, which a request may ask for. */
#ifndef TRP_ACTORS_MATMUL_RAN_H
#define TRP_ACTORS_MATMUL_RAN_H

#include "matrix/product.h"

#include <troupe/matmul.h>
#include <troupe/worker.h>

/* Returns the destination of the report, which is the access after those of the operands; NULL:
 * none is requested. */
static inline trp_matmul_ran *trp__matmul_ran_of(const trp_job *job, const trp__matmul *g)
{
    uint32_t operands = 0;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        if (g->access[i] != TRP__MATMUL_NO_ACCESS && g->access[i] >= operands)
            operands = g->access[i] + 1u;
    }
    return job->access_count > operands ? job->access[operands].address : NULL;
}

#endif

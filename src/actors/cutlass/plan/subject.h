/* The subject of a proof of a kernel: the problem with its strides, as it travels with the request,
 * and the key of the verdict, which the worker stores and the sender looks up. */
#ifndef TRP_ACTORS_CUTLASS_PLAN_SUBJECT_H
#define TRP_ACTORS_CUTLASS_PLAN_SUBJECT_H

#include "actors/cutlass/plan/plans.h"
#include "tuning/verdict.h"

/* Byte by byte: no padding. */
typedef struct trp__cutlass_subject {
    trp__cutlass_choice_key problem; /* `named` is NULL */
    int64_t ld[4], batch[4];         /* of A, B, C and D, as in the arguments */
    int64_t conv[2][4];              /* strides of A and B, of a convolution */
    uint32_t tree_bytes;             /* of problem.tree_bytes; 0: there is no tree */
    uint32_t in_place;               /* C is read where D is written */
    char kernel[TRP_CUTLASS_NAME_SIZE];
} trp__cutlass_subject;

_Static_assert(sizeof(trp__cutlass_subject) % 8 == 0, "it lies behind other parts of a request");

trp__cutlass_subject trp__cutlass_subject_of(const trp__cutlass_problem *problem,
                                             const trp_cutlass_args *args, bool in_place,
                                             const char *kernel);

/* "gemm 4096x4096x4096 bf16 bf16 bf16", for people. */
void trp__cutlass_subject_text(const trp__cutlass_subject *s, char *out, size_t size);

/* The version of what is searched among and proven: a site's library. */
void trp__cutlass_name_library(trp__tuning_site *site);

/* The site of the device of a request that is encoded. False: there is no driver. */
bool trp__cutlass_site_of(const trp__encoder *encoder, trp__tuning_site *site);

/* The key of the verdict about a kernel whose image has the checksum `image`, which the caller
 * ends. */
void trp__cutlass_verdict_key(const trp__verdicts *verdicts, const trp__cutlass_subject *s,
                              const trp__cutlass_settings *settings, uint64_t image, trp__key *out);

#endif

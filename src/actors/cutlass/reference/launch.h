/* Launching the reference kernel of the cutlass actor. */
#ifndef TRP_ACTORS_CUTLASS_REFERENCE_LAUNCH_H
#define TRP_ACTORS_CUTLASS_REFERENCE_LAUNCH_H

#include "actors/cutlass/plan/subject.h"
#include "actors/cutlass/reference/problem.h"
#include "compile/own/own.h"
#include "driver/cuda.h"

#define TRP__CUTLASS_REFERENCE_KERNEL "trp_cutlass_reference"

/* The program that has it. */
extern const trp__own_program trp__cutlass_reference_program;

/* Describes a problem, but for what is computed of it: `table` is what the grouping of a grouped
 * product says. `tree` receives the epilogue (count 0: none). False: the subject is damaged. */
bool trp__cutlass_reference_set(const trp__cutlass_subject *s, const trp_cutlass_args *args,
                                const void *table, trp__tree *tree, trp__cutlass_reference *out);

/* Enqueues one launch, whose count is not 0; of all of a grouped product it does not matter. */
trp_status trp__cutlass_reference_one(const trp__cuda *cu, trp__cu_function kernel,
                                      const trp__cutlass_reference *r, trp__cu_stream stream,
                                      trp_error *error);

/* Enqueues a whole request: D and all that the tree writes beside it. Where a reduction writes
 * there is its neutral value. */
trp_status trp__cutlass_reference_all(const trp__cuda *cu, trp__cu_function kernel,
                                      const trp__cutlass_reference *r, trp__cu_stream stream,
                                      trp_error *error);

#endif

/* The parameter of a kernel, which only the kernel's own module can make: its builder runs on the
 * device, on a stream of its own beside the actor's. Its output is cached by its arguments, so that
 * the same problem again needs no builder; with other addresses or numbers the worker patches it.
 */
#ifndef TRP_ACTORS_CUTLASS_RUN_BUILDER_H
#define TRP_ACTORS_CUTLASS_RUN_BUILDER_H

#include "actors/cutlass/run/refit.h"
#include "cache/lru.h"
#include "driver/cuda.h"

#include <troupe/worker.h>

/* A module's report of itself, and its functions. */
typedef struct trp__cutlass_properties {
    uint32_t info[TRP_CUTLASS_INFO_WORDS];
    trp__cu_function kernel, builder;
    trp__cu_function prepare; /* NULL: there is none */
    int32_t blocks_per_processor;
} trp__cutlass_properties;

/* A problem: the module by its token, and all arguments; which of their words are addresses. */
typedef struct trp__cutlass_problem_key {
    uint32_t slot, generation;
    trp_cutlass_args args;
    trp__refit_set addresses;
} trp__cutlass_problem_key;

typedef struct trp__cutlass_parameter {
    uint32_t status; /* TRP_CUTLASS_BUILT, _WORKSPACE or _REFUSED */
    uint32_t bytes;
    uint32_t grid[3];
    uint64_t workspace;           /* bytes that it needs, */
    uint64_t zero_at, zero_bytes; /* what of it is zero at each launch */
    unsigned char *data;          /* on its own */
    uint32_t judged;              /* the caller's: 0 at first */
} trp__cutlass_parameter;

typedef struct trp__cutlass_builder {
    const trp__cuda *cu;
    trp_instance *instance;
    bool *makes; /* set while a parameter is made */
    int driver;  /* its version, as cuDriverGetVersion() has it */
    trp__cu_stream stream;
    trp__cu_event done;
    void *room; /* of the host, which the device writes */
    trp__cu_address room_address;
    trp__lru *known;  /* parameters */
    trp__lru *shapes; /* of problems, without addresses and numbers */
    bool busy;        /* with `key`, */
    trp__cutlass_problem_key key;
    uint32_t builds;   /* so many: of the arguments, and of those with marks */
    uint32_t expected; /* bytes of the parameter */
} trp__cutlass_builder;

enum { TRP__CUTLASS_PARAMETERS = 1024, TRP__CUTLASS_SHAPES = 512 }; /* capacities of the caches */

/* Zeroed before, but for `makes`. One thread at a time. */
trp_status trp__cutlass_builder_open(trp__cutlass_builder *b, trp_instance *instance,
                                     const trp__cuda *cu, trp_error *error);
/* Parts that were not opened are ignored. */
void trp__cutlass_builder_close(trp__cutlass_builder *b);

/* The parameter of a problem, valid until the next call. TRP_AGAIN while it is made. */
trp_status trp__cutlass_builder_find(trp__cutlass_builder *b,
                                     const trp__cutlass_properties *properties,
                                     const trp__cutlass_problem_key *key,
                                     trp__cutlass_parameter **out, trp_error *error);

#endif

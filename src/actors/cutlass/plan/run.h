/* The sender's side of a request on a GPU, which all operations share: which kernel, and the
 * arguments that travel in the request's piece of staging memory. An operation sets the problem,
 * the tree and the arguments of its own, and then: the kernel, its matrices, the slots of the tree,
 * the record. */
#ifndef TRP_ACTORS_CUTLASS_PLAN_RUN_H
#define TRP_ACTORS_CUTLASS_PLAN_RUN_H

#include "actors/cutlass/catalogue/catalogue.h"
#include "actors/cutlass/plan/subject.h"
#include "actors/cutlass/wire/gemm.h"
#include "actors/cutlass/wire/run.h"
#include "base/os/dynlib.h"
#include "wire/actor_class.h"

#include <troupe/cutlass.h>

#include <stdatomic.h>

/* The kernels that a search is to try; the first is the request's own. */
typedef struct trp__run_search_ahead {
    uint32_t count; /* 0: there is no search */
    const trp__cutlass_row *row[TRP__RUN_CANDIDATES_MAX];
    uint32_t token[TRP__RUN_CANDIDATES_MAX][2]; /* slot and generation of their modules */
} trp__run_search_ahead;

/* A library that can compute some of the problems, as long as no kernel is there. */
typedef struct trp__run_library {
    const char *name;                               /* in `chosen` */
    bool (*takes)(const void *problem);             /* whether it has one like that */
    bool (*find)(char path[TRP__DYNLIB_PATH_SIZE]); /* its file */
    atomic_bool *found;                             /* there is one, and it is a library */
} trp__run_library;

enum { TRP__RUN_ADDRESSES_MAX = TRP_CUTLASS_BUFFERS_MAX + 2 * TRP__GEMM_OPERANDS };

typedef struct trp__cutlass_running {
    trp__encoder *encoder;
    trp__cutlass_problem problem;
    const trp__tree *tree; /* count 0: alpha and beta in integers. The transposed problem's where
                            * D is column-major */
    const trp__tree_operands *operands;

    /* The request's options. */
    const char *kernel; /* by name, or NULL */
    trp_cutlass_first first;
    trp_tune tune;
    const trp__run_library *library; /* that may have the problem; NULL: none */
    const void *asked;               /* the problem, as the library is asked for it */
    bool in_place;                   /* C is read where D is written, whose address is args.d */
    trp_cutlass_chosen *chosen;      /* or NULL */
    trp_cutlass_ran *ran;            /* likewise */

    const trp__cutlass_row *named; /* what `kernel` means */
    trp__run_search_ahead search;
    bool by_library; /* the library computes, and no kernel was added */
    bool rejected;   /* a kernel was passed over that a proof has rejected; */
    bool any;        /* there is no other: the worker computes in its place */

    trp_cutlass_args args;
    trp__cutlass_run run;
    trp__cutlass_subject subject; /* what a proof of the kernel is about */
    trp__run_address address[TRP__RUN_ADDRESSES_MAX];
    trp__run_fill fill[TRP__RUN_FILLS_MAX];
    const void *rows; /* run.rows_bytes of them */
} trp__cutlass_running;

/* The largest power of two up to 16 that divides all of what an operand is addressed by, in bytes;
 * `distances` are counts of elements. */
uint32_t trp__run_alignment(const trp__operand *o, const int64_t *distances, size_t count);

/* Returns the alignment of the tree's auxiliary matrices, and of vectors read along lines of D. */
uint32_t trp__run_alignment_of_tree(const trp__cutlass_running *w, int64_t batch);

/* Bytes of shared memory that a block can have. */
uint32_t trp__run_shared_bytes(uint32_t capability);

/* Checks that each operand lies at a multiple of its element: a misaligned one is the sender's
 * mistake, and not a lack of kernels. */
trp_status trp__run_check_offsets(const trp__cutlass_running *w, const trp__operand *matrix,
                                  size_t count);

/* Adds the best kernel as the record's first access; or, while that is compiled and the request
 * does not want to wait, the best of those that are there. If there is none, and a library has the
 * problem, w->by_library is set instead. With `tune` begins a search. */
trp_status trp__run_add_kernel(trp__cutlass_running *w);

/* Adds an operand to the record, whose address goes to the arguments at `at`. */
trp_status trp__run_add_operand(trp__cutlass_running *w, const trp__operand *o, size_t at);

/* The address of an access that is there already. */
void trp__run_note_address(trp__cutlass_running *w, size_t at, uint32_t access);

/* And how many bytes it has. */
void trp__run_note_bytes(trp__cutlass_running *w, size_t at, uint32_t access);

/* Fills the slots of the arguments: the nodes' operands in memory or by value, and the initial
 * values of reductions. */
trp_status trp__run_add_slots(trp__cutlass_running *w);

/* Writes the piece and the record's payload. Last. */
trp_status trp__run_write(trp__cutlass_running *w);

#endif

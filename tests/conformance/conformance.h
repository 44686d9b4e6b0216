/* One suite for the operations of all actors. An operation is described once: its variants, its
 * request, a generator of problems, what is right. From that come, on the backend and with the
 * isolation of the environment (see harness.h):
 *
 *   numbers         random problems against the reference; nothing else may be written
 *   killed_workers  problems in flight when their worker is killed: the same bits; or, where one
 *                   writes what it reads, TRP_E_FAULT, and what it writes is lost
 *   bad_input       one thing wrong in a request that is right: refused at once, with its name
 *   exclusions      what exclusions.def leaves out of a backend is refused, with those words
 *   --table         the coverage of the documentation, see scripts/coverage.sh
 *   --bench         how long each variant takes at one size
 *
 * TROUPE_TEST_OPERATION names one operation to run alone. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONFORMANCE_CONFORMANCE_H
#define TESTS_CONFORMANCE_CONFORMANCE_H

#include "support/harness.h"
#include "support/problems/block.h"

typedef struct cf_operation cf_operation;

/* ---- requests ---- */

/* What an operation has, as bits of its family's choice; an operand or field is one that it has if
 * they share one. */
typedef uint64_t cf_has;

/* An operand of a request: a buffer with its place. The names of the fields are what messages begin
 * with. */
typedef struct cf_operand {
    const char *name;
    size_t buffer, offset; /* where they are in the request; `offset` counts bytes */
    cf_has has, needed;    /* needed: no buffer is an error, which is `missing` */
    trp_status missing;
} cf_operand;

typedef enum cf_role {
    CF_TYPE,    /* trp_dtype, of the operation's variants */
    CF_OPTION,  /* an enum of `limit` values from 0 on; 0 where the operation does not have it */
    CF_COUNT,   /* int64_t, 0 or more */
    CF_UNUSED0, /* the same; 0 where the operation does not have it */
    CF_LD,      /* int64_t: a leading dimension of a matrix with at least two rows and columns */
    CF_INC,     /* int64_t: an increment */
    CF_FORWARD, /* the same, and not negative */
    CF_BATCH,   /* int64_t; 0 or 1 where the operation does not have it */
    CF_SCALAR,  /* trp_scalar */
} cf_role;

typedef struct cf_field {
    const char *name;
    cf_role role;
    size_t at; /* in the request */
    cf_has has;
    int64_t limit;       /* CF_OPTION */
    cf_has real, needed; /* CF_SCALAR: also of complex types a real number; no default, unless a
                            buffer holds it */
} cf_field;

/* ---- problems ---- */

enum { CF_REQUEST_BYTES = 4096, CF_BLOCKS = 160 };

typedef enum cf_kind {
    CF_RANDOM,
    CF_TIGHT, /* for bad_input: at least two of everything, every operand alone in a buffer of
               * exactly its bytes, and none that the operation has left out */
} cf_kind;

typedef struct cf_problem {
    const cf_operation *operation;
    unsigned variant; /* of the operation's */
    void *own;        /* the family's */
    block *blocks;
    int block_count;
    bool may_fault; /* if its worker dies: it reads what it writes */
    bool in_parts;  /* several requests: what some have written stays when another faults */
    bool any_bits;  /* run again, another kernel may compute it: right, with other bits */
    /* What TRP_E_UNSUPPORTED says if a library or device may refuse it; NULL: it may not. */
    const char *may_refuse;
} cf_problem;

/* What came of the problems of one operation. */
typedef struct cf_tally {
    int problems, refused, faults;
    double worst; /* error, as a share of its bound */
} cf_tally;

/* What a request is spoilt with, and what must be said of it then. */
typedef struct cf_wrong {
    trp_buffer stale, tiny; /* freed; of one byte */
    trp_status *status;
    const char **word;
} cf_wrong;

/* What operations with the same request share. */
typedef struct cf_family {
    const cf_operand *operands;
    size_t operand_count;
    const cf_field *fields;
    size_t field_count;
    size_t request_bytes;
    size_t scalars; /* where a request has the buffer for scalars; 0: it has none */
    /* Draws blocks and `own` of a problem with the options that have a number below `ways`. False:
     * they don't go with the variant, or CF_TIGHT not with the operation. */
    bool (*draw)(cf_problem *p, unsigned way, cf_kind kind);
    /* Once the blocks have buffers. */
    void (*request)(const cf_problem *p, void *out);
    trp_status (*send)(trp_actor *actor, const cf_problem *p, trp_completion *done);
    /* A request of a problem, right or wrong; NULL: trp_submit(), for its header says what it is.
     */
    trp_status (*submit)(trp_actor *actor, const cf_problem *p, void *request,
                         trp_completion *done);
    /* Prints what is wrong, and the problem. `again`: also after a death, for it looks at more than
     * the blocks. */
    bool (*check)(cf_problem *p, cf_tally *tally);
    bool again;
    void (*drop)(cf_problem *p);
    /* What no table of fields can say: mistake number `which` of a problem, in a request that has
     * been made; false behind the last. NULL: there are none. */
    bool (*spoil)(const cf_problem *p, unsigned which, const cf_wrong *wrong, void *request);
} cf_family;

/* ---- operations ---- */

typedef struct cf_variant {
    const char *name;
    trp_dtype type;
    bool is_complex;
    bool by_device; /* whether it is there depends on the device; else one in 20 problems must run,
                     * whatever may be refused */
} cf_variant;

struct cf_operation {
    const char *name;
    uint32_t op;
    const cf_family *family;
    const void *row; /* the family's */
    const cf_variant *variants;
    unsigned variant_count;
    unsigned ways;
    cf_has has, writes;
    cf_has in_place; /* two operands that may be the same one */
    cf_has rest;     /* operands that reach from their offset to the buffer's end, however far */
    bool runs_again; /* whatever its options are: for the table */
};

typedef struct cf_actor {
    const char *kind;
    const char *title; /* of its table; NULL: the kind */
    const cf_operation *operations;
    size_t count;
    const h_case *more; /* cases of the actor's own */
    size_t more_count;
    int rounds;      /* problems of a variant, at least; 0: 100 */
    bool few_proofs; /* on the fake GPU, whose processor takes long: in one case of four */
    bool slow_fake;  /* on the fake GPU a part of them is enough */
    bool keeps; /* on GPUs has buffers and requests of its own, for the kernels that it knows */
    void (*end)(void); /* of each case */
} cf_actor;

int cf_main(int argc, char **argv, const cf_actor *actor);

/* ---- between the files of the suite ---- */

/* The actor under test, on a device of its own. */
typedef struct cf_bench {
    const cf_actor *actor;
    h_world world;
    trp_actor *at;
} cf_bench;

cf_bench cf_open(const cf_actor *actor);
void cf_close(cf_bench *bench);
/* Whether TROUPE_TEST_OPERATION leaves an operation in. */
bool cf_chosen(const cf_operation *operation);

/* Draws a problem with a variant, and any options that go with it. */
void cf_draw(cf_problem *p, const cf_operation *operation, unsigned variant, cf_kind kind);
/* Its buffers, with their contents. */
void cf_upload(cf_bench *bench, cf_problem *p);
void cf_drop(cf_bench *bench, cf_problem *p);

void cf_bad_input(cf_bench *bench);

/* Why a backend leaves a variant out; NULL: it does not. `words` is what its error says. */
const char *cf_excluded(const cf_actor *actor, const cf_operation *operation, unsigned variant,
                        trp_backend backend, const char **words);
void cf_print_table(const cf_actor *actor);
void cf_time(const cf_actor *actor);

#endif

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

/* Properties of an operation, as bits that its family chooses. An operation has an operand or a
 * field if they share a bit. */
typedef uint64_t cf_has;

/* An operand of a request: a buffer and an offset in it. Messages begin with `name`. */
typedef struct cf_operand {
    const char *name;
    size_t buffer, offset; /* offsets of both fields in the request; `offset` counts bytes */
    cf_has has, needed;    /* needed: a request without the buffer is refused with `missing` */
    trp_status missing;
} cf_operand;

typedef enum cf_role {
    CF_TYPE,    /* trp_dtype: the type of the variant */
    CF_OPTION,  /* an enum with `limit` values from 0 on; 0 if the operation lacks it */
    CF_COUNT,   /* int64_t, 0 or more */
    CF_UNUSED0, /* CF_COUNT that is 0 if the operation lacks it */
    CF_LD,      /* int64_t: a leading dimension of a matrix with at least two rows and columns */
    CF_INC,     /* int64_t: an increment */
    CF_FORWARD, /* CF_INC that is not negative */
    CF_BATCH,   /* int64_t; 0 or 1 if the operation lacks it */
    CF_SCALAR,  /* trp_scalar */
} cf_role;

typedef struct cf_field {
    const char *name;
    cf_role role;
    size_t at; /* offset in the request */
    cf_has has;
    int64_t limit; /* CF_OPTION: number of values */
    /* CF_SCALAR. real: complex types, too, take a real number only; needed: has no default, and is
     * given by value or in a buffer */
    cf_has real, needed;
} cf_field;

/* ---- problems ---- */

enum { CF_REQUEST_BYTES = 4096, CF_BLOCKS = 160 };

typedef enum cf_kind {
    CF_RANDOM,
    /* for bad_input: sizes of at least 2, each operand alone in a buffer of exactly its bytes, and
     * no operand left out that the operation has */
    CF_TIGHT,
} cf_kind;

typedef struct cf_problem {
    const cf_operation *operation;
    unsigned variant; /* number in operation->variants */
    void *own;        /* the family's state */
    block *blocks;
    int block_count;
    bool may_fault; /* reads what it writes, so that it may fail if its worker dies */
    /* sent as several requests: if one faults, others may have written their outputs */
    bool in_parts;
    bool any_bits; /* another kernel may run it the second time: right results, but other bits */
    /* The text of TRP_E_UNSUPPORTED if a library or device may refuse the problem; NULL: none may.
     */
    const char *may_refuse;
} cf_problem;

/* Totals of the problems of one operation. */
typedef struct cf_tally {
    int problems, refused, faults;
    double worst; /* largest error as a share of its bound */
} cf_tally;

/* Handles for a mistake in a request, and the status and the word that must follow from it. */
typedef struct cf_wrong {
    trp_buffer stale, tiny; /* a freed buffer, and one of a byte */
    trp_status *status;
    const char **word;
} cf_wrong;

/* Functions and tables that operations with the same request share. */
typedef struct cf_family {
    const cf_operand *operands;
    size_t operand_count;
    const cf_field *fields;
    size_t field_count;
    size_t request_bytes;
    size_t scalars; /* offset of the buffer of scalars in the request; 0: it has none */
    /* Draws the blocks and `own` of a problem with options number `way`, below `ways`. False: these
     * options do not go with the variant, or the operation has no CF_TIGHT problem. */
    bool (*draw)(cf_problem *p, unsigned way, cf_kind kind);
    /* Writes the request; the blocks have buffers by then. */
    void (*request)(const cf_problem *p, void *out);
    trp_status (*send)(trp_actor *actor, const cf_problem *p, trp_completion *done);
    /* Submits a request of the problem, right or wrong. NULL: trp_submit() does, by the header. */
    trp_status (*submit)(trp_actor *actor, const cf_problem *p, void *request,
                         trp_completion *done);
    /* Compares the outputs and prints errors with the problem. `again`: is called after a death,
     * too, since it checks more than the blocks. */
    bool (*check)(cf_problem *p, cf_tally *tally);
    bool again;
    void (*drop)(cf_problem *p);
    /* Makes mistake number `which`, one that no table of fields can describe, in a finished
     * request; false: there is none of that number. NULL: there are none at all. */
    bool (*spoil)(const cf_problem *p, unsigned which, const cf_wrong *wrong, void *request);
} cf_family;

/* ---- operations ---- */

typedef struct cf_variant {
    const char *name;
    trp_dtype type;
    bool is_complex;
    /* not all devices have it. Of other variants, at least one problem in 20 must run, whatever may
     * be refused */
    bool by_device;
} cf_variant;

struct cf_operation {
    const char *name;
    uint32_t op;
    const cf_family *family;
    const void *row; /* the family's row */
    const cf_variant *variants;
    unsigned variant_count;
    unsigned ways;
    cf_has has, writes;
    cf_has in_place; /* two operands that may be the same array */
    cf_has rest;     /* operands that extend from their offset to the end of the buffer */
    bool runs_again; /* can run again with any options: for the table of coverage */
};

typedef struct cf_actor {
    const char *kind;
    const char *title; /* title of the table; NULL: `kind` */
    const cf_operation *operations;
    size_t count;
    const h_case *more; /* further cases of the actor */
    size_t more_count;
    int rounds;      /* at least so many problems of a variant; 0: 100 */
    bool few_proofs; /* proves engines in one case of four, except on a GPU: processors are slow */
    bool slow_fake;  /* runs only a part of the problems on the fake GPU */
    /* keeps buffers and requests of its own on GPUs, for the kernels that it has compiled */
    bool keeps;
    void (*end)(void); /* called at the end of each case */
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
/* Returns whether TROUPE_TEST_OPERATION selects an operation or is not set. */
bool cf_chosen(const cf_operation *operation);

/* Draws a problem of a variant, with options at random that go with it. */
void cf_draw(cf_problem *p, const cf_operation *operation, unsigned variant, cf_kind kind);
/* Creates the buffers of a problem and writes their contents. */
void cf_upload(cf_bench *bench, cf_problem *p);
void cf_drop(cf_bench *bench, cf_problem *p);

void cf_bad_input(cf_bench *bench);

/* Returns why a backend leaves a variant out; NULL: it does not. *words gets the text of the error.
 */
const char *cf_excluded(const cf_actor *actor, const cf_operation *operation, unsigned variant,
                        trp_backend backend, const char **words);
void cf_print_table(const cf_actor *actor);
void cf_time(const cf_actor *actor);

#endif

/* Kernels that an actor has had compiled, on the sender's side: the modules, by what they were
 * rendered from. Bounded; what was not used for longest is freed. */
#ifndef TRP_ACTORS_CUTLASS_PLAN_PLANS_H
#define TRP_ACTORS_CUTLASS_PLAN_PLANS_H

#include "actors/cutlass/catalogue/catalogue.h"
#include "compile/modules/module.h"

enum {
    TRP__CUTLASS_PLANS_MOST = 256,
    TRP__CUTLASS_CHOICES_MOST = 1024, /* problems whose row is remembered */
};

void *trp__cutlass_sender_make(void);
void trp__cutlass_sender_end(void *state, trp_device *device);

typedef enum trp__cutlass_want {
    TRP__CUTLASS_USE,          /* compiled or not */
    TRP__CUTLASS_USE_IF_READY, /* not while it is compiled, which begins if it has not */
    TRP__CUTLASS_USE_IF_THERE, /* the same, but it is not compiled for that */
} trp__cutlass_want;

/* Whether a kernel that a worker has rejected for some problem may serve the one in hand; `image`
 * is the checksum of its image, `verdicts` are the actor's. */
struct trp__verdicts;
typedef bool trp__cutlass_may_serve(void *context, struct trp__verdicts *verdicts, uint64_t image);

/* Adds the kernel of a row for a problem as the record's next access, and says whether it was
 * compiled already; with one of the other modes only if it was. An unknown kernel is rendered
 * and sent to a companion to be compiled; requests that use the module wait for it. `may_serve`,
 * NULL: all may, is asked about a kernel that was rejected for some problem; where it says no
 * *rejected is true, and nothing is added. Any thread.
 * TRP_E_LIBRARY: it could not be compiled, and why; of TRP__CUTLASS_USE the next request tries
 * again, the other modes don't, for they have other kernels. TRP_E_MISSING: headers;
 * TRP_E_UNSUPPORTED: the row can't have the tree; and those of trp_jit_compile(). */
trp_status trp__cutlass_plan(trp__encoder *encoder, const trp__cutlass_row *row,
                             const trp__cutlass_problem *problem, trp__module_layout *layout,
                             trp__cutlass_want want, trp__cutlass_may_serve *may_serve,
                             void *context, bool *ready, bool *rejected);

/* The same without a request that uses it: the module, compiled or on its way. For more kernels
 * than one of the same problem. */
trp_status trp__cutlass_plan_ahead(trp__encoder *encoder, const trp__cutlass_row *row,
                                   const trp__cutlass_problem *problem, trp_module *module,
                                   bool *ready);

/* The kernel chosen for a problem. */
typedef struct trp__cutlass_choice {
    const trp__cutlass_row *row;
    trp__cutlass_settings settings;
    uint8_t tuned; /* trp_tune: the search that has found it; TRP_TUNE_OFF: none */
    uint8_t asked; /* the most that was asked for */
} trp__cutlass_choice;

/* The key of a choice, on one device; `named` is the row that a request wants, or
 * NULL. No padding. */
typedef struct trp__cutlass_choice_key {
    int64_t m, n, k, batch, group;
    uint32_t align[5], divides[3];
    uint32_t align_scales;
    int32_t conv_inner;
    int32_t conv_geometry[TRP__CUTLASS_GEOMETRY];
    uint8_t conv, conv_dims, conv_divided, conv_tma, grouping, unused[3];
    uint8_t operation, a, b, c, d, accumulator, a_row, b_row;
    uint8_t compute, scale_a, scale_b, fast, zeros, reserved[3];
    uint8_t tree_bytes[(TRP__TREE_BYTES_MAX + 7) / 8 * 8];
    const trp__cutlass_row *named;
} trp__cutlass_choice_key;

trp__cutlass_choice_key trp__cutlass_choice_key_of(const trp__cutlass_problem *problem,
                                                   const trp__cutlass_row *named);

/* Finds an earlier choice; false: none, or it is forgotten. Choosing takes many times as long as
 * looking. Any thread. */
bool trp__cutlass_remembered(trp__encoder *encoder, const trp__cutlass_choice_key *key,
                             trp__cutlass_choice *out);
void trp__cutlass_remember(trp__encoder *encoder, const trp__cutlass_choice_key *key,
                           const trp__cutlass_choice *choice);

#endif

/* Kernels that an actor has had compiled, on the sender's side: the modules, by what they were
 * rendered from. Bounded; what was not used for longest is freed. */
#ifndef TRP_ACTORS_CUTLASS_PLANS_H
#define TRP_ACTORS_CUTLASS_PLANS_H

#include "actors/cutlass/catalogue.h"
#include "wire/actor_class.h"

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

/* Adds the kernel of a row for a problem as the record's next access, and says whether it was
 * compiled already; with one of the other wishes only if it was. What is not known yet is rendered
 * and sent to a companion to be compiled; requests that use the module wait for it. Any thread.
 * TRP_E_LIBRARY: it could not be compiled, and why; the next request tries again. TRP_E_MISSING:
 * headers; TRP_E_UNSUPPORTED: the row can't have the tree; and those of trp_jit_compile(). */
trp_status trp__cutlass_plan(trp__pack *pack, const trp__cutlass_row *row,
                             const trp__cutlass_problem *problem, trp__module_place *place,
                             trp__cutlass_want want, bool *ready);

/* The row that was chosen for a problem before; NULL: none, or it is forgotten. Choosing takes many
 * times as long as looking. Any thread. */
const trp__cutlass_row *trp__cutlass_remembered(trp__pack *pack,
                                                const trp__cutlass_problem *problem);
void trp__cutlass_remember(trp__pack *pack, const trp__cutlass_problem *problem,
                           const trp__cutlass_row *row);

#endif

/* Losses element by element: launches the kernels of losses.h for a node. */
#include "actors/dnn/kernels/losses/losses.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/math/loss.h"
#include "base/error.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { PART_STEP = 1 << 13 /* elements: a multiple of what a block reads at a time */ };

/* The ports of operands, in the order of losses.h; y is one of them without a sum. */
static const uint8_t ports[TRP__LOSSES_OPERANDS] = {TRP__LOSS_X,    TRP__LOSS_T,  TRP__LOSS_W,
                                                    TRP__LOSS_B,    TRP__LOSS_DY, TRP__LOSS_DX,
                                                    TRP__LOSS_ROWS, TRP__LOSS_Y};

typedef struct step {
    trp__losses p;
    uint8_t tensor[TRP__LOSSES_OPERANDS]; /* TRP__DNN_NO_PORT: none */
    bool is_value[TRP__LOSSES_OPERANDS];
    uint8_t total; /* the tensor of the sum */
    bool wide;
    bool packs;  /* there is a kernel for all arrays of this type */
    bool narrow; /* all arrays have one type of 16 bits */
    char name[32];
    trp__cu_function elements, finish;
} step;

/* Elements of a tensor follow each other in order, as many as x has. */
static bool is_packed(const trp__dnn_tensor *t, const trp__dnn_tensor *x)
{
    int64_t next = 1;
    if (t->rank != x->rank || memcmp(t->dim, x->dim, sizeof t->dim) != 0)
        return false;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] > 1 && t->stride[i] != next)
            return false;
        next *= t->dim[i];
    }
    return true;
}

static bool is_aligned(const trp__dnn_tensor *t, uint32_t elements)
{
    const uint32_t bytes = trp_dtype_bits((trp_dtype)t->type) / 8 * elements;
    return t->role != TRP__DNN_BUFFER || t->alignment % (bytes < 16 ? bytes : 16) == 0;
}

/* An operand; false: the kernels don't take it. */
static bool describe_one(const trp__dnn_graph *g, const trp__dnn_node *n, int o, bool each, step *s)
{
    const uint8_t number = n->port[ports[o]];
    trp__losses_operand *out = &s->p.io[o];
    const trp__dnn_tensor *x = &g->tensor[n->port[TRP__LOSS_X]];
    out->value = 1;
    s->tensor[o] = number;
    if (number == TRP__DNN_NO_PORT)
        return true;
    const trp__dnn_tensor *t = &g->tensor[number];
    out->type = t->type;
    if (o == TRP__LOSSES_EACH && !each) {
        s->tensor[o] = TRP__DNN_NO_PORT;
        s->total = number;
        s->p.type = t->type;
        return true;
    }
    if (!trp__rows_takes_type(t->type) && t->role != TRP__DNN_VALUE)
        return false;
    s->wide = s->wide || (t->type == TRP_F64 && t->role != TRP__DNN_VALUE && o < TRP__LOSSES_READ);
    s->is_value[o] = t->role == TRP__DNN_VALUE;
    if (s->is_value[o] || (o >= TRP__LOSSES_W && o < TRP__LOSSES_READ && trp__dnn_elements(t) == 1))
        return true;
    out->many = 1;
    s->p.runs = s->p.runs && is_aligned(t, 4);
    s->narrow = s->narrow && trp_dtype_bits((trp_dtype)t->type) == 16 && t->type == x->type &&
                is_aligned(t, 8);
    s->packs = s->packs && t->type == x->type && is_aligned(t, 8) &&
               (o <= TRP__LOSSES_T || o == TRP__LOSSES_DX);
    return is_packed(t, x);
}

/* Kernels of packs and of 16 bits multiply with the reciprocal of beta: beta, or 0, which nothing
 * is divided by.
 */
static bool has_reciprocal(const trp__dnn_node *n)
{
    const double beta = n->parameter[0];
    return n->mode != TRP_DNN_SMOOTH_L1 || beta == 0 || (beta >= 0x1p-60 && beta <= 0x1p60);
}

static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, step *s)
{
    const trp__dnn_tensor *x = &g->tensor[n->port[TRP__LOSS_X]];
    const bool each = trp__train_reduction(n) == TRP_DNN_REDUCE_NONE;
    memset(s, 0, sizeof *s);
    s->total = TRP__DNN_NO_PORT;
    s->p.runs = 1;
    s->packs = s->narrow = true;
    s->wide = n->compute == TRP_F64;
    for (int o = 0; o < TRP__LOSSES_OPERANDS; o++) {
        if (!describe_one(g, n, o, each, s))
            return false;
    }
    s->p.mode = n->mode;
    s->p.beta = n->parameter[0];
    s->p.beta_inverse = 1 / s->p.beta;
    s->narrow = s->narrow && !s->wide && has_reciprocal(n);
    s->packs = s->packs && !s->wide && has_reciprocal(n);
    s->p.count = trp__dnn_elements(x);
    s->p.divisor = trp__loss_divisor(n, (double)s->p.count, (double)x->dim[0]);
    s->p.share = 1 / s->p.divisor;
    const int64_t steps = (s->p.count + PART_STEP - 1) / PART_STEP;
    s->p.part = (steps + TRP__LOSSES_PARTS - 1) / TRP__LOSSES_PARTS * PART_STEP;
    s->p.parts = steps ? (int32_t)((s->p.count + s->p.part - 1) / s->p.part) : 0;
    return true;
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    step s;
    return most > 0 && g->node[first].kind == TRP_DNN_LOSS && describe(g, &g->node[first], &s);
}

static void name_kernel(step *s, uint8_t type)
{
    static const char *const modes[] = {
        [TRP_DNN_MSE] = "mse_",        [TRP_DNN_L1] = "l1_", [TRP_DNN_SMOOTH_L1] = "smooth_l1_",
        [TRP_DNN_BCE_LOGITS] = "bce_", [TRP_DNN_KL] = "kl_", [TRP_DNN_KL_LOG] = "kl_log_"};
    trp__text name = {.out = s->name, .size = sizeof s->name};
    if (s->packs)
        trp__text_add(&name, "trp_losses_%s%s", modes[s->p.mode], trp_dtype_name((trp_dtype)type));
    else
        trp__text_add(&name, "trp_losses_%s%s",
                      s->wide     ? "f64"
                      : s->narrow ? "narrow_"
                                  : "f32",
                      s->narrow && !s->wide ? trp_dtype_name((trp_dtype)type) : "");
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void **out,
                       char engine[TRP_DNN_ENGINE_SIZE], uint64_t *workspace, trp_error *error)
{
    step *s = calloc(1, sizeof *s);
    (void)modules;
    if (!s)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a loss");
    if (!describe(part->graph, &part->graph->node[part->first], s)) {
        free(s);
        return trp__error_set(error, TRP_E_INTERNAL, "a loss that no kernel takes");
    }
    name_kernel(s, part->graph->tensor[part->graph->node[part->first].port[TRP__LOSS_X]].type);
    trp__text name = {.out = engine, .size = TRP_DNN_ENGINE_SIZE};
    trp__text_add(&name, "loss_%s%s", s->name + strlen("trp_losses_"), s->p.runs ? "" : "_loose");
    *workspace = TRP__LOSSES_PARTS * sizeof(double);
    *out = s;
    return TRP_OK;
}

static trp_status enqueue(step *s, const trp__kernel_launch *l, trp__cu_function *function,
                          const char *name, uint64_t blocks, trp_error *error)
{
    trp_status status = TRP_OK;
    if (!*function)
        status = trp__kernels_function(l->modules, l->instance, TRP__MODULE_LOSSES, name, function,
                                       error);
    return status == TRP_OK
               ? trp__kernel_enqueue(l, *function, blocks, TRP__LOSSES_THREADS, 0, &s->p, error)
               : status;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    for (int o = 0; o < TRP__LOSSES_OPERANDS; o++) {
        if (s->tensor[o] == TRP__DNN_NO_PORT)
            continue;
        if (s->is_value[o])
            s->p.io[o].value = l->number[s->tensor[o]];
        else
            s->p.io[o].at = (uint64_t)(uintptr_t)l->at[s->tensor[o]];
    }
    s->p.sums = (uint64_t)(uintptr_t)l->workspace;
    s->p.total = s->total == TRP__DNN_NO_PORT ? 0 : (uint64_t)(uintptr_t)l->at[s->total];
    trp_status status = enqueue(s, l, &s->elements, s->name, (uint64_t)s->p.parts, error);
    return status == TRP_OK && s->p.total ? enqueue(s, l, &s->finish, "trp_losses_total", 1, error)
                                          : status;
}

const trp__kernel_family trp__kernels_losses = {
    .name = "loss",
    .takes = takes,
    .make = make,
    .launch = launch,
    .module = TRP__MODULE_LOSSES,
};

/* Plans and launches the kernels of losses.h for a node. */
#include "actors/dnn/kernels/losses/losses.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/lower/layout.h"
#include "actors/dnn/math/loss.h"

#include <string.h>

enum { PART_STEP = 1 << 13 /* elements: a multiple of what a block reads at a time */ };

/* The ports of operands, in the order of losses.h; y is an operand only without a reduction. */
static const uint8_t ports[TRP__LOSSES_OPERANDS] = {TRP__LOSS_X,    TRP__LOSS_T,  TRP__LOSS_W,
                                                    TRP__LOSS_B,    TRP__LOSS_DY, TRP__LOSS_DX,
                                                    TRP__LOSS_ROWS, TRP__LOSS_Y};

typedef struct step {
    trp__losses p;
    uint8_t tensor[TRP__LOSSES_OPERANDS]; /* TRP__DNN_NO_PORT: none */
    bool is_value[TRP__LOSSES_OPERANDS];
    uint8_t total; /* tensor of the sum */
    bool wide;
    bool packs;  /* x, t and dx have one type, and there is no other array */
    bool narrow; /* all arrays have one type of 16 bits */
    trp__kernel elements, finish;
} step;

/* Describes an operand; false: the kernels don't take it. */
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
    const uint64_t size = trp__space_element_bytes(t->type);
    s->p.runs = s->p.runs && trp__space_is_aligned(t, 4 * size);
    s->narrow = s->narrow && size == 2 && t->type == x->type && trp__space_is_aligned(t, 8 * size);
    s->packs = s->packs && t->type == x->type && trp__space_is_aligned(t, 8 * size) &&
               (o <= TRP__LOSSES_T || o == TRP__LOSSES_DX);
    return trp__dnn_same_dims(t, x) && trp__dnn_is_packed(t);
}

/* Tells whether beta and 1 / beta are far from overflow and underflow, for kernels of packs and of
 * 16 bits, which multiply by 1 / beta. Nothing is divided by a beta of 0. */
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
    trp__text name = {.out = s->elements.name, .size = sizeof s->elements.name};
    if (s->packs)
        trp__text_add(&name, "trp_losses_%s%s", modes[s->p.mode], trp_dtype_name((trp_dtype)type));
    else
        trp__text_add(&name, "trp_losses_%s%s",
                      s->wide     ? "f64"
                      : s->narrow ? "narrow_"
                                  : "f32",
                      s->narrow && !s->wide ? trp_dtype_name((trp_dtype)type) : "");
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    step *s = state;
    (void)modules;
    if (!describe(part->graph, &part->graph->node[part->first], s))
        return trp__kernel_unfit(&trp__kernels_losses, error);
    s->elements.threads = TRP__LOSSES_THREADS;
    s->finish = (trp__kernel){.name = "trp_losses_total", .threads = TRP__LOSSES_THREADS};
    name_kernel(s, part->graph->tensor[part->graph->node[part->first].port[TRP__LOSS_X]].type);
    trp__text_add(engine, "loss_%s%s", s->elements.name + strlen("trp_losses_"),
                  s->p.runs ? "" : "_loose");
    *workspace = TRP__LOSSES_PARTS * sizeof(double);
    return TRP_OK;
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
            s->p.io[o].at = trp__kernel_address(l, s->tensor[o]);
    }
    s->p.sums = (uint64_t)(uintptr_t)l->workspace;
    s->p.total = trp__kernel_address(l, s->total);
    trp_status status = trp__kernel_find(l, TRP__MODULE_LOSSES, &s->finish, error);
    if (status == TRP_OK)
        status = trp__kernel_run(l, TRP__MODULE_LOSSES, &s->elements, (uint64_t)s->p.parts, &s->p,
                                 NULL, error);
    if (status == TRP_OK && s->p.total)
        status = trp__kernel_run(l, TRP__MODULE_LOSSES, &s->finish, 1, &s->p, NULL, error);
    return status;
}

TRP__KERNEL_FAMILY(losses, "loss", LOSSES);

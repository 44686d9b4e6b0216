/* The operands of a proof. */
#include "actors/cutlass/epilogue/render.h"
#include "actors/cutlass/proof/parts.h"
#include "actors/cutlass/reference/launch.h"
#include "matrix/proving.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Results of reductions are compared where all sums together have no more products than this. */
#define WHOLE_MOST 1e8

typedef trp__cutlass_proving proving;

static bool is_narrow(uint8_t type)
{
    return trp_dtype_bits((trp_dtype)type) < 8;
}

/* How far an operand lies from a multiple of 256 bytes: no better than the request's. */
static uint32_t skew_of(uint64_t address)
{
    const uint64_t low = address % 256;
    return (uint32_t)(low & (~low + 1));
}

static uint64_t address_at(const proving *x, size_t at)
{
    uint64_t address;
    memcpy(&address, (const char *)&x->trial->key.args + at, sizeof address);
    return address;
}

/* Small integers, as they are in a type; two of 4 bits are any byte. */
static void set_range(trp__proof_operand *o, uint8_t type)
{
    o->type = is_narrow(type) ? TRP_U8 : type;
    o->low = is_narrow(type) ? 0 : -2.4;
    o->high = is_narrow(type) ? 255 : 2.4;
    o->whole = true;
}

/* Adds an operand whose address belongs to the arguments at `at`; the last dimension is what lies
 * together, and has two elements to a byte of types of 4 bits. */
static trp__proof_operand *add(proving *x, const char *name, trp__proof_role role, uint8_t type,
                               size_t at)
{
    trp__proof_operand *o = &x->operand[x->operands];
    *o = (trp__proof_operand){.name = name, .role = role};
    set_range(o, type);
    x->at[x->operands] = (uint16_t)at;
    if (at != TRP__PROVING_NO_ADDRESS)
        o->alignment = skew_of(address_at(x, at));
    x->operands++;
    return o;
}

static void set_shape(trp__proof_operand *o, uint8_t type, uint8_t rank, const int64_t dim[],
                      const int64_t stride[])
{
    const int64_t part = is_narrow(type) ? 2 : 1;
    o->rank = rank;
    for (int i = 0; i < rank; i++) {
        const bool last = i == rank - 1;
        o->dim[i] = last ? dim[i] / part : dim[i];
        o->stride[i] = dim[i] > 1 ? (last ? 1 : stride[i] / part) : 0;
    }
}

/* --- Matrices --- */

int64_t trp__proving_members(const proving *x, int which)
{
    const bool grouped = x->trial->subject.problem.operation == TRP__CUTLASS_GROUPED;
    return grouped && trp_group_is_cut(x->args.grouping, which) ? 1 : x->args.l;
}

static void set_matrix(const proving *x, int which, uint8_t type, int64_t rows, int64_t columns,
                       bool by_row, trp__proof_operand *o)
{
    const int64_t ld[] = {x->args.lda, x->args.ldb, x->args.ldc, x->args.ldd};
    const int64_t batch[] = {x->args.batch_a, x->args.batch_b, x->args.batch_c, x->args.batch_d};
    const int64_t dim[] = {trp__proving_members(x, which), by_row ? rows : columns,
                           by_row ? columns : rows};
    const int64_t stride[] = {batch[which], ld[which], 1};
    set_shape(o, type, 3, dim, stride);
}

/* A or B of a convolution. */
static void set_tensor(const proving *x, bool left, uint8_t type, trp__proof_operand *o)
{
    const trp_cutlass_args *a = &x->args;
    const uint8_t operation = x->trial->subject.problem.conv;
    const bool filter = !left && operation != TRP_CONV_WGRAD;
    const bool activation = left == (operation == TRP_CONV_FPROP) && !filter;
    const int32_t *size = filter ? a->conv_filter : activation ? a->conv_input : a->conv_output;
    const int64_t channels = filter || activation ? a->conv_channels : a->conv_filters;
    const int64_t dim[] = {filter ? (int64_t)a->conv_filters * a->l : a->conv_images, size[0],
                           size[1], size[2], filter ? channels : channels * a->l};
    const int64_t *from = left ? a->conv_a : a->conv_b;
    const int64_t stride[] = {from[0], from[1], from[2], from[3], 1};
    set_shape(o, type, 5, dim, stride);
}

static void add_inputs(proving *x)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    const trp_cutlass_args *a = &x->args;
    const bool convolves = p->operation == TRP__CUTLASS_CONV;
    trp__proof_operand *o = add(x, "a", TRP__PROOF_INPUT, p->a, offsetof(trp_cutlass_args, a));
    o->ordinary_only = true; /* sums of infinite numbers say nothing */
    if (convolves)
        set_tensor(x, true, p->a, o);
    else
        set_matrix(x, 0, p->a, a->m, a->k, p->a_row, o);
    o = add(x, "b", TRP__PROOF_INPUT, p->b, offsetof(trp_cutlass_args, b));
    o->ordinary_only = true;
    if (convolves)
        set_tensor(x, false, p->b, o);
    else
        set_matrix(x, 1, p->b, a->k, a->n, p->b_row, o);
}

/* --- Factors --- */

/* Factors of a matrix of `lines` x k. */
static int64_t factors_of(uint8_t mode, int64_t lines, int64_t k)
{
    const int64_t width = mode == TRP_SCALE_BLOCK_16 ? 16 : mode == TRP_SCALE_BLOCK_32 ? 32 : 128;
    const int64_t blocks = (k + width - 1) / width, squares = (lines + 127) / 128;
    return mode == TRP_SCALE_BLOCK_128       ? lines * blocks
           : mode == TRP_SCALE_BLOCK_128X128 ? squares * ((blocks + 3) / 4) * 4
                                             : squares * ((blocks + 3) / 4) * 512;
}

static void add_factors(proving *x, const char *name, uint8_t type, size_t at, int64_t count,
                        int64_t stride, bool powers)
{
    trp__proof_operand *o = add(x, name, TRP__PROOF_INPUT, type, at);
    set_shape(o, type, 2, (int64_t[]){stride ? x->args.l : 1, count}, (int64_t[]){stride, 1});
    o->ordinary_only = true;
    o->low = 0.6; /* 1 or 2; what has no fractions is rounded up to a power of two */
    o->high = 2.4;
    o->whole = !powers;
}

static void add_scales(proving *x)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    const trp_cutlass_args *a = &x->args;
    const uint8_t mode[] = {p->scale_a, p->scale_b};
    for (int i = 0; i < 2; i++) {
        const uint8_t type = mode[i] == TRP_SCALE_BLOCK_16   ? TRP_F8E4M3
                             : mode[i] == TRP_SCALE_BLOCK_32 ? TRP_F8E8M0
                                                             : TRP_F32;
        if (mode[i])
            add_factors(x, i == 0 ? "a.scale" : "b.scale", type,
                        i == 0 ? offsetof(trp_cutlass_args, scale_a)
                               : offsetof(trp_cutlass_args, scale_b),
                        factors_of(mode[i], i == 0 ? a->m : a->n, a->k),
                        i == 0 ? a->batch_scale_a : a->batch_scale_b, type == TRP_F8E8M0);
    }
    if (a->group == 0)
        return;
    const bool narrow_a = trp_dtype_bits((trp_dtype)p->a) < trp_dtype_bits((trp_dtype)p->b);
    const int64_t count = ((int64_t)a->k + a->group - 1) / a->group * (narrow_a ? a->m : a->n);
    add_factors(x, "groups.scale", narrow_a ? p->b : p->a, offsetof(trp_cutlass_args, scale_b),
                count, a->batch_scale_b, false);
    if (p->zeros)
        add_factors(x, "groups.zero", narrow_a ? p->b : p->a, offsetof(trp_cutlass_args, zero_b),
                    count, a->batch_scale_b, false);
}

/* --- Results --- */

static void set_tolerance(const proving *x, uint8_t type, bool sum, trp__proof_operand *o)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    const trp__proving_tree tree = trp__proving_look_at_tree(&x->tree);
    const bool wide = p->accumulator == TRP_F64;
    double unit = trp__proving_unit(type);
    for (uint32_t i = 0; i < x->tree.count; i++) {
        const double rounded =
            x->tree.node[i].op == TRP__TREE_CONVERT ? trp__proving_unit(x->tree.node[i].type) : 0;
        unit = rounded > unit ? rounded : unit;
    }
    o->whole = true;
    if (!tree.exact || sum)
        o->whole_relative = unit + (type == TRP_F64 && wide ? 1e-12 : sum ? 1e-4 : 2e-5);
    o->absolute = type == TRP_I8 && !tree.exact ? 1 : 0; /* rounded the other way */
    if (type == TRP_I32 || type == TRP_I8)
        return;
    o->of_scale = trp__proving_of_sums(p->a, x->args.k, p->compute == TRP_COMPUTE_TF32);
    o->relative = o->of_scale + unit;
}

static void add_d(proving *x)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    trp__proof_operand *o;
    x->c = x->d = UINT32_MAX;
    if (p->c != TRP_DTYPE_NONE) {
        x->c = x->operands;
        o = add(x, "c", TRP__PROOF_INPUT, p->c, offsetof(trp_cutlass_args, c));
        set_matrix(x, 2, p->c, x->args.m, x->args.n, true, o);
    }
    x->d = x->operands;
    o = add(x, "d", TRP__PROOF_OUTPUT, p->d, offsetof(trp_cutlass_args, d));
    set_matrix(x, 3, p->d, x->args.m, x->args.n, true, o);
    set_tolerance(x, p->d, false, o);
    x->what[x->d] = TRP__REFERENCE_D;
}

/* --- What the tree has in memory --- */

static void set_slot_shape(const proving *x, const trp__tree_node *n, const uint64_t *word,
                           uint8_t type, trp__proof_operand *o)
{
    const trp_cutlass_args *a = &x->args;
    const bool rows = n->op == TRP__TREE_PER_ROW || n->op == TRP__TREE_REDUCE_ROWS;
    const bool columns = n->op == TRP__TREE_PER_COLUMN || n->op == TRP__TREE_REDUCE_COLUMNS;
    const bool grouped = x->trial->subject.problem.operation == TRP__CUTLASS_GROUPED;
    const bool cut = grouped && ((rows && a->grouping == TRP_GROUPED_OF_M) ||
                                 (columns && a->grouping == TRP_GROUPED_OF_N));
    const bool by_row = n->detail == TRP_ROW_MAJOR;
    if (n->op == TRP__TREE_LOAD || n->op == TRP__TREE_STORE) {
        const int64_t stride = (int64_t)word[2];
        const int64_t dim[] = {stride ? a->l : 1, by_row ? a->m : a->n, by_row ? a->n : a->m};
        set_shape(o, type, 3, dim, (int64_t[]){stride, (int64_t)word[1], 1});
        return;
    }
    const int64_t stride = (int64_t)word[1];
    set_shape(o, type, 2,
              (int64_t[]){stride && !cut ? a->l : 1, rows      ? a->m
                                                     : columns ? a->n
                                                               : 1},
              (int64_t[]){stride, 1});
}

static void add_slot(proving *x, uint32_t node)
{
    const trp__tree_node *n = &x->tree.node[node];
    const uint32_t first = n->slot ? trp__tree_word(&x->tree, n->slot) : 0;
    const uint64_t *word = &x->args.slot[first];
    const uint8_t type = n->type ? n->type : x->tree.compute;
    const double work =
        (double)x->args.m * (double)x->args.n * (double)x->args.k * (double)x->args.l;
    const bool reduces = n->op >= TRP__TREE_REDUCE_ROWS;
    if (!n->slot || word[0] == 0)
        return;
    trp__proof_operand *o =
        add(x,
            n->op == TRP__TREE_SCALAR                             ? "a scalar"
            : reduces                                             ? "a reduction"
            : n->op == TRP__TREE_LOAD || n->op == TRP__TREE_STORE ? "an auxiliary matrix"
                                                                  : "a vector",
            !trp__tree_is_sink(n)          ? TRP__PROOF_INPUT
            : reduces && work > WHOLE_MOST ? TRP__PROOF_SCRATCH
                                           : TRP__PROOF_OUTPUT,
            type, offsetof(trp_cutlass_args, slot) + first * sizeof *word);
    set_slot_shape(x, n, word, type, o);
    if (n->op == TRP__TREE_SCALAR) {
        o->ordinary_only = true;
        o->low = 0.6;
    }
    if (o->role == TRP__PROOF_OUTPUT)
        set_tolerance(x, type, reduces && n->detail == TRP_REDUCTION_SUM, o);
    if (o->role == TRP__PROOF_OUTPUT && reduces) /* what was added up, and may be close to 0 */
        o->typical = sqrt((double)x->args.m * x->args.n * x->args.k /
                          (double)(n->op == TRP__TREE_REDUCE_ROWS      ? x->args.m
                                   : n->op == TRP__TREE_REDUCE_COLUMNS ? x->args.n
                                                                       : 1));
    x->what[x->operands - 1] = (uint8_t)node;
}

/* --- All --- */

/* Room for the numbers of samples, one for each output. */
static void add_numbers(proving *x)
{
    const uint32_t some = x->operands;
    x->first_numbers = some;
    for (uint32_t i = 0; i < some; i++) {
        if (x->operand[i].role != TRP__PROOF_OUTPUT)
            continue;
        trp__proof_operand *o =
            add(x, "numbers", TRP__PROOF_SCRATCH, TRP_I64, TRP__PROVING_NO_ADDRESS);
        set_shape(o, TRP_I64, 1, (int64_t[]){TRP__PROOF_SAMPLE}, (int64_t[]){1});
    }
    x->table = UINT32_MAX;
    if (x->rows_bytes == 0)
        return;
    x->table = x->operands;
    set_shape(add(x, "table", TRP__PROOF_SCRATCH, TRP_I32, TRP__PROVING_NO_ADDRESS), TRP_I32, 1,
              (int64_t[]){(int64_t)x->rows_bytes / 4}, (int64_t[]){1});
}

void trp__proving_add_operands(proving *x)
{
    x->operands = 0;
    add_inputs(x);
    add_scales(x);
    add_d(x);
    for (uint32_t i = 0; i < x->tree.count; i++)
        add_slot(x, i);
    add_numbers(x);
}

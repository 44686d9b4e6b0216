/* The reference kernel of the cutlass actor on the fake driver: the library's own source, compiled
 * as C. Blocks of a launch run in sequence, each with one thread, which reaches exactly the memory
 * that the sizes of each operand span. */
#include "support/fake_cuda/cutlass/cutlass_reference.h"

#include "support/fake_cuda/cutlass/cutlass_parts.h"
#include "support/fake_cuda/settings.h"
#include "support/reference/matmul_reference.h"

#include <string.h>

#define TRP__KERNEL              static
#define TRP__SHARED              /* each block has one thread */
#define TRP__SYNC()              ((void)0)
#define TRP__THREAD              0
#define TRP__THREADS             1
#define TRP__BLOCK               0
#define TRP__BLOCKS              1
#define TRP__SWAP(to, was, with) (*(to) = (with), (was))
#define TRP__APART
#include "actors/cutlass/reference/kernels.h"

enum { PINS = TRP__REFERENCE_NODES + 10 };

typedef struct running {
    trp__cutlass_reference r;
    fake_pin pin[PINS];
    uint32_t pins;
    bool failed;
} running;

static uint64_t reach(running *x, uint64_t address, uint64_t bytes, bool write)
{
    void *at = x->failed ? NULL : fake_cuda_reach(&x->pin[x->pins++], address, bytes, write);
    x->failed = !at;
    return (uintptr_t)at;
}

/* Returns the bytes from the first to the last element of the matrices of a batch. */
static uint64_t span(uint8_t type, int64_t lines, int64_t length, int64_t ld, int64_t members,
                     int64_t stride)
{
    return fake_cutlass_bytes_of_all(
        type, (uint64_t)((members - 1) * stride + (lines - 1) * ld + length));
}

static uint64_t span_of(const trp__cutlass_reference *r, uint8_t type, bool by_row, int64_t rows,
                        int64_t columns, int64_t ld, int64_t stride)
{
    return span(type, by_row ? rows : columns, by_row ? columns : rows, ld, r->args.l, stride);
}

static void reach_inputs(running *x)
{
    trp__cutlass_reference *r = &x->r;
    trp_cutlass_args *a = &r->args;
    const fake_cutlass_kernel conv = {.a = r->a, .b = r->b, .conv = r->conv, .convolves = true};
    if (r->convolves) {
        const uint64_t left = fake_cutlass_conv_span(&conv, a, false) * fake_cutlass_bytes(r->a);
        const uint64_t right = fake_cutlass_conv_span(&conv, a, true) * fake_cutlass_bytes(r->b);
        if (a->conv_images > 0) {
            a->a = reach(x, a->a, left, false);
            a->b = reach(x, a->b, right, false);
        }
        return;
    }
    a->a = reach(x, a->a, span_of(r, r->a, r->a_row, a->m, a->k, a->lda, a->batch_a), false);
    a->b = reach(x, a->b, span_of(r, r->b, r->b_row, a->k, a->n, a->ldb, a->batch_b), false);
}

static uint64_t factors(uint8_t mode, int64_t lines, int64_t k, int64_t members, int64_t stride)
{
    const uint64_t width = mode == TRP_SCALE_BLOCK_16 || mode == TRP_SCALE_BLOCK_32 ? 1 : 4;
    return (uint64_t)ref_scale_bytes((trp_scale_mode)mode, lines, k) +
           (uint64_t)((members - 1) * stride) * width;
}

static void reach_factors(running *x)
{
    const trp__cutlass_reference *r = &x->r;
    trp_cutlass_args *a = &x->r.args;
    const bool narrow_a = trp_dtype_bits((trp_dtype)r->a) < trp_dtype_bits((trp_dtype)r->b);
    if (r->scale_a)
        a->scale_a =
            reach(x, a->scale_a, factors(r->scale_a, a->m, a->k, a->l, a->batch_scale_a), false);
    if (r->scale_b)
        a->scale_b =
            reach(x, a->scale_b, factors(r->scale_b, a->n, a->k, a->l, a->batch_scale_b), false);
    if (a->group == 0)
        return;
    const int64_t count = ((int64_t)a->k - 1) / a->group + 1;
    const uint64_t bytes =
        span(TRP_F16, 1, count * (narrow_a ? a->m : a->n), 0, a->l, a->batch_scale_b);
    a->scale_b = reach(x, a->scale_b, bytes, false);
    if (r->zeros)
        a->zero_b = reach(x, a->zero_b, bytes, false);
}

static void reach_slot(running *x, const trp__reference_node *n)
{
    const trp_cutlass_args *a = &x->r.args;
    uint64_t *word = &x->r.args.slot[n->word];
    const bool rows = n->op == TRP__TREE_PER_ROW || n->op == TRP__TREE_REDUCE_ROWS;
    const bool columns = n->op == TRP__TREE_PER_COLUMN || n->op == TRP__TREE_REDUCE_COLUMNS;
    const uint8_t type = n->type ? n->type : x->r.wide ? TRP_F64 : TRP_F32;
    const bool cut = x->r.grouped && a->grouping == (rows      ? TRP_GROUPED_OF_M
                                                     : columns ? TRP_GROUPED_OF_N
                                                               : -1);
    if (!n->slot || word[0] == 0)
        return;
    if (n->op == TRP__TREE_LOAD || n->op == TRP__TREE_STORE)
        word[0] = reach(x, word[0],
                        span_of(&x->r, type, n->detail == TRP_ROW_MAJOR, a->m, a->n,
                                (int64_t)word[1], (int64_t)word[2]),
                        n->op == TRP__TREE_STORE);
    else
        word[0] = reach(x, word[0],
                        span(type, 1,
                             rows      ? a->m
                             : columns ? a->n
                                       : 1,
                             0, cut ? 1 : a->l, cut ? 0 : (int64_t)word[1]),
                        n->op >= TRP__TREE_REDUCE_ROWS);
}

/* Reaches the matrices of groups as the request describes them. */
static void reach_groups(running *x)
{
    trp_cutlass_args *a = &x->r.args;
    const bool ends = a->grouping >= TRP_GROUPED_OF_M;
    const uint64_t row = ends ? sizeof(int32_t) : sizeof(trp_group_row);
    uint64_t *const at[] = {&a->a, &a->b, &a->c, &a->d};
    x->r.table =
        (const void *)(uintptr_t)reach(x, (uintptr_t)x->r.table, row * (uint64_t)a->l, false);
    for (int i = 0; i < 4; i++) {
        if ((i < 2 && a->group_room[i] == 0) || (i == 2 && a->group_c != 1))
            continue;
        *at[i] = reach(x, *at[i], a->group_room[i], i == 3);
    }
}

static void reach_all(running *x)
{
    trp__cutlass_reference *r = &x->r;
    trp_cutlass_args *a = &r->args;
    if (r->grouped) {
        reach_groups(x);
    } else {
        reach_inputs(x);
        reach_factors(x);
        if (r->c != TRP_DTYPE_NONE)
            a->c = reach(x, a->c, span_of(r, r->c, true, a->m, a->n, a->ldc, a->batch_c), false);
        a->d = reach(x, a->d, span_of(r, r->d, true, a->m, a->n, a->ldd, a->batch_d),
                     r->what == TRP__REFERENCE_D || r->what == TRP__REFERENCE_ALL);
    }
    for (uint32_t i = 0; i < r->nodes; i++)
        reach_slot(x, &r->node[i]);
    if (r->sample)
        r->sample = (const int64_t *)(uintptr_t)reach(
            x, (uintptr_t)r->sample, (uint64_t)r->count * sizeof *r->sample, false);
}

void fake_cutlass_reference(const uint64_t *parameter)
{
    running x = {0};
    memcpy(&x.r, parameter, sizeof x.r);
    reach_all(&x);
    fake_report("reference_runs", x.r.sample ? "sample" : "all");
    if (!x.failed)
        trp_cutlass_reference(x.r);
    for (uint32_t i = 0; i < x.pins; i++)
        fake_cuda_let_go(&x.pin[i]);
}

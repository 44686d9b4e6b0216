#include "actors/dnn/engines/product_multiply.h"

#include <troupe/matmul.h>
#include <troupe/types.h>

#include <math.h>
#include <string.h>

/* Smaller sizes leave most of a tile empty, and fewer multiply-adds take negligible time; with
 * fewer columns of A, the last bit lost by splitting is visible. */
enum { LEAST_SIZE = 64, LEAST_WORK = 1 << 26 };

/* After this many rounds the last round of tiles is not shared. */
enum { ROUNDS = 8, STEPS = 4 /* least steps per block */, TILES = 1 << 24 };

/* Overhead of the launches for a group of columns, in steps of a block. */
enum { LAUNCH_STEPS = 4 };

bool trp__dnn_multiply_takes(const trp__matmul *g)
{
    const uint8_t *type = g->type;
    const bool f32 = type[TRP__MATMUL_A] == TRP_F32 && type[TRP__MATMUL_B] == TRP_F32 &&
                     type[TRP__MATMUL_D] == TRP_F32;
    const bool epilogue = g->activation == TRP_ACTIVATION_NONE ||
                          g->activation == TRP_ACTIVATION_RELU ||
                          g->activation == TRP_ACTIVATION_GELU;
    return f32 && epilogue && g->compute == TRP_COMPUTE_DEFAULT &&
           g->access[TRP__MATMUL_C] == TRP__MATMUL_NO_ACCESS &&
           g->access[TRP__MATMUL_AUX] == TRP__MATMUL_NO_ACCESS && g->m >= LEAST_SIZE &&
           g->n >= LEAST_SIZE && g->k >= LEAST_SIZE &&
           (double)g->m * (double)g->n * (double)g->k * (double)g->batch >= LEAST_WORK;
}

static int64_t tiles_across(int64_t columns)
{
    return (columns + TRP__MULTIPLY_COLUMNS - 1) / TRP__MULTIPLY_COLUMNS;
}

/* Estimates writing and adding `parts` parts, in steps of a block. */
static double gather_steps(int64_t parts)
{
    return 2 + (double)parts / 22;
}

/* Shares the tiles of a partial last round among all blocks if that is faster. Returns the bytes of
 * the parts, at most `most`. */
static uint64_t share(trp__multiply *p, int64_t processors, uint64_t most)
{
    const int64_t tiles = (int64_t)p->rows * p->columns * p->batch, rest = tiles % processors;
    const int64_t room = (int64_t)(most / TRP__MULTIPLY_TILE_BYTES) - rest;
    int64_t blocks = processors;
    p->whole = (int32_t)tiles;
    p->shared = 0;
    p->blocks = (int32_t)(tiles < processors ? tiles : processors);
    if (tiles < processors && blocks > room)
        blocks = room;
    if (tiles < processors && blocks > rest * p->steps / STEPS)
        blocks = rest * p->steps / STEPS;
    if (rest == 0 || blocks <= rest || blocks > room || tiles / processors >= ROUNDS ||
        rest * p->steps < blocks ||
        (double)((blocks - rest) * p->steps) <= gather_steps(blocks + rest) * (double)blocks)
        return 0;
    p->whole = (int32_t)(tiles - rest);
    p->shared = (int32_t)rest;
    p->blocks = (int32_t)blocks;
    return (uint64_t)(blocks + rest) * TRP__MULTIPLY_TILE_BYTES;
}

/* Sets the work of one launch: products, and tiles of columns in each. */
static uint64_t set_tiles(const trp__dnn_multiply *plan, int64_t columns, int64_t batch,
                          uint64_t most, trp__multiply *p)
{
    p->columns = (int32_t)columns;
    p->batch = (int32_t)batch;
    return share(p, plan->processors, most);
}

/* The workspace: B split, parts of shared tiles, then words. */
static uint64_t split_bytes(const trp__dnn_multiply *plan)
{
    return (uint64_t)plan->columns * (uint64_t)plan->batch * (uint64_t)plan->p.steps *
           TRP__MULTIPLY_SPLIT_BYTES;
}

static uint64_t small_bytes(const trp__dnn_multiply *plan)
{
    return sizeof(uint32_t) * (uint64_t)plan->columns * (uint64_t)plan->batch *
           (uint64_t)plan->p.steps;
}

static uint64_t word_bytes(const trp__dnn_multiply *plan)
{
    const uint64_t whole = (uint64_t)plan->columns * (uint64_t)plan->batch * (uint64_t)plan->p.rows;
    const uint64_t parts = 2 * (uint64_t)plan->processors;
    return sizeof(uint32_t) * (1 + TRP__MULTIPLY_WARPS * (whole + parts)) + small_bytes(plan);
}

/* Estimates the sequential steps of a block. */
static double steps_of(const trp__dnn_multiply *plan, const trp__multiply *p)
{
    const int64_t rounds = (p->whole + plan->processors - 1) / plan->processors;
    const double shared = p->shared ? gather_steps(p->blocks + p->shared) +
                                          (double)p->shared * p->steps / (double)p->blocks
                                    : 0;
    return LAUNCH_STEPS + (double)(rounds * p->steps) + shared;
}

/* Sets the columns and products of a batch per launch and the bytes of parts. Returns the estimated
 * steps, or infinity if the workspace is too small. */
static double try_cut(trp__dnn_multiply *plan, int64_t columns, int64_t batch, uint64_t workspace)
{
    trp__multiply p = plan->p;
    const int64_t all = tiles_across(p.n), last = all % columns, left = p.batch % batch;
    const int64_t whole = all / columns, batches = p.batch / batch;
    const double times = (double)whole * (double)batches;
    const double rests = last   ? (double)p.batch
                         : left ? 1
                                : 0; /* the batch is divided, or the
                                      * columns */
    plan->columns = (int32_t)columns;
    plan->batch = (int32_t)batch;
    const uint64_t bytes = split_bytes(plan) + word_bytes(plan);
    if (bytes > workspace)
        return INFINITY;
    plan->part_bytes = set_tiles(plan, columns, batch, workspace - bytes, &p);
    double steps = times * steps_of(plan, &p);
    if (rests > 0) {
        const uint64_t parts =
            set_tiles(plan, last ? last : columns, left ? left : batch, workspace - bytes, &p);
        plan->part_bytes = parts > plan->part_bytes ? parts : plan->part_bytes;
        steps += rests * steps_of(plan, &p);
    }
    return steps;
}

/* Chooses the columns per launch with the fewest steps, and several products of a batch if one
 * launch covers all columns. Returns the required bytes, or 0 if not even one tile of columns
 * fits. */
static uint64_t cut(trp__dnn_multiply *plan, uint64_t workspace)
{
    const uint64_t one = (uint64_t)plan->p.steps * TRP__MULTIPLY_SPLIT_BYTES;
    const int64_t all = tiles_across(plan->p.n), fit = (int64_t)(workspace / one);
    trp__dnn_multiply best = *plan;
    double least = INFINITY;
    for (int64_t batch = fit / all < plan->p.batch ? fit / all : plan->p.batch; batch > 0;
         batch--) {
        const double steps = try_cut(plan, all, batch, workspace);
        if (steps < least) {
            least = steps;
            best = *plan;
        }
    }
    for (int64_t columns = fit < all ? fit : all - 1; columns > 0; columns--) {
        const double steps = try_cut(plan, columns, 1, workspace);
        if (steps < least) {
            least = steps;
            best = *plan;
        }
    }
    *plan = best;
    return least < INFINITY ? split_bytes(plan) + plan->part_bytes + word_bytes(plan) : 0;
}

/* Tells whether B is split and D is computed in its own orientation: if B is smaller than A by so
 * much that splitting B saves more than the slower writes of D cost. Otherwise D is written in
 * units of 16 bytes if its lines allow it. */
static bool is_turned(const trp__matmul *g)
{
    const double less = (double)(g->m - g->n) * (double)g->k;
    return g->n < g->m && (g->ld[TRP__MATMUL_D] % 4 != 0 || 2 * less > (double)g->m * (double)g->n);
}

/* Converts the column-major problem to the kernels' row-major one: D' = B' A'. */
static trp__multiply describe(const trp__matmul *g)
{
    const bool turned = is_turned(g);
    const int a = turned ? TRP__MATMUL_A : TRP__MATMUL_B;
    const int b = turned ? TRP__MATMUL_B : TRP__MATMUL_A;
    const bool packed[] = {
        [TRP__MATMUL_A] = g->trans_a != TRP_N, [TRP__MATMUL_B] = g->trans_b == TRP_N};
    trp__multiply p = {.lda = g->ld[a],
                       .ldb = g->ld[b],
                       .ldd = g->ld[TRP__MATMUL_D],
                       .m = turned ? g->m : g->n,
                       .n = turned ? g->n : g->m,
                       .k = g->k,
                       .batch = (int32_t)g->batch,
                       .steps = (int32_t)((g->k + TRP__MULTIPLY_DEPTH - 1) / TRP__MULTIPLY_DEPTH),
                       .packed_a = packed[a],
                       .packed_b = packed[b],
                       .turned = turned,
                       .activation = g->activation == TRP_ACTIVATION_RELU ? TRP__MULTIPLY_RELU
                                     : g->activation == TRP_ACTIVATION_GELU
                                         ? TRP__MULTIPLY_GELU_TANH
                                         : TRP__MULTIPLY_PLAIN};
    p.rows = (int32_t)((p.m + TRP__MULTIPLY_ROWS - 1) / TRP__MULTIPLY_ROWS);
    if (g->batch > 1) {
        p.stride_a = g->stride[a];
        p.stride_b = g->stride[b];
        p.stride_d = g->stride[TRP__MATMUL_D];
    }
    return p;
}

bool trp__dnn_multiply_plan(trp__kernel_modules *modules, const trp__dnn_product *product,
                            trp__dnn_multiply *out, uint64_t *workspace)
{
    if (!modules || strcmp(modules->target, "sm_90") != 0 || modules->processors <= 0 ||
        !trp__kernels_ready(modules, TRP__MODULE_MULTIPLY))
        return false;
    *out = (trp__dnn_multiply){.p = describe(&product->problem), .processors = modules->processors};
    if ((double)out->p.rows * (double)tiles_across(out->p.n) * (double)out->p.batch > TILES)
        return false;
    *workspace = cut(out, product->workspace);
    return *workspace > 0;
}

static trp_status find_kernels(trp__dnn_multiply *plan, const trp__kernel_launch *l,
                               trp_error *error)
{
    trp__cu_function multiply, split, finish;
    if (plan->modules == l->modules)
        return TRP_OK;
    trp_status status = trp__kernel_with_shared(
        l, TRP__MODULE_MULTIPLY, plan->p.packed_a ? "trp_multiply_n" : "trp_multiply_t",
        TRP__MULTIPLY_SHARED, &multiply, error);
    if (status == TRP_OK)
        status = trp__kernels_function(
            l->modules, l->instance, TRP__MODULE_MULTIPLY,
            plan->p.packed_b ? "trp_multiply_split_t" : "trp_multiply_split_n", &split, error);
    if (status == TRP_OK)
        status = trp__kernels_function(l->modules, l->instance, TRP__MODULE_MULTIPLY,
                                       "trp_multiply_finish", &finish, error);
    if (status != TRP_OK)
        return status;
    plan->modules = l->modules;
    plan->split = split;
    plan->multiply = multiply;
    plan->finish = finish;
    return TRP_OK;
}

static trp_status launch_part(const trp__dnn_multiply *plan, const trp__kernel_launch *l,
                              trp__multiply *p, trp_error *error)
{
    const uint64_t shared = (uint64_t)p->shared * TRP__MULTIPLY_GATHER_BLOCKS;
    const uint64_t processors = (uint64_t)plan->processors;
    trp_status status =
        trp__kernel_enqueue(l, plan->split, (uint64_t)p->columns * (uint64_t)(p->steps * p->batch),
                            TRP__MULTIPLY_SPLIT_THREADS, 0, p, error);
    if (status == TRP_OK)
        status = trp__kernel_enqueue(l, plan->multiply, (uint64_t)p->blocks, TRP__MULTIPLY_THREADS,
                                     TRP__MULTIPLY_SHARED, p, error);
    if (status == TRP_OK)
        status = trp__kernel_enqueue(l, plan->finish, shared > processors ? shared : processors,
                                     TRP__MULTIPLY_FINISH_THREADS, 0, p, error);
    return status;
}

static uint8_t is_vector(uint64_t at, int64_t ld, int64_t stride)
{
    enum { NUMBERS = 4 };
    return at % (NUMBERS * sizeof(float)) == 0 && ld % NUMBERS == 0 && stride % NUMBERS == 0;
}

/* Describes the part of one launch, from a tile of columns and a product of the batch on. */
static trp__multiply part_of(const trp__dnn_multiply *plan, const trp__multiply *all,
                             int64_t column, int64_t batch)
{
    const int64_t columns = tiles_across(all->n) - column, left = all->batch - batch;
    const int64_t first = column * TRP__MULTIPLY_COLUMNS;
    const int64_t across_b = all->packed_b ? all->ldb : 1, across_d = all->turned ? all->ldd : 1;
    trp__multiply p = *all;
    p.a += sizeof(float) * (uint64_t)(batch * p.stride_a);
    p.b += sizeof(float) * (uint64_t)(batch * p.stride_b + first * across_b);
    p.d += sizeof(float) * (uint64_t)(batch * p.stride_d + first * across_d);
    if (p.bias && !p.turned)
        p.bias += sizeof(float) * (uint64_t)first;
    set_tiles(plan, columns < plan->columns ? columns : plan->columns,
              left < plan->batch ? left : plan->batch, plan->part_bytes, &p);
    p.n -= first;
    if (p.n > (int64_t)p.columns * TRP__MULTIPLY_COLUMNS)
        p.n = (int64_t)p.columns * TRP__MULTIPLY_COLUMNS;
    return p;
}

trp_status trp__dnn_multiply_launch(trp__dnn_multiply *plan, const trp__kernel_launch *l,
                                    void *const at[TRP__MATMUL_OPERANDS], trp_error *error)
{
    trp__multiply p = plan->p;
    p.a = (uint64_t)(uintptr_t)at[p.turned ? TRP__MATMUL_A : TRP__MATMUL_B];
    p.b = (uint64_t)(uintptr_t)at[p.turned ? TRP__MATMUL_B : TRP__MATMUL_A];
    p.d = (uint64_t)(uintptr_t)at[TRP__MATMUL_D];
    p.bias = (uint64_t)(uintptr_t)at[TRP__MATMUL_VECTOR];
    p.split = (uint64_t)(uintptr_t)l->workspace;
    p.parts = p.split + split_bytes(plan);
    p.any = p.parts + plan->part_bytes;
    p.small = p.any + sizeof(uint32_t);
    p.flags = p.small + small_bytes(plan);
    p.vector_a = is_vector(p.a, p.lda, p.stride_a);
    p.vector_b = is_vector(p.b, p.ldb, p.stride_b);
    p.vector_d = is_vector(p.d, p.ldd, p.stride_d);
    trp_status status = find_kernels(plan, l, error);
    for (int64_t batch = 0; batch < p.batch; batch += plan->batch) {
        for (int64_t column = 0; column < tiles_across(p.n) && status == TRP_OK;
             column += plan->columns) {
            trp__multiply part = part_of(plan, &p, column, batch);
            status = launch_part(plan, l, &part, error);
        }
    }
    return status;
}

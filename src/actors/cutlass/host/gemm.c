/* Computes products on the host. */
#include "actors/cutlass/host/host.h"

#include <stdlib.h>
#include <string.h>

typedef trp__gemm_run run_state;

/* Computes D = alpha sums + beta C in i32 with wrapping arithmetic. */
static void finish_integers(const run_state *x, const trp__tree_tile *tile)
{
    const trp__cutlass_gemm *g = &x->g;
    const int32_t *sums = tile->acc;
    bool by_row = g->order[TRP__GEMM_D] == TRP_ROW_MAJOR;
    const int32_t *c = x->epilogue.slot[TRP__TREE_SLOT_C].at;
    int32_t *d = x->epilogue.slot[TRP__TREE_SLOT_D].at;
    for (int64_t j = 0; j < tile->columns; j++) {
        for (int64_t i = 0; i < tile->rows; i++) {
            int64_t row = tile->row + i, column = tile->column + j;
            int64_t line = by_row ? row : column, at = by_row ? column : row;
            uint32_t value = (uint32_t)g->alpha * (uint32_t)sums[i + j * tile->acc_ld];
            if (g->beta != 0)
                value +=
                    (uint32_t)g->beta *
                    (uint32_t)
                        c[tile->batch * g->stride[TRP__GEMM_C] + line * g->ld[TRP__GEMM_C] + at];
            d[tile->batch * g->stride[TRP__GEMM_D] + line * g->ld[TRP__GEMM_D] + at] =
                (int32_t)value;
        }
    }
}

/* Wraps sums of i8, which are integers of less than 53 bits, to i32. The tile of A is no longer in
 * use. */
static const int32_t *wrapped(const run_state *x, const double *sums, int64_t rows, int64_t columns)
{
    int32_t *out = x->product.scratch;
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++) {
            int64_t at = i + j * TRP__HOST_TILE;
            out[at] = (int32_t)(uint32_t)(uint64_t)(int64_t)sums[at];
        }
    }
    return out;
}

static void run_tile(const run_state *x, const trp__tree_eval *eval, trp__tree_tile *tile)
{
    tile->acc = trp__host_product_sums(&x->product, tile->batch, tile->row, tile->column,
                                       tile->rows, tile->columns);
    if (tile->acc_type == TRP_I32)
        tile->acc = wrapped(x, tile->acc, tile->rows, tile->columns);
    if (x->epilogue.tree.count)
        trp__tree_eval_tile(eval, tile);
    else
        finish_integers(x, tile);
}

static void run(void *arguments)
{
    run_state *x = *(run_state **)arguments; /* in the ring */
    const trp__cutlass_gemm *g = &x->g;
    const trp__tree_eval eval = {.tree = &x->epilogue.tree,
                                 .m = g->m,
                                 .n = g->n,
                                 .batch = g->batch,
                                 .slot = x->epilogue.slot,
                                 .sums = x->epilogue.sums};
    uint8_t a = g->type[TRP__GEMM_A];
    trp__tree_tile tile = {.acc_type = a == TRP_F64  ? TRP_F64
                                       : a == TRP_I8 ? TRP_I32
                                                     : TRP_F32,
                           .acc_order = TRP_COL_MAJOR,
                           .acc_ld = TRP__HOST_TILE};
    if (x->epilogue.tree.count)
        trp__tree_eval_begin(&eval);
    for (tile.batch = 0; tile.batch < g->batch; tile.batch++) {
        for (tile.column = 0; tile.column < g->n; tile.column += TRP__HOST_TILE) {
            tile.columns = trp__at_most_a_tile(g->n - tile.column);
            for (tile.row = 0; tile.row < g->m; tile.row += TRP__HOST_TILE) {
                tile.rows = trp__at_most_a_tile(g->m - tile.row);
                run_tile(x, &eval, &tile);
            }
        }
    }
    if (x->epilogue.tree.count)
        trp__tree_eval_end(&eval);
    free(x->epilogue.sums);
}

/* Describes A and B for the matmul actor's functions. */
static void set_product(run_state *x, const trp__cutlass_room *s, const trp_job *job)
{
    const trp__cutlass_gemm *g = &x->g;
    trp__host_product *p = &x->product;
    memset(p, 0, sizeof *p);
    p->blas = s->host.blas;
    p->scratch = s->host.scratch;
    p->alpha = 1;
    p->g.m = g->m;
    p->g.n = g->n;
    p->g.k = g->k;
    p->g.batch = g->batch;
    p->g.trans_a = g->order[TRP__GEMM_A] == TRP_ROW_MAJOR ? TRP_T : TRP_N;
    p->g.trans_b = g->order[TRP__GEMM_B] == TRP_ROW_MAJOR ? TRP_T : TRP_N;
    p->group = g->group;
    if (p->group) {
        p->group_scale = trp__job_address(job, g->access[TRP__GEMM_SCALE_B]);
        p->group_zero = trp__job_address(job, g->access[TRP__GEMM_ZERO_B]);
    }
    memcpy(p->scale_stride, g->scale_stride, sizeof p->scale_stride);
    p->g.scale_a = g->scale[TRP__GEMM_A];
    p->g.scale_b = g->scale[TRP__GEMM_B];
    if (p->g.scale_a)
        p->at[TRP__MATMUL_SCALE_A] = trp__job_address(job, g->access[TRP__GEMM_SCALE_A]);
    if (p->g.scale_b)
        p->at[TRP__MATMUL_SCALE_B] = trp__job_address(job, g->access[TRP__GEMM_SCALE_B]);
    for (int i = 0; i < 2; i++) {
        int from = i == 0 ? TRP__GEMM_A : TRP__GEMM_B, to = i == 0 ? TRP__MATMUL_A : TRP__MATMUL_B;
        p->g.type[to] = g->type[from];
        p->g.ld[to] = g->ld[from];
        p->g.stride[to] = g->stride[from];
        p->at[to] = trp__job_address(job, g->access[from]);
    }
}

static void set_matrices(run_state *x, const trp_job *job)
{
    const trp__cutlass_gemm *g = &x->g;
    static const int slots[] = {[TRP__GEMM_C] = TRP__TREE_SLOT_C, [TRP__GEMM_D] = TRP__TREE_SLOT_D};
    for (int i = TRP__GEMM_C; i <= TRP__GEMM_D; i++)
        x->epilogue.slot[slots[i]] = (trp__tree_data){
            .at = trp__job_address(job, g->access[i]), .ld = g->ld[i], .stride = g->stride[i]};
}

trp_status trp__cutlass_host_gemm(trp_instance *instance, trp_job *job, trp__gemm_run *x,
                                  trp_error *error)
{
    const trp__cutlass_gemm *g = &x->g;
    memcpy(&x->g, job->payload, sizeof x->g);
    if (g->m == 0 || g->n == 0)
        return TRP_OK;
    const unsigned char *rest = trp__job_rest(job, g->rest, sizeof g->rest,
                                              trp__gemm_rest_bytes(g->slots, g->tree_bytes), error);
    if (!rest)
        return TRP_E_INTERNAL;
    trp_status status = trp__epilogue_read(&x->epilogue, job, rest, g->slots, g->tree_bytes, error);
    if (status != TRP_OK)
        return status;
    set_matrices(x, job);
    set_product(x, instance->state, job);
    status = trp__epilogue_make_sums(&x->epilogue, g->m, g->n, g->batch, error);
    if (status != TRP_OK)
        return status;
    status = instance->services->enqueue(instance, run, &x, sizeof(void *), error);
    if (status != TRP_OK)
        free(x->epilogue.sums);
    return status;
}

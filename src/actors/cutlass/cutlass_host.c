/* The cutlass actor on the host: sums by OpenBLAS, the epilogue tree element by element. */
#include "actors/cutlass/cutlass.h"
#include "actors/cutlass/gemm_wire.h"
#include "actors/cutlass/tree_eval.h"
#include "actors/matmul/matmul_host.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* One product, on the stream's thread. */
typedef struct run_state {
    trp__host_product product; /* its g: D is column-major and not there */
    trp__cutlass_gemm g;
    trp__tree tree; /* count 0: none */
    trp__tree_data slot[TRP__TREE_SLOTS_MAX];
    double *sums; /* of the tree's reductions */
} run_state;

/* Life of an actor. */

static trp_status init(trp_instance *instance, trp_error *error)
{
    return trp__host_room_open(instance->state, sizeof(run_state), error);
}

static void trim(trp_instance *instance)
{
    if (instance->services->idle(instance))
        trp__host_room_trim(instance->state);
}

static void stop(trp_instance *instance)
{
    trp__host_room_close(instance->state);
}

/* Work. */

static int64_t at_most_a_tile(int64_t rest)
{
    return rest < TRP__HOST_TILE ? rest : TRP__HOST_TILE;
}

/* D = alpha sums + beta C in i32, whose arithmetic wraps. */
static void finish_integers(const run_state *x, const trp__tree_tile *tile)
{
    const trp__cutlass_gemm *g = &x->g;
    const int32_t *sums = tile->acc;
    bool by_row = g->order[TRP__GEMM_D] == TRP_ROW_MAJOR;
    const int32_t *c = x->slot[TRP__TREE_SLOT_C].at;
    int32_t *d = x->slot[TRP__TREE_SLOT_D].at;
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

/* i8's sums come as integers of less than 53 bits; as i32 they wrap. The tile of A is in no use
 * any more. */
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
    if (x->tree.count)
        trp__tree_eval_tile(eval, tile);
    else
        finish_integers(x, tile);
}

/* What is enqueued. */
typedef struct run_arguments {
    run_state *state; /* in the ring */
} run_arguments;

static void run(void *arguments)
{
    run_state *x = ((run_arguments *)arguments)->state;
    const trp__cutlass_gemm *g = &x->g;
    const trp__tree_eval eval = {.tree = &x->tree,
                                 .m = g->m,
                                 .n = g->n,
                                 .batch = g->batch,
                                 .slot = x->slot,
                                 .sums = x->sums};
    uint8_t a = g->type[TRP__GEMM_A];
    trp__tree_tile tile = {.acc_type = a == TRP_F64  ? TRP_F64
                                       : a == TRP_I8 ? TRP_I32
                                                     : TRP_F32,
                           .acc_order = TRP_COL_MAJOR,
                           .acc_ld = TRP__HOST_TILE};
    if (x->tree.count)
        trp__tree_eval_begin(&eval);
    for (tile.batch = 0; tile.batch < g->batch; tile.batch++) {
        for (tile.column = 0; tile.column < g->n; tile.column += TRP__HOST_TILE) {
            tile.columns = at_most_a_tile(g->n - tile.column);
            for (tile.row = 0; tile.row < g->m; tile.row += TRP__HOST_TILE) {
                tile.rows = at_most_a_tile(g->m - tile.row);
                run_tile(x, &eval, &tile);
            }
        }
    }
    if (x->tree.count)
        trp__tree_eval_end(&eval);
    free(x->sums);
}

/* Requests. */

static void *address(const trp_job *job, uint32_t access)
{
    return access == TRP__GEMM_NO_ACCESS ? NULL : job->access[access].address;
}

/* What the matmul actor's part needs to know of A and B. */
static void set_product(run_state *x, const trp__host_room *s, const trp_job *job)
{
    const trp__cutlass_gemm *g = &x->g;
    trp__host_product *p = &x->product;
    memset(p, 0, sizeof *p);
    p->blas = s->blas;
    p->scratch = s->scratch;
    p->alpha = 1;
    p->g.m = g->m;
    p->g.n = g->n;
    p->g.k = g->k;
    p->g.batch = g->batch;
    p->g.trans_a = g->order[TRP__GEMM_A] == TRP_ROW_MAJOR ? TRP_T : TRP_N;
    p->g.trans_b = g->order[TRP__GEMM_B] == TRP_ROW_MAJOR ? TRP_T : TRP_N;
    for (int i = 0; i < 2; i++) {
        int from = i == 0 ? TRP__GEMM_A : TRP__GEMM_B, to = i == 0 ? TRP__MATMUL_A : TRP__MATMUL_B;
        p->g.type[to] = g->type[from];
        p->g.ld[to] = g->ld[from];
        p->g.stride[to] = g->stride[from];
        p->at[to] = address(job, g->access[from]);
    }
}

static void set_slots(run_state *x, const trp_job *job, const trp__gemm_slot *slot)
{
    const trp__cutlass_gemm *g = &x->g;
    x->slot[TRP__TREE_SLOT_D] = (trp__tree_data){.at = address(job, g->access[TRP__GEMM_D]),
                                                 .ld = g->ld[TRP__GEMM_D],
                                                 .stride = g->stride[TRP__GEMM_D]};
    x->slot[TRP__TREE_SLOT_C] = (trp__tree_data){.at = address(job, g->access[TRP__GEMM_C]),
                                                 .ld = g->ld[TRP__GEMM_C],
                                                 .stride = g->stride[TRP__GEMM_C]};
    for (uint32_t i = 0; i < g->slots; i++) {
        trp__tree_data *data = &x->slot[TRP__TREE_SLOT_FIRST + i];
        data->at = address(job, slot[i].access);
        data->stride = slot[i].stride;
        data->ld = data->at ? slot[i].ld : 0;
        data->value = data->at ? 0 : slot[i].value;
    }
}

/* The tree and its slots: in the record, or in the piece of staging memory behind the accesses. */
static trp_status set_tree(run_state *x, const trp_job *job, trp_error *error)
{
    const trp__cutlass_gemm *g = &x->g;
    const unsigned char *rest = g->rest;
    uint32_t bytes = trp__gemm_rest_bytes(g);
    uint32_t slot_bytes = (uint32_t)(g->slots * sizeof(trp__gemm_slot));
    x->tree.count = 0;
    x->sums = NULL;
    if (bytes > sizeof g->rest) {
        const trp_job_access *piece = &job->access[job->access_count - 1];
        if (piece->bytes < bytes)
            return trp__error_set(error, TRP_E_INTERNAL, "a tree of %u bytes in a piece of %llu",
                                  bytes, (unsigned long long)piece->bytes);
        rest = piece->address;
    }
    if (g->tree_bytes > 0 && (!trp__tree_decode(rest + slot_bytes, g->tree_bytes, &x->tree) ||
                              x->tree.slots != g->slots + TRP__TREE_SLOT_FIRST))
        return trp__error_set(error, TRP_E_INTERNAL, "an epilogue tree that no sender made");
    set_slots(x, job, (const trp__gemm_slot *)(const void *)rest);
    return TRP_OK;
}

static trp_status set_sums(run_state *x, trp_error *error)
{
    const trp__tree_eval eval = {
        .tree = &x->tree, .m = x->g.m, .n = x->g.n, .batch = x->g.batch, .slot = x->slot};
    int64_t count = x->tree.count ? trp__tree_eval_sums(&eval) : 0;
    if (count == 0)
        return TRP_OK;
    if ((uint64_t)count <= SIZE_MAX / sizeof *x->sums)
        x->sums = malloc((size_t)count * sizeof *x->sums);
    return x->sums ? TRP_OK
                   : trp__error_set(error, TRP_E_MEMORY, "no memory for %lld sums of reductions",
                                    (long long)count);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    trp__host_room *s = instance->state;
    run_state *x = (run_state *)s->ring + s->next;
    memcpy(&x->g, job->payload, sizeof x->g);
    if (x->g.m == 0 || x->g.n == 0)
        return TRP_OK;
    trp_status status = set_tree(x, job, error);
    if (status == TRP_OK)
        status = set_sums(x, error);
    if (status != TRP_OK)
        return status;
    set_product(x, s, job);
    run_arguments arguments = {x};
    status = instance->services->enqueue(instance, run, &arguments, sizeof arguments, error);
    if (status == TRP_OK)
        s->next = (s->next + 1) % TRP_ACTOR_CALLS_MAX;
    else
        free(x->sums);
    return status;
}

const trp_actor_impl trp__cutlass_host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(trp__host_room),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

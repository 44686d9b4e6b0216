/* Computes grouped products on the host, one group after the other. A table in device memory is
 * checked in the stream before the work, so that a request with a wrong table can be refused. */
#include "actors/cutlass/host/host.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Returns the size of an element that a node reads. */
static size_t element_of(const trp__tree *tree, const trp__tree_node *node)
{
    return trp_dtype_bits((trp_dtype)(node->type ? node->type : tree->compute)) / 8;
}

/* Sets the addresses of the tree's inputs for a group. */
static void set_slots(const trp__grouped_run *x, uint32_t index, trp__tree_data *slot)
{
    const trp__cutlass_grouped *g = &x->g;
    const trp__group *group = &x->group[index];
    const trp__tree *tree = &x->epilogue.tree;
    memcpy(slot, x->epilogue.slot, tree->slots * sizeof *slot);
    for (uint32_t i = 0; i < tree->count; i++) {
        const trp__tree_node *node = &tree->node[i];
        trp__tree_data *data = &slot[node->slot];
        if (!node->slot || !data->at)
            continue;
        int64_t first = (int64_t)index * data->stride;
        if (node->op == TRP__TREE_PER_ROW)
            first += group->row;
        if (node->op == TRP__TREE_PER_COLUMN)
            first += group->column;
        data->at = (char *)data->at + first * (int64_t)element_of(tree, node);
        data->stride = 0;
    }
    for (int i = TRP__GEMM_C; i <= TRP__GEMM_D; i++) {
        trp__tree_data *data = &slot[i == TRP__GEMM_C ? TRP__TREE_SLOT_C : TRP__TREE_SLOT_D];
        *data = (trp__tree_data){0};
        if (g->type[i] == TRP_DTYPE_NONE)
            continue;
        int64_t element = trp_dtype_bits((trp_dtype)g->type[i]) / 8;
        data->at = (char *)x->at[i] + group->at[i] * element;
        data->ld = group->ld[i];
    }
}

static void set_product(const trp__grouped_run *x, const trp__group *group, trp__host_product *p)
{
    const trp__cutlass_grouped *g = &x->g;
    *p = (trp__host_product){.blas = x->blas, .scratch = x->scratch, .alpha = 1};
    p->g.m = group->m;
    p->g.n = group->n;
    p->g.k = group->k;
    p->g.batch = 1;
    p->g.trans_a = g->order[TRP__GEMM_A] == TRP_ROW_MAJOR ? TRP_T : TRP_N;
    p->g.trans_b = g->order[TRP__GEMM_B] == TRP_ROW_MAJOR ? TRP_T : TRP_N;
    for (int i = TRP__GEMM_A; i <= TRP__GEMM_B && group->k > 0; i++) {
        int to = i == TRP__GEMM_A ? TRP__MATMUL_A : TRP__MATMUL_B;
        int64_t element = trp_dtype_bits((trp_dtype)g->type[i]) / 8;
        p->g.type[to] = g->type[i];
        p->g.ld[to] = group->ld[i];
        p->at[to] = (char *)x->at[i] + group->at[i] * element;
    }
}

/* Computes the sums of a tile, 0 if k is 0. */
static const void *sums_of(const trp__host_product *p, const trp__tree_tile *tile)
{
    if (p->g.k > 0)
        return trp__host_product_sums(p, 0, tile->row, tile->column, tile->rows, tile->columns);
    memset(p->scratch, 0, (size_t)tile->columns * TRP__HOST_TILE * sizeof(double));
    return p->scratch;
}

static void run_group(const trp__grouped_run *x, uint32_t index)
{
    const trp__group *group = &x->group[index];
    trp__tree_data slot[TRP__TREE_SLOTS_MAX];
    const trp__tree_eval eval = {
        .tree = &x->epilogue.tree, .m = group->m, .n = group->n, .batch = 1, .slot = slot};
    trp__tree_tile tile = {.acc_type = (trp_dtype)x->epilogue.tree.accumulator,
                           .acc_order = TRP_COL_MAJOR,
                           .acc_ld = TRP__HOST_TILE};
    trp__host_product product;
    set_slots(x, index, slot);
    set_product(x, group, &product);
    for (tile.column = 0; tile.column < group->n; tile.column += TRP__HOST_TILE) {
        tile.columns = trp__at_most_a_tile(group->n - tile.column);
        for (tile.row = 0; tile.row < group->m; tile.row += TRP__HOST_TILE) {
            tile.rows = trp__at_most_a_tile(group->m - tile.row);
            tile.acc = sums_of(&product, &tile);
            trp__tree_eval_tile(&eval, &tile);
        }
    }
}

static void run(void *arguments)
{
    trp__grouped_run *x = *(trp__grouped_run **)arguments; /* in the ring */
    for (uint32_t i = 0; i < x->g.groups; i++) {
        if (x->group[i].m > 0 && x->group[i].n > 0)
            run_group(x, i);
    }
    free(x->group);
}

static trp_status look_at_rows(trp__grouped_run *x, const trp_cutlass_group *row, trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < x->g.groups && status == TRP_OK; i++) {
        const trp_cutlass_group one = row[i]; /* a copy: the table may change */
        status = trp__group_from_row(&x->g, i, &one, x->room, &x->group[i], error);
    }
    return status;
}

static trp_status look_at_ends(trp__grouped_run *x, const int32_t *end, trp_error *error)
{
    trp_status status = TRP_OK;
    int64_t begin = 0;
    for (uint32_t i = 0; i < x->g.groups && status == TRP_OK; i++) {
        const int64_t one = end[i];
        status = trp__group_from_ends(&x->g, i, begin, one, &x->group[i], error);
        begin = one;
    }
    return status;
}

static void look(void *arguments)
{
    trp__grouped_run *x = *(trp__grouped_run **)arguments; /* in the ring */
    x->error.status = TRP_OK;
    if (x->g.grouping == TRP_CUTLASS_GROUPS_BY_TABLE)
        look_at_rows(x, x->table, &x->error);
    else
        look_at_ends(x, x->table, &x->error);
    atomic_store_explicit(&x->looked, true, memory_order_release);
}

static trp_status begin(trp__cutlass_room *s, const trp_job *job, trp__grouped_run *x,
                        trp_error *error)
{
    const trp__cutlass_grouped *g = &x->g;
    bool by_value = g->grouping == TRP_CUTLASS_GROUPS_BY_VALUE;
    uint32_t extra = by_value ? g->groups * (uint32_t)sizeof(trp_cutlass_group) : 0;
    uint32_t bytes = extra + trp__gemm_rest_bytes(g->slots, g->tree_bytes);
    const unsigned char *rest = trp__job_rest(job, g->rest, sizeof g->rest, bytes, error);
    if (!rest)
        return TRP_E_INTERNAL;
    trp_status status =
        trp__epilogue_read(&x->epilogue, job, rest + extra, g->slots, g->tree_bytes, error);
    if (status != TRP_OK)
        return status;
    x->blas = s->host.blas;
    x->scratch = s->host.scratch;
    x->table = trp__job_address(job, g->table);
    for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
        x->at[i] = trp__job_address(job, g->access[i]);
        x->room[i] =
            x->at[i] ? job->access[g->access[i]].bytes / (trp_dtype_bits((trp_dtype)g->type[i]) / 8)
                     : 0;
    }
    x->group = calloc(g->groups, sizeof *x->group);
    if (!x->group)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for %u groups", g->groups);
    atomic_store(&x->looked, false);
    if (by_value)
        status = look_at_rows(x, (const trp_cutlass_group *)(const void *)rest, error);
    if (status != TRP_OK)
        free(x->group);
    return status;
}

trp_status trp__cutlass_host_grouped(trp_instance *instance, trp_job *job, trp__grouped_run *x,
                                     trp_error *error)
{
    trp__cutlass_room *s = instance->state;
    trp_status status = TRP_OK;
    if (job->progress == 0) {
        memcpy(&x->g, job->payload, sizeof x->g);
        if (x->g.groups == 0)
            return TRP_OK;
        status = begin(s, job, x, error);
        if (status != TRP_OK)
            return status;
        if (x->table) {
            status = instance->services->enqueue(instance, look, &x, sizeof(void *), error);
            if (status != TRP_OK) {
                free(x->group);
                return status;
            }
            s->looking = x->group;
            job->progress = 1;
        }
    }
    if (x->table && !atomic_load_explicit(&x->looked, memory_order_acquire))
        return TRP_AGAIN;
    s->looking = NULL;
    job->progress = 0; /* nothing is written yet */
    if (x->table && x->error.status != TRP_OK) {
        *error = x->error;
        status = error->status;
    } else {
        status = instance->services->enqueue(instance, run, &x, sizeof(void *), error);
    }
    if (status != TRP_OK)
        free(x->group);
    return status;
}

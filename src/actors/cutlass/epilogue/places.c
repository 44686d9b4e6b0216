/* Determines the places of the numbers, vectors and matrices of an epilogue tree. */
#include "actors/cutlass/epilogue/tree.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

static bool is_matrix(const trp__tree_node *t)
{
    return t->op == TRP__TREE_LOAD || t->op == TRP__TREE_STORE;
}

static void name_slot(trp__tree_operands *out, uint32_t slot, uint8_t node)
{
    snprintf(out->name[slot], sizeof out->name[slot], "nodes[%u]", node);
    out->operand[slot].name = out->name[slot];
}

/* Describes a node's matrix, vector or number as a column-major matrix, in the sender's
 * orientation. */
static trp__operand operand_of(const trp__tree *tree, const trp_epilogue_node *x,
                               const trp__tree_node *t, int64_t m, int64_t n)
{
    bool matrix = is_matrix(t);
    bool per_row = x->kind == TRP_EPILOGUE_PER_ROW || x->kind == TRP_EPILOGUE_SCALE_ROWS ||
                   x->kind == TRP_EPILOGUE_REDUCE_ROWS;
    bool per_column = x->kind == TRP_EPILOGUE_PER_COLUMN || x->kind == TRP_EPILOGUE_SCALE_COLUMNS ||
                      x->kind == TRP_EPILOGUE_REDUCE_COLUMNS;
    int64_t lines = x->order == TRP_ROW_MAJOR ? m : n, line = x->order == TRP_ROW_MAJOR ? n : m;
    uint8_t type = t->type ? t->type : tree->compute;
    return (trp__operand){
        .fields = true,
        .buffer = x->buffer,
        .offset = x->offset,
        .rows = matrix       ? line
                : per_row    ? m
                : per_column ? n
                             : 1,
        .columns = matrix ? lines : 1,
        .ld = matrix ? x->ld : 0,
        .element = trp_dtype_bits((trp_dtype)type) / 8,
        .mode = trp__tree_is_sink(t) ? TRP__WRITE : TRP__READ,
    };
}

static trp_status place(trp__encoder *encoder, const trp_epilogue_node *x, const trp__tree *tree,
                        const trp__tree_node *t, int64_t m, int64_t n, int64_t batch,
                        trp__tree_operands *out)
{
    trp__operand *o = &out->operand[t->slot];
    trp__tree_place *p = &out->place[t->slot];
    uint32_t part = tree->origin[t->slot].part;
    bool shared = trp__tree_is_sink(t) && t->op != TRP__TREE_STORE && x->stride == 0;
    trp_status status = TRP_OK;
    if (part != 0 || !x->buffer.id) {
        p->value = part != 0        ? trp__tree_parameter(x, (int)part - 1)
                   : x->value.given ? x->value.re
                                    : 1;
        return TRP_OK;
    }
    const char *name = o->name;
    *o = operand_of(tree, x, t, m, n);
    o->name = name;
    o->stride = batch > 1 ? x->stride : 0;
    if (o->offset % o->element != 0 || o->offset > INT64_MAX)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "%s.offset: expected a multiple of %u bytes below 2^63, got %llu",
                              o->name, (unsigned)o->element, (unsigned long long)o->offset);
    status = trp__operand_check_ld(encoder, o, x->order);
    if (status == TRP_OK)
        status = trp__operand_measure(encoder, o, batch);
    if (status == TRP_OK && (o->mode & TRP__WRITE) && !shared)
        status = trp__operand_check_stride(encoder, o, batch);
    /* Reductions accumulate into memory after it is set to the neutral value. */
    if (status == TRP_OK && t->op == TRP__TREE_STORE && trp__operand_dense(o, batch))
        o->mode |= TRP__COVER;
    p->ld = is_matrix(t) ? o->ld : 0;
    p->stride = o->stride;
    return status;
}

trp_status trp__tree_place_operands(trp__encoder *encoder, const trp_epilogue_node *nodes,
                                    const trp__tree *tree, int64_t m, int64_t n, int64_t batch,
                                    const trp__operand *others, uint32_t other_count,
                                    trp__tree_operands *out)
{
    trp_status status = TRP_OK;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; status == TRP_OK && i < tree->count; i++) {
        const trp__tree_node *t = &tree->node[i];
        if (!t->slot)
            continue;
        uint8_t node = tree->origin[t->slot].node;
        name_slot(out, t->slot, node);
        status = place(encoder, &nodes[node], tree, t, m, n, batch, out);
    }
    for (uint32_t w = TRP__TREE_SLOT_FIRST; status == TRP_OK && w < tree->slots; w++) {
        const trp__operand *written = &out->operand[w];
        if (!(written->mode & TRP__WRITE))
            continue;
        for (uint32_t o = TRP__TREE_SLOT_FIRST; status == TRP_OK && o < tree->slots; o++) {
            if (o != w && out->operand[o].mode)
                status = trp__operand_check_apart(encoder, written, &out->operand[o], batch);
        }
        for (uint32_t o = 0; status == TRP_OK && o < other_count; o++) {
            if (others[o].mode)
                status = trp__operand_check_apart(encoder, written, &others[o], batch);
        }
    }
    /* The tree's inputs must not overlap D. */
    for (uint32_t o = 0; status == TRP_OK && o < other_count; o++) {
        for (uint32_t s = TRP__TREE_SLOT_FIRST; status == TRP_OK && s < tree->slots; s++) {
            if ((others[o].mode & TRP__WRITE) && (out->operand[s].mode & TRP__READ))
                status = trp__operand_check_apart(encoder, &others[o], &out->operand[s], batch);
        }
    }
    return status;
}

#include "actors/cutlass/reference/launch.h"

#include "actors/cutlass/epilogue/render.h"
#include "base/error.h"
#include "matrix/reference/problem.h"

#include <string.h>

_Static_assert((int)TRP__REFERENCE_NODES == (int)TRP__TREE_NODES_MAX, "any tree");
_Static_assert(sizeof(trp__cutlass_reference) <= 4096, "a kernel's parameter");

const trp__own_program trp__cutlass_reference_program = {
    .actor = "cutlass", .name = "reference", .file = "actors/cutlass/reference/module.cuh"};

static bool set_tree(const trp__cutlass_subject *s, trp__tree *tree, trp__cutlass_reference *out)
{
    memset(tree, 0, sizeof *tree);
    if (s->tree_bytes == 0)
        return true;
    if (s->tree_bytes > TRP__TREE_BYTES_MAX ||
        !trp__tree_decode(s->problem.tree_bytes, s->tree_bytes, tree))
        return false;
    out->nodes = tree->count;
    out->root = tree->root;
    out->wide = tree->compute == TRP_F64;
    for (uint32_t i = 0; i < tree->count; i++) {
        const trp__tree_node *n = &tree->node[i];
        out->node[i] = (trp__reference_node){.op = n->op,
                                             .type = n->type,
                                             .detail = n->detail,
                                             .slot = n->slot,
                                             .input = {n->input[0], n->input[1], n->input[2]}};
        if (n->slot)
            out->node[i].word = (uint8_t)trp__tree_word(tree, n->slot);
    }
    return true;
}

bool trp__cutlass_reference_set(const trp__cutlass_subject *s, const trp_cutlass_args *args,
                                const void *table, trp__tree *tree, trp__cutlass_reference *out)
{
    const trp__cutlass_choice_key *p = &s->problem;
    *out = (trp__cutlass_reference){.args = *args,
                                    .table = table,
                                    .grouped = p->operation == TRP__CUTLASS_GROUPED,
                                    .convolves = p->operation == TRP__CUTLASS_CONV,
                                    .a = p->a,
                                    .b = p->b,
                                    .c = p->c,
                                    .d = p->d,
                                    .accumulator = p->accumulator,
                                    .a_row = p->a_row,
                                    .b_row = p->b_row,
                                    .scale_a = p->scale_a,
                                    .scale_b = p->scale_b,
                                    .zeros = p->zeros,
                                    .conv = p->conv,
                                    .what = TRP__REFERENCE_ALL};
    return set_tree(s, tree, out);
}

/* How many elements D has. */
static int64_t elements_of(const trp__cutlass_reference *r)
{
    const trp_cutlass_args *a = &r->args;
    const bool whole =
        r->grouped && (a->grouping == TRP_GROUPED_OF_M || a->grouping == TRP_GROUPED_OF_N);
    return (whole ? 1 : (int64_t)a->l) * a->m * a->n;
}

trp_status trp__cutlass_reference_one(const trp__cuda *cu, trp__cu_function kernel,
                                      const trp__cutlass_reference *r, trp__cu_stream stream,
                                      trp_error *error)
{
    const int64_t most = r->grouped ? 1 << 12 : 1 << 20; /* a block looks at every group */
    trp__cutlass_reference launch = *r;
    void *parameters[] = {&launch};
    const trp__cu_result result =
        cu->cuLaunchKernel(kernel, (unsigned)(r->count < most ? r->count : most), 1, 1,
                           TRP__PRODUCT_THREADS, 1, 1, 0, stream, parameters, NULL);
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, "cuLaunchKernel");
}

trp_status trp__cutlass_reference_all(const trp__cuda *cu, trp__cu_function kernel,
                                      const trp__cutlass_reference *r, trp__cu_stream stream,
                                      trp_error *error)
{
    trp__cutlass_reference one = *r;
    one.what = TRP__REFERENCE_ALL;
    one.sample = NULL;
    one.count = elements_of(r);
    return one.count > 0 ? trp__cutlass_reference_one(cu, kernel, &one, stream, error) : TRP_OK;
}

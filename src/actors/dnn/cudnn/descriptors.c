#include "actors/dnn/cudnn/descriptors.h"
#include "actors/dnn/cudnn/attention.h"
#include "actors/dnn/cudnn/operations.h"

#include "base/error.h"

#include <troupe/dnn.h>

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum {
    RANK_MATRICES = 3, /* the least that the library takes: one batch, rows, columns */
    RANK_IMAGES = 4,   /* of all else: two spatial dimensions */
    ALIGNMENT = 16,    /* alignment of the actor's own memory and of tensors without an address */
};

int trp__dnn_cudnn_type(uint8_t type)
{
    static const int8_t types[] = {
        [TRP_F64] = TRP__CUDNN_DATA_DOUBLE,
        [TRP_F32] = TRP__CUDNN_DATA_FLOAT,
        [TRP_F16] = TRP__CUDNN_DATA_HALF,
        [TRP_BF16] = TRP__CUDNN_DATA_BFLOAT16,
        [TRP_F8E4M3] = TRP__CUDNN_DATA_FP8_E4M3,
        [TRP_F8E5M2] = TRP__CUDNN_DATA_FP8_E5M2,
        [TRP_I8] = TRP__CUDNN_DATA_INT8,
        [TRP_U8] = TRP__CUDNN_DATA_UINT8,
        [TRP_I32] = TRP__CUDNN_DATA_INT32,
        [TRP_I64] = TRP__CUDNN_DATA_INT64,
        [TRP_BOOL] = TRP__CUDNN_DATA_BOOLEAN,
        [TRP_F4E2M1] = -1,
        [TRP_C64] = -1,
        [TRP_C128] = -1,
        [TRP_F8E8M0] = -1,
        [TRP_DTYPE_NONE] = -1,
    };
    return type < COUNT_OF(types) ? types[type] : -1;
}

/* Shapes. All tensors of an operation graph have the same rank. Tensors with fewer dimensions get
 * ones: first in front up to the rank of the others, then where their kind requires them. */

typedef enum manner {
    /* Element-wise operations and sums: dimensions have no meaning, so they are merged and
     * reordered for the library. */
    MANNER_FREE,
    MANNER_MATRICES, /* ones in front; several batch dimensions are merged if possible */
    MANNER_NORM,     /* ones behind */
    MANNER_IMAGES,   /* one spatial dimension becomes two, the first of them 1 */
} manner;

typedef struct shape {
    uint32_t rank;
    int64_t dim[TRP__DNN_RANK], stride[TRP__DNN_RANK];
} shape;

typedef struct shaping {
    manner manner;
    uint32_t rank;   /* the largest in the part */
    uint32_t target; /* final rank of all tensors */
    bool collapse;
    /* MANNER_FREE: groups of dimensions that merge in all tensors, from the slowest to the
     * fastest. */
    uint32_t groups;
    uint8_t group[TRP__DNN_RANK], fastest[TRP__DNN_RANK];
    bool channels;
} shaping;

static void insert_one(shape *s, uint32_t at, int64_t stride)
{
    memmove(s->dim + at + 1, s->dim + at, (s->rank - at) * sizeof *s->dim);
    memmove(s->stride + at + 1, s->stride + at, (s->rank - at) * sizeof *s->stride);
    s->dim[at] = 1;
    s->stride[at] = stride;
    s->rank++;
}

/* Returns the stride of a dimension of 1, which does not matter but by which the library determines
 * layouts. */
static int64_t whole_stride(const shape *s)
{
    int64_t most = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t next = s->dim[i] * s->stride[i];
        most = next > most ? next : most;
    }
    return most;
}

static shape plain_shape(const trp__dnn_tensor *t, uint32_t rank)
{
    shape s = {.rank = t->rank};
    memcpy(s.dim, t->dim, sizeof s.dim);
    memcpy(s.stride, t->stride, sizeof s.stride);
    while (s.rank < rank)
        insert_one(&s, 0, whole_stride(&s));
    return s;
}

/* Tells whether the batch dimensions of a matrix merge into one; `whole` is the largest number of
 * batches.
 */
static bool collapses(const shape *s, int64_t whole, int64_t *batch)
{
    *batch = 1;
    for (uint32_t i = 0; i + 2 < s->rank; i++) {
        *batch *= s->dim[i];
        if (i + 3 < s->rank && s->dim[i] > 1 && s->stride[i] != s->dim[i + 1] * s->stride[i + 1])
            return false;
    }
    return whole == 0 || *batch == 1 || *batch == whole;
}

static bool all_collapse(const trp__dnn_part *part, const uint8_t place[], uint32_t rank)
{
    int64_t whole = 0, batch;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t t = 0; t < part->graph->head->tensors; t++) {
            if (place[t] == TRP__DNN_PLACE_NONE)
                continue;
            shape s = plain_shape(&part->graph->tensor[t], rank);
            if (!collapses(&s, pass ? whole : 0, &batch))
                return false;
            whole = batch > whole ? batch : whole;
        }
    }
    return true;
}

static void collapse(shape *s)
{
    uint32_t last = s->rank - 3;
    for (uint32_t i = 0; i < last; i++)
        s->dim[last] *= s->dim[i];
    memmove(s->dim, s->dim + last, 3 * sizeof *s->dim);
    memmove(s->stride, s->stride + last, 3 * sizeof *s->stride);
    if (s->dim[0] == 1) {
        s->stride[0] = 1;
        s->stride[0] = whole_stride(s);
    }
    s->rank = 3;
}

/* Sorts the dimensions of the largest tensor from slowest to fastest; */
static void sort_dimensions(const trp__dnn_part *part, const uint8_t place[], uint32_t rank,
                            uint8_t sorted[TRP__DNN_RANK])
{
    uint32_t largest = 0;
    int64_t most = -1;
    for (uint32_t t = 0; t < part->graph->head->tensors; t++) {
        int64_t count = trp__dnn_elements(&part->graph->tensor[t]);
        if (place[t] != TRP__DNN_PLACE_NONE && count > most) {
            most = count;
            largest = t;
        }
    }
    shape l = plain_shape(&part->graph->tensor[largest], rank);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t key = l.dim[i] > 1 ? l.stride[i] : INT64_MAX;
        uint32_t at = i;
        for (; at > 0; at--) {
            uint8_t before = sorted[at - 1];
            if ((l.dim[before] > 1 ? l.stride[before] : INT64_MAX) >= key)
                break;
            sorted[at] = before;
        }
        sorted[at] = (uint8_t)i;
    }
}

/* Tells whether two dimensions merge in this tensor. */
static bool joins(const shape *s, uint8_t slow, uint8_t fast)
{
    if (s->dim[slow] == 1 || s->dim[fast] == 1)
        return s->dim[slow] == s->dim[fast];
    return s->stride[slow] == s->dim[fast] * s->stride[fast];
}

static bool is_one(const trp__dnn_part *part, const uint8_t place[], uint32_t rank,
                   uint8_t dimension)
{
    for (uint32_t t = 0; t < part->graph->head->tensors; t++) {
        shape s = plain_shape(&part->graph->tensor[t], rank);
        if (place[t] != TRP__DNN_PLACE_NONE && s.dim[dimension] != 1)
            return false;
    }
    return true;
}

static bool all_join(const trp__dnn_part *part, const uint8_t place[], uint32_t rank, uint8_t slow,
                     uint8_t fast)
{
    for (uint32_t t = 0; t < part->graph->head->tensors; t++) {
        const trp__dnn_tensor *tensor = &part->graph->tensor[t];
        shape s = plain_shape(tensor, rank);
        if (place[t] != TRP__DNN_PLACE_NONE && !joins(&s, slow, fast))
            return false;
    }
    return true;
}

/* Forms the fewest groups of dimensions; dimensions of 1 in all tensors are in none. */
static void choose_groups(const trp__dnn_part *part, const uint8_t place[], shaping *s)
{
    uint8_t sorted[TRP__DNN_RANK];
    sort_dimensions(part, place, s->rank, sorted);
    uint8_t before = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        uint8_t d = sorted[i];
        s->group[d] = TRP__DNN_RANK;
        if (is_one(part, place, s->rank, d))
            continue;
        s->groups += s->groups == 0 || !all_join(part, place, s->rank, before, d);
        s->group[d] = (uint8_t)(s->groups - 1);
        s->fastest[s->groups - 1] = d;
        before = d;
    }
}

/* Applies the groups to a tensor, puts ones in front, and moves the fastest dimension to that of
 * channels. */
static void apply_groups(shape *s, const shaping *to)
{
    shape from = *s;
    s->rank = to->groups;
    for (uint32_t i = 0; i < s->rank; i++) {
        s->dim[i] = 1;
        s->stride[i] = from.stride[to->fastest[i]];
    }
    for (uint32_t i = 0; i < from.rank; i++) {
        if (to->group[i] < s->rank)
            s->dim[to->group[i]] *= from.dim[i];
    }
    for (uint32_t i = s->rank; i-- > 0;) {
        if (s->dim[i] == 1)
            s->stride[i] = i + 1 < s->rank ? s->dim[i + 1] * s->stride[i + 1] : 1;
    }
    while (s->rank < to->target)
        insert_one(s, 0, whole_stride(s));
    if (!to->channels)
        return;
    shape rows = *s;
    for (uint32_t i = 1; i < s->rank; i++) {
        uint32_t source = i == 1 ? s->rank - 1 : i - 1;
        s->dim[i] = rows.dim[source];
        s->stride[i] = rows.stride[source];
    }
}

static manner manner_of(const trp__dnn_part *part)
{
    manner m = MANNER_FREE;
    for (uint32_t n = 0; n < part->count; n++) {
        const trp__dnn_node *node = &part->graph->node[part->first + n];
        manner wants = trp__dnn_kind_of(node->kind)->geometry ? MANNER_IMAGES
                       : node->kind >= TRP_DNN_NORM_TRAINING  ? MANNER_NORM
                       : node->kind == TRP_DNN_MATMUL         ? MANNER_MATRICES
                                                              : MANNER_FREE;
        m = wants > m ? wants : m;
    }
    return m;
}

static bool reduces(const trp__dnn_part *part)
{
    for (uint32_t n = 0; n < part->count; n++) {
        if (part->graph->node[part->first + n].kind == TRP_DNN_REDUCTION)
            return true;
    }
    return false;
}

/* Element-wise operations become a batch of matrices, sums an image whose rows and columns are
 * dimensions or whole groups of them. */
static shaping shaping_of(const trp__dnn_part *part, const uint8_t place[])
{
    shaping s = {.manner = manner_of(part), .rank = 1};
    for (uint32_t t = 0; t < part->graph->head->tensors; t++) {
        uint32_t rank = part->graph->tensor[t].rank;
        if (place[t] != TRP__DNN_PLACE_NONE && rank > s.rank)
            s.rank = rank;
    }
    uint32_t least = s.manner == MANNER_MATRICES ? RANK_MATRICES : RANK_IMAGES;
    s.target = s.rank > least ? s.rank : least;
    if (s.manner == MANNER_MATRICES && s.rank > RANK_MATRICES)
        s.collapse = all_collapse(part, place, s.rank);
    if (s.manner == MANNER_FREE) {
        choose_groups(part, place, &s);
        s.channels = reduces(part) || s.groups > RANK_MATRICES;
        least = s.channels ? RANK_IMAGES : RANK_MATRICES;
        s.target = s.groups > least ? s.groups : least;
    }
    return s;
}

static shape shape_of(const trp__dnn_tensor *t, const shaping *to)
{
    shape s = plain_shape(t, to->manner == MANNER_MATRICES ? to->target : to->rank);
    if (to->manner == MANNER_FREE)
        apply_groups(&s, to);
    while (s.rank < to->target) {
        if (to->manner == MANNER_IMAGES && s.rank > 2)
            insert_one(&s, 2, s.dim[2] * s.stride[2]);
        else
            insert_one(&s, s.rank, 1);
    }
    if (to->collapse)
        collapse(&s);
    return s;
}

static trp_status make_tensor(const trp__cudnn *lib, uint32_t number, const trp__dnn_tensor *t,
                              uint8_t place, const shaping *to, trp__cudnn_descriptor *out,
                              trp_error *error)
{
    shape s = shape_of(t, to);
    bool aligned = t->role == TRP__DNN_BUFFER && t->alignment;
    int type = trp__dnn_cudnn_type(t->type);
    if (type < 0)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "cuDNN has no tensors of %s",
                              trp_dtype_name((trp_dtype)t->type));
    trp__cudnn_builder m = trp__cudnn_begin(lib, TRP__CUDNN_BACKEND_TENSOR_DESCRIPTOR, error);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_TENSOR_DATA_TYPE, TRP__CUDNN_TYPE_DATA_TYPE, type);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_TENSOR_DIMENSIONS, TRP__CUDNN_TYPE_INT64, s.rank, s.dim);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_TENSOR_STRIDES, TRP__CUDNN_TYPE_INT64, s.rank, s.stride);
    trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_TENSOR_UNIQUE_ID, trp__dnn_uid(number));
    trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
                       aligned ? t->alignment : ALIGNMENT);
    trp__cudnn_set_flag(&m, TRP__CUDNN_ATTR_TENSOR_IS_VIRTUAL, place == TRP__DNN_PLACE_INSIDE);
    trp__cudnn_set_flag(&m, TRP__CUDNN_ATTR_TENSOR_IS_BY_VALUE, place == TRP__DNN_PLACE_VALUE);
    return trp__cudnn_finish(&m, out);
}

/* Converts BAD_PARAM, which the library often returns for unsupported operations: the request has
 * been checked before.
 */
static trp_status refused(const trp__dnn_node *node, trp_status status, trp_error *error)
{
    trp_error said = *error;
    if ((status != TRP_E_UNSUPPORTED && status != TRP_E_LIBRARY) || trp__cudnn_broke(said.code))
        return status;
    return trp__error_set_code(error, TRP_E_UNSUPPORTED, "cudnn", said.code, "cuDNN refuses %s: %s",
                               trp__dnn_kind_of(node->kind)->name, said.message);
}

static trp_status finish_graph(const trp__dnn_planner *planner, uint32_t count,
                               const trp__cudnn_descriptor operation[], trp__cudnn_descriptor *out,
                               trp_error *error)
{
    trp__cudnn_builder m =
        trp__cudnn_begin(planner->lib, TRP__CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, error);
    if (!planner->device)
        trp__cudnn_set(&m, TRP__CUDNN_ATTR_OPERATIONGRAPH_HANDLE, TRP__CUDNN_TYPE_HANDLE, 1,
                       &planner->handle);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_OPERATIONGRAPH_OPS, TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   count, operation);
    return trp__cudnn_finish(&m, out);
}

/* Attention consists of many operations, and the library recognises it only alone. */
static trp_status attention_graph(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                  const trp__dnn_node *node, trp__cudnn_descriptor *out,
                                  trp_error *error)
{
    trp__dnn_composed made;
    if (part->count > 1)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "cuDNN has attention by itself only");
    trp_status status = trp__dnn_compose_attention(planner->lib, part->graph, node, &made, error);
    if (status == TRP_OK)
        status = finish_graph(planner, made.operations, made.operation, out, error);
    trp__dnn_composed_drop(planner->lib, &made);
    return status == TRP_OK || error->code == 0 ? status : refused(node, status, error);
}

trp_status trp__dnn_operation_graph(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                    trp__cudnn_descriptor *out, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    trp__cudnn_descriptor tensor[TRP__DNN_LOWERED_TENSORS] = {0},
                          operation[TRP__DNN_LOWERED_NODES] = {0};
    uint8_t place[TRP__DNN_LOWERED_TENSORS];
    trp_status status = TRP_OK;
    *out = NULL;
    for (uint32_t n = 0; n < part->count; n++) {
        const trp__dnn_node *node = &g->node[part->first + n];
        if (trp__dnn_is_attention(node))
            return attention_graph(planner, part, node, out, error);
    }
    trp__dnn_places(part, place);
    shaping to = shaping_of(part, place);
    for (uint32_t t = 0; t < g->head->tensors && status == TRP_OK; t++) {
        if (place[t] != TRP__DNN_PLACE_NONE)
            status = make_tensor(planner->lib, t, &g->tensor[t], place[t], &to, &tensor[t], error);
    }
    if (status != TRP_OK)
        status = refused(&g->node[part->first], status, error);
    for (uint32_t n = 0; n < part->count && status == TRP_OK; n++) {
        const trp__dnn_node *node = &g->node[part->first + n];
        status = trp__dnn_operation(planner->lib, node, g->head->deterministic, tensor,
                                    &operation[n], error);
        if (status != TRP_OK)
            status = refused(node, status, error);
    }
    if (status == TRP_OK) {
        status = finish_graph(planner, part->count, operation, out, error);
        if (status != TRP_OK)
            status = refused(&g->node[part->first], status, error);
    }
    for (uint32_t n = 0; n < part->count; n++)
        trp__cudnn_drop(planner->lib, &operation[n]);
    for (uint32_t t = 0; t < g->head->tensors; t++)
        trp__cudnn_drop(planner->lib, &tensor[t]);
    return status;
}

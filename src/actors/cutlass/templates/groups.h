/* One group of a grouped product: turns its unchecked description in device memory into sizes and
 * addresses within the request's matrices. A group that does not fit becomes a group without
 * elements. Read by NVRTC and by the C compiler.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRP_ACTORS_CUTLASS_GROUPS_H
#define TRP_ACTORS_CUTLASS_GROUPS_H

#if defined __CUDACC__ && !defined TRP_CUTLASS_PLAIN
#include "abi.h"
#define TRP_GROUP_FUNCTION __device__ inline
#else
#include "actors/cutlass/templates/abi.h"
#define TRP_GROUP_FUNCTION static inline
#endif

/* trp_cutlass_grouping. */
enum {
    TRP_GROUPED_BY_VALUE = 0,
    TRP_GROUPED_BY_TABLE = 1,
    TRP_GROUPED_OF_M = 2,
    TRP_GROUPED_OF_N = 3,
    TRP_GROUPED_OF_K = 4,
};

/* trp_cutlass_group. */
typedef struct trp_group_row {
    int64_t size[3]; /* m, n, k */
    int64_t at[4];   /* elements */
    int64_t ld[4];
    int64_t reserved;
} trp_group_row;

/* A kernel's requirements of A, B, C and D. */
typedef struct trp_group_kind {
    int32_t row_major[4];
    int32_t element[4]; /* bytes; 0 without C */
    int32_t align[4];   /* bytes that divide addresses and leading dimensions */
    int32_t vector[4];  /* elements that divide the length of lines */
} trp_group_kind;

typedef struct trp_group {
    int32_t size[3]; /* all 0: nothing to compute */
    int32_t reserved;
    uint64_t at[4]; /* addresses */
    int64_t ld[4];
    int64_t row, column; /* first row and column within a divided dimension; else 0 */
} trp_group;

/* The places of all groups' arrays in the workspace; `bytes` in all. */
typedef struct trp_group_arrays {
    uint64_t shapes; /* m, n, k as int32 */
    uint64_t at[4];  /* addresses of A, B, C and D */
    uint64_t ld[4];  /* int64 */
    uint64_t first;  /* int64: the number of its first tile; one more than there are groups */
    uint64_t vector; /* addresses: one per group for each vector of the tree */
    uint64_t bytes;
} trp_group_arrays;

TRP_GROUP_FUNCTION trp_group_arrays trp_group_arrays_at(uint64_t base, int32_t groups,
                                                        int32_t vectors)
{
    const uint64_t words = ((uint64_t)groups + 2) / 2 * 16; /* of 8 bytes, one more than groups */
    trp_group_arrays x;
    uint64_t at = base;
    x.shapes = at;
    at += 2 * words;
    for (int i = 0; i < 4; i++) {
        x.at[i] = at;
        x.ld[i] = at + words;
        at += 2 * words;
    }
    x.first = at;
    at += words;
    x.vector = at;
    at += (uint64_t)vectors * (uint64_t)groups * 8;
    x.bytes = (at - base + 127) / 128 * 128;
    return x;
}

TRP_GROUP_FUNCTION int trp_group_is_cut(int32_t grouping, int which)
{
    return (grouping == TRP_GROUPED_OF_M && which != 1) ||
           (grouping == TRP_GROUPED_OF_N && which != 0) ||
           (grouping == TRP_GROUPED_OF_K && which < 2);
}

/* Tells whether a matrix lies within the request's memory and meets the kernel's alignment. */
TRP_GROUP_FUNCTION int trp_group_place(const trp_cutlass_args *args, const trp_group_kind *kind,
                                       int which, int64_t at, int64_t ld, trp_group *group)
{
    const uint64_t base[4] = {args->a, args->b, args->c, args->d};
    const int64_t element = kind->element[which];
    const int64_t rows = group->size[which == 1 ? 2 : 0];
    const int64_t columns = group->size[which == 0 ? 2 : 1];
    const int64_t length = kind->row_major[which] ? columns : rows;
    const int64_t count = kind->row_major[which] ? rows : columns;
    const int64_t any = kind->align[which] > element ? kind->align[which] / element : 1;
    /* A matrix without elements is not read, so any address is valid. */
    group->at[which] = args->workspace;
    group->ld[which] = any;
    if (length == 0 || count == 0)
        return 1;
    const int64_t room = (int64_t)(args->group_room[which] / (uint64_t)element);
    if (ld == 0)
        ld = length;
    if (at < 0 || length > room || at > room - length || ld < length ||
        (count > 1 && ld > (room - length - at) / (count - 1)) || length % kind->vector[which] != 0)
        return 0;
    group->at[which] = base[which] + (uint64_t)(at * element);
    if (count > 1)
        group->ld[which] = ld;
    return (group->at[which] | (uint64_t)(group->ld[which] * element)) %
               (uint64_t)kind->align[which] ==
           0;
}

/* Computes group `index` from its row. */
TRP_GROUP_FUNCTION int trp_group_from_row(const trp_cutlass_args *args, const trp_group_kind *kind,
                                          const trp_group_row *row, trp_group *group)
{
    const int64_t most[3] = {args->m, args->n, args->k};
    const int64_t ld[4] = {args->lda, args->ldb, args->ldc, args->ldd};
    for (int i = 0; i < 3; i++) {
        const int64_t size = row->size[args->group_turned && i < 2 ? 1 - i : i];
        if (size < 0 || size > most[i])
            return 0;
        group->size[i] = (int32_t)size;
    }
    for (int i = 0; i < 4; i++) {
        const int from = args->group_turned && i < 2 ? 1 - i : i;
        if (i == 2 && args->group_c != 1)
            continue;
        if (!trp_group_place(args, kind, i, row->at[from], row->ld[from] ? row->ld[from] : ld[i],
                             group))
            return 0;
    }
    return 1;
}

/* Computes a group from the ends of a dimension's pieces. */
TRP_GROUP_FUNCTION int trp_group_from_ends(const trp_cutlass_args *args, const trp_group_kind *kind,
                                           const int32_t *ends, int32_t index, trp_group *group)
{
    const int64_t ld[4] = {args->lda, args->ldb, args->ldc, args->ldd};
    const int64_t stride[4] = {args->batch_a, args->batch_b, args->batch_c, args->batch_d};
    const int cut = args->grouping - TRP_GROUPED_OF_M;
    const int64_t begin = index > 0 ? ends[index - 1] : 0, end = ends[index];
    const int32_t all[3] = {args->m, args->n, args->k};
    if (begin < 0 || end < begin || end > all[cut])
        return 0;
    for (int i = 0; i < 3; i++)
        group->size[i] = i == cut ? (int32_t)(end - begin) : all[i];
    group->row = cut == 0 ? begin : 0;
    group->column = cut == 1 ? begin : 0;
    for (int i = 0; i < 4; i++) {
        const int rows = cut == 0 || (cut == 2 && i == 1);
        const int64_t step = rows == kind->row_major[i] ? ld[i] : 1;
        if (i == 2 && args->group_c != 1)
            continue;
        if (!trp_group_place(args, kind, i,
                             trp_group_is_cut(args->grouping, i) ? begin * step : index * stride[i],
                             ld[i], group))
            return 0;
    }
    return 1;
}

/* Computes group `index`; the contents of `table` depend on the grouping. */
TRP_GROUP_FUNCTION trp_group trp_group_at(const trp_cutlass_args *args, const trp_group_kind *kind,
                                          const void *table, int32_t index)
{
    const trp_group none = {
        {0, 0, 0},        0, {args->workspace, args->workspace, args->workspace, args->workspace},
        {16, 16, 16, 16}, 0, 0};
    trp_group group = none;
    int good;
    if (args->grouping >= TRP_GROUPED_OF_M)
        good = trp_group_from_ends(args, kind, (const int32_t *)table, index, &group);
    else
        good = trp_group_from_row(args, kind, (const trp_group_row *)table + index, &group);
    if (!good || group.size[0] == 0 || group.size[1] == 0)
        return none;
    if (args->group_c == 2) {
        group.at[2] = group.at[3];
        group.ld[2] = group.ld[3];
    }
    return group;
}

/* A vector of the tree: the index of its address among the words of the slots; its stride follows.
 */
typedef struct trp_group_vector {
    int32_t word, bytes, per_row; /* bytes of an element */
} trp_group_vector;

/* Returns a vector's address for a group: along the divided dimension all groups share one vector,
 * else each group has its own. */
TRP_GROUP_FUNCTION uint64_t trp_group_vector_at(const trp_cutlass_args *args,
                                                const trp_group_vector *v, const trp_group *group,
                                                int32_t index)
{
    const int whole = args->grouping == (v->per_row ? TRP_GROUPED_OF_M : TRP_GROUPED_OF_N);
    const int64_t at = whole ? (v->per_row ? group->row : group->column)
                             : (int64_t)args->slot[v->word + 1] * index;
    return args->slot[v->word] + (uint64_t)(at * v->bytes);
}

/* Writes one group to the arrays. */
TRP_GROUP_FUNCTION void trp_group_write(const trp_cutlass_args *args,
                                        const trp_group_arrays *arrays,
                                        const trp_group_vector *vectors, int32_t count,
                                        const trp_group *group, int32_t index)
{
    for (int i = 0; i < 3; i++)
        ((int32_t *)arrays->shapes)[(int64_t)index * 3 + i] = group->size[i];
    for (int i = 0; i < 4; i++) {
        ((uint64_t *)arrays->at[i])[index] = group->at[i];
        ((int64_t *)arrays->ld[i])[index] = group->ld[i];
    }
    for (int v = 0; v < count; v++)
        ((uint64_t *)arrays->vector)[(int64_t)v * args->l + index] =
            trp_group_vector_at(args, &vectors[v], group, index);
}

#endif

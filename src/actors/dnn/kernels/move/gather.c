/* Plans and launches the kernels of gather.h: GATHER and SCATTER_ADD of slices, such as embeddings
 * and their gradients. */
#include "actors/dnn/kernels/move/gather.h"

#include "actors/dnn/graph/train.h"
#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 256 };

typedef struct step {
    trp__gathering p;
    trp__dnn_node node;
    bool scatters;
    uint64_t list_bytes;  /* bytes of each of the four arrays of a list */
    uint64_t start_bytes; /* bytes of the array of where rows begin in it */
    trp__kernel lines, rank, merge, parts, rows;
} step;

/* Finds the stride that numbers the elements of dimensions `from` to `end` - 1 in order; false:
 * there is none. Dimensions of 1 element do not count; if there are no others, it is 0. */
static bool one_stride(const trp__dnn_tensor *t, int from, int end, int64_t *stride)
{
    int64_t next = 0;
    *stride = 0;
    for (int i = end - 1; i >= from; i--) {
        if (t->dim[i] == 1)
            continue;
        if (next == 0)
            *stride = next = t->stride[i];
        else if (t->stride[i] != next)
            return false;
        next *= t->dim[i];
        if (next == 0)
            /* without elements any stride will do; a stride of 0 repeats elements */
            return t->dim[i] == 0;
    }
    return true;
}

static int64_t size_of(const trp__dnn_tensor *t, int from, int end)
{
    int64_t count = 1;
    for (int i = from; i < end; i++)
        count *= t->dim[i];
    return count;
}

/* Describes the lines of a tensor, which dimensions `axis` to `behind` - 1 number. False: the lines
 * have no constant strides, or gaps. */
static bool lines_of(const trp__dnn_tensor *t, int axis, int behind, trp__gather_lines *out)
{
    int64_t inner;
    out->type = t->type;
    return one_stride(t, 0, axis, &out->outer) && one_stride(t, axis, behind, &out->row) &&
           one_stride(t, behind, t->rank, &inner) &&
           (inner == 1 || size_of(t, behind, t->rank) == 1);
}

/* Tells whether a tensor's lines begin at multiples of `bytes`, or of 16 if that is less. */
static bool is_aligned(const trp__dnn_tensor *t, const trp__gather_lines *l, uint64_t bytes)
{
    const uint64_t size = trp__space_element_bytes(t->type), need = bytes < 16 ? bytes : 16;
    return trp__space_is_aligned(t, bytes) && (uint64_t)l->outer * size % need == 0 &&
           (uint64_t)l->row * size % need == 0;
}

static uint64_t size_of_type(const trp__dnn_tensor *t)
{
    return trp__space_element_bytes(t->type);
}

/* Tells whether the lines of all operands consist of aligned runs of `run` elements. */
static bool are_runs(const trp__gathering *p, const trp__dnn_tensor *whole,
                     const trp__dnn_tensor *slices, const trp__dnn_tensor *before, uint64_t run)
{
    return p->line % (int64_t)run == 0 && is_aligned(whole, &p->whole, size_of_type(whole) * run) &&
           is_aligned(slices, &p->slices, size_of_type(slices) * run) &&
           (!before || is_aligned(before, &p->before, size_of_type(before) * run));
}

/* Returns the elements that a thread sums at a time. */
static int64_t run_of(const trp__dnn_node *n, const trp__gathering *p, const trp__dnn_tensor *whole,
                      const trp__dnn_tensor *slices, const trp__dnn_tensor *before)
{
    const bool narrow = n->compute != TRP_F64 && size_of_type(whole) == 2 &&
                        size_of_type(slices) == 2 && (!before || size_of_type(before) == 2);
    return narrow && are_runs(p, whole, slices, before, TRP__GATHER_LONG) ? TRP__GATHER_LONG
           : are_runs(p, whole, slices, before, TRP__GATHER_RUN)          ? TRP__GATHER_RUN
                                                                          : 1;
}

static bool is_known(uint8_t type)
{
    return trp__rows_takes_type(type) || type == TRP_I8 || type == TRP_U8 || type == TRP_I32 ||
           type == TRP_BOOL;
}

/* Describes the tensors to the kernels; false: the kernels do not take them. */
static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, trp__gathering *p)
{
    const trp__dnn_tensor *whole = trp__dnn_tensor_at(g, n, TRP__GATHER_WHOLE);
    const trp__dnn_tensor *index = trp__dnn_tensor_at(g, n, TRP__GATHER_INDEX);
    const trp__dnn_tensor *slices = trp__dnn_tensor_at(g, n, TRP__GATHER_SLICES);
    const bool scatters = n->kind == TRP_DNN_SCATTER_ADD;
    const trp__dnn_tensor *before = scatters ? trp__dnn_tensor_at(g, n, TRP__GATHER_BEFORE) : NULL;
    const int axis = trp__train_axis(n);
    const int64_t line = size_of(whole, axis + 1, whole->rank), count = trp__dnn_elements(index);
    const int64_t rows = whole->dim[axis], outer = size_of(whole, 0, axis);
    memset(p, 0, sizeof *p);
    if (n->mode != TRP_DNN_GATHER_SLICES || line == 0 || outer == 0 || count >= INT_MAX ||
        rows >= INT_MAX || outer >= INT_MAX || line >= INT_MAX || !is_known(whole->type) ||
        !is_known(slices->type) || !lines_of(whole, axis, axis + 1, &p->whole) ||
        !lines_of(slices, axis, axis + index->rank, &p->slices) ||
        !one_stride(index, 0, index->rank, &p->index_stride) ||
        (before && !lines_of(before, axis, axis + 1, &p->before)))
        return false;
    p->line = line;
    p->rows = (uint32_t)rows;
    p->count = (uint32_t)count;
    p->outer = (uint32_t)outer;
    p->wide_index = index->type == TRP_I64;
    p->ignores = n->window[2] != 0;
    p->ignore = (int64_t)((uint64_t)(uint32_t)n->start[1] << 32 | (uint32_t)n->start[0]);
    p->by_count = trp__map_divide_by(p->count ? p->count : 1);
    const uint64_t size = size_of_type(whole);
    int64_t each = 1;
    if (!scatters) {
        p->packs = whole->type == slices->type && (uint64_t)line * size % 16 == 0 &&
                   is_aligned(whole, &p->whole, 16) && is_aligned(slices, &p->slices, 16);
        each = p->packs ? (int64_t)(16 / size) : 1;
    } else {
        each = run_of(n, p, whole, slices, before);
    }
    p->chunks = trp__map_divide_by((uint32_t)(line / each));
    int64_t units;
    if (__builtin_mul_overflow(outer * (scatters ? 1 : count), line / each, &units) ||
        (!scatters && units >= INT_MAX - TRP__GATHER_THREADS * TRP__GATHER_DEEP))
        return false;
    p->units = scatters ? 0 : (uint32_t)units;
    const int64_t groups = (rows + TRP__GATHER_ROWS - 1) / TRP__GATHER_ROWS;
    const int64_t blocks = (groups * (line / each) + TRP__GATHER_THREADS - 1) / TRP__GATHER_THREADS;
    p->row_blocks = (uint32_t)blocks;
    p->start_blocks = p->rows / TRP__GATHER_THREADS + 1; /* and one after the last row */
    p->parts = p->count / TRP__GATHER_PART;
    const int64_t across = (line / each + TRP__GATHER_THREADS - 1) / TRP__GATHER_THREADS;
    return !scatters || (blocks <= INT_MAX / TRP__GATHER_THREADS && blocks < INT_MAX / outer &&
                         across * p->parts < INT_MAX / 2 / outer);
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    trp__gathering p;
    const trp__dnn_node *n = &g->node[first];
    if (most == 0 || (n->kind != TRP_DNN_GATHER && n->kind != TRP_DNN_SCATTER_ADD))
        return 0;
    return describe(g, n, &p);
}

/* Returns the bytes of an array of `count` numbers of 32 bits, padded to ALIGNMENT. */
static uint64_t bytes_of(uint64_t count)
{
    return (count * sizeof(uint32_t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    const trp__dnn_node *n = &g->node[part->first];
    step *s = state;
    (void)modules;
    if (!describe(g, n, &s->p))
        return trp__kernel_unfit(&trp__kernels_gather, error);
    s->node = *n;
    s->scatters = n->kind == TRP_DNN_SCATTER_ADD;
    const bool wide = n->compute == TRP_F64 || s->p.whole.type == TRP_F64 ||
                      s->p.slices.type == TRP_F64 ||
                      (s->scatters && n->port[TRP__GATHER_BEFORE] != TRP__DNN_NO_PORT &&
                       s->p.before.type == TRP_F64);
    const int run = (int)(s->p.line / s->p.chunks.by);
    const char *type = wide ? "f64" : "f32";
    s->lines = (trp__kernel){.name = "trp_gather_lines", .threads = TRP__GATHER_THREADS};
    s->rank = (trp__kernel){.name = "trp_scatter_rank", .threads = TRP__GATHER_THREADS};
    s->merge = (trp__kernel){.name = "trp_scatter_merge", .threads = TRP__GATHER_THREADS};
    s->parts.threads = s->rows.threads = TRP__GATHER_THREADS;
    snprintf(s->parts.name, sizeof s->parts.name, "trp_scatter_%s_%d_parts", type, run);
    snprintf(s->rows.name, sizeof s->rows.name, "trp_scatter_%s_%d_rows", type, run);
    trp__text_add(engine, "%s%s", s->scatters ? "scatter" : "gather",
                  (s->scatters ? run > 1 : s->p.packs) ? "" : "_loose");
    if (s->scatters) {
        s->list_bytes = bytes_of(s->p.count);
        s->start_bytes = bytes_of((uint64_t)s->p.rows + 1);
        *workspace = 4 * s->list_bytes + s->start_bytes +
                     (uint64_t)s->p.parts * s->p.outer * (uint64_t)s->p.line * (wide ? 8 : 4);
    }
    return TRP_OK;
}

/* Launches. */

static trp_status enqueue(step *s, const trp__kernel_launch *l, trp__kernel *kernel,
                          uint64_t blocks, trp_error *error)
{
    return trp__kernel_run(l, TRP__MODULE_GATHER, kernel, blocks, &s->p, NULL, error);
}

static uint64_t blocks_of(uint64_t count, uint64_t each)
{
    return (count + each - 1) / each;
}

/* Sorts the list of indices. At the end p->key and p->number are the addresses of its arrays. */
static trp_status launch_list(step *s, const trp__kernel_launch *l, trp_error *error)
{
    trp__gathering *p = &s->p;
    const uint64_t at = (uint64_t)(uintptr_t)l->workspace;
    p->next_key = at;
    p->next_number = at + s->list_bytes;
    p->key = at + 2 * s->list_bytes;
    p->number = at + 3 * s->list_bytes;
    p->starts = at + 4 * s->list_bytes;
    p->sums = p->starts + s->start_bytes;
    trp_status status = enqueue(s, l, &s->rank, blocks_of(p->count, TRP__GATHER_TILE), error);
    for (uint64_t width = TRP__GATHER_TILE;; width *= TRP__GATHER_WAYS) {
        const uint64_t key = p->key, number = p->number;
        p->key = p->next_key;
        p->number = p->next_number;
        p->next_key = key;
        p->next_number = number;
        if (width >= p->count || status != TRP_OK)
            return status;
        p->width = (uint32_t)width;
        status = enqueue(s, l, &s->merge, blocks_of(p->count, TRP__GATHER_THREADS), error);
    }
}

static uint64_t address_of(const step *s, const trp__kernel_launch *l, int port)
{
    return trp__kernel_address(l, s->node.port[port]);
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp__gathering *p = &s->p;
    p->whole.at = address_of(s, l, TRP__GATHER_WHOLE);
    p->index = address_of(s, l, TRP__GATHER_INDEX);
    p->slices.at = address_of(s, l, TRP__GATHER_SLICES);
    if (!s->scatters)
        return enqueue(s, l, &s->lines, blocks_of(p->units, TRP__GATHER_THREADS * TRP__GATHER_DEEP),
                       error);
    p->before.at = address_of(s, l, TRP__GATHER_BEFORE);
    p->in_place = p->before.at == p->whole.at && p->before.type == p->whole.type &&
                  p->before.outer == p->whole.outer && p->before.row == p->whole.row;
    trp_status status = launch_list(s, l, error);
    const uint64_t across = blocks_of(p->chunks.by, TRP__GATHER_THREADS);
    if (status == TRP_OK)
        status = enqueue(s, l, &s->parts, p->start_blocks + across * p->parts * p->outer, error);
    if (status == TRP_OK)
        status = enqueue(s, l, &s->rows, (uint64_t)p->row_blocks * p->outer, error);
    return status;
}

TRP__KERNEL_FAMILY(gather, "gather", GATHER);

#include "actors/dnn/kernels/map/step.h"

#include <string.h>

enum {
    PIECE_MAX = 1 << 30, /* elements of a launch: a multiple of every width */
    PIECE_STEP = 64,     /* elements, a multiple of 16 bytes of any type */
};

typedef trp__map_program program;
typedef trp__map_step step;

static bool is_written(const program *p, int operand)
{
    for (int i = 0; i < p->map.codes; i++) {
        if (p->map.code[i].op == TRP__MAP_STORE && p->map.code[i].b == operand)
            return true;
    }
    return false;
}

/* Tells whether each run of elements of a thread begins at a multiple of its bytes, or of 16. */
static bool is_aligned(const program *p, int operand)
{
    const trp__space *s = &p->space;
    if (p->tensor[operand] == TRP__DNN_NO_PORT)
        return true;
    const trp__dnn_tensor *t = &p->graph->tensor[p->tensor[operand]];
    const uint64_t size = trp__space_element_bytes(t->type),
                   run = size * (uint64_t)trp__map_width(p->wide);
    const uint64_t need = run < 16 ? run : 16;
    if (!trp__space_is_aligned(t, run))
        return false;
    for (int i = 1; i < s->rank && p->map.operand[operand].layout != TRP__MAP_LINEAR; i++) {
        if ((uint64_t)s->stride[operand][i] * size % need != 0)
            return false;
    }
    return true;
}

static uint8_t layout_of(const trp__space *s, int operand)
{
    int64_t next = 1;
    bool linear = true;
    for (int i = 0; i < s->rank; i++) {
        linear = linear && s->stride[operand][i] == next;
        next *= s->dim[i];
    }
    return linear                       ? TRP__MAP_LINEAR
           : s->stride[operand][0] == 1 ? TRP__MAP_PACKED
           : s->stride[operand][0] == 0 ? TRP__MAP_SPLAT
                                        : TRP__MAP_STRIDED;
}

/* Tells whether threads take neighbouring elements: all writes and at least half of all operands
 * must then be aligned runs, or one element for each thread. Rows whose length is no multiple of
 * the width qualify too, if all that is written is LINEAR. Other operands, such as a bias, are read
 * element by element. */
static bool is_vector(program *p)
{
    const bool whole = p->space.rank == 1 || p->space.dim[0] % trp__map_width(p->wide) == 0;
    int others = 0;
    for (int o = 0; o < p->map.operands; o++) {
        trp__map_operand *operand = &p->map.operand[o];
        const bool run =
            operand->layout == TRP__MAP_LINEAR || (whole && operand->layout == TRP__MAP_PACKED);
        const bool good = (run && is_aligned(p, o)) || (whole && operand->layout == TRP__MAP_SPLAT);
        if (!good && is_written(p, o))
            return false;
        others += !good;
    }
    if (2 * others > p->map.operands)
        return false;
    for (int o = 0; o < p->map.operands; o++) {
        trp__map_operand *operand = &p->map.operand[o];
        const bool run =
            operand->layout == TRP__MAP_LINEAR || (whole && operand->layout == TRP__MAP_PACKED);
        if (!(run && is_aligned(p, o)) && !(whole && operand->layout == TRP__MAP_SPLAT))
            operand->layout = TRP__MAP_STRIDED;
    }
    return true;
}

/* Splits the space into launches of at most PIECE_MAX elements: the host walks the outermost
 * dimensions, and pieces of the next one. */
static void share_out(step *s, trp__space *space)
{
    int64_t inner = trp__space_elements(space);
    s->outer_rank = 0;
    while (space->rank > 1 && inner / space->dim[space->rank - 1] > PIECE_MAX) {
        const int d = --space->rank;
        inner /= space->dim[d];
        for (int o = 0; o < space->operands; o++)
            s->outer_stride[o][s->outer_rank] = space->stride[o][d];
        s->outer[s->outer_rank++] = space->dim[d];
    }
    s->last = space->dim[space->rank - 1];
    s->inner = s->last > 0 ? inner / s->last : 1;
    s->piece = PIECE_MAX / s->inner < s->last ? PIECE_MAX / s->inner : s->last;
    if (s->piece > PIECE_STEP && s->piece < s->last) /* the next piece is aligned like the first */
        s->piece -= s->piece % PIECE_STEP;
}

void trp__map_lay_out(program *p, step *s)
{
    trp__space_order(&p->space, p->stored);
    trp__space_merge(&p->space);
    for (int o = 0; o < p->map.operands; o++)
        p->map.operand[o].layout = layout_of(&p->space, o);
    const int rank = p->space.rank;
    share_out(s, &p->space);
    p->map.vector = p->space.rank == rank && is_vector(p); /* outer strides may be unaligned */
    p->map.rank = (uint8_t)p->space.rank;
    for (int i = 0; i < p->space.rank; i++) {
        if (i < p->space.rank - 1) /* the last index is what remains */
            p->map.dim[i] = trp__map_divide_by((uint32_t)p->space.dim[i]);
        for (int o = 0; o < p->map.operands; o++)
            p->map.operand[o].stride[i] = p->space.stride[o][i];
    }
}

void trp__map_keep(const program *p, step *s)
{
    s->map = p->map;
    s->wide = p->wide;
    s->numbers = p->numbers;
    memcpy(s->tensor, p->tensor, sizeof s->tensor);
    memcpy(s->value_of, p->value_of, sizeof s->value_of);
}

/* Returns the kernel that runs now: the program's own, or the interpreter. */
static trp__cu_function choose(step *s, const trp__kernel_launch *l)
{
    trp__fused *f = l->modules->fused;
    trp__cu_function own = NULL;
    if (!f || !s->source)
        return s->kernel.function;
    if (!s->fused)
        s->fused = trp__fused_find(f, s->source);
    if (s->fused)
        own = trp__fused_use(f, l->instance, s->fused, s->last * s->inner);
    return own ? own : s->kernel.function;
}

/* Launches one piece; `at`: the address at which it begins in each operand. */
static trp_status launch_piece(step *s, const trp__kernel_launch *l, trp__cu_function function,
                               const uint64_t at[], int64_t elements, trp_error *error)
{
    const bool own = function != s->kernel.function;
    const int64_t block = (int64_t)s->kernel.threads * s->each * (own ? s->deep : 1);
    const int64_t needed = (elements + block - 1) / block;
    for (int o = 0; o < s->map.operands; o++)
        s->map.operand[o].at = at[o];
    s->map.count = (uint32_t)elements;
    return trp__kernel_enqueue(l, function,
                               (uint64_t)(s->blocks > 0 && s->blocks < needed ? s->blocks : needed),
                               s->kernel.threads, own ? 0 : s->kernel.shared, &s->map, error);
}

trp_status trp__map_launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    uint64_t base[TRP__MAP_OPERANDS] = {0}, at[TRP__MAP_OPERANDS] = {0};
    int64_t index[TRP__MAP_DIMS] = {0};
    trp_status status = trp__kernel_find(l, s->module, &s->kernel, error);
    trp__cu_function function = status == TRP_OK ? choose(s, l) : NULL;
    for (int i = 0; i < s->numbers; i++) {
        if (s->value_of[i] != TRP__DNN_NO_PORT)
            s->map.number[i] = l->number[s->value_of[i]];
    }
    for (int o = 0; o < s->map.operands; o++)
        base[o] = trp__kernel_address(l, s->tensor[o]);
    for (bool more = true; more && status == TRP_OK;) {
        for (int64_t from = 0; from < s->last && status == TRP_OK; from += s->piece) {
            const int64_t here = s->last - from < s->piece ? s->last - from : s->piece;
            for (int o = 0; o < s->map.operands; o++) {
                const trp__map_operand *operand = &s->map.operand[o];
                int64_t offset = from * operand->stride[s->map.rank - 1];
                for (int k = 0; k < s->outer_rank; k++)
                    offset += index[k] * s->outer_stride[o][k];
                at[o] = base[o] + (uint64_t)offset * trp__space_element_bytes(operand->type);
            }
            status = launch_piece(s, l, function, at, here * s->inner, error);
        }
        more = false;
        for (int k = s->outer_rank; k-- > 0 && !more;) {
            more = ++index[k] < s->outer[k];
            index[k] = more ? index[k] : 0;
        }
    }
    return status;
}

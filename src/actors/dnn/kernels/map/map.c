/* Fused element-wise graphs: compiles nodes to a program of map.h, and launches it. */
#include "actors/dnn/kernels/map/map.h"

#include "actors/dnn/kernels/map/fused.h"
#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/map/ready.h"
#include "actors/dnn/kernels/launch/space.h"
#include "base/error.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NO_SLOT = 0xff,
    PIECE_MAX = 1 << 30, /* elements of a launch: a multiple of every width */
    PIECE_STEP = 64,     /* elements, a multiple of 16 bytes of any type */
    PIECES_RANK = TRP__MAP_DIMS,
};

/* A program in the making. */
typedef struct program {
    const trp__dnn_graph *graph;
    uint32_t first, count;
    uint8_t place[TRP__DNN_LOWERED_TENSORS]; /* trp__dnn_place */
    const trp__dnn_tensor *shape;            /* of the iteration space */
    bool wide;                               /* computes in f64 */
    bool full;                               /* something does not fit */

    trp__map map;
    trp__space space;
    uint8_t tensor[TRP__MAP_OPERANDS];  /* of each operand */
    uint8_t value_of[TRP__MAP_NUMBERS]; /* the tensor whose value a number is; else NO_PORT */
    int numbers;
    int stored;                                  /* the first operand that is written; -1: none */
    uint8_t slot[TRP__DNN_LOWERED_TENSORS];      /* that holds a tensor's elements; NO_SLOT */
    uint32_t last_use[TRP__DNN_LOWERED_TENSORS]; /* the last node that reads it */
    bool taken[TRP__MAP_SLOTS];
    int slots;
} program;

/* What a node is made of. */

static bool is_element_wise(const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_POINTWISE || n->kind == TRP_DNN_POINTWISE_BACKWARD ||
           n->kind == TRP_DNN_RANDOM;
}

/* Tensors whose elements a node reads. */
static int input_ports(const trp__dnn_node *n, uint8_t ports[3])
{
    if (n->kind == TRP_DNN_RANDOM)
        return 0;
    if (n->kind == TRP_DNN_POINTWISE_BACKWARD) {
        ports[0] = n->port[TRP__DNN_GRADIENT_X];
        ports[1] = n->port[TRP__DNN_GRADIENT_DY];
        return 2;
    }
    const int count = (int)trp__dnn_pointwise_inputs(n->mode);
    for (int i = 0; i < count; i++)
        ports[i] = n->port[TRP__DNN_POINTWISE_X + i];
    return count;
}

static uint8_t output_port(const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_POINTWISE_BACKWARD ? n->port[TRP__DNN_GRADIENT_DX]
           : n->kind == TRP_DNN_RANDOM           ? n->port[TRP__DNN_RANDOM_Y]
                                                 : n->port[TRP__DNN_POINTWISE_Y];
}

static bool is_known(uint8_t type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16 ||
           type == TRP_F8E4M3 || type == TRP_F8E5M2 || type == TRP_I8 || type == TRP_I32 ||
           type == TRP_U8 || type == TRP_BOOL;
}

static bool same_dims(const trp__dnn_tensor *a, const trp__dnn_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

/* Whether a node can be part of a program over `shape`. */
static bool fits(const trp__dnn_graph *g, const trp__dnn_node *n, const trp__dnn_tensor *shape)
{
    uint8_t ports[3];
    const int inputs = is_element_wise(n) ? input_ports(n, ports) : 0;
    if ((inputs == 0 && n->kind != TRP_DNN_RANDOM) ||
        !same_dims(&g->tensor[output_port(n)], shape) ||
        (n->compute != TRP_F32 && n->compute != TRP_F64) ||
        !is_known(g->tensor[output_port(n)].type))
        return false;
    for (int i = 0; i < inputs; i++) {
        if (!is_known(g->tensor[ports[i]].type))
            return false;
    }
    return true;
}

/* Slots, operands and numbers. */

static uint8_t take_slot(program *p)
{
    for (int i = 0; i < TRP__MAP_SLOTS; i++) {
        if (!p->taken[i]) {
            p->taken[i] = true;
            p->slots = p->slots > i + 1 ? p->slots : i + 1;
            return (uint8_t)i;
        }
    }
    p->full = true;
    return 0;
}

static void free_unused(program *p, uint32_t node)
{
    for (uint32_t t = 0; t < p->graph->head->tensors; t++) {
        if (p->slot[t] != NO_SLOT && p->last_use[t] <= node) {
            p->taken[p->slot[t]] = false;
            p->slot[t] = NO_SLOT;
        }
    }
}

static trp__map_code *add_code(program *p, uint8_t op)
{
    static trp__map_code spare;
    if (p->map.codes == TRP__MAP_CODES) {
        p->full = true;
        return &spare;
    }
    trp__map_code *c = &p->map.code[p->map.codes++];
    *c = (trp__map_code){.op = op};
    return c;
}

static uint8_t add_operand(program *p, uint8_t tensor)
{
    const trp__dnn_tensor *t = &p->graph->tensor[tensor];
    if (p->map.operands == TRP__MAP_OPERANDS) {
        p->full = true;
        return 0;
    }
    const uint8_t number = p->map.operands++;
    p->map.operand[number].type = t->type;
    p->tensor[number] = tensor;
    trp__space_add(&p->space, p->shape, t);
    return number;
}

static int add_numbers(program *p, int count, const double *values, uint8_t tensor)
{
    const int first = p->numbers;
    if (first + count > TRP__MAP_NUMBERS) {
        p->full = true;
        return 0;
    }
    for (int i = 0; i < count; i++) {
        p->map.number[first + i] = values ? values[i] : 0;
        p->value_of[first + i] = tensor;
    }
    p->numbers += count;
    return first;
}

/* The input of an instruction that stands for a tensor: loaded where it was not yet. */
static uint8_t input_of(program *p, uint8_t tensor)
{
    if (p->place[tensor] == TRP__DNN_PLACE_VALUE)
        return (uint8_t)(TRP__MAP_NUMBER + add_numbers(p, 1, NULL, tensor));
    if (p->slot[tensor] == NO_SLOT) {
        trp__map_code *c = add_code(p, TRP__MAP_LOAD);
        c->a = add_operand(p, tensor);
        c->to = p->slot[tensor] = take_slot(p);
    }
    return p->slot[tensor];
}

static void round_to(program *p, uint8_t slot, uint8_t type)
{
    trp__map_code *c = add_code(p, TRP__MAP_ROUND);
    c->to = c->a = slot;
    c->b = type;
}

/* Random numbers. */

/* The input of a seed or an offset; without one, 0. */
static uint8_t word_of(program *p, uint8_t tensor)
{
    if (tensor != TRP__DNN_NO_PORT && p->place[tensor] != TRP__DNN_PLACE_VALUE)
        return add_operand(p, tensor);
    return (uint8_t)(TRP__MAP_NUMBER + add_numbers(p, 1, NULL, tensor));
}

/* The operand that numbers elements in the order of y's dimensions. */
static uint8_t add_numbering(program *p)
{
    trp__dnn_tensor order = *p->shape;
    int64_t next = 1;
    if (p->map.operands == TRP__MAP_OPERANDS) {
        p->full = true;
        return 0;
    }
    for (int i = order.rank - 1; i >= 0; i--) {
        order.stride[i] = next;
        next *= order.dim[i];
    }
    p->tensor[p->map.operands] = TRP__DNN_NO_PORT;
    p->map.operand[p->map.operands].type = TRP_U8; /* a number is a place: one byte each */
    trp__space_add(&p->space, p->shape, &order);
    return p->map.operands++;
}

/* Whether low + span * u, u of 24 bits, is exact in f64: so one rounding to f32 is all there is. */
static bool is_exact_in_f32(double low, double span)
{
    int of_low = 0, of_span = 0;
    if ((double)(float)low != low || (double)(float)span != span || fabs(span) < 0x1p-60)
        return false;
    (void)frexp(low, &of_low);
    (void)frexp(span, &of_span);
    return low == 0 || (of_low >= of_span - 24 && of_low <= of_span + 3);
}

static void add_random(program *p, const trp__dnn_node *n, uint8_t to)
{
    double number[3] = {n->parameter[0], n->parameter[1], n->parameter[2]};
    uint8_t mode = n->mode;
    if (n->compute == TRP_F64)
        mode |= TRP__MAP_RANDOM_F64;
    if (n->mode == TRP_DNN_UNIFORM)
        number[1] -= number[0];
    if (n->mode == TRP_DNN_UNIFORM && n->compute != TRP_F64 &&
        is_exact_in_f32(number[0], number[1]))
        mode |= TRP__MAP_RANDOM_F32;
    if (n->mode == TRP_DNN_BERNOULLI && n->compute != TRP_F64)
        number[0] = ceil(number[0] * 0x1p24);
    trp__map_code code = {.op = TRP__MAP_RANDOM, .to = to, .mode = mode};
    code.a = add_numbering(p);
    code.b = word_of(p, n->port[TRP__DNN_RANDOM_SEED]);
    code.c = word_of(p, n->port[TRP__DNN_RANDOM_OFFSET]);
    code.parameter = (uint8_t)add_numbers(p, 3, number, TRP__DNN_NO_PORT);
    *add_code(p, 0) = code;
}

static void add_computed(program *p, const trp__dnn_node *n, uint8_t to, const uint8_t input[3])
{
    const bool activation = n->mode >= TRP_DNN_RELU;
    const int parameters =
        activation ? add_numbers(p, TRP_DNN_PARAMETERS, n->parameter, TRP__DNN_NO_PORT) : 0;
    *add_code(p, 0) = (trp__map_code){
        .op = (uint8_t)(n->mode + (n->kind == TRP_DNN_POINTWISE_BACKWARD ? TRP__MAP_SLOPE : 0)),
        .to = to,
        .a = input[0],
        .b = input[1],
        .c = input[2],
        .parameter = (uint8_t)parameters};
}

static void add_node(program *p, uint32_t index)
{
    const trp__dnn_node *n = &p->graph->node[index];
    const uint8_t y = output_port(n), type = p->graph->tensor[y].type;
    uint8_t ports[3], input[3] = {0};
    const int inputs = input_ports(n, ports);
    for (int i = 0; i < inputs; i++)
        input[i] = input_of(p, ports[i]);
    for (int i = inputs; i < 3; i++)
        input[i] = input[0];
    free_unused(p,
                index); /* an instruction reads before it writes, so y may take an input's slot */
    const uint8_t to = take_slot(p);
    p->slot[y] = to;
    if (n->kind == TRP_DNN_RANDOM)
        add_random(p, n, to);
    else
        add_computed(p, n, to, input);
    if (p->wide && n->compute == TRP_F32)
        round_to(p, to, TRP_F32);
    const bool read_later = p->last_use[y] > index;
    if (read_later && type != (p->wide ? TRP_F64 : TRP_F32))
        round_to(p, to, type);
    if (p->place[y] == TRP__DNN_PLACE_MEMORY) {
        const uint8_t operand = add_operand(p, y);
        if (p->stored < 0)
            p->stored = operand;
        trp__map_code *c = add_code(p, TRP__MAP_STORE);
        c->a = to;
        c->b = operand;
    }
    free_unused(p, index);
}

/* Makes the program of so many nodes, which all fit. False: it does not fit into a parameter. */
static bool compile(program *p, const trp__dnn_graph *g, uint32_t first, uint32_t count)
{
    const trp__dnn_part part = {g, first, count};
    *p = (program){.graph = g, .first = first, .count = count, .stored = -1};
    trp__dnn_places(&part, p->place);
    p->shape = &g->tensor[output_port(&g->node[first])];
    trp__space_begin(&p->space, p->shape);
    memset(p->slot, NO_SLOT, sizeof p->slot);
    for (uint32_t i = first; i < first + count; i++) {
        uint8_t ports[3];
        const int inputs = input_ports(&g->node[i], ports);
        p->wide = p->wide || g->node[i].compute == TRP_F64;
        for (int k = 0; k < inputs; k++)
            p->last_use[ports[k]] = i;
    }
    for (uint32_t i = first; i < first + count && !p->full; i++)
        add_node(p, i);
    return !p->full && p->stored >= 0;
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    program p;
    uint32_t count = 0, best = 0;
    if (!is_element_wise(&g->node[first]))
        return 0;
    const trp__dnn_tensor *shape = &g->tensor[output_port(&g->node[first])];
    while (count < most && fits(g, &g->node[first + count], shape))
        count++;
    for (best = count; best > 0 && !compile(&p, g, first, best);)
        best--;
    return best;
}

/* A step: the program, and how its elements are shared out over launches. */
typedef struct step {
    trp__map map;
    uint8_t tensor[TRP__MAP_OPERANDS];
    uint8_t value_of[TRP__MAP_NUMBERS];
    int numbers;
    bool wide;
    uint32_t shared_bytes;
    uint32_t threads, each;    /* of a block; elements of a thread */
    int64_t blocks;            /* of a launch, at most: 0: as many as elements need */
    trp__kernel_module module; /* of `function` */
    char name[32];
    trp__cu_function function; /* the interpreter's, or a ready kernel's */
    trp__fused_entry *fused; /* a kernel of its own, if it is worth one; NULL: not looked for yet */
    char *source;            /* of that; behind this struct */
    /* Launches walk these dimensions, and pieces of the last dimension of the space of a launch. */
    int outer_rank;
    int64_t outer[PIECES_RANK];
    int64_t outer_stride[TRP__MAP_OPERANDS][PIECES_RANK];
    int64_t last, piece; /* elements along the outermost dimension of a launch */
    int64_t inner;       /* elements of the space for one of those */
} step;

static int width_of(bool wide)
{
    return wide ? TRP__MAP_WIDTH_F64 : TRP__MAP_WIDTH;
}

static uint64_t element_bytes(uint8_t type)
{
    return trp_dtype_bits((trp_dtype)type) / 8;
}

static bool is_written(const program *p, int operand)
{
    for (int i = 0; i < p->map.codes; i++) {
        if (p->map.code[i].op == TRP__MAP_STORE && p->map.code[i].b == operand)
            return true;
    }
    return false;
}

/* Whether each run of elements of a thread begins at a multiple of its bytes, or of 16. */
static bool is_aligned(const program *p, int operand)
{
    const trp__space *s = &p->space;
    if (p->tensor[operand] == TRP__DNN_NO_PORT)
        return true;
    const trp__dnn_tensor *t = &p->graph->tensor[p->tensor[operand]];
    const uint64_t size = element_bytes(t->type), run = size * (uint64_t)width_of(p->wide);
    const uint64_t need = run < 16 ? run : 16;
    if (t->role == TRP__DNN_BUFFER && t->alignment % need != 0)
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

/* Threads take neighbouring elements where that gives aligned accesses of what is written, and of
 * most of what is read. Rows of other lengths than multiples of the width are walked so too, if all
 * of them lie one behind the other in what is written: what is not there, a bias say, is read
 * element by element. */
static bool is_vector(program *p)
{
    const bool whole = p->space.rank == 1 || p->space.dim[0] % width_of(p->wide) == 0;
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

/* A launch has fewer than 2^31 elements: the outermost dimensions, and pieces of the one below, are
 * walked by the host. */
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
    if (s->piece > PIECE_STEP && s->piece < s->last) /* the next one is aligned as the first */
        s->piece -= s->piece % PIECE_STEP;
}

/* The source of a kernel for one program. False: it is too long. */
static bool write_source(const step *s, int slots, char *out, size_t size)
{
    static const char *const layouts[] = {"LINEAR", "PACKED", "SPLAT", "STRIDED"};
    trp__text t = {.out = out, .size = size};
    char input[3][8];
    trp__text_add(&t, "#define _Static_assert static_assert\n"
                      "#include \"actors/dnn/kernels/map/fused.cuh\"\n");
    trp__text_add(&t, "TRP__FUSED(%s, %d, %d)\n", s->wide ? "double" : "float", width_of(s->wide),
                  s->map.vector);
    for (int i = 0; i < slots; i++)
        trp__text_add(&t, "SLOT(%d)", i);
    for (int i = 0; i < s->numbers; i++)
        trp__text_add(&t, "VALUE(%d)", i);
    for (int i = 0; i < s->map.codes; i++) {
        const trp__map_code *c = &s->map.code[i];
        if (c->op == TRP__MAP_LOAD || c->op == TRP__MAP_STORE) {
            const int operand = c->op == TRP__MAP_LOAD ? c->a : c->b;
            trp__text_add(&t, "\n%s(%d, %d, %d, TRP__MAP_%s)",
                          c->op == TRP__MAP_LOAD ? "LOAD" : "STORE",
                          c->op == TRP__MAP_LOAD ? c->to : c->a, operand,
                          s->map.operand[operand].type, layouts[s->map.operand[operand].layout]);
        } else if (c->op == TRP__MAP_RANDOM) {
            trp__text_add(&t, "\nRANDOM(%d, %d, TRP__MAP_%s, %d, %d, %d, %d)", c->to, c->a,
                          layouts[s->map.operand[c->a].layout], c->b, c->c, c->parameter, c->mode);
        } else if (c->op == TRP__MAP_ROUND) {
            trp__text_add(&t, "\nROUND(%d, %d)", c->to, c->b);
        } else {
            const uint8_t inputs[] = {c->a, c->b, c->c};
            for (int k = 0; k < 3; k++)
                snprintf(input[k], sizeof input[k], "%c%d", inputs[k] < TRP__MAP_NUMBER ? 's' : 'n',
                         inputs[k] % TRP__MAP_NUMBER);
            trp__text_add(&t, "\nCOMPUTE(%d, %d, %s, %s, %s, %d)", c->op, c->to, input[0], input[1],
                          input[2], c->parameter);
        }
    }
    trp__text_add(&t, "\nEND\n");
    return strlen(out) + 1 < size;
}

/* Puts the dimensions of the space in the order of memory, and says how threads share elements out.
 */
static void lay_out(program *p, step *s)
{
    trp__space_order(&p->space, p->stored);
    trp__space_merge(&p->space);
    for (int o = 0; o < p->map.operands; o++)
        p->map.operand[o].layout = layout_of(&p->space, o);
    const int rank = p->space.rank;
    share_out(s, &p->space);
    p->map.vector = p->space.rank == rank && is_vector(p); /* pieces may begin anywhere */
    p->map.rank = (uint8_t)p->space.rank;
    for (int i = 0; i < p->space.rank; i++) {
        if (i < p->space.rank - 1) /* the last one is what remains */
            p->map.dim[i] = trp__map_divide_by((uint32_t)p->space.dim[i]);
        for (int o = 0; o < p->map.operands; o++)
            p->map.operand[o].stride[i] = p->space.stride[o][i];
    }
}

/* A step of a program that is laid out. */
static void keep(const program *p, step *s)
{
    s->map = p->map;
    s->wide = p->wide;
    s->numbers = p->numbers;
    memcpy(s->tensor, p->tensor, sizeof s->tensor);
    memcpy(s->value_of, p->value_of, sizeof s->value_of);
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void **out,
                       char engine[TRP_DNN_ENGINE_SIZE], uint64_t *workspace, trp_error *error)
{
    program p;
    step *s = calloc(1, sizeof *s + TRP__FUSED_SOURCE);
    (void)modules;
    if (!s)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for an element-wise program");
    if (!compile(&p, part->graph, part->first, part->count)) {
        free(s);
        return trp__error_set(error, TRP_E_INTERNAL, "an element-wise program that does not fit");
    }
    lay_out(&p, s);
    keep(&p, s);
    s->module = TRP__MODULE_MAP;
    snprintf(s->name, sizeof s->name, "trp_map_%s", p.wide ? "f64" : "f32");
    s->shared_bytes = (uint32_t)p.slots * TRP__MAP_SLOT_BYTES;
    s->threads = TRP__MAP_THREADS;
    s->each = (uint32_t)width_of(p.wide);
    s->source = (char *)(s + 1);
    if (!write_source(s, p.slots, s->source, TRP__FUSED_SOURCE))
        s->source = NULL;
    trp__text name = {.out = engine, .size = TRP_DNN_ENGINE_SIZE};
    trp__text_add(&name, "map_%s%s", p.wide ? "f64" : "f32", p.map.vector ? "_vector" : "");
    *workspace = 0;
    *out = s;
    return TRP_OK;
}

/* Programs that have a kernel made ahead. */

typedef struct ready {
    const char *name;
    trp__kernel_module module;
    uint8_t codes;
    trp__map_code code[TRP__READY_CODES];
} ready;

/* clang-format off */
#define LOAD(slot, operand)  {.op = TRP__MAP_LOAD, .to = (slot), .a = (operand)},
#define STORE(slot, operand) {.op = TRP__MAP_STORE, .a = (slot), .b = (operand)},
#define COMPUTE(opcode, slot, x, w, t, number)                                                     \
    {.op = (opcode), .to = (slot), .a = (x), .b = (w), .c = (t), .parameter = (number)},
#define RANDOM(slot, operand, seed, offset, number, how)                                           \
    {.op = TRP__MAP_RANDOM, .to = (slot), .a = (operand), .b = (seed), .c = (offset),              \
     .parameter = (number), .mode = (how)},
#define COUNT(...) + 1
#define PROGRAM(title, in, program, with)                                                          \
    {#title, in, 0 program(with, COUNT, COUNT, COUNT, COUNT),                                      \
     {program(with, LOAD, COMPUTE, RANDOM, STORE)}},
#define UNIT(title, program, with) PROGRAM(title, TRP__MODULE_READY_UNITS, program, with)
#define DRAW(title, program, with) PROGRAM(title, TRP__MODULE_READY_DRAWS, program, with)
static const ready ready_programs[] = {TRP__READY_UNITS(UNIT) TRP__READY_DRAWS(DRAW)};
/* clang-format on */
#undef LOAD
#undef STORE
#undef COMPUTE
#undef RANDOM
#undef COUNT
#undef PROGRAM
#undef UNIT
#undef DRAW

/* The ready program that has these instructions; NULL: none. */
static const ready *ready_codes(const program *p)
{
    for (size_t i = 0; i < sizeof ready_programs / sizeof *ready_programs; i++) {
        const ready *r = &ready_programs[i];
        if (p->map.codes == r->codes &&
            memcmp(p->map.code, r->code, r->codes * sizeof *r->code) == 0)
            return r;
    }
    return NULL;
}

/* Whether all operands lie as a ready kernel reads them, and have one type, which is *type. */
static bool is_ready(const program *p, const char **type)
{
    static const struct {
        uint8_t type;
        const char *name;
    } types[] = {
#define TYPE(name, type) {type, #name},
        TRP__READY_TYPES(TYPE)
#undef TYPE
    };
    const uint8_t stored = p->map.operand[p->stored].type;
    *type = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == stored)
            *type = types[i].name;
    }
    for (int o = 0; o < p->map.operands; o++) {
        if (p->map.operand[o].layout != TRP__MAP_LINEAR ||
            (p->tensor[o] != TRP__DNN_NO_PORT && p->map.operand[o].type != stored))
            return false;
    }
    return *type && p->map.vector;
}

/* The ready program of so many nodes, laid out for a step; NULL: there is none. */
static const ready *find_ready(const trp__dnn_graph *g, uint32_t first, uint32_t count, program *p,
                               step *s, const char **type)
{
    if (!compile(p, g, first, count) || p->wide)
        return NULL;
    const ready *r = ready_codes(p);
    if (r)
        lay_out(p, s);
    return r && is_ready(p, type) ? r : NULL;
}

static uint32_t takes_ready(const trp__dnn_graph *g, uint32_t first, uint32_t most,
                            trp__kernel_module module)
{
    enum { NODES_MAX = 4 };
    program p;
    step s;
    const char *type;
    uint32_t count = 0;
    if (!is_element_wise(&g->node[first]))
        return 0;
    const trp__dnn_tensor *shape = &g->tensor[output_port(&g->node[first])];
    while (count < most && count < NODES_MAX && fits(g, &g->node[first + count], shape))
        count++;
    for (; count > 0; count--) {
        const ready *r = find_ready(g, first, count, &p, &s, &type);
        if (r && r->module == module)
            break;
    }
    return count;
}

static uint32_t takes_units(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    return takes_ready(g, first, most, TRP__MODULE_READY_UNITS);
}

static uint32_t takes_draws(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    return takes_ready(g, first, most, TRP__MODULE_READY_DRAWS);
}

static trp_status make_ready(const trp__dnn_part *part, const trp__kernel_modules *modules,
                             void **out, char engine[TRP_DNN_ENGINE_SIZE], uint64_t *workspace,
                             trp_error *error)
{
    program p;
    const char *type;
    step *s = calloc(1, sizeof *s);
    if (!s)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for an element-wise program");
    const ready *r = find_ready(part->graph, part->first, part->count, &p, s, &type);
    if (!r) {
        free(s);
        return trp__error_set(error, TRP_E_INTERNAL, "an element-wise program without a kernel");
    }
    keep(&p, s);
    s->module = r->module;
    s->threads = TRP__MAP_THREADS;
    s->each = TRP__MAP_WIDTH;
    if (r->module == TRP__MODULE_READY_DRAWS) {
        s->threads = TRP__READY_DRAW_THREADS;
        s->each = 16 / (uint32_t)element_bytes(p.map.operand[p.stored].type);
        s->blocks = (int64_t)modules->processors * TRP__READY_DRAW_BLOCKS;
    }
    snprintf(s->name, sizeof s->name, "trp_%s_%s", r->name, type);
    trp__text name = {.out = engine, .size = TRP_DNN_ENGINE_SIZE};
    trp__text_add(&name, "%s", s->name + strlen("trp_"));
    *workspace = 0;
    *out = s;
    return TRP_OK;
}

/* The kernel that runs now: the program's own, or the interpreter. */
static trp__cu_function choose(step *s, const trp__kernel_launch *l)
{
    trp__fused *f = l->modules->fused;
    trp__cu_function own = NULL;
    if (!f || !s->source)
        return s->function;
    if (!s->fused)
        s->fused = trp__fused_find(f, s->source);
    if (s->fused)
        own = trp__fused_use(f, l->instance, s->fused, s->last * s->inner);
    return own ? own : s->function;
}

/* Launches one piece: `at` is where each operand begins there. */
static trp_status launch_piece(step *s, const trp__kernel_launch *l, trp__cu_function function,
                               const uint64_t at[], int64_t elements, trp_error *error)
{
    const int64_t block = (int64_t)s->threads * s->each, needed = (elements + block - 1) / block;
    for (int o = 0; o < s->map.operands; o++)
        s->map.operand[o].at = at[o];
    s->map.count = (uint32_t)elements;
    return trp__kernel_enqueue(
        l, function, (uint64_t)(s->blocks > 0 && s->blocks < needed ? s->blocks : needed),
        s->threads, function == s->function ? s->shared_bytes : 0, &s->map, error);
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    uint64_t base[TRP__MAP_OPERANDS] = {0}, at[TRP__MAP_OPERANDS] = {0};
    int64_t index[PIECES_RANK] = {0};
    trp_status status = TRP_OK;
    if (!s->function)
        status =
            trp__kernels_function(l->modules, l->instance, s->module, s->name, &s->function, error);
    trp__cu_function function = status == TRP_OK ? choose(s, l) : NULL;
    for (int i = 0; i < s->numbers; i++) {
        if (s->value_of[i] != TRP__DNN_NO_PORT)
            s->map.number[i] = l->number[s->value_of[i]];
    }
    for (int o = 0; o < s->map.operands; o++)
        base[o] = s->tensor[o] == TRP__DNN_NO_PORT ? 0 : (uint64_t)(uintptr_t)l->at[s->tensor[o]];
    for (bool more = true; more && status == TRP_OK;) {
        for (int64_t from = 0; from < s->last && status == TRP_OK; from += s->piece) {
            const int64_t here = s->last - from < s->piece ? s->last - from : s->piece;
            for (int o = 0; o < s->map.operands; o++) {
                const trp__map_operand *operand = &s->map.operand[o];
                int64_t offset = from * operand->stride[s->map.rank - 1];
                for (int k = 0; k < s->outer_rank; k++)
                    offset += index[k] * s->outer_stride[o][k];
                at[o] = base[o] + (uint64_t)offset * element_bytes(operand->type);
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

const trp__kernel_family trp__kernels_map = {
    .name = "map",
    .takes = takes,
    .make = make,
    .launch = launch,
    .module = TRP__MODULE_MAP,
};

const trp__kernel_family trp__kernels_glu = {
    .name = "glu",
    .takes = takes_units,
    .make = make_ready,
    .launch = launch,
    .module = TRP__MODULE_READY_UNITS,
};

const trp__kernel_family trp__kernels_random = {
    .name = "random",
    .takes = takes_draws,
    .make = make_ready,
    .launch = launch,
    .module = TRP__MODULE_READY_DRAWS,
};

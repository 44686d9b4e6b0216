#include "actors/dnn/kernels/map/program.h"
#include "actors/dnn/lower/layout.h"

#include <math.h>
#include <string.h>

typedef trp__map_program program;

/* The parts of a node. */

bool trp__map_is_element_wise(const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_POINTWISE || n->kind == TRP_DNN_POINTWISE_BACKWARD ||
           n->kind == TRP_DNN_RANDOM;
}

/* Finds the tensors whose elements a node reads, and returns how many there are. */
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

uint8_t trp__map_output_port(const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_POINTWISE_BACKWARD ? n->port[TRP__DNN_GRADIENT_DX]
           : n->kind == TRP_DNN_RANDOM           ? n->port[TRP__DNN_RANDOM_Y]
                                                 : n->port[TRP__DNN_POINTWISE_Y];
}

bool trp__map_fits(const trp__dnn_graph *g, const trp__dnn_node *n, const trp__dnn_tensor *shape)
{
    uint8_t ports[3];
    const int inputs = trp__map_is_element_wise(n) ? input_ports(n, ports) : 0;
    if ((inputs == 0 && n->kind != TRP_DNN_RANDOM) ||
        !trp__dnn_same_dims(&g->tensor[trp__map_output_port(n)], shape) ||
        (n->compute != TRP_F32 && n->compute != TRP_F64) ||
        !trp__space_takes_type(g->tensor[trp__map_output_port(n)].type))
        return false;
    for (int i = 0; i < inputs; i++) {
        if (!trp__space_takes_type(g->tensor[ports[i]].type))
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
        if (p->slot[t] != TRP__MAP_NO_SLOT && p->last_use[t] <= node) {
            p->taken[p->slot[t]] = false;
            p->slot[t] = TRP__MAP_NO_SLOT;
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

/* Returns the input of an instruction for a tensor, which is loaded unless it was already. */
static uint8_t input_of(program *p, uint8_t tensor)
{
    if (p->place[tensor] == TRP__DNN_PLACE_VALUE)
        return (uint8_t)(TRP__MAP_NUMBER + add_numbers(p, 1, NULL, tensor));
    if (p->slot[tensor] == TRP__MAP_NO_SLOT) {
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

/* Returns the input for a seed or an offset; without a tensor it is 0. */
static uint8_t word_of(program *p, uint8_t tensor)
{
    if (tensor != TRP__DNN_NO_PORT && p->place[tensor] != TRP__DNN_PLACE_VALUE)
        return add_operand(p, tensor);
    return (uint8_t)(TRP__MAP_NUMBER + add_numbers(p, 1, NULL, tensor));
}

/* Adds the operand that numbers elements in the order of y's dimensions. */
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
    p->map.operand[p->map.operands].type = TRP_U8; /* an offset in bytes is then a number */
    trp__space_add(&p->space, p->shape, &order);
    return p->map.operands++;
}

/* Tells whether low + span u, for u of 24 bits, is exact in f64. An fma of f32 then gives the same
 * bits: either way the result is rounded once. */
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

/* Returns the operation of a node; `type`: that of its result. */
static uint8_t operation_of(const program *p, const trp__dnn_node *n, uint8_t type)
{
    if (n->kind == TRP_DNN_POINTWISE_BACKWARD)
        return (uint8_t)(n->mode + TRP__MAP_SLOPE);
    if (n->mode == TRP_DNN_GELU && !p->wide && (type == TRP_BF16 || type == TRP_F16))
        return TRP__MAP_NARROW_GELU;
    return n->mode;
}

static void add_computed(program *p, const trp__dnn_node *n, uint8_t type, uint8_t to,
                         const uint8_t input[3])
{
    const bool activation = n->mode >= TRP_DNN_RELU;
    const int parameters =
        activation ? add_numbers(p, TRP_DNN_PARAMETERS, n->parameter, TRP__DNN_NO_PORT) : 0;
    *add_code(p, 0) = (trp__map_code){.op = operation_of(p, n, type),
                                      .to = to,
                                      .a = input[0],
                                      .b = input[1],
                                      .c = input[2],
                                      .parameter = (uint8_t)parameters};
}

static void add_node(program *p, uint32_t index)
{
    const trp__dnn_node *n = &p->graph->node[index];
    const uint8_t y = trp__map_output_port(n), type = p->graph->tensor[y].type;
    uint8_t ports[3], input[3] = {0};
    const int inputs = input_ports(n, ports);
    for (int i = 0; i < inputs; i++)
        input[i] = input_of(p, ports[i]);
    for (int i = inputs; i < 3; i++)
        input[i] = input[0];
    /* An instruction reads before it writes, so y may take the slot of an input. */
    free_unused(p, index);
    const uint8_t to = take_slot(p);
    p->slot[y] = to;
    if (n->kind == TRP_DNN_RANDOM)
        add_random(p, n, to);
    else
        add_computed(p, n, type, to, input);
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

bool trp__map_compile(program *p, const trp__dnn_graph *g, uint32_t first, uint32_t count)
{
    const trp__dnn_part part = {g, first, count};
    *p = (program){.graph = g, .first = first, .count = count, .stored = -1};
    trp__dnn_places(&part, p->place);
    p->shape = &g->tensor[trp__map_output_port(&g->node[first])];
    trp__space_begin(&p->space, p->shape);
    memset(p->slot, TRP__MAP_NO_SLOT, sizeof p->slot);
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

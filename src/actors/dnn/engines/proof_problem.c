/* Determines operands, numbers and tolerances of a proof for each kind of node. */
#include "actors/dnn/engines/proof_parts.h"
#include "actors/dnn/graph/values.h"
#include "actors/dnn/lower/attention_limits.h"

#include <troupe/dnn.h>

#include <math.h>
#include <string.h>

enum { DEFAULT_VALUE_PERCENT = 75 /* a value of 0 would hide errors in its factor */ };

static const trp__dnn_node *node_of(const trp__dnn_problem *p, uint32_t n)
{
    return &p->part->graph->node[p->part->first + n];
}

static const trp__dnn_tensor *tensor_of(const trp__dnn_problem *p, uint32_t t)
{
    return &p->part->graph->tensor[t];
}

static bool is_half(uint8_t type)
{
    return type == TRP_F16 || type == TRP_BF16;
}

static bool is_f8(uint8_t type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

static bool is_whole(uint8_t type)
{
    return type == TRP_I8 || type == TRP_U8 || type == TRP_I32 || type == TRP_I64 ||
           type == TRP_BOOL;
}

static bool is_element_wise(const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_POINTWISE || node->kind == TRP_DNN_POINTWISE_BACKWARD ||
           (node->kind == TRP_DNN_RESAMPLE_FORWARD && node->mode == TRP_DNN_POOL_MAX);
}

/* Tells whether a function needs positive arguments: negative or small ones give infinities that
 * cannot be compared. */
static bool wants_positive(const trp__dnn_node *node)
{
    static const uint8_t modes[] = {TRP_DNN_DIV,  TRP_DNN_MOD,   TRP_DNN_POW,       TRP_DNN_LOG,
                                    TRP_DNN_SQRT, TRP_DNN_RSQRT, TRP_DNN_RECIPROCAL};
    for (size_t i = 0; i < sizeof modes && node->kind == TRP_DNN_POINTWISE; i++) {
        if (node->mode == modes[i])
            return true;
    }
    return false;
}

/* Describes inputs with a meaning. Returns whether the input is one. */
static bool describe_meaning(const trp__dnn_problem *p, const trp__dnn_node *node, int port,
                             trp__proof_operand *o)
{
    const trp__dnn_graph *g = p->part->graph;
    const double mean_square = 1.0 / 3; /* of uniform numbers from -1 to 1 */
    if (node->kind >= TRP_DNN_NORM_TRAINING && node->kind <= TRP_DNN_NORM_BACKWARD) {
        if (port != TRP__DNN_NORM_INV_VARIANCE && port != TRP__DNN_NORM_EPSILON &&
            !(node->kind == TRP_DNN_NORM_TRAINING &&
              (port == TRP__DNN_NORM_RUNNING_VARIANCE || port == TRP__DNN_NORM_AVERAGE_FACTOR)))
            return false;
        o->low = 0.25;
        o->high = 1;
        return true;
    }
    if (!trp__dnn_is_attention(node))
        return false;
    const trp__dnn_tensor *q = &g->tensor[node->port[TRP__DNN_ATTENTION_Q]];
    const trp__dnn_tensor *k = &g->tensor[node->port[TRP__DNN_ATTENTION_K]];
    if (port == TRP__DNN_ATTENTION_SEQ_Q) /* all rows and columns in memory */
        o->low = o->high = (double)q->dim[2];
    else if (port == TRP__DNN_ATTENTION_SEQ_KV)
        o->low = o->high = (double)k->dim[2];
    else if (port == TRP__DNN_ATTENTION_STATS) /* about the value for such rows */
        o->low = o->high = log((double)k->dim[2]) + 0.5 * node->parameter[0] * node->parameter[0] *
                                                        mean_square * mean_square *
                                                        (double)q->dim[3];
    else if (port >= TRP__DNN_ATTENTION_SEED)
        o->low = o->high = 1;
    else
        return false;
    return true;
}

/* Estimates the products summed in an element of a product's result, within a small factor: the
 * uses of the elements read are divided among the results. */
static double products_of(const trp__dnn_problem *p, const trp__dnn_node *node)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    double squared = 1;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const uint8_t t = node->port[i];
        const double count = kind->port[i].name && t != TRP__DNN_NO_PORT
                                 ? (double)trp__dnn_elements(tensor_of(p, t))
                                 : 1;
        squared = kind->port[i].written ? squared / (count > 1 ? count : 1) : squared * count;
    }
    return squared > 1 ? sqrt(squared) : 1;
}

/* Tells whether f32 is multiplied as f32. */
static bool multiplies_exactly(const trp__dnn_problem *p, const trp__dnn_node *node)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    bool exact = node->kind <= TRP_DNN_MATMUL && !p->part->graph->head->tf32;
    for (int i = 0; i < TRP__DNN_PORTS && exact; i++) {
        const uint8_t t = node->port[i];
        if (kind->port[i].name && !kind->port[i].written && t != TRP__DNN_NO_PORT)
            exact = tensor_of(p, t)->type == TRP_F32;
    }
    return exact;
}

/* Returns the tolerance if all products are f32 computed as f32, else 0. An engine that rounds to
 * tf32 has errors of up to 8e-4, Winograd's transforms of f32 some 1e-5. Operations after a product
 * may enlarge its error. */
static double exact_tolerance(const trp__dnn_problem *p)
{
    double most = 0;
    for (uint32_t n = 0; n < p->part->count; n++) {
        const trp__dnn_node *node = node_of(p, n);
        if (node->kind > TRP_DNN_MATMUL)
            continue;
        if (!multiplies_exactly(p, node))
            return 0;
        const double products = products_of(p, node);
        most = products > most ? products : most;
    }
    return most == 0 ? 0 : (p->part->count == 1 ? 5e-5 : 2e-4) + 3e-7 * sqrt(most);
}

/* Returns the tolerance of f32 sums of f16 or bf16 products: tensor cores truncate. An engine that
 * adds rounded parts has errors of 2e-3 and more. */
static double narrow_tolerance(const trp__dnn_problem *p, const trp__dnn_node *node)
{
    return 3e-4 + 2e-6 * sqrt(products_of(p, node));
}

/* Returns the allowed error of a result relative to the root mean square of all: the rounding of
 * tensor cores, and of sums of `terms` numbers in f32. */
static double scale_tolerance(const trp__dnn_problem *p, uint8_t type, double terms)
{
    double least = type == TRP_F64 ? 1e-10 : 2e-4 + 1e-6 * sqrt(terms);
    bool rounds = false; /* to tf32 */
    const double exact = exact_tolerance(p);
    if (exact > 0 && type != TRP_F64)
        least = exact;
    for (uint32_t n = 0; n < p->part->count; n++) {
        const trp__dnn_node *node = node_of(p, n);
        const bool multiplies = node->kind <= TRP_DNN_MATMUL || trp__dnn_is_attention(node);
        for (int i = 0; i < TRP__DNN_PORTS; i++) {
            const uint8_t t = node->port[i];
            if (t == TRP__DNN_NO_PORT || tensor_of(p, t)->role == TRP__DNN_VALUE)
                continue;
            const uint8_t other = tensor_of(p, t)->type;
            rounds = rounds || (multiplies && other == TRP_F32 &&
                                !trp__dnn_kind_of(node->kind)->port[i].written);
            const bool inside = p->place[t] == TRP__DNN_PLACE_INSIDE; /* rounded between nodes */
            if (multiplies && is_half(other) && least < narrow_tolerance(p, node))
                least = narrow_tolerance(p, node);
            if (inside && other == TRP_F16 && least < 4e-3)
                least = 4e-3;
            if (inside && other == TRP_BF16 && least < 2.5e-2)
                least = 2.5e-2;
            if ((multiplies && is_f8(other) && least < 2e-2) || (inside && is_f8(other)))
                least = inside ? 0.15 : 2e-2;
        }
        if (node->compute == TRP_F16 && least < 1e-2)
            least = 1e-2;
        if (node->compute == TRP_BF16 && least < 5e-2)
            least = 5e-2;
        if (trp__dnn_is_attention(node) &&
            least < 2e-2) /* weights are rounded to the inputs' type */
            least = 2e-2;
    }
    if (rounds && p->part->graph->head->tf32 && least < 5e-3 && type != TRP_F64)
        least = 5e-3;
    return least;
}

/* Returns slightly more than half a unit in the last place of a type: */
static double half_unit_of(uint8_t type)
{
    return type == TRP_F16 ? 5.5e-4 : type == TRP_BF16 ? 4.4e-3 : is_f8(type) ? 0.15 : 0;
}

/* Tells whether libraries approximate the function: hardware's tanh has 11 correct bits. */
static bool is_approximated(const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_POINTWISE &&
           (node->mode == TRP_DNN_ERF || node->mode >= TRP_DNN_TANH);
}

/* Returns how far a result may lie from the number that it is rounded from: twice as far behind
 * functions that libraries approximate. */
static double rounding_of(const trp__dnn_problem *p, uint8_t type)
{
    bool approximated = false;
    for (uint32_t n = 0; n < p->part->count; n++)
        approximated = approximated || is_approximated(node_of(p, n));
    return (approximated ? 2 : 1) * half_unit_of(type);
}

/* Returns the largest number of products or terms in an element's sum. */
static double terms_of(const trp__dnn_problem *p)
{
    double most = 1;
    for (uint32_t n = 0; n < p->part->count; n++) {
        const trp__dnn_node *node = node_of(p, n);
        double terms = 1;
        if (!is_element_wise(node)) {
            for (int i = 0; i < TRP__DNN_PORTS; i++) {
                const uint8_t t = node->port[i];
                const double count =
                    t == TRP__DNN_NO_PORT ? 0 : (double)trp__dnn_elements(tensor_of(p, t));
                terms = count > terms ? count : terms;
            }
        }
        most = terms > most ? terms : most;
    }
    return most < 1e9 ? most : 1e9;
}

static void set_range(const trp__dnn_problem *p, trp__proof_operand *o)
{
    o->low = -1;
    o->high = 1;
    if (o->type == TRP_BOOL || o->type == TRP_U8)
        o->low = 0;
    if (is_whole(o->type) && o->type != TRP_BOOL)
        o->high = 3;
    if (o->type == TRP_I8 || o->type == TRP_I32)
        o->low = -3;
    for (uint32_t n = 0; n < p->part->count; n++) {
        if (wants_positive(node_of(p, n)))
            o->low = is_whole(o->type) ? 1 : 0.25;
    }
}

static void add_operand(trp__dnn_problem *p, uint32_t n, int port, uint8_t t, double terms)
{
    const trp__dnn_tensor *tensor = tensor_of(p, t);
    const trp__dnn_kind *kind = trp__dnn_kind_of(node_of(p, n)->kind);
    trp__proof_operand *o = &p->operand[p->operands];
    *o = (trp__proof_operand){.name = kind->port[port].name ? kind->port[port].name : "a tensor",
                              .type = tensor->type,
                              .rank = tensor->rank,
                              .alignment = tensor->role == TRP__DNN_BUFFER ? tensor->alignment : 0};
    memcpy(o->dim, tensor->dim, sizeof tensor->dim);
    memcpy(o->stride, tensor->stride, sizeof tensor->stride);
    o->role = p->place[t] == TRP__DNN_PLACE_INSIDE ? TRP__PROOF_SCRATCH
              : kind->port[port].written           ? TRP__PROOF_OUTPUT
                                                   : TRP__PROOF_INPUT;
    set_range(p, o);
    if (o->role == TRP__PROOF_INPUT)
        o->ordinary_only = describe_meaning(p, node_of(p, n), port, o);
    if (o->role == TRP__PROOF_OUTPUT && !is_whole(o->type)) {
        o->of_scale = scale_tolerance(p, o->type, terms);
        o->relative = o->of_scale + rounding_of(p, o->type);
    }
    p->operand_of[t] = (uint16_t)p->operands;
    p->tensor_of[p->operands++] = t;
}

/* Adds outputs first: every tensor that a node of the part writes is an output, whoever reads
 * it. */
static void add_operands(trp__dnn_problem *p)
{
    const double terms = terms_of(p);
    for (int written = 1; written >= 0; written--) {
        for (uint32_t n = 0; n < p->part->count; n++) {
            const trp__dnn_node *node = node_of(p, n);
            const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
            for (int i = 0; i < TRP__DNN_PORTS; i++) {
                const uint8_t t = node->port[i];
                if (t == TRP__DNN_NO_PORT || p->place[t] < TRP__DNN_PLACE_INSIDE ||
                    p->place[t] == TRP__DNN_PLACE_VALUE ||
                    p->operand_of[t] != TRP__DNN_PROOF_NO_OPERAND ||
                    kind->port[i].written != (written == 1))
                    continue;
                add_operand(p, n, i, t, terms);
            }
        }
    }
    p->operand[p->operands] = (trp__proof_operand){.name = "numbers",
                                                   .role = TRP__PROOF_SCRATCH,
                                                   .type = TRP_I64,
                                                   .rank = 1,
                                                   .dim = {TRP__DNN_PROOF_NUMBERS},
                                                   .stride = {1}};
    p->tensor_of[p->operands++] = TRP__DNN_NO_PORT;
}

/* Sets values, which differ between requests; a 0 would hide errors in its factor. */
static void set_values(trp__dnn_problem *p)
{
    const trp__dnn_graph *g = p->part->graph;
    for (uint32_t t = 0; t < g->head->tensors; t++) {
        if (g->tensor[t].role != TRP__DNN_VALUE)
            continue;
        double value = g->value[t];
        if (value == 0 && g->tensor[t].type != TRP_I64)
            value = DEFAULT_VALUE_PERCENT / 100.0;
        trp__dnn_value_store(g->tensor[t].type, value, p->value[t]);
        p->number[t] = trp__dnn_value_number(g->tensor[t].type, p->value[t]);
    }
}

/* Functions behind which large numbers are about as large, or 0. */
static bool keeps_size(const trp__dnn_node *node)
{
    static const uint8_t modes[] = {TRP_DNN_IDENTITY, TRP_DNN_ADD,  TRP_DNN_SUB,  TRP_DNN_MUL,
                                    TRP_DNN_MIN,      TRP_DNN_MAX,  TRP_DNN_ABS,  TRP_DNN_NEGATE,
                                    TRP_DNN_RELU,     TRP_DNN_GELU, TRP_DNN_SWISH};
    for (size_t i = 0; i < sizeof modes && node->kind == TRP_DNN_POINTWISE; i++) {
        if (node->mode == modes[i])
            return true;
    }
    return false;
}

/* The largest number of a result's type that sums of f32 leave: of f16, and of those of 8 bits,
 * which saturate. 0: there is none, or numbers inside are of such a type, too. */
static double narrow_result(const trp__dnn_problem *p)
{
    double most = 0;
    for (uint32_t i = 0; i < p->operands; i++) {
        const trp__proof_operand *o = &p->operand[i];
        if (o->role == TRP__PROOF_OUTPUT)
            most = o->type == TRP_F16      ? 65504
                   : o->type == TRP_F8E5M2 ? 57344
                   : o->type == TRP_F8E4M3 ? 448
                                           : most;
        if (p->tensor_of[i] != TRP__DNN_NO_PORT &&
            p->place[p->tensor_of[i]] == TRP__DNN_PLACE_INSIDE && o->type != TRP_F32)
            return 0;
    }
    return most;
}

/* Large numbers for what a product multiplies, so that about half of the results leave the type in
 * either direction and no term, and no sum of f32, leaves its own. Returns whether there are some.
 */
static bool choose_leaving(trp__dnn_problem *p)
{
    const trp__dnn_node *product = node_of(p, 0);
    const double most = narrow_result(p), mean_square = 1.0 / 3; /* of numbers from -1 to 1 */
    if (product->kind > TRP_DNN_MATMUL || most == 0)
        return false;
    for (uint32_t n = 1; n < p->part->count; n++) {
        if (!keeps_size(node_of(p, n)))
            return false;
    }
    const double usual = mean_square * sqrt(products_of(p, product));
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const uint8_t t = product->port[i];
        if (t == TRP__DNN_NO_PORT || trp__dnn_kind_of(product->kind)->port[i].written)
            continue;
        trp__proof_operand *o = &p->operand[p->operand_of[t]];
        if (p->place[t] != TRP__DNN_PLACE_MEMORY || is_whole(o->type))
            return false;
        o->leaving = fmin(sqrt(1.5 * most / usual), is_f8(o->type) ? 448 : 65504);
    }
    return true;
}

/* The operand that a node reads from memory; NULL: there is none. */
static trp__proof_operand *input_of(trp__dnn_problem *p, const trp__dnn_node *node, int port)
{
    const uint8_t t = node->port[port];
    if (t == TRP__DNN_NO_PORT || p->place[t] != TRP__DNN_PLACE_MEMORY)
        return NULL;
    trp__proof_operand *o = &p->operand[p->operand_of[t]];
    return o->role == TRP__PROOF_INPUT ? o : NULL;
}

/* Deviations as large and as small as the types of a norm hold, with x and a mean that go with
 * them: engines take denormal reciprocals for 0, and cubes of huge ones are infinite. Of f16 both
 * are normal numbers. A large scale keeps results of the former from being denormal. Returns
 * whether the reciprocals are read. */
static bool choose_spread(trp__dnn_problem *p, const trp__dnn_node *node)
{
    static const int ports[] = {TRP__DNN_NORM_X, TRP__DNN_NORM_MEAN, TRP__DNN_NORM_INV_VARIANCE,
                                TRP__DNN_NORM_SCALE};
    enum { X, MEAN, INVERSE, SCALE, PORTS };
    trp__proof_operand *o[PORTS];
    int least = 126; /* the smallest normal number is 2^-126, of f16 2^-14 */
    if (node->kind != TRP_DNN_NORM_BACKWARD && node->kind != TRP_DNN_NORM_INFERENCE)
        return false;
    for (int i = 0; i < PORTS; i++) {
        o[i] = input_of(p, node, ports[i]);
        if (o[i] && i != SCALE && o[i]->type == TRP_F16)
            least = 14;
    }
    if (!o[X] || !o[INVERSE])
        return false;
    const int few = least == 14 ? 10 : 100;
    for (int i = X; i <= MEAN; i++) {
        if (!o[i])
            continue;
        o[i]->wide = ldexp(1, least);
        o[i]->tight = ldexp(1, -few);
    }
    o[INVERSE]->wide = ldexp(1, -least);
    o[INVERSE]->tight = ldexp(1, few);
    if (o[SCALE])
        o[SCALE]->wide = ldexp(1, o[SCALE]->type == TRP_F16 ? 10 : few);
    return true;
}

/* Tells whether a NaN may become 0 because the instruction for a maximum drops it. */
static bool may_lose_nan(const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_POINTWISE &&
           (node->mode == TRP_DNN_RELU || node->mode == TRP_DNN_MIN || node->mode == TRP_DNN_MAX);
}

/* Chooses the passes. Element-wise results are known for every number. Sums get no numbers that
 * overflow f32, because their order is unspecified; attention's weights depend too much on theirs.
 */
static void choose_passes(trp__dnn_problem *p)
{
    bool element_wise = true, attention = false, loses = false;
    for (uint32_t n = 0; n < p->part->count; n++) {
        element_wise = element_wise && is_element_wise(node_of(p, n));
        attention = attention || trp__dnn_is_attention(node_of(p, n));
        loses = loses || may_lose_nan(node_of(p, n));
    }
    p->passes = attention      ? TRP__PROOF_ORDINARY
                : element_wise ? TRP__PROOF_ORDINARY | TRP__PROOF_EXTREME
                               : TRP__PROOF_ORDINARY | TRP__PROOF_SATURATING;
    p->special = TRP__PROOF_LARGEST | TRP__PROOF_SMALLEST | TRP__PROOF_INFINITE | TRP__PROOF_NAN;
    if (!element_wise && loses) {
        p->passes |= TRP__PROOF_EXTREME;
        p->special = TRP__PROOF_NAN;
    }
    if (choose_leaving(p))
        p->passes |= TRP__PROOF_LEAVING;
    for (uint32_t n = 0; n < p->part->count; n++) {
        if (choose_spread(p, node_of(p, n)))
            p->passes |= TRP__PROOF_WIDE | TRP__PROOF_TIGHT;
    }
}

static bool is_read(const trp__dnn_problem *p, uint8_t t)
{
    for (uint32_t n = 0; n < p->part->count; n++) {
        const trp__dnn_node *node = node_of(p, n);
        const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
        for (int i = 0; i < TRP__DNN_PORTS; i++) {
            if (node->port[i] == t && !kind->port[i].written)
                return true;
        }
    }
    return false;
}

/* What the product writes that a part begins with. */
static uint8_t product_output(const trp__dnn_problem *p)
{
    const trp__dnn_node *product = node_of(p, 0);
    for (int i = 0; i < TRP__DNN_PORTS && product->kind <= TRP_DNN_MATMUL; i++) {
        if (product->port[i] != TRP__DNN_NO_PORT &&
            trp__dnn_kind_of(product->kind)->port[i].written)
            return product->port[i];
    }
    return TRP__DNN_NO_PORT;
}

/* An engine and the reference come to a sum that lies about halfway between two numbers of 16 bits
 * from either side of the middle. So the reference's is compared before it is rounded, unless it is
 * read on. */
static void keep_exact(trp__dnn_problem *p)
{
    const trp__dnn_graph *g = p->part->graph;
    p->exact = *g;
    p->exact.tensor = p->exact_tensor;
    memcpy(p->exact_tensor, g->tensor, g->head->tensors * sizeof *g->tensor);
    for (uint32_t i = 0; i < p->operands; i++) {
        trp__proof_operand *o = &p->operand[i];
        if (o->role != TRP__PROOF_OUTPUT || !is_half(o->type) || is_read(p, p->tensor_of[i]))
            continue;
        o->exact = p->exact_tensor[p->tensor_of[i]].type = TRP_F32;
    }
}

/* Functions bend what a product's sums are off by: of a result near 0 it is far less than a share
 * of what results usually are. So these follow the errors of their own sums, where nothing is
 * rounded to 16 bits in between, and of the function: cuBLASLt's GELU is off by up to 2^-17 x. */
static void follow_sums(trp__dnn_problem *p)
{
    const trp__dnn_graph *g = p->part->graph;
    const uint8_t sums = product_output(p);
    bool approximated = false, exact = g->head->tensors < TRP__DNN_LOWERED_TENSORS;
    if (sums == TRP__DNN_NO_PORT || p->place[sums] != TRP__DNN_PLACE_INSIDE)
        return;
    for (uint32_t n = 1; n < p->part->count; n++) {
        exact = exact && node_of(p, n)->kind == TRP_DNN_POINTWISE;
        approximated = approximated || is_approximated(node_of(p, n));
    }
    for (uint32_t i = 0; i < p->operands; i++) {
        const trp__proof_operand *o = &p->operand[i];
        const uint8_t t = p->tensor_of[i];
        exact = exact && (o->role == TRP__PROOF_INPUT || t == TRP__DNN_NO_PORT || !is_read(p, t) ||
                          o->type == TRP_F32);
    }
    for (uint32_t i = 0; i < p->operands && approximated && exact; i++) {
        trp__proof_operand *o = &p->operand[i];
        if (o->role != TRP__PROOF_OUTPUT || (o->type != TRP_F32 && !is_half(o->type)))
            continue;
        o->shifted = true;
        o->absolute = 0x1p-14; /* of x = 8, where the tail ends */
        p->tolerance = o->of_scale;
        p->sums = sums;
        p->shift = (uint8_t)g->head->tensors;
        p->exact_tensor[p->shift] = (trp__dnn_tensor){.type = TRP_F64,
                                                      .rank = 1,
                                                      .role = TRP__DNN_VALUE,
                                                      .dim = {1, 1, 1, 1, 1, 1, 1, 1},
                                                      .stride = {1}};
    }
}

/* The mean and the mean square of an input's numbers. */
static void moments_of(const trp__proof_operand *o, uint32_t pass, double *mean, double *square)
{
    const double by_scale = 8.53, by_square = 364; /* of 2^-8 to 2^6 */
    const double leaving = pass == TRP__PROOF_LEAVING && o->leaving != 0 ? o->leaving : 1;
    const bool saturating = pass == TRP__PROOF_SATURATING;
    *mean = (o->low + o->high) / 2 * leaving * (saturating ? by_scale : 1);
    *square = (o->low * o->low + o->low * o->high + o->high * o->high) / 3 * leaving * leaving *
              (saturating ? by_square : 1);
}

double trp__dnn_problem_shift(const trp__dnn_problem *p, uint32_t pass)
{
    const trp__dnn_node *product = node_of(p, 0);
    const double count = products_of(p, product);
    double all = count, square = 1;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const uint8_t t = product->port[i];
        double mean, squares;
        if (t == TRP__DNN_NO_PORT || p->operand_of[t] == TRP__DNN_PROOF_NO_OPERAND ||
            trp__dnn_kind_of(product->kind)->port[i].written)
            continue;
        moments_of(&p->operand[p->operand_of[t]], pass, &mean, &squares);
        all *= mean;
        square *= squares;
    }
    return p->tolerance * sqrt(count * square + all * all);
}

void trp__dnn_problem_describe(trp__dnn_problem *p)
{
    trp__dnn_places(p->part, p->place);
    for (uint32_t t = 0; t < TRP__DNN_LOWERED_TENSORS; t++)
        p->operand_of[t] = TRP__DNN_PROOF_NO_OPERAND;
    add_operands(p);
    keep_exact(p);
    follow_sums(p);
    set_values(p);
    choose_passes(p);
}

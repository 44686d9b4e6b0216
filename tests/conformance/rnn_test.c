/* Recurrent networks in the conformance suite: every mode, type and shape, forward and backward,
 * compared with a float64 reference. */
#include "conformance/conformance.h"
#include "support/reference/dnn_reference.h"
#include "support/reference/rnn_reference.h"

#include <math.h>

TROUPE_TEST("one isolation", "computes");

/* The arrays of a request. */
enum { X, W, H0, C0, Y, H1, C1, DY, DH1, DC1, DX, DH0, DC0, DW, ARRAYS };

enum { OFFSET = 48, MARGIN = 80 }; /* bytes around an array, which must not change */
enum { RESERVE = 1 << 20 };        /* more than any of these problems needs */

static const struct {
    const char *name;
    size_t place, value; /* offsets of the field in the request, and in the reference */
    bool written, backward;
} arrays[ARRAYS] = {
#define ROW(name, ...)                                                                             \
    {                                                                                              \
#name, offsetof(trp_rnn_request, name), offsetof(rr_problem, name), __VA_ARGS__            \
    }
    [X] = ROW(x, false, false),    [W] = ROW(w, false, false),  [H0] = ROW(h0, false, false),
    [C0] = ROW(c0, false, false),  [Y] = ROW(y, true, false),   [H1] = ROW(h1, true, false),
    [C1] = ROW(c1, true, false),   [DY] = ROW(dy, false, true), [DH1] = ROW(dh1, false, true),
    [DC1] = ROW(dc1, false, true), [DX] = ROW(dx, true, true),  [DH0] = ROW(dh0, true, true),
    [DC0] = ROW(dc0, true, true),  [DW] = ROW(dw, true, true),
#undef ROW
};

typedef struct rnn {
    rr_problem reference;
    bool backward, training;
    int32_t lengths[8];
    size_t count[ARRAYS], offset;
    double *value[ARRAYS]; /* values of inputs, and those that outputs must hold */
    bool there[ARRAYS];
    block blocks[ARRAYS + 1]; /* the last one is the reserve */
} rnn;

/* ---- what is drawn ---- */

static int64_t from(int64_t least, int64_t most)
{
    return least + (int64_t)ref_rng_below(h_rng(), (size_t)(most - least + 1));
}

static size_t bytes_of(const rnn *p, int array)
{
    return p->count[array] * (trp_dtype_bits(p->reference.net.type) / 8);
}

static void draw_net(trp_rnn *net, trp_rnn_mode mode, trp_dtype type)
{
    *net = (trp_rnn){.mode = mode,
                     .type = type,
                     .input = from(1, 9),
                     .hidden = from(1, 11),
                     .layers = from(0, 3),
                     .bidirectional = from(0, 1),
                     .no_bias = from(0, 3) == 0};
    if (mode == TRP_RNN_LSTM && net->hidden > 1 && from(0, 1))
        net->projection = from(1, net->hidden - 1);
}

static void draw_sizes(rnn *p)
{
    rr_problem *r = &p->reference;
    r->steps = from(1, 7);
    r->batch = from(1, 5);
    r->batch_first = from(0, 1);
    for (int i = 0; i < r->batch; i++)
        p->lengths[i] = (int32_t)from(1, r->steps);
    if (from(0, 2))
        r->lengths = p->lengths;
}

static void count_arrays(rnn *p)
{
    const rr_problem *r = &p->reference;
    uint64_t weights;
    H_OK(trp_rnn_weight_count(&r->net, &weights));
    for (int i = 0; i < ARRAYS; i++) {
        const bool c = i == C0 || i == C1 || i == DC0 || i == DC1;
        p->there[i] = !c || r->net.mode == TRP_RNN_LSTM;
        p->count[i] = i == X || i == DX   ? rr_vectors(r, r->net.input)
                      : i == Y || i == DY ? rr_vectors(r, (int64_t)rr_outputs(&r->net))
                      : i == W || i == DW ? (size_t)weights
                                          : rr_states(r, c);
    }
    /* Arrays that a request may leave out. */
    static const int optional[] = {H0, C0, H1, C1, DY, DH1, DC1, DX, DH0, DC0, DW};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        p->there[optional[i]] = p->there[optional[i]] && from(0, 4) > 0;
    if (!p->there[DH0] && !p->there[DC0] && !p->there[DW])
        p->there[DX] = true;
}

static void fill(rnn *p, int array)
{
    const trp_dtype type = p->reference.net.type;
    /* Larger weights would let errors grow with each step. */
    const double size = array == W ? 1.5 / sqrt(3 + (double)p->reference.net.hidden) : 1;
    for (size_t i = 0; i < p->count[array]; i++)
        p->value[array][i] = dr_round(type, ref_rng_uniform(h_rng(), -size, size));
}

/* Sets vectors after the ends of sequences, which nothing may read, to NaN. */
static void spoil_ends(rnn *p, int array)
{
    const rr_problem *r = &p->reference;
    const size_t elements = p->count[array] / (size_t)(r->steps * r->batch);
    for (int64_t t = 0; t < r->steps && r->lengths; t++) {
        for (int64_t b = 0; b < r->batch; b++) {
            const size_t at = (size_t)(r->batch_first ? b * r->steps + t : t * r->batch + b);
            for (size_t i = 0; i < elements && t >= r->lengths[b]; i++)
                p->value[array][at * elements + i] = NAN;
        }
    }
}

static void **pointer_of(rnn *p, int array)
{
    return (void **)((char *)&p->reference + arrays[array].value);
}

/* Returns how near to 0 an argument of TRP_RNN_RELU may be: a result that rounding moves across 0
 * would have another slope. A GPU's library rounds states to the type of the results. */
static double kink_of(trp_dtype type)
{
    return type == TRP_BF16 ? 4e-3 : type == TRP_F16 ? 5e-4 : 1e-4;
}

/* Draws inputs and computes outputs. NaN after the ends does not spread, as the reference does not
 * read it. */
static void draw_values(rnn *p)
{
    for (int i = 0; i < ARRAYS; i++) {
        p->value[i] = h_malloc((p->count[i] + 1) * sizeof(double));
        const bool needed =
            p->there[i] || (arrays[i].written && (i == DX || i == DH0 || i == DC0 || i == DW));
        *pointer_of(p, i) = needed ? p->value[i] : NULL;
    }
    do {
        for (int i = 0; i < ARRAYS; i++) {
            if (!arrays[i].written)
                fill(p, i);
        }
        rr_run(&p->reference);
    } while (p->reference.net.mode == TRP_RNN_RELU &&
             p->reference.kink < kink_of(p->reference.net.type));
    spoil_ends(p, X);
    spoil_ends(p, DY);
}

/* Returns whether a pass has an array. */
static bool is_taken(const rnn *p, int array, bool backward)
{
    return p->there[array] &&
           (backward ? arrays[array].backward || array <= Y : !arrays[array].backward);
}

static block make_block(size_t bytes, bool written)
{
    block b = block_make(bytes, NULL);
    memset(b.writable, written, bytes);
    return b;
}

static void lay_out(rnn *p, int array, bool tight)
{
    const size_t bytes = bytes_of(p, array);
    block *b = &p->blocks[array];
    *b = make_block(p->offset + bytes + (tight ? 0 : MARGIN), false);
    /* A backward pass also reads the outputs of the forward pass. */
    if (arrays[array].written)
        memset(b->writable + p->offset, true, bytes);
    for (size_t i = 0; i < p->count[array] && !arrays[array].written; i++)
        dr_store(p->reference.net.type, b->before + p->offset, (int64_t)i, p->value[array][i]);
}

static const cf_variant variants[] = {
    {.name = "f32", .type = TRP_F32},
    {.name = "f64", .type = TRP_F64},
    {.name = "f16", .type = TRP_F16},
    {.name = "bf16", .type = TRP_BF16},
};

/* A mode, inference or training; the last four ways are so large that a library may choose other
 * kernels. */
enum { MODES = 4, LARGE = 4 * MODES, WAYS = LARGE + MODES };

static bool draw(cf_problem *problem, unsigned way, cf_kind kind)
{
    rnn *p = h_malloc(sizeof *p);
    const trp_rnn_mode mode = (trp_rnn_mode)(way % MODES);
    const trp_dtype type = variants[problem->variant].type;
    *p = (rnn){.backward = problem->operation->op == TRP_OP_RNN_BACKWARD,
               .offset = kind == CF_TIGHT ? 0 : OFFSET};
    p->training = p->backward || way % 2;
    draw_net(&p->reference.net, mode, type);
    draw_sizes(p);
    if (way >= LARGE && type == TRP_F32 && kind != CF_TIGHT)
        p->reference = (rr_problem){.net = {.mode = mode,
                                            .type = TRP_F32,
                                            .input = 24,
                                            .hidden = 40,
                                            .layers = 1,
                                            .bidirectional = way % 2 == 0},
                                    .steps = 9,
                                    .batch = 6};
    count_arrays(p);
    draw_values(p);
    for (int i = 0; i < ARRAYS; i++) {
        if (p->there[i] && (p->backward || is_taken(p, i, false)))
            lay_out(p, i, kind == CF_TIGHT);
    }
    if (p->training)
        p->blocks[ARRAYS] = make_block(RESERVE, true);
    problem->own = p;
    problem->blocks = p->blocks;
    problem->block_count = ARRAYS + 1;
    return true;
}

/* ---- the request ---- */

static trp_rnn_request request_of(const rnn *p, bool backward)
{
    const rr_problem *r = &p->reference;
    trp_rnn_request q = {.net = r->net,
                         .steps = r->steps,
                         .batch = r->batch,
                         .batch_first = r->batch_first,
                         .lengths = r->lengths,
                         .training = p->training && !backward};
    for (int i = 0; i < ARRAYS; i++) {
        if (is_taken(p, i, backward))
            *(trp_rnn_place *)((char *)&q + arrays[i].place) =
                (trp_rnn_place){p->blocks[i].buffer, p->offset};
    }
    q.reserve.buffer = p->blocks[ARRAYS].buffer;
    return q;
}

static void make_request(const cf_problem *problem, void *out)
{
    const rnn *p = problem->own;
    *(trp_rnn_request *)out = request_of(p, p->backward);
}

/* A forward pass, which fills the reserve, precedes a backward pass. The backward pass is sent
 * twice: the first one must leave the reserve as it is. */
static trp_status send(trp_actor *dnn, const cf_problem *problem, trp_completion *done)
{
    const rnn *p = problem->own;
    const trp_rnn_request forward = request_of(p, false), backward = request_of(p, true);
    if (!p->backward)
        return trp_rnn_forward(dnn, &forward, done);
    trp_status status = trp_rnn_forward(dnn, &forward, NULL);
    if (status == TRP_OK)
        status = trp_rnn_backward(dnn, &backward, NULL);
    return status == TRP_OK ? trp_rnn_backward(dnn, &backward, done) : status;
}

/* ---- comparison ---- */

/* Returns the bound for results near 1 of a few hundred operations. A GPU's library rounds states
 * between steps to the type of the results. */
static double bound_of(trp_dtype type)
{
    const double unit = type == TRP_F64   ? 1e-13
                        : type == TRP_F32 ? 4e-6
                        : type == TRP_F16 ? 2e-3
                                          : 1.6e-2;
    return h_is_gpu() ? 8 * unit : unit;
}

static bool right(const rnn *p, int array, cf_tally *tally)
{
    const trp_rnn *n = &p->reference.net;
    const double *wanted = p->value[array], bound = bound_of(n->type);
    double off = 0, size = 0;
    for (size_t i = 0; i < p->count[array]; i++) {
        const double got = dr_load(n->type, p->blocks[array].after + p->offset, (int64_t)i);
        off += (got - wanted[i]) * (got - wanted[i]);
        size += wanted[i] * wanted[i];
        if (wanted[i] == 0 && fabs(got) > bound)
            off = INFINITY;
    }
    const double share = sqrt(off) / (bound * (sqrt(size) + 0.1));
    if (share <= 1) {
        tally->worst = fmax(tally->worst, share);
        return true;
    }
    fprintf(stderr,
            "%s: off by %g of %g: mode %d, %s, input %d, hidden %d, projection %d, layers %d, "
            "bidirectional %d, no_bias %d, %d steps, batch %d, lengths %d\n",
            arrays[array].name, sqrt(off), sqrt(size), (int)n->mode, trp_dtype_name(n->type),
            (int)n->input, (int)n->hidden, (int)n->projection, (int)n->layers, n->bidirectional,
            n->no_bias, (int)p->reference.steps, (int)p->reference.batch,
            p->reference.lengths != NULL);
    return false;
}

static bool check(cf_problem *problem, cf_tally *tally)
{
    const rnn *p = problem->own;
    for (int i = 0; i < ARRAYS; i++) {
        if (p->blocks[i].before && arrays[i].written && !right(p, i, tally))
            return false;
    }
    return true;
}

static void drop(cf_problem *problem)
{
    rnn *p = problem->own;
    for (int i = 0; i < ARRAYS; i++)
        free(p->value[i]);
    free(p);
}

/* ---- the operations ---- */

#define HAS(array) ((cf_has)1 << (array))
#define PLACE(array, x, needed)                                                                    \
    {                                                                                              \
#x, offsetof(trp_rnn_request, x.buffer), offsetof(trp_rnn_request, x.offset), HAS(array),  \
            needed, TRP_E_ARGUMENT                                                                 \
    }
#define FIELD(field, what, ...)                                                                    \
    {                                                                                              \
        .name = #field, .role = what, .at = offsetof(trp_rnn_request, field), .has = HAS(ARRAYS),  \
        __VA_ARGS__                                                                                \
    }
static const cf_operand operands[] = {
    PLACE(X, x, HAS(X)), PLACE(W, w, HAS(W)), PLACE(H0, h0, 0), PLACE(C0, c0, 0),
    PLACE(Y, y, HAS(Y)), PLACE(H1, h1, 0),    PLACE(C1, c1, 0), PLACE(DY, dy, 0),
    PLACE(DH1, dh1, 0),  PLACE(DC1, dc1, 0),  PLACE(DX, dx, 0), PLACE(DH0, dh0, 0),
    PLACE(DC0, dc0, 0),  PLACE(DW, dw, 0),
};
static const cf_field fields[] = {
    FIELD(net.type, CF_TYPE),   FIELD(net.mode, CF_OPTION, .limit = 4),
    FIELD(net.input, CF_COUNT), FIELD(net.hidden, CF_COUNT),
    FIELD(steps, CF_COUNT),     FIELD(batch, CF_COUNT),
};
static const cf_family family = {
    .operands = operands,
    .operand_count = sizeof operands / sizeof *operands,
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .request_bytes = sizeof(trp_rnn_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
};

#define OPERATION(of, code, arrays_of, written)                                                    \
    {                                                                                              \
        .name = of, .op = code, .family = &family, .variants = variants,                           \
        .variant_count = sizeof variants / sizeof *variants, .ways = WAYS, .runs_again = true,     \
        .has = (arrays_of) | HAS(ARRAYS), .writes = written                                        \
    }
static const cf_operation operations[] = {
    OPERATION("rnn_forward", TRP_OP_RNN_FORWARD, HAS(DY) - 1, HAS(Y) | HAS(H1) | HAS(C1)),
    OPERATION("rnn_backward", TRP_OP_RNN_BACKWARD, (HAS(ARRAYS) - HAS(DY)) | (HAS(H1) - 1),
              HAS(ARRAYS) - HAS(DX)),
};

int main(int argc, char **argv)
{
    const cf_actor dnn = {.kind = "dnn",
                          .title = "dnn: recurrent networks",
                          .operations = operations,
                          .count = 2,
                          .rounds = 40};
    return cf_main(argc, argv, &dnn);
}

/* Recurrent networks of every mode, type and shape, forward and backward, against a float64
 * reference; and gradients against differences of what the actor computes forward.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/dnn_reference.h"
#include "support/harness.h"
#include "support/reference/rnn_reference.h"

#include <math.h>

TROUPE_TEST("one isolation");

/* The arrays of a request. */
enum { X, W, H0, C0, Y, H1, C1, DY, DH1, DC1, DX, DH0, DC0, DW, ARRAYS };

enum { OFFSET = 48, MARGIN = 80 }; /* bytes around an array, that must stay as they are */

static const struct {
    const char *name;
    size_t place, value; /* in the request and in the reference */
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

typedef struct problem {
    rr_problem reference;
    int32_t lengths[8];
    size_t count[ARRAYS];
    double *value[ARRAYS]; /* what is read, and what must be written */
    trp_buffer buffer[ARRAYS], reserve;
    bool there[ARRAYS];
} problem;

static h_world world;
static trp_actor *dnn;

static void open_world(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
}

static int64_t from(int64_t least, int64_t most)
{
    return least + (int64_t)ref_rng_below(h_rng(), (size_t)(most - least + 1));
}

static size_t bytes_of(const problem *p, int array)
{
    return p->count[array] * (trp_dtype_bits(p->reference.net.type) / 8);
}

/* Problems. */

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

static void draw_sizes(problem *p)
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

static void count_arrays(problem *p)
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
    /* Each of these may be left out. */
    static const int optional[] = {H0, C0, H1, C1, DY, DH1, DC1, DX, DH0, DC0, DW};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        p->there[optional[i]] = p->there[optional[i]] && from(0, 4) > 0;
}

static void fill(problem *p, int array)
{
    const trp_dtype type = p->reference.net.type;
    /* Larger weights would let errors grow from step to step. */
    const double size = array == W ? 1.5 / sqrt(3 + (double)p->reference.net.hidden) : 1;
    for (size_t i = 0; i < p->count[array]; i++)
        p->value[array][i] = dr_round(type, ref_rng_uniform(h_rng(), -size, size));
}

/* Vectors behind the ends of sequences, of which nobody may see anything, are NaN. */
static void spoil_ends(problem *p, int array)
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

static void **pointer_of(problem *p, int array)
{
    return (void **)((char *)&p->reference + arrays[array].value);
}

/* How near to 0 an argument of TRP_RNN_RELU may come: results off by rounding must not fall on the
 * other side, where the slope is another. A GPU's library rounds states to the type of the results.
 */
static double kink_of(trp_dtype type)
{
    return type == TRP_BF16 ? 4e-3 : type == TRP_F16 ? 5e-4 : 1e-4;
}

/* Draws what is read and computes what must be written; NaN behind ends goes nowhere there, since
 * the reference does not look. */
static void draw_values(problem *p)
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

static void upload(problem *p, int array)
{
    const size_t bytes = bytes_of(p, array) + OFFSET + MARGIN;
    char *data = h_malloc(bytes);
    memset(data, 0xff, bytes);
    for (size_t i = 0; i < p->count[array] && !arrays[array].written; i++)
        dr_store(p->reference.net.type, data + OFFSET, (int64_t)i, p->value[array][i]);
    p->buffer[array] = h_buffer(world.device, bytes);
    h_write(world.device, p->buffer[array], 0, data, bytes);
    free(data);
}

static void make(problem *p, trp_rnn_mode mode, trp_dtype type)
{
    *p = (problem){0};
    draw_net(&p->reference.net, mode, type);
    draw_sizes(p);
    count_arrays(p);
    draw_values(p);
    for (int i = 0; i < ARRAYS; i++) {
        if (p->there[i])
            upload(p, i);
    }
}

static void drop(problem *p)
{
    for (int i = 0; i < ARRAYS; i++) {
        if (p->there[i])
            trp_buffer_free(world.device, p->buffer[i]);
        free(p->value[i]);
    }
    if (p->reserve.id)
        trp_buffer_free(world.device, p->reserve);
}

/* Requests. */

static trp_rnn_request request_of(const problem *p, bool backward, bool training)
{
    const rr_problem *r = &p->reference;
    trp_rnn_request q = {.net = r->net,
                         .steps = r->steps,
                         .batch = r->batch,
                         .batch_first = r->batch_first,
                         .lengths = r->lengths,
                         .training = training};
    for (int i = 0; i < ARRAYS; i++) {
        const bool taken = backward ? arrays[i].backward || i <= Y : !arrays[i].backward;
        if (p->there[i] && taken)
            *(trp_rnn_place *)((char *)&q + arrays[i].place) =
                (trp_rnn_place){p->buffer[i], OFFSET};
    }
    if (training || backward)
        q.reserve.buffer = p->reserve;
    return q;
}

static uint64_t reserve_bytes(const problem *p)
{
    uint64_t bytes = 0;
    trp_rnn_request q = {.net = p->reference.net,
                         .steps = p->reference.steps,
                         .batch = p->reference.batch,
                         .lengths = p->reference.lengths,
                         .reserve_bytes = &bytes};
    trp_completion done = {0};
    H_OK(trp_rnn_reserve(dnn, &q, &done));
    H_OK(h_await_any(done));
    H_CHECK(bytes > 0);
    return bytes;
}

static void await(trp_status sent, trp_completion done)
{
    H_OK(sent);
    H_OK(h_await_any(done));
}

static void forward(problem *p, bool training)
{
    trp_completion done = {0};
    if (training && !p->reserve.id) {
        const uint64_t bytes = reserve_bytes(p);
        p->reserve = h_buffer(world.device, bytes);
        h_fill(world.device, p->reserve, 0xffffffff);
    }
    const trp_rnn_request q = request_of(p, false, training);
    await(trp_rnn_forward(dnn, &q, &done), done);
}

static bool has_gradient(const problem *p)
{
    return p->there[DX] || p->there[DH0] || p->there[DC0] || p->there[DW];
}

static void backward(problem *p)
{
    trp_completion done = {0};
    const trp_rnn_request q = request_of(p, true, false);
    await(trp_rnn_backward(dnn, &q, &done), done);
}

/* Comparison. */

static double *download(const problem *p, int array, bool margins)
{
    const size_t bytes = bytes_of(p, array) + OFFSET + MARGIN;
    unsigned char *data = h_malloc(bytes);
    double *v = h_malloc((p->count[array] + 1) * sizeof *v);
    h_read(world.device, p->buffer[array], 0, data, bytes);
    for (size_t i = 0; i < bytes && margins; i++) {
        if ((i < OFFSET || i >= bytes - MARGIN) && data[i] != 0xff)
            h_fail(__FILE__, __LINE__, "%s: byte %zu around it was written", arrays[array].name, i);
    }
    for (size_t i = 0; i < p->count[array]; i++)
        v[i] = dr_load(p->reference.net.type, data + OFFSET, (int64_t)i);
    free(data);
    return v;
}

/* How far results of a few hundred operations, the values of which are around 1, may be off. A
 * GPU's library keeps states between steps in the type of the results. */
static double bound_of(trp_dtype type)
{
    const double unit = type == TRP_F64   ? 1e-13
                        : type == TRP_F32 ? 4e-6
                        : type == TRP_F16 ? 2e-3
                                          : 1.6e-2;
    return h_is_gpu() ? 8 * unit : unit;
}

static void compare(const problem *p, int array)
{
    double *got = download(p, array, true), off = 0, size = 0;
    const double *wanted = p->value[array];
    for (size_t i = 0; i < p->count[array]; i++) {
        off += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        size += wanted[i] * wanted[i];
        if (wanted[i] == 0 && fabs(got[i]) > bound_of(p->reference.net.type))
            off = INFINITY;
    }
    if (!(sqrt(off) <= bound_of(p->reference.net.type) * (sqrt(size) + 0.1))) {
        const trp_rnn *n = &p->reference.net;
        h_fail(__FILE__, __LINE__,
               "%s: off by %g of %g: mode %d, %s, input %d, hidden %d, projection %d, layers %d, "
               "bidirectional %d, no_bias %d, %d steps, batch %d, lengths %d",
               arrays[array].name, sqrt(off), sqrt(size), (int)n->mode, trp_dtype_name(n->type),
               (int)n->input, (int)n->hidden, (int)n->projection, (int)n->layers, n->bidirectional,
               n->no_bias, (int)p->reference.steps, (int)p->reference.batch,
               p->reference.lengths != NULL);
    }
    free(got);
}

static void compare_all(const problem *p, bool backward_too)
{
    for (int i = 0; i < ARRAYS; i++) {
        if (p->there[i] && arrays[i].written && (backward_too || !arrays[i].backward))
            compare(p, i);
    }
}

static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_F16, TRP_BF16};

static void forward_passes(void)
{
    open_world();
    for (int i = 0; i < (H_SANITIZED ? 48 : 160); i++) {
        problem p;
        make(&p, (trp_rnn_mode)(i % 4), types[i / 4 % 4]);
        forward(&p, i % 3 == 0);
        compare_all(&p, false);
        drop(&p);
    }
    h_close(&world);
}

/* Twice, to see that the reserve is still what it was. */
static void backward_passes(void)
{
    open_world();
    for (int i = 0; i < (H_SANITIZED ? 48 : 160); i++) {
        problem p;
        make(&p, (trp_rnn_mode)(i % 4), types[i / 4 % 4]);
        forward(&p, true);
        compare_all(&p, false);
        for (int k = 0; k < 2 && has_gradient(&p); k++) {
            backward(&p);
            compare_all(&p, true);
        }
        drop(&p);
    }
    h_close(&world);
}

/* Large enough that a library may choose other kernels than for small ones. */
static void larger_ones(void)
{
    open_world();
    for (int i = 0; i < 4; i++) {
        problem p = {0};
        p.reference = (rr_problem){.net = {.mode = (trp_rnn_mode)i,
                                           .type = TRP_F32,
                                           .input = 24,
                                           .hidden = 40,
                                           .layers = 1,
                                           .bidirectional = i % 2 == 0},
                                   .steps = 9,
                                   .batch = 6};
        count_arrays(&p);
        draw_values(&p);
        for (int k = 0; k < ARRAYS; k++) {
            if (p.there[k])
                upload(&p, k);
        }
        forward(&p, true);
        if (has_gradient(&p))
            backward(&p);
        compare_all(&p, has_gradient(&p));
        drop(&p);
    }
    h_close(&world);
}

/* Differences. */

/* <y, dy> + <h1, dh1> + <c1, dc1>, with an input a step away along a direction. */
static double along(problem *p, int array, const double *direction, double step)
{
    const size_t bytes = bytes_of(p, array);
    double *old = p->value[array], *moved = h_malloc(bytes), loss = 0;
    for (size_t i = 0; i < p->count[array]; i++)
        moved[i] = old[i] + step * direction[i];
    h_write(world.device, p->buffer[array], OFFSET, moved, bytes);
    forward(p, true);
    h_write(world.device, p->buffer[array], OFFSET, old, bytes);
    for (int i = Y; i <= C1; i++) {
        const int given = i - Y + DY;
        if (!p->there[i] || !p->there[given])
            continue;
        double *result = download(p, i, true);
        for (size_t k = 0; k < p->count[i]; k++)
            loss += isnan(p->value[given][k]) ? 0 : result[k] * p->value[given][k];
        free(result);
    }
    free(moved);
    return loss;
}

static void check_slope(problem *p, int array, int gradient)
{
    const double step = 1e-5;
    double *direction = h_malloc((p->count[array] + 1) * sizeof *direction);
    double slope = 0, size = 1;
    if (!p->there[array] || !p->there[gradient])
        goto out;
    forward(p, true);
    backward(p);
    double *g = download(p, gradient, true);
    for (size_t i = 0; i < p->count[array]; i++) {
        direction[i] = isnan(p->value[array][i]) ? 0 : ref_rng_uniform(h_rng(), -1, 1);
        slope += g[i] * direction[i];
        size += fabs(g[i] * direction[i]);
    }
    const double ahead = along(p, array, direction, step);
    const double behind = along(p, array, direction, -step);
    const double difference = (ahead - behind) / (2 * step);
    if (!(fabs(difference - slope) <= 1e-7 * size))
        h_fail(__FILE__, __LINE__, "%s, mode %d, dropout %g: slope %.12g, difference %.12g",
               arrays[gradient].name, (int)p->reference.net.mode, p->reference.net.dropout, slope,
               difference);
    free(g);
out:
    free(direction);
}

/* With dropout too, since what is dropped out stays the same. Rectifiers have no slope at 0, which
 * the reference alone knows how to avoid, without dropout. */
static void slopes(void)
{
    open_world();
    for (int i = 0; i < (H_SANITIZED ? 12 : 40); i++) {
        problem p;
        make(&p, (trp_rnn_mode)(i % 4), TRP_F64);
        if (i % 4 != TRP_RNN_RELU && i % 2)
            p.reference.net.dropout = 0.4;
        p.reference.net.seed = (uint64_t)i;
        /* A loss of all results, or gradients would be 0 where it is not looked. */
        if ((!p.there[H1] && p.there[DH1]) || (!p.there[C1] && p.there[DC1])) {
            drop(&p);
            continue;
        }
        check_slope(&p, X, DX);
        check_slope(&p, W, DW);
        check_slope(&p, H0, DH0);
        check_slope(&p, C0, DC0);
        drop(&p);
    }
    h_close(&world);
}

/* Dropout: the second layer hands on what it reads. */
static void dropouts(void)
{
    enum { WIDE = 16, STEPS = 40, BATCH = 10, ALL = STEPS * BATCH * WIDE };
    float *w = calloc(4 * WIDE * WIDE, sizeof *w), *x = h_malloc(ALL * sizeof *x);
    float *y = h_malloc(ALL * sizeof *y), *again = h_malloc(ALL * sizeof *again);
    open_world();
    for (int i = 0; i < WIDE; i++) /* w_ih of both layers */
        w[i * WIDE + i] = w[2 * WIDE * WIDE + i * WIDE + i] = 1;
    for (int i = 0; i < ALL; i++)
        x[i] = 1;
    problem p = {.reference = {.net = {.mode = TRP_RNN_RELU,
                                       .type = TRP_F32,
                                       .input = WIDE,
                                       .hidden = WIDE,
                                       .layers = 2,
                                       .no_bias = true,
                                       .dropout = 0.25,
                                       .seed = ref_rng_next(h_rng())},
                               .steps = STEPS,
                               .batch = BATCH}};
    const size_t sizes[ARRAYS] = {[X] = ALL * 4, [W] = 4 * WIDE * WIDE * 4, [Y] = ALL * 4};
    for (int i = 0; i < ARRAYS; i++) {
        p.there[i] = sizes[i] > 0;
        if (p.there[i])
            p.buffer[i] = h_buffer(world.device, OFFSET + sizes[i]);
    }
    h_write(world.device, p.buffer[X], OFFSET, x, ALL * 4);
    h_write(world.device, p.buffer[W], OFFSET, w, 4 * WIDE * WIDE * 4);
    for (int round = 0; round < 3; round++) {
        double gone = 0;
        p.reference.net.seed += round == 2;
        forward(&p, true);
        h_read(world.device, p.buffer[Y], OFFSET, y, ALL * 4);
        for (int i = 0; i < ALL; i++) {
            if (y[i] != 0 && fabs(y[i] - 1 / 0.75) > 1e-3)
                h_fail(__FILE__, __LINE__, "element %d is %g", i, (double)y[i]);
            gone += y[i] == 0;
        }
        H_CHECK(fabs(gone / ALL - 0.25) < 0.04);
        H_CHECK(round == 0 || (memcmp(y, again, ALL * 4) == 0) == (round == 1));
        memcpy(again, y, ALL * 4);
    }
    forward(&p, false); /* not in inference */
    h_read(world.device, p.buffer[Y], OFFSET, y, ALL * 4);
    H_CHECK(memcmp(x, y, ALL * 4) == 0);
    drop(&p);
    free(again);
    free(y);
    free(x);
    free(w);
    h_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"forward_passes", forward_passes},
        {"backward_passes", backward_passes},
        {"larger_ones", larger_ones},
        {"slopes", slopes},
        {"dropouts", dropouts},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

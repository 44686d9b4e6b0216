/* Measures the memory-bound calls of <troupe/training.h> and random numbers: each row sends one
 * request back to back, in turns with a device copy of as many bytes as the request must move. */
#include "rows.h"
#include "bench/suite/filled.h"

#include <troupe/training.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { BUFFERS = 12 };

/* --- one request --- */

typedef struct work {
    suite *suite;
    trp_actor *actor;
    trp_dtype type; /* of the row */
    const int64_t *dim;
    const unsigned char *piece, *positive, *indices;
    bool good;

    trp_status (*send)(const struct work *w, const trp_request *header,
                       const trp_dnn_options *options, trp_completion *completion);
    bool backward;
    trp_optimizer_request optimizer;
    trp_cross_entropy_request entropy;
    trp_embedding_request embedding;
    trp_rotary_request rotary;
    trp_glu_request glu;
    trp_loss_request loss;
    trp_top_k_request pick;
    trp_sample_request sample;
    trp_dnn_tensor drawn;
    trp_dnn_random random;

    trp_buffer buffers[BUFFERS], copied[2];
    size_t buffer_count;
    double bytes; /* bytes that must be read and written, each counted once */
    trp_dnn_ran ran;
} work;

/* Adds a tensor in memory, filled with random numbers or poison; its bytes are counted. */
static trp_dnn_tensor memory(work *w, trp_dtype type, uint32_t rank, const int64_t *dim,
                             const unsigned char *piece)
{
    trp_dnn_tensor t = {.type = type, .rank = rank};
    uint64_t bytes = trp_dtype_bits(type) / 8;
    for (uint32_t i = 0; i < rank; i++) {
        t.dim[i] = dim[i];
        bytes *= (uint64_t)dim[i];
    }
    w->good = w->good && w->buffer_count < BUFFERS &&
              filled_buffer(w->suite, piece, bytes, &w->buffers[w->buffer_count]);
    if (!w->good)
        return t;
    t.buffer = w->buffers[w->buffer_count++];
    w->bytes += (double)bytes;
    return t;
}

static trp_dnn_tensor reads(work *w, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    return memory(w, type, rank, dim, w->piece);
}

static trp_dnn_tensor writes(work *w, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    return memory(w, type, rank, dim, NULL);
}

static trp_dnn_tensor one(work *w)
{
    return writes(w, TRP_F32, 1, (const int64_t[]){1});
}

/* --- calls --- */

#define SEND(name, field, call)                                                                    \
    static trp_status send_##name(const work *w, const trp_request *header,                        \
                                  const trp_dnn_options *options, trp_completion *completion)      \
    {                                                                                              \
        trp_##field##_request r = w->field;                                                        \
        r.header = *header;                                                                        \
        r.options = *options;                                                                      \
        return call(w->actor, &r, completion);                                                     \
    }
#define trp_entropy_request trp_cross_entropy_request
#define trp_pick_request    trp_top_k_request
SEND(optimizer, optimizer, trp_optimizer)
SEND(entropy, entropy, trp_cross_entropy)
SEND(embedding, embedding, (w->backward ? trp_embedding_backward : trp_embedding_forward))
SEND(rotary, rotary, trp_rotary_forward)
SEND(glu, glu, (w->backward ? trp_glu_backward : trp_glu_forward))
SEND(loss, loss, trp_loss)
SEND(arg, pick, trp_arg)
SEND(top_k, pick, trp_top_k)
SEND(sample, sample, trp_sample)
#undef SEND

static trp_status send_random(const work *w, const trp_request *header,
                              const trp_dnn_options *options, trp_completion *completion)
{
    const trp_dnn_tensor tensors[] = {{0}, trp_dnn_integer(42), w->drawn};
    const trp_dnn_node node = {.kind = TRP_DNN_RANDOM, .random = w->random, .seed = 1, .y = 2};
    const trp_dnn_graph_request r = {.header = *header,
                                     .tensors = tensors,
                                     .tensor_count = COUNT_OF(tensors),
                                     .nodes = &node,
                                     .node_count = 1,
                                     .options = *options};
    return trp_dnn_graph(w->actor, &r, completion);
}

/* --- rows --- */

enum { CLIPS = 16 }; /* the norm of the gradients is clipped */

/* Updates in place: reads and writes w and the moments. */
static void build_optimizer(work *w, int what)
{
    const trp_dnn_optimizer mode = (trp_dnn_optimizer)(what & ~CLIPS);
    trp_optimizer_request *r = &w->optimizer;
    const int moments = mode == TRP_DNN_SGD || mode == TRP_DNN_LION ? 1 : 2;
    r->optimizer = mode;
    r->w = reads(w, TRP_F32, 1, w->dim);
    for (int i = 0; i < moments; i++)
        r->moment[i] = memory(w, TRP_F32, 1, w->dim, w->positive);
    w->bytes *= 2;
    r->dw = reads(w, w->type, 1, w->dim);
    if (w->type == TRP_BF16)
        r->narrow = writes(w, TRP_BF16, 1, w->dim);
    r->rate = trp_real(1e-9);
    r->step = mode == TRP_DNN_LION ? 0 : 10;
    if (mode == TRP_DNN_SGD)
        r->momentum = trp_real(0.9);
    if (what & CLIPS) { /* clipping reads the gradients a second time */
        r->max_norm = trp_real(1);
        w->bytes += (double)w->dim[0] * trp_dtype_bits(w->type) / 8;
    }
    w->send = send_optimizer;
}

static void build_entropy(work *w, int gradient)
{
    const int64_t row_dim[] = {w->dim[0], 1};
    w->entropy.logits = reads(w, w->type, 2, w->dim);
    w->entropy.labels = memory(w, TRP_I32, 2, row_dim, w->indices);
    w->entropy.loss = one(w);
    if (gradient)
        w->entropy.dlogits = writes(w, w->type, 2, w->dim);
    w->send = send_entropy;
}

/* dim: rows of the table, width, indices. Forward counts only the rows of the table that indices
 * select. */
static void build_embedding(work *w, int backward)
{
    const int64_t slices[] = {w->dim[2], w->dim[1]};
    w->backward = backward;
    w->embedding.index = memory(w, TRP_I32, 1, &w->dim[2], w->indices);
    if (backward) {
        w->embedding.dy = reads(w, w->type, 2, slices);
        w->embedding.dtable = writes(w, TRP_F32, 2, w->dim);
    } else {
        const double before = w->bytes;
        w->embedding.table = reads(w, w->type, 2, w->dim);
        w->bytes = before;
        w->embedding.y = writes(w, w->type, 2, slices);
        w->bytes += w->bytes - before;
    }
    w->send = send_embedding;
}

static void build_rotary(work *w, int mode)
{
    w->rotary.mode = (trp_dnn_rotary)mode;
    w->rotary.x = reads(w, w->type, 4, w->dim);
    w->rotary.y = writes(w, w->type, 4, w->dim);
    w->send = send_rotary;
}

static void build_glu(work *w, int what)
{
    w->backward = what & 1;
    w->glu.activation.mode = what & 2 ? TRP_DNN_GELU_TANH : TRP_DNN_SWISH;
    w->glu.gate = reads(w, w->type, 2, w->dim);
    w->glu.up = reads(w, w->type, 2, w->dim);
    if (w->backward) {
        w->glu.dy = reads(w, w->type, 2, w->dim);
        w->glu.dgate = writes(w, w->type, 2, w->dim);
        w->glu.dup = writes(w, w->type, 2, w->dim);
    } else {
        w->glu.y = writes(w, w->type, 2, w->dim);
    }
    w->send = send_glu;
}

static void build_loss(work *w, int mode)
{
    w->loss.mode = (trp_dnn_loss)mode;
    w->loss.x = reads(w, w->type, 1, w->dim);
    w->loss.target = memory(w, w->type, 1, w->dim, w->positive);
    w->loss.loss = one(w);
    w->loss.dx = writes(w, w->type, 1, w->dim);
    w->send = send_loss;
}

static void build_random(work *w, int random)
{
    w->random = (trp_dnn_random)random;
    w->drawn = writes(w, w->type, 1, w->dim);
    w->send = send_random;
}

/* dim: rows, classes, picked elements. */
static void build_pick(work *w, int what)
{
    const int64_t picked[] = {w->dim[0], what == 1 ? w->dim[2] : 1};
    w->pick.x = w->sample.logits = reads(w, w->type, 2, w->dim);
    w->pick.axis = 1;
    w->pick.index = w->sample.index = writes(w, TRP_I32, 2, picked);
    if (what == 1)
        w->pick.values = writes(w, w->type, 2, picked);
    w->sample.seed = trp_dnn_integer(42);
    w->send = what == 0 ? send_arg : what == 1 ? send_top_k : send_sample;
}

typedef enum rank { FLAT, LOGITS, TABLES, HEADS, WIDE, DRAWS, RANKS } rank;

enum { SHAPES = 4 };

static const int64_t shapes[RANKS][SHAPES][4] = {
    [FLAT] = {{1 << 16}, {1 << 24}, {1 << 27}},
    [LOGITS] = {{64, 8192, 40}, {4096, 8192, 40}, {4096, 32000, 40}, {4096, 50257, 40}},
    [TABLES] = {{1000, 64, 512}, {50257, 768, 4096}, {50257, 768, 65536}, {50257, 4096, 16384}},
    [HEADS] = {{1, 4, 128, 64}, {8, 16, 2048, 64}, {4, 32, 4096, 128}},
    [WIDE] = {{64, 1024}, {8192, 11008}},
    [DRAWS] = {{64, 8192, 40}, {64, 50257, 40}},
};

/* The kinds of request, measured for each type and shape. */
static const struct {
    const char *name;
    void (*build)(work *w, int what);
    int what;
    rank rank;
} rows[] = {
    {"uniform", build_random, TRP_DNN_UNIFORM, FLAT},
    {"normal", build_random, TRP_DNN_NORMAL, FLAT},
    {"bernoulli", build_random, TRP_DNN_BERNOULLI, FLAT},
    {"sgd", build_optimizer, TRP_DNN_SGD, FLAT},
    {"adam", build_optimizer, TRP_DNN_ADAM, FLAT},
    {"adamw", build_optimizer, TRP_DNN_ADAMW, FLAT},
    {"adamw clipped", build_optimizer, TRP_DNN_ADAMW + CLIPS, FLAT},
    {"lion", build_optimizer, TRP_DNN_LION, FLAT},
    {"cross entropy", build_entropy, 0, LOGITS},
    {"cross entropy grad", build_entropy, 1, LOGITS},
    {"embedding", build_embedding, 0, TABLES},
    {"embedding grad", build_embedding, 1, TABLES},
    {"rotary halves", build_rotary, TRP_DNN_ROTARY_HALVES, HEADS},
    {"rotary pairs", build_rotary, TRP_DNN_ROTARY_PAIRS, HEADS},
    {"swiglu", build_glu, 0, WIDE},
    {"swiglu grad", build_glu, 1, WIDE},
    {"geglu", build_glu, 2, WIDE},
    {"geglu grad", build_glu, 3, WIDE},
    {"mse", build_loss, TRP_DNN_MSE, FLAT},
    {"bce", build_loss, TRP_DNN_BCE_LOGITS, FLAT},
    {"arg max", build_pick, 0, LOGITS},
    {"top k", build_pick, 1, DRAWS},
    {"sample", build_pick, 2, DRAWS},
};

/* --- both sides --- */

static trp_status send(work *w, trp_dnn_ran *ran, trp_completion *completion)
{
    const trp_request header = {.wait_ns = TRP_FOREVER,
                                .deadline_ns = completion ? DNN_LONGEST_NS : 0};
    const trp_dnn_options options = {.ran = ran};
    return w->send(w, &header, &options, completion);
}

static bool drain(work *w)
{
    return suite_check(w->suite, trp_device_drain(w->suite->device, DNN_LONGEST_NS),
                       "trp_device_drain");
}

static bool run(void *context, uint64_t count)
{
    work *w = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(w->suite, send(w, NULL, NULL), "a request"))
            return false;
    }
    return drain(w);
}

static bool run_copy(void *context, uint64_t count)
{
    enum { MAILBOX = 512 }; /* a copy request does not wait for mailbox space */
    work *w = context;
    for (uint64_t i = 0; i < count; i++) {
        if (i % MAILBOX == MAILBOX - 1 && !drain(w))
            return false;
        if (!suite_check(w->suite,
                         trp_copy(w->suite->device, w->copied[0], 0, w->copied[1], 0,
                                  (uint64_t)(w->bytes / 2), NULL),
                         "trp_copy"))
            return false;
    }
    return drain(w);
}

static bool time_both(suite *s, work *w, report_row *row)
{
    const stats_side ours = {run, w}, copy = {run_copy, w};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    placement where;
    plan.count = stats_calibrate(ours, s->quick ? 3e6 : 10e6, 10000);
    plan.warm = plan.count / 8 + 1;
    plan.placement = &where;
    placement_begin(&where, s->device, false);
    bool good = plan.count > 0 && suite_time(s, &plan, copy, ours, row);
    placement_end(&where);
    return good;
}

static void measure(const dnn_rows *section, work *w, const char *name)
{
    suite *s = w->suite;
    trp_completion done = {0};
    report_row row = {.section = section->section,
                      .raw = "a copy of as many bytes",
                      .type = trp_dtype_name(w->type),
                      .unit = "GB/s",
                      .rate = true,
                      .scale = w->bytes};
    snprintf(row.name, sizeof row.name, "%s", name);
    for (int i = 0; i < 2 && w->good; i++)
        w->good = filled_buffer(s, w->piece, (uint64_t)(w->bytes / 2) + 1, &w->copied[i]);
    if (!w->good || !suite_await(s, send(w, &w->ran, &done), &done, "the first request") ||
        !time_both(s, w, &row)) {
        suite_fail(s, row.section, row.name);
        return;
    }
    snprintf(row.note, sizeof row.note, "%s%.30s", w->ran.parts > 1 ? "pieces " : "",
             w->ran.engine);
    report_add(s->report, &row);
}

typedef struct section {
    dnn_rows rows;
    unsigned char *piece, *positive, *indices;
} section;

static void run_row(void *context, trp_actor *actor, size_t i)
{
    static const trp_dtype types[] = {TRP_F32, TRP_BF16};
    const section *c = context;
    suite *s = c->rows.suite;
    const size_t first = suite_on_gpu(s) ? 1 : 0, count = suite_on_gpu(s) ? SHAPES : 1;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t k = first; k < count; k++) {
            const int64_t *dim = shapes[rows[i].rank][k];
            char name[sizeof((report_row *)0)->name];
            if (dim[0] == 0 || dnn_rows_late(&c->rows))
                continue;
            work w = {.suite = s,
                      .actor = actor,
                      .type = types[t],
                      .dim = dim,
                      .piece = c->piece,
                      .positive = c->positive,
                      .indices = c->indices,
                      .good = true};
            size_t n = (size_t)snprintf(name, sizeof name, "%s %s ", rows[i].name,
                                        trp_dtype_name(types[t]));
            for (int d = 0; d < 4 && dim[d] > 0 && n < sizeof name; d++)
                n += (size_t)snprintf(name + n, sizeof name - n, "%s%lld", d ? "x" : "",
                                      (long long)dim[d]);
            rows[i].build(&w, rows[i].what);
            measure(&c->rows, &w, name);
            suite_free(s, w.buffers, w.buffer_count);
            suite_free(s, w.copied, COUNT_OF(w.copied));
        }
    }
}

/* Fills the piece with indices below the row and class counts of all shapes above. */
static void fill_indices(unsigned char *piece, uint64_t seed, bool gpu)
{
    const uint32_t most = gpu ? 8192 : 1000;
    uint64_t state = seed | 1;
    for (size_t i = 0; i < FILLED_PIECE / sizeof(int32_t); i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int32_t index = (int32_t)((uint32_t)(state >> 33) % most);
        memcpy(piece + i * sizeof index, &index, sizeof index);
    }
}

void suite_dnn_training(suite *s)
{
    section c = {.rows = dnn_rows_begin(s, "training"),
                 .piece = malloc(FILLED_PIECE),
                 .positive = malloc(FILLED_PIECE),
                 .indices = malloc(FILLED_PIECE)};
    report_section(s->report, "What a training step needs: bytes that must move by time",
                   "raw: a device copy of as many bytes, by turns; Troupe: submit all, then drain");
    if (c.piece && c.positive && c.indices) {
        filled_piece(TRP_BF16, c.piece, s->seed); /* two of them form an f32 of similar magnitude */
        for (size_t i = 0; i < FILLED_PIECE; i++)
            c.positive[i] = c.piece[i] & 0x7f;
        fill_indices(c.indices, s->seed, suite_on_gpu(s));
        dnn_rows_run(&c.rows, COUNT_OF(rows), run_row, &c);
    } else {
        suite_fail(s, "training", "no memory");
    }
    free(c.piece);
    free(c.positive);
    free(c.indices);
}

#include "elements.h"
#include "bench/suite/filled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef elements_work work;

/* Shapes by rank; a shape of zeros ends a list. The first of each list is the host backend's, the
 * others are those of a GPU. */
enum { SHAPES = 8 };
static const int64_t shapes[][SHAPES][4] = {
    [FLAT] =
        {{1 << 12}, {1 << 12}, {1 << 16}, {1 << 20}, {1 << 22}, {1 << 24}, {1 << 26}, {1 << 28}},
    [MATRIX] = {{64, 64}, {4096, 768}, {4096, 4096}, {65536, 1024}, {1024, 65536}},
    [WIDTHS] =
        {{32, 128}, {262144, 128}, {32768, 1024}, {4096, 8192}, {2048, 50257}, {64, 1000003}},
    [IMAGES] = {{2, 32, 8, 8}, {32, 64, 112, 112}, {64, 256, 56, 56}, {64, 1024, 14, 14}},
    [IMAGES_LAST] = {{2, 32, 8, 8}, {32, 64, 112, 112}, {64, 256, 56, 56}, {64, 1024, 14, 14}},
    [UPDATES] = {{1 << 16}, {1 << 24}, {1 << 27}},
    [LOGITS] = {{64, 8192, 40}, {4096, 8192, 40}, {4096, 32000, 40}, {4096, 50257, 40}},
    [TABLES] = {{1000, 64, 512}, {50257, 768, 4096}, {50257, 768, 65536}, {50257, 4096, 16384}},
    [HEADS] = {{1, 4, 128, 64}, {8, 16, 2048, 64}, {4, 32, 4096, 128}},
    [WIDE] = {{64, 1024}, {8192, 11008}},
    [DRAWS] = {{64, 8192, 40}, {64, 50257, 40}},
};

trp_dnn_tensor elements_memory(work *w, trp_dtype type, uint32_t rank, const int64_t *dim,
                               const unsigned char *piece)
{
    trp_dnn_tensor t = {.type = type, .rank = rank};
    uint64_t bytes = trp_dtype_bits(type) / 8;
    for (uint32_t i = 0; i < rank; i++) {
        t.dim[i] = dim[i];
        bytes *= (uint64_t)dim[i];
    }
    if (w->last && rank > 2)
        trp_dnn_channels_last(&t);
    w->good = w->good && w->buffer_count < BUFFERS &&
              filled_buffer(w->suite, piece, bytes, &w->buffers[w->buffer_count]);
    if (!w->good)
        return t;
    t.buffer = w->buffers[w->buffer_count++];
    w->bytes += (double)bytes;
    return t;
}

/* "softmax fwd bf16 4096x8192", "batch norm fwd f32 64x256x56x56 nhwc" */
static void name_of(const elements_row *row, trp_dtype type, const int64_t *dim, char *out,
                    size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s %s ", row->name, trp_dtype_name(type));
    for (int i = 0; i < 4 && dim[i] > 0 && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? "x" : "", (long long)dim[i]);
    if (row->rank == IMAGES_LAST && n < size)
        snprintf(out + n, size - n, " nhwc");
}

/* --- both sides --- */

static trp_status send_graph(const work *w, const trp_request *header,
                             const trp_dnn_options *options, trp_completion *completion)
{
    const trp_dnn_graph_request r = {.header = *header,
                                     .tensors = w->tensors,
                                     .tensor_count = w->tensor_count,
                                     .nodes = w->nodes,
                                     .node_count = w->node_count,
                                     .options = *options};
    return trp_dnn_graph(w->actor, &r, completion);
}

static trp_status send(work *w, trp_dnn_ran *ran, trp_completion *completion)
{
    const trp_request header = {.wait_ns = TRP_FOREVER,
                                .deadline_ns = completion ? DNN_LONGEST_NS : 0};
    const trp_dnn_options options = {
        .ran = ran, .tune = suite_on_gpu(w->suite) ? w->suite->tune : TRP_TUNE_OFF};
    return w->send(w, &header, &options, completion);
}

static bool run(void *context, uint64_t count)
{
    work *w = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(w->suite, send(w, NULL, NULL), "a request"))
            return false;
    }
    return suite_drain(w->suite, DNN_LONGEST_NS);
}

static bool run_copy(void *context, uint64_t count)
{
    enum { MAILBOX = 512 }; /* a copy request does not wait for mailbox space */
    work *w = context;
    for (uint64_t i = 0; i < count; i++) {
        if (i % MAILBOX == MAILBOX - 1 && !suite_drain(w->suite, DNN_LONGEST_NS))
            return false;
        if (!suite_check(w->suite,
                         trp_copy(w->suite->device, w->copied[0], 0, w->copied[1], 0,
                                  (uint64_t)(w->bytes / 2), NULL),
                         "trp_copy"))
            return false;
    }
    return suite_drain(w->suite, DNN_LONGEST_NS);
}

/* The figure is bytes per second and the ratio compares it with the copy; PyTorch's figure is in
 * the note. */
static void measure(work *w, const char *name)
{
    suite *s = w->suite;
    const stats_side ours = {run, w}, copy = {run_copy, w};
    trp_completion done = {0};
    report_row row = {.raw = "a copy of as many bytes",
                      .type = trp_dtype_name(w->type),
                      .unit = "GB/s",
                      .rate = true,
                      .scale = w->bytes};
    snprintf(row.name, sizeof row.name, "%s", name);
    for (int i = 0; i < 2 && w->good; i++)
        w->good = filled_buffer(s, w->piece, (uint64_t)(w->bytes / 2) + 1, &w->copied[i]);
    if (!w->good || !suite_await(s, send(w, &w->ran, &done), &done, "the first request") ||
        !suite_time_blocks(s, 5, 10e6, false, copy, ours, &row)) {
        suite_fail(s, row.name);
        return;
    }
    const double torch = dnn_torch_ns(s, row.name);
    char beside[16] = "";
    if (torch > 0)
        snprintf(beside, sizeof beside, "torch %.2fx ", torch / row.troupe_ns.p50);
    snprintf(row.note, sizeof row.note, "%s%s%.*s", beside, w->ran.parts > 1 ? "pieces " : "",
             torch > 0 ? 16 : 30, w->ran.engine);
    report_add(s->report, &row);
}

typedef struct section {
    dnn_rows rows;
    const elements_row *row;
    unsigned char *piece, *positive, *indices;
} section;

/* Runs all types and shapes of a row. */
static void run_row(void *context, trp_actor *actor, size_t i)
{
    static const trp_dtype types[] = {TRP_F32, TRP_BF16};
    const section *c = context;
    const elements_row *row = &c->row[i];
    suite *s = c->rows.suite;
    const size_t first = suite_on_gpu(s) ? 1 : 0, count = suite_on_gpu(s) ? SHAPES : 1;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t k = first; k < count; k++) {
            const int64_t *dim = shapes[row->rank][k];
            if (dim[0] == 0 || (row->only && row->only != types[t]) || dnn_rows_late(&c->rows))
                continue;
            char name[sizeof((report_row *)0)->name];
            work w = {.suite = s,
                      .actor = actor,
                      .type = types[t],
                      .last = row->rank == IMAGES_LAST,
                      .dim = dim,
                      .piece = c->piece,
                      .positive = c->positive,
                      .indices = c->indices,
                      .good = true,
                      .send = send_graph,
                      .tensor_count = 1};
            name_of(row, types[t], dim, name, sizeof name);
            row->build(&w, row->what);
            measure(&w, name);
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

void elements_measure(suite *s, const elements_row *rows, size_t count)
{
    section c = {.rows = dnn_rows_begin(s),
                 .row = rows,
                 .piece = malloc(FILLED_PIECE),
                 .positive = malloc(FILLED_PIECE),
                 .indices = malloc(FILLED_PIECE)};
    if (c.piece && c.positive && c.indices) {
        filled_piece(TRP_BF16, c.piece, s->seed); /* two of them form an f32 of similar magnitude */
        for (size_t i = 0; i < FILLED_PIECE; i++)
            c.positive[i] = c.piece[i] & 0x7f;
        fill_indices(c.indices, s->seed, suite_on_gpu(s));
        dnn_rows_run(&c.rows, count, run_row, &c);
    } else {
        suite_fail(s, "no memory");
    }
    free(c.piece);
    free(c.positive);
    free(c.indices);
}

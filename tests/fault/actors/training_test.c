/* Training while workers die: an embedding, linear layers, a norm, a loss and an optimizer, whose
 * steps read one set of parameters and write the other. What comes out is the same to the bit as
 * without any death. SPDX-License-Identifier: Apache-2.0 */
#include "support/faults/killer.h"
#include "support/label.h"

#include <troupe/training.h>

TROUPE_TEST("many workers");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn", "FAKE_CUDA_REPORT_MS=1");

enum { ROWS = 48, WIDTH = 32, CLASSES = 40, STEPS = 12 };
/* Parameters: the table, which is the last layer too, a layer and the norm's scale. */
enum { TABLE = 0, LAYER = CLASSES * WIDTH, SCALE = LAYER + WIDTH * WIDTH, COUNT = SCALE + WIDTH };
enum { X, H, SUM, Y, INV, LOGITS, DLOGITS, DY, DSUM, DX, DTABLE, VALUES };

typedef struct net {
    trp_device *device;
    trp_actor *dnn;
    trp_dnn_tensor state[2][3], grads, index, value[VALUES], loss[STEPS], skipped;
    trp_buffer arena; /* that all tensors lie in; 0: each has a buffer */
    uint64_t used;    /* of it */
} net;

static trp_dnn_tensor make(net *n, trp_dtype type, int64_t rows, int64_t columns)
{
    const uint64_t bytes = (uint64_t)(rows * columns) * 4;
    trp_dnn_tensor t = {.type = type, .rank = 2, .dim = {rows, columns}, .buffer = n->arena};
    if (t.buffer.id == 0)
        t.buffer = h_buffer(n->device, bytes);
    else
        t.offset = n->used;
    n->used += (bytes + 63) / 64 * 64;
    return t;
}

static trp_dnn_tensor part(trp_dnn_tensor all, int64_t at, int64_t rows)
{
    all.offset += (uint64_t)at * sizeof(float);
    all.dim[0] = rows;
    all.dim[1] = WIDTH;
    return all;
}

static void send_step(const net *n, int step, trp_completion *done)
{
    const trp_dnn_tensor *from = n->state[step % 2], *to = n->state[(step + 1) % 2], *v = n->value;
    const trp_dnn_tensor table = part(from[0], TABLE, CLASSES), w = part(from[0], LAYER, WIDTH);
    trp_dnn_tensor index = n->index;
    index.rank = 1;
    trp_embedding_request embed = {.table = table, .index = index, .y = v[X]};
    H_OK(trp_embedding_forward(n->dnn, &embed, NULL));
    trp_linear_request linear = {.x = v[X], .w = w, .y = v[H]};
    H_OK(trp_linear_forward(n->dnn, &linear, NULL));
    trp_residual_norm_request norm = {.mode = TRP_DNN_RMS,
                                      .x = v[H],
                                      .residual = v[X],
                                      .sum = v[SUM],
                                      .scale = part(from[0], SCALE, 1),
                                      .y = v[Y],
                                      .inv_variance = v[INV]};
    H_OK(trp_residual_norm_forward(n->dnn, &norm, NULL));
    linear = (trp_linear_request){.x = v[Y], .w = table, .y = v[LOGITS]};
    H_OK(trp_linear_forward(n->dnn, &linear, NULL));
    const trp_cross_entropy_request loss = {.logits = v[LOGITS],
                                            .labels = index,
                                            .smoothing = 0.1,
                                            .loss = n->loss[step],
                                            .dlogits = v[DLOGITS]};
    H_OK(trp_cross_entropy(n->dnn, &loss, NULL));
    linear =
        (trp_linear_request){.dy = v[DLOGITS], .x = v[Y], .w = table, .dx = v[DY], .dw = v[DTABLE]};
    H_OK(trp_linear_backward(n->dnn, &linear, NULL));
    norm = (trp_residual_norm_request){.mode = TRP_DNN_RMS,
                                       .sum = v[SUM],
                                       .scale = part(from[0], SCALE, 1),
                                       .inv_variance = v[INV],
                                       .dy = v[DY],
                                       .dx = v[DSUM],
                                       .dscale = part(n->grads, SCALE, 1)};
    H_OK(trp_residual_norm_backward(n->dnn, &norm, NULL));
    linear = (trp_linear_request){.dy = v[DSUM],
                                  .x = v[X],
                                  .w = w,
                                  .dx = v[DX],
                                  .add_dx = v[DSUM],
                                  .dw = part(n->grads, LAYER, WIDTH)};
    H_OK(trp_linear_backward(n->dnn, &linear, NULL));
    embed = (trp_embedding_request){.index = index,
                                    .dy = v[DX],
                                    .add_dtable = v[DTABLE],
                                    .dtable = part(n->grads, TABLE, CLASSES)};
    H_OK(trp_embedding_backward(n->dnn, &embed, NULL));
    const trp_parameter_segment segments[] = {
        {.offset = TABLE, .count = SCALE, .decay = trp_real(0.1)},
        {.offset = SCALE, .count = WIDTH}};
    const trp_optimizer_request update = {.optimizer = TRP_DNN_ADAMW,
                                          .w = from[0],
                                          .dw = n->grads,
                                          .moment = {from[1], from[2]},
                                          .new_w = to[0],
                                          .new_moment = {to[1], to[2]},
                                          .rate = trp_real(0.01),
                                          .step = (uint64_t)step + 1,
                                          .max_norm = trp_real(1),
                                          .segments = segments,
                                          .segment_count = 2,
                                          .skipped = n->skipped};
    *done = (trp_completion){0};
    H_OK(trp_optimizer(n->dnn, &update, done));
}

/* All steps from the same start; a worker dies at some time before `span`, if it is not 0. */
static int64_t walk(const net *n, const float *start, int64_t span, float *losses, float *end)
{
    static const float zeros[COUNT];
    const int64_t begin = h_now();
    trp_completion done[STEPS];
    h_killer killer;
    for (int i = 0; i < 3; i++)
        h_write(n->device, n->state[0][i].buffer, n->state[0][i].offset, i == 0 ? start : zeros,
                sizeof zeros);
    h_killer_start(&killer, n->device, span > 0, span);
    for (int i = 0; i < STEPS; i++)
        send_step(n, i, &done[i]);
    for (int i = 0; i < STEPS; i++)
        H_OK(h_await_any(done[i]));
    const int64_t took = h_now() - begin;
    h_killer_end(&killer);
    for (int i = 0; i < STEPS; i++)
        h_read(n->device, n->loss[i].buffer, n->loss[i].offset, &losses[i], sizeof *losses);
    const trp_dnn_tensor *w = &n->state[STEPS % 2][0];
    h_read(n->device, w->buffer, w->offset, end, COUNT * sizeof *end);
    return took;
}

static void train(bool in_one_buffer)
{
    static const int columns[VALUES] = {
        [X] = WIDTH,    [H] = WIDTH,        [SUM] = WIDTH,       [Y] = WIDTH,
        [INV] = 1,      [LOGITS] = CLASSES, [DLOGITS] = CLASSES, [DY] = WIDTH,
        [DSUM] = WIDTH, [DX] = WIDTH,       [DTABLE] = WIDTH};
    h_world w = h_open(NULL);
    net n = {.device = w.device, .dnn = h_actor(w.device, "dnn")};
    if (in_one_buffer)
        n.arena = h_buffer(w.device, H_MIB);
    float start[COUNT], wanted[STEPS], got[STEPS], last[COUNT], end[COUNT];
    int32_t index[ROWS];
    for (int i = 0; i < 6; i++)
        n.state[i / 3][i % 3] = make(&n, TRP_F32, 1, COUNT);
    n.grads = make(&n, TRP_F32, 1, COUNT);
    n.skipped = make(&n, TRP_I32, 1, 1);
    n.index = make(&n, TRP_I32, ROWS, 1);
    n.index.dim[1] = 0;
    for (int i = 0; i < VALUES; i++)
        n.value[i] = make(&n, TRP_F32, i == DTABLE ? CLASSES : ROWS, columns[i]);
    for (int i = 0; i < STEPS; i++)
        n.loss[i] = make(&n, TRP_F32, 1, 1);
    for (int i = 0; i < COUNT; i++)
        start[i] = (float)ref_rng_uniform(h_rng(), -0.2, 0.2);
    for (int i = 0; i < ROWS; i++)
        index[i] = (int32_t)ref_rng_below(h_rng(), CLASSES);
    H_CHECK(n.used <= H_MIB);
    h_write(w.device, n.index.buffer, n.index.offset, index, sizeof index);
    walk(&n, start, 0, wanted, last); /* makes the plans */
    const int64_t span = walk(&n, start, 0, wanted, last);
    H_CHECK(wanted[STEPS - 1] < wanted[0]);
    for (int round = 0; round < 40 && (round < 5 || h_info(w.device).restarts < 4); round++) {
        walk(&n, start, span, got, end);
        H_SAME(got, wanted, sizeof wanted);
        H_SAME(end, last, sizeof last);
    }
    H_CHECK_DEATHS(w.device, span);
    h_close(&w);
}

static void buffers_for_all(void)
{
    train(false);
}

static void one_buffer(void)
{
    train(true);
}

H_CASES_OF_PROCESSES(H_CASE(buffers_for_all), H_CASE(one_buffer))

/* Attention with dropout, to keys in pages, while workers die: a request that runs again on the
 * next worker drops the same weights, in both passes, so that all that is made of them is the same
 * to the bit as without any death. SPDX-License-Identifier: Apache-2.0 */
#include "support/faults/killer.h"
#include "support/label.h"

#include <troupe/dnn.h>

TROUPE_TEST("many workers");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn", "FAKE_CUDA_REPORT_MS=1");

enum { BATCHES = 2, HEADS = 2, ROWS = 16, DEPTH = 8, PAGES = 6, SIZE = 4, EACH = ROWS / SIZE };
enum { COUNT = BATCHES * HEADS * ROWS * DEPTH, STEPS = 16, BYTES = COUNT * sizeof(float) };
enum { SEED = 1, STEP, X, PAGE, TABLE, ROW, COLUMN, K, V, Y, STATS, DQ, DK, DV, TENSORS };

typedef struct buffers {
    trp_buffer x[STEPS + 1], dq[STEPS];
    trp_buffer seed, pages, table, lengths, values, dkv; /* dkv: row by row, dk and dv */
} buffers;

static trp_completion done[STEPS];

/* x and what is in pages to the next x, and to a gradient; the seed lies in memory, and the step is
 * the offset. */
static void send_step(trp_actor *dnn, const buffers *b, int step)
{
    static const int64_t dim[] = {BATCHES, HEADS, ROWS, DEPTH};
    const trp_dnn_tensor counts = {
        .type = TRP_I32, .rank = 4, .dim = {BATCHES, 1, 1, 1}, .buffer = b->lengths};
    trp_dnn_tensor t[TENSORS] = {
        [SEED] = {.type = TRP_I64, .rank = 1, .dim = {1}, .buffer = b->seed},
        [STEP] = trp_dnn_integer((uint64_t)step),
        [X] = {.buffer = b->x[step]},
        [PAGE] = {.type = TRP_F32,
                  .rank = 4,
                  .dim = {PAGES, HEADS, SIZE, DEPTH},
                  .buffer = b->pages},
        [TABLE] = {.type = TRP_I32, .rank = 4, .dim = {BATCHES, 1, EACH, 1}, .buffer = b->table},
        [ROW] = counts,
        [COLUMN] = counts,
        [V] = {.buffer = b->values},
        [Y] = {.buffer = b->x[step + 1]},
        [DQ] = {.buffer = b->dq[step]},
        [DK] = {.buffer = b->dkv},
        [DV] = {.buffer = b->dkv, .offset = DEPTH * sizeof(float)},
    };
    for (int i = DK; i <= DV; i++) {
        t[i].stride[3] = 1;
        t[i].stride[2] = 2 * DEPTH;
        t[i].stride[1] = ROWS * t[i].stride[2];
        t[i].stride[0] = HEADS * t[i].stride[1];
    }
    static const int whole[] = {X, V, Y, DQ, DK, DV};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        t[whole[i]].type = TRP_F32;
        t[whole[i]].rank = 4;
        memcpy(t[whole[i]].dim, dim, sizeof dim);
    }
    trp_dnn_node nodes[] = {
        {.kind = TRP_DNN_PAGED_LOAD, .x = PAGE, .table = TABLE, .seq_kv = COLUMN, .y = K},
        {.kind = TRP_DNN_ATTENTION,
         .q = X,
         .k = K,
         .v = V,
         .y = Y,
         .stats = STATS,
         .seq_q = ROW,
         .seq_kv = COLUMN,
         .seed = SEED,
         .offset = STEP},
        {0}};
    nodes[1].parameter[1] = trp_real(0.5);
    nodes[2] = nodes[1];
    nodes[2].kind = TRP_DNN_ATTENTION_BACKWARD;
    nodes[2].dy = X;
    nodes[2].dq = DQ;
    nodes[2].dk = DK;
    nodes[2].dv = DV;
    const trp_dnn_graph_request r = {
        .tensors = t, .tensor_count = TENSORS, .nodes = nodes, .node_count = 3};
    done[step] = (trp_completion){0};
    H_OK(trp_dnn_graph(dnn, &r, &done[step]));
}

/* All steps; a worker dies at some time before `span`, if it is not 0. How long they took. */
static int64_t walk(const h_world *w, trp_actor *dnn, const buffers *b, int64_t span)
{
    const int64_t begin = h_now();
    h_killer killer;
    h_killer_start(&killer, w->device, span);
    for (int i = 0; i < STEPS; i++)
        send_step(dnn, b, i);
    for (int i = 0; i < STEPS; i++)
        H_OK(h_await_any(done[i]));
    const int64_t took = h_now() - begin;
    h_killer_end(&killer);
    return took;
}

static trp_buffer random_buffer(const h_world *w, size_t count)
{
    float *data = h_malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)ref_rng_uniform(h_rng(), -1, 1);
    const trp_buffer b = h_buffer(w->device, count * sizeof *data);
    h_write(w->device, b, 0, data, count * sizeof *data);
    free(data);
    return b;
}

static buffers make_buffers(const h_world *w)
{
    buffers b = {.seed = h_buffer(w->device, sizeof(uint64_t))};
    int32_t entry[BATCHES * EACH], length[BATCHES] = {ROWS, ROWS - 3};
    uint64_t key;
    h_random_bytes(h_rng(), &key, sizeof key);
    for (int i = 0; i < BATCHES * EACH; i++)
        entry[i] = (int32_t)ref_rng_below(h_rng(), PAGES);
    for (int i = 0; i <= STEPS; i++)
        b.x[i] = random_buffer(w, COUNT);
    for (int i = 0; i < STEPS; i++)
        b.dq[i] = random_buffer(w, COUNT);
    b.pages = random_buffer(w, PAGES * HEADS * SIZE * DEPTH);
    b.values = random_buffer(w, COUNT);
    b.dkv = random_buffer(w, 2 * COUNT);
    b.table = h_buffer(w->device, sizeof entry);
    b.lengths = h_buffer(w->device, sizeof length);
    h_write(w->device, b.seed, 0, &key, sizeof key);
    h_write(w->device, b.table, 0, entry, sizeof entry);
    h_write(w->device, b.lengths, 0, length, sizeof length);
    return b;
}

/* Reads results and gradients of all steps; dk and dv of the last. */
static void read_all(const h_world *w, const buffers *b, float *out)
{
    for (int i = 0; i < STEPS; i++) {
        h_read(w->device, b->x[i + 1], 0, out + (size_t)(2 * i) * COUNT, BYTES);
        h_read(w->device, b->dq[i], 0, out + (size_t)(2 * i + 1) * COUNT, BYTES);
    }
    h_read(w->device, b->dkv, 0, out + (size_t)(2 * STEPS) * COUNT, 2 * BYTES);
}

static void dropout(void)
{
    const size_t bytes = (2 * STEPS + 2) * (size_t)BYTES;
    h_world w = h_open(NULL);
    trp_actor *dnn = h_actor(w.device, "dnn");
    const buffers b = make_buffers(&w);
    float *wanted = h_malloc(bytes), *got = h_malloc(bytes);
    int64_t span = walk(&w, dnn, &b, 0); /* the first has to make the plan */
    span = walk(&w, dnn, &b, 0);
    read_all(&w, &b, wanted);
    for (int round = 0; round < 40 && (round < 4 || h_info(w.device).restarts < 3); round++) {
        for (int i = 0; i < STEPS; i++) {
            h_fill(w.device, b.x[i + 1], 0xffffffff);
            h_fill(w.device, b.dq[i], 0xffffffff);
        }
        h_fill(w.device, b.dkv, 0xffffffff);
        walk(&w, dnn, &b, span);
        read_all(&w, &b, got);
        H_SAME(got, wanted, bytes);
    }
    H_CHECK_DEATHS(w.device, span);
    free(wanted);
    free(got);
    h_close(&w);
}

static const h_case cases[] = {{"dropout", dropout}};

int main(int argc, char **argv)
{
    h_need_process_isolation();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

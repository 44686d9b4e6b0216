/* Dropout while workers die: a request that runs again on the next worker draws the same numbers,
 * so that all that is made of them is the same to the bit as without any death.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/faults/killer.h"
#include "support/label.h"

#include <troupe/dnn.h>

TROUPE_TEST("many workers");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn", "FAKE_CUDA_REPORT_MS=1");

enum { COUNT = 4096, STEPS = 24, BYTES = COUNT * sizeof(float) };
enum { SEED = 1, STEP, MASK, X, DROPPED, TWICE, NOISE, Y, TENSORS };

static trp_completion done[STEPS];

/* y = 2 x mask + noise, a step from one buffer to the next; the seed lies in memory, and the step
 * is the offset. */
static void send_step(trp_actor *dnn, trp_buffer seed, const trp_buffer *x, int step)
{
    const trp_dnn_tensor flat = {.type = TRP_F32, .rank = 1, .dim = {COUNT}};
    trp_dnn_tensor t[TENSORS] = {[SEED] = {.type = TRP_I64, .rank = 1, .dim = {1}, .buffer = seed},
                                 [STEP] = trp_dnn_integer((uint64_t)step),
                                 [MASK] = flat,
                                 [X] = flat,
                                 [TWICE] = {.value = trp_real(2)},
                                 [NOISE] = flat,
                                 [Y] = flat};
    t[X].buffer = x[0];
    t[Y].buffer = x[1];
    const trp_dnn_node nodes[] = {
        {.kind = TRP_DNN_RANDOM,
         .random = TRP_DNN_BERNOULLI,
         .seed = SEED,
         .offset = STEP,
         .y = MASK},
        {.kind = TRP_DNN_RANDOM,
         .random = TRP_DNN_NORMAL,
         .seed = STEP,
         .offset = SEED,
         .y = NOISE},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MUL, .x = X, .b = MASK, .y = DROPPED},
        {.kind = TRP_DNN_POINTWISE,
         .pointwise = TRP_DNN_MUL,
         .x = DROPPED,
         .b = TWICE,
         .y = TENSORS},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = TENSORS, .b = NOISE, .y = Y}};
    trp_dnn_tensor all[TENSORS + 1] = {{0}};
    memcpy(all, t, sizeof t);
    const trp_dnn_graph_request r = {
        .tensors = all, .tensor_count = TENSORS + 1, .nodes = nodes, .node_count = 5};
    done[step] = (trp_completion){0};
    H_OK(trp_dnn_graph(dnn, &r, &done[step]));
}

/* All steps; a worker dies at some time before `span`, if it is not 0. How long they took. */
static int64_t walk(const h_world *w, trp_actor *dnn, trp_buffer seed, const trp_buffer *x,
                    int64_t span)
{
    const int64_t begin = h_now();
    h_killer killer;
    h_killer_start(&killer, w->device, span);
    for (int i = 0; i < STEPS; i++)
        send_step(dnn, seed, x + i, i);
    for (int i = 0; i < STEPS; i++)
        H_OK(h_await_any(done[i]));
    const int64_t took = h_now() - begin;
    h_killer_end(&killer);
    return took;
}

static void dropout(void)
{
    h_world w = h_open(NULL);
    trp_actor *dnn = h_actor(w.device, "dnn");
    trp_buffer x[STEPS + 1], seed = h_buffer(w.device, sizeof(uint64_t));
    float first[COUNT], *wanted = h_malloc(STEPS * (size_t)BYTES), *got = h_malloc(BYTES);
    uint64_t key;
    h_random_bytes(h_rng(), &key, sizeof key);
    for (int i = 0; i < COUNT; i++)
        first[i] = (float)ref_rng_uniform(h_rng(), -1, 1);
    for (int i = 0; i <= STEPS; i++)
        x[i] = h_buffer(w.device, BYTES);
    h_write(w.device, seed, 0, &key, sizeof key);
    h_write(w.device, x[0], 0, first, BYTES);
    int64_t span = walk(&w, dnn, seed, x, 0); /* the first has to make the plan */
    span = walk(&w, dnn, seed, x, 0);
    for (int i = 0; i < STEPS; i++)
        h_read(w.device, x[i + 1], 0, wanted + (size_t)i * COUNT, BYTES);
    H_CHECK(memcmp(wanted, wanted + COUNT, BYTES) != 0);
    for (int round = 0; round < 40 && (round < 4 || h_info(w.device).restarts < 3); round++) {
        for (int i = 1; i <= STEPS; i++)
            h_fill(w.device, x[i], 0xffffffff);
        walk(&w, dnn, seed, x, span);
        for (int i = 0; i < STEPS; i++) {
            h_read(w.device, x[i + 1], 0, got, BYTES);
            H_SAME(got, wanted + (size_t)i * COUNT, BYTES);
        }
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

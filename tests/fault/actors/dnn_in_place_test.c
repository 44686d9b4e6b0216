/* A request that writes over what it reads, while workers die: it happens once or not at all. Where
 * a worker dies in it it fails, what it writes is lost, and those behind it are refused; else all
 * of them are done. SPDX-License-Identifier: Apache-2.0 */
#include "support/faults/killer.h"
#include "support/label.h"

#include <troupe/dnn.h>

TROUPE_TEST_FAKE_GPU("no tsan", "dnn", "FAKE_CUDA_REPORT_MS=1");

enum { COUNT = 1 << 16, STEPS = 24 };

static trp_completion done[STEPS];

/* x = x + 1 */
static void send_step(trp_actor *dnn, trp_buffer x, int step)
{
    enum { NONE, X, ONE, Y, TENSORS };
    const trp_dnn_tensor place = {.type = TRP_F32, .rank = 1, .dim = {COUNT}, .buffer = x};
    const trp_dnn_tensor t[TENSORS] = {[X] = place, [ONE] = {.value = trp_real(1)}, [Y] = place};
    const trp_dnn_node n = {
        .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = X, .b = ONE, .y = Y};
    const trp_dnn_graph_request r = {
        .tensors = t, .tensor_count = TENSORS, .nodes = &n, .node_count = 1};
    done[step] = (trp_completion){0};
    H_OK(trp_dnn_graph(dnn, &r, &done[step]));
}

/* How many steps were done; a worker dies at some time before `span`, if it is not 0. */
static int walk(const h_world *w, trp_actor *dnn, trp_buffer x, int64_t span)
{
    h_killer killer;
    int good = 0;
    h_fill(w->device, x, 0); /* also after it was lost */
    h_killer_start(&killer, w->device, span);
    for (int i = 0; i < STEPS; i++) {
        trp_completion *at = &done[i];
        send_step(dnn, x, i);
        const trp_status status = h_await_any(*at);
        good += status == TRP_OK;
        if (status != TRP_OK) {
            H_CHECK(status == TRP_E_FAULT);
            break;
        }
    }
    h_killer_end(&killer);
    return good;
}

static void once(void)
{
    h_world w = h_open(NULL);
    trp_actor *dnn = h_actor(w.device, "dnn");
    const trp_buffer x = h_buffer(w.device, COUNT * sizeof(float));
    float *got = h_malloc(COUNT * sizeof *got);
    H_EQUAL(walk(&w, dnn, x, 0), STEPS);
    const int64_t begin = h_now();
    H_EQUAL(walk(&w, dnn, x, 0), STEPS);
    const int64_t span = h_now() - begin;
    for (int round = 0; round < 40 && (round < 4 || h_info(w.device).restarts < 3); round++) {
        const int good = walk(&w, dnn, x, span);
        if (good < STEPS) {
            H_CHECK(h_buffer_info(w.device, x).lost);
            continue;
        }
        h_read(w.device, x, 0, got, COUNT * sizeof *got);
        for (int i = 0; i < COUNT; i++)
            H_CHECK(got[i] == STEPS);
    }
    free(got);
    h_close(&w);
}

static const h_case cases[] = {{"once", once}};

int main(int argc, char **argv)
{
    h_need_process_isolation();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

/* The actor of examples/custom on a GPU: what its kernel computes, next to a fault that breaks the
 * context, and in the worker after. Skipped without a GPU. */
#include "support/plugin.h"

#include <math.h>

enum { COUNT = 3000001, BYTES = COUNT * 4 };

/* As in examples/custom/scale_clamp.h. */
typedef struct scale_clamp {
    uint64_t count;
    float scale, shift, low, high;
} scale_clamp;

static trp_actor *example(trp_device *device)
{
    trp_actor *actor = NULL;
    H_OK(trp_actor_create(device, &(trp_actor_options){.library = h_plugin("scale_clamp_actor")},
                          &actor));
    return actor;
}

static void check(const scale_clamp *p, const float *x, const float *got)
{
    for (uint64_t i = 0; i < p->count; i++) {
        float expected = fminf(fmaxf(fmaf(p->scale, x[i], p->shift), p->low), p->high);
        H_SAME(&got[i], &expected, sizeof expected);
    }
}

/* Counts around those of a block and of the grid; ranges inside of buffers. */
static void kernel(void)
{
    static const uint64_t counts[] = {1, 31, 255, 256, 257, 4096 * 256 - 1, 4096 * 256 + 1, COUNT};
    h_world w = h_open(NULL);
    trp_actor *actor = example(w.device);
    trp_buffer in = h_buffer(w.device, BYTES + 64), out = h_buffer(w.device, BYTES + 64);
    float *x = h_malloc(BYTES), *got = h_malloc(BYTES + 64);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)ref_rng_uniform(h_rng(), -100, 100);
    h_write(w.device, in, 32, x, BYTES);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        scale_clamp p = {
            .count = counts[i], .scale = -1.5f, .shift = 0.1f, .low = -77.7f, .high = 99};
        trp_custom_request r = {.code = 1, .payload = &p, .payload_bytes = sizeof p};
        h_add_access(&r, in, TRP_ACCESS_READ);
        h_add_access(&r, out, TRP_ACCESS_COVER);
        for (int k = 0; k < 2; k++) {
            r.access[k].offset = 32;
            r.access[k].bytes = counts[i] * 4;
        }
        H_OK(trp_fill(w.device, out, 0, BYTES + 64, 0xffffffff, 4, NULL));
        H_OK(h_run(actor, &r, NULL));
        h_read(w.device, out, 0, got, BYTES + 64);
        check(&p, x, got + 8);
        const uint32_t untouched = 0xffffffff;
        H_SAME(got + 7, &untouched, 4);
        H_SAME(got + 8 + counts[i], &untouched, 4);
    }
    free(x);
    free(got);
    h_close(&w);
}

/* The context breaks while requests of the actor are queued: they run in the next worker, whose
 * actor has loaded the kernel again. */
static void after_a_fault(void)
{
    enum { N = 10000, ROUNDS = 5, QUEUED = 50 };
    h_world w = h_open(NULL);
    trp_actor *actor = example(w.device), *probe = h_actor(w.device, "probe");
    trp_buffer in = h_buffer(w.device, N * 4), out = h_buffer(w.device, N * 4);
    float *x = h_malloc(N * 4), *got = h_malloc(N * 4);
    for (int i = 0; i < N; i++)
        x[i] = (float)ref_rng_uniform(h_rng(), -100, 100);
    h_write(w.device, in, 0, x, N * 4);
    scale_clamp p = {.count = N, .scale = 2, .shift = 1, .low = -50, .high = 60};
    trp_custom_request r = {.code = 1, .payload = &p, .payload_bytes = sizeof p};
    h_add_access(&r, in, TRP_ACCESS_READ);
    h_add_access(&r, out, TRP_ACCESS_COVER);
    for (int round = 0; round < ROUNDS; round++) {
        trp_completion fault = {0}, done[QUEUED];
        memset(done, 0, sizeof done);
        h_probe(probe, TRP_PROBE_ILLEGAL_ADDRESS, &fault);
        for (int i = 0; i < QUEUED; i++)
            H_OK(trp_custom(actor, &r, &done[i]));
        H_IS(h_await_any(fault), TRP_E_FAULT);
        for (int i = 0; i < QUEUED; i++)
            H_OK(h_await_any(done[i]));
        h_read(w.device, out, 0, got, N * 4);
        check(&p, x, got);
    }
    free(x);
    free(got);
    h_close(&w);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(kernel), H_CASE(after_a_fault)};
    setenv("TROUPE_TEST_BACKEND", "cuda", 1);
    h_need_process_isolation();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

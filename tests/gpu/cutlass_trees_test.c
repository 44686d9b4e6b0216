/* Random epilogue trees in kernels of CUTLASS on a GPU, compared with the host's evaluation.
 *
 * TROUPE_TEST_TREES says how many (default 12: each is compiled, which takes some seconds of a
 * processor, half a minute for sm_90a), TROUPE_TEST_SHARD=i/n that this is one of n processes that
 * divide them; after TROUPE_TEST_SECONDS none is begun any more. The trees follow from
 * TROUPE_TEST_SEED. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/elements.h"
#include "support/gpu.h"
#include "support/problems/tree_problem.h"
#include "support/label.h"

#include <complex.h>
#include <math.h>

TROUPE_TEST_FAKE_GPU("no sanitizer", "cutlass");

enum {
    TREES = 12,
    EVERY_SM90 = 25,
    IN_FLIGHT = 8 /* a process compiles one after the other */,
    FACTOR = 7919
};

/* Kernels by what they multiply, the choosier first. */
static const char *const half[] = {"s80_half_64x64x64_a8", "s80_half_128x64x32_a8",
                                   "s80_half_64x64x32_a2_d1", "s80_half_64x64x32_a1", NULL};
static const char *const f64[] = {"s80_f64_64x64x16", "s80_f64_64x64x16_d1", NULL};
static const char *const i8[] = {"s80_i8_64x64x64_a16", "s80_i8_simt_64x64x8", NULL};
static const char *const sm90[] = {"s90_half_64x64x64_1x1_pingpong", "s90_half_128x128x64_1x1",
                                   NULL};

typedef struct trial {
    tree_problem p;
    tree_side gpu;
    const char *kernel;
    bool exact; /* no function whose last bits may differ */
    int number;
} trial;

static tree_side host;
static int deviating;

/* One of the list that takes the problem; UNSUPPORTED if there is none. */
static void send(trial *t, const char *const *kernels)
{
    size_t count = 0, first;
    while (kernels[count])
        count++;
    first = ref_rng_below(h_rng(), count);
    for (size_t i = 0; i < count; i++) {
        t->kernel = kernels[(first + i) % count];
        tree_send(&t->gpu, &t->p, t->kernel);
        if (t->gpu.status != TRP_E_UNSUPPORTED)
            return;
    }
}

/* How far two values may be apart: sums in another order, and functions that are good to some units
 * in the last place, through whatever comes after them. Narrow types round to neighbours. */
static bool are_close(const trial *t, int which, double x, double y, double largest)
{
    bool sums = which < TREE_A;
    double narrow = trp_dtype_bits(t->p.type[which]) <= 8    ? 0.15
                    : trp_dtype_bits(t->p.type[which]) <= 16 ? 0.02
                                                             : 1e-4;
    if (x == y || (isnan(x) && isnan(y)))
        return true;
    if (t->exact)
        return sums && fabs(x - y) <= 1e-5 * fabs(x) + 1e-5 * largest;
    return fabs(x - y) <= narrow * fabs(x) + 1e-4 * largest + 1e-4;
}

static void compare(trial *t, int which, const unsigned char *x, const unsigned char *y)
{
    trp_dtype type = t->p.type[which];
    int64_t count = (int64_t)(t->p.bytes[which] / (trp_dtype_bits(type) / 8)), wrong = 0;
    double largest = 0, one = 0, other = 0;
    for (int64_t i = 0; i < count; i++) {
        double size = fabs(creal(ref_element_load(type, y, i)));
        largest = isfinite(size) && size > largest ? size : largest;
    }
    for (int64_t i = 0; i < count; i++) {
        double a = creal(ref_element_load(type, x, i)), b = creal(ref_element_load(type, y, i));
        if (are_close(t, which, a, b, largest))
            continue;
        one = a;
        other = b;
        wrong++;
    }
    /* Where functions run into infinities a last bit decides on which side. */
    if (wrong == 0 || (!t->exact && wrong <= count / 50))
        return;
    deviating++;
    printf("  tree %d in %s, operand %d of %s: %lld of %lld differ, %.9g, on the host %.9g%s\n",
           t->number, t->kernel, which, trp_dtype_name(type), (long long)wrong, (long long)count,
           one, other, t->exact ? "; exact" : "");
}

static void finish(trial *t)
{
    tree_await(&t->gpu);
    if (t->gpu.status != TRP_OK)
        h_fail(__FILE__, __LINE__, "tree %d in %s: %s", t->number, t->kernel,
               trp_status_name(t->gpu.status));
    tree_place(&host, &t->p);
    tree_send(&host, &t->p, NULL);
    tree_await(&host);
    H_IS(host.status, TRP_OK);
    for (int i = 0; i < TREE_OPERANDS; i++) {
        if (!t->p.written[i])
            continue;
        unsigned char *x = tree_read(&t->gpu, &t->p, i), *y = tree_read(&host, &t->p, i);
        compare(t, i, x, y);
        free(x);
        free(y);
    }
    tree_free_side(&t->gpu, &t->p);
    tree_free_side(&host, &t->p);
    tree_free(&t->p);
}

/* Draws until there is a tree that a kernel can have. */
static void begin(trial *t, uint64_t *rng, bool is_sm90)
{
    for (;;) {
        const tree_options options = {
            .limits = {.nodes = 4 + (uint32_t)ref_rng_below(h_rng(), 12), .exact_only = t->exact},
            .aligned = is_sm90 || ref_rng_below(h_rng(), 2),
            .half_only = is_sm90};
        tree_draw(rng, &options, &t->p);
        tree_place(&t->gpu, &t->p);
        send(t, is_sm90                            ? sm90
                : t->p.tree.accumulator == TRP_F64 ? f64
                : t->p.tree.accumulator == TRP_I32 ? i8
                                                   : half);
        if (t->gpu.status == TRP_OK)
            return;
        if (t->gpu.status != TRP_E_UNSUPPORTED)
            h_fail(__FILE__, __LINE__, "tree %d in %s: %s", t->number, t->kernel,
                   trp_error_message());
        tree_free_side(&t->gpu, &t->p);
        tree_free(&t->p);
    }
}

static void trees(void)
{
    const char *total = getenv("TROUPE_TEST_TREES"), *shard = getenv("TROUPE_TEST_SHARD");
    int most = total ? atoi(total) : TREES, index = 0, shards = 1, count = 0;
    h_world world = h_open(NULL);
    trp_actor *cutlass = h_actor(world.device, "cutlass");
    trp_device_options options = h_options();
    trial *all = h_malloc(IN_FLIGHT * sizeof *all);
    if (shard && (sscanf(shard, "%d/%d", &index, &shards) != 2 || index < 0 || index >= shards))
        h_fail(__FILE__, __LINE__, "TROUPE_TEST_SHARD: expected i/n, got %s", shard);
    uint64_t rng = ref_rng_below(h_rng(), UINT32_MAX) + (uint64_t)index * FACTOR;
    bool sm90_too = h_info(world.device).compute_major == 9;
    options.backend = TRP_BACKEND_HOST;
    H_OK(trp_device_open(world.system, &options, &host.device));
    host.cutlass = h_actor(host.device, "cutlass");
    int64_t until = h_now() + h_soak_ns(3600);
    for (int i = index; i < most && h_now() < until; i += shards, count++) {
        trial *t = &all[count % IN_FLIGHT];
        if (count >= IN_FLIGHT)
            finish(t);
        *t = (trial){
            .gpu = {.device = world.device, .cutlass = cutlass}, .exact = i % 5 < 3, .number = i};
        begin(t, &rng, sm90_too && i % EVERY_SM90 == 0);
    }
    for (int i = count > IN_FLIGHT ? count - IN_FLIGHT : 0; i < count; i++)
        finish(&all[i % IN_FLIGHT]);
    printf("  %d trees, %d operands that differ\n", count, deviating);
    H_EQUAL(deviating, 0);
    H_EQUAL(h_info(world.device).incarnation, 1);
    trp_device_close(host.device);
    h_close(&world);
    free(all);
}

GPU_CASES(H_CASE(trees))

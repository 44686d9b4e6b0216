/* Random epilogue trees on a GPU and on the host: the same bits. On the fake driver, whose kernels
 * evaluate a tree as the host does, this is about everything around that: the transposed problem of
 * a column-major D, where operands lie, what reductions begin with. SPDX-License-Identifier:
 * Apache-2.0
 */
#include "support/reference/elements.h"
#include "support/kernels.h"
#include "support/problems/tree_problem.h"
#include "support/label.h"

#include <complex.h>
#include <math.h>

TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

enum { ROUNDS = 300 };

/* Sums of f64 may be in another order, of what was rounded. */
static void compare(const tree_problem *p, int which, const unsigned char *x,
                    const unsigned char *y)
{
    trp_dtype type = p->type[which];
    int64_t count = (int64_t)(p->bytes[which] / (trp_dtype_bits(type) / 8));
    for (int64_t i = 0; i < count; i++) {
        double one = creal(ref_element_load(type, x, i)),
               other = creal(ref_element_load(type, y, i));
        if (one == other || (isnan(one) && isnan(other)))
            continue;
        if (!(which < TREE_A && fabs(one - other) <= 1e-6 * fabs(one)))
            h_fail(__FILE__, __LINE__, "operand %d[%lld] of %s: %.17g, on the host %.17g", which,
                   (long long)i, trp_dtype_name(type), one, other);
    }
}

static void finish(tree_side *gpu, tree_side *host, tree_problem *p)
{
    for (int i = 0; i < TREE_OPERANDS; i++) {
        if (gpu->status != TRP_OK || !p->written[i])
            continue;
        unsigned char *x = tree_read(gpu, p, i), *y = tree_read(host, p, i);
        compare(p, i, x, y);
        free(x);
        free(y);
    }
    tree_free_side(gpu, p);
    tree_free_side(host, p);
    tree_free(p);
}

static void run(tree_side *s, tree_problem *p)
{
    tree_place(s, p);
    tree_send(s, p, NULL);
    tree_await(s);
}

static void trees(void)
{
    h_kernels k = h_kernels_open(NULL);
    tree_side gpu = {.device = k.world.device, .cutlass = k.cutlass}, host = {0};
    trp_device_options options = h_options();
    uint64_t rng = ref_rng_below(h_rng(), UINT32_MAX);
    int done = 0, unsupported = 0;
    options.backend = TRP_BACKEND_HOST;
    H_OK(trp_device_open(k.world.system, &options, &host.device));
    host.cutlass = h_actor(host.device, "cutlass");
    for (int i = 0; i < ROUNDS; i++) {
        tree_problem p;
        const tree_options drawn = {.limits = {.nodes = 4 + (uint32_t)ref_rng_below(h_rng(), 12)},
                                    .aligned = ref_rng_below(h_rng(), 2)};
        tree_draw(&rng, &drawn, &p);
        run(&gpu, &p);
        char why[sizeof trp_error_last()->message];
        snprintf(why, sizeof why, "%s", trp_error_message());
        run(&host, &p);
        bool lacks = gpu.status == TRP_E_UNSUPPORTED;
        if ((gpu.status != TRP_OK && !lacks) || (host.status != TRP_OK && !lacks))
            h_fail(__FILE__, __LINE__, "round %d: %s, on the host %s: %s", i,
                   trp_status_name(gpu.status), trp_status_name(host.status), why);
        finish(&gpu, &host, &p);
        done += !lacks;
        unsupported += lacks;
    }
    printf("  %d trees, %d that no kernel can have\n", done, unsupported);
    H_CHECK(done > ROUNDS / 4);
    H_EQUAL(h_info(gpu.device).incarnation, 1);
    trp_device_close(host.device);
    h_kernels_close(&k);
}

static const h_case cases[] = {H_CASE(trees)};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake())
        return H_EXIT_SKIPPED;
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

/* Kernels made of templates serve only after they were proven, on a fake GPU of which a test says
 * what is wrong: that is rejected, the reference computes in its place, the next kernel serves
 * after it, and whoever sent the request sees nothing of it. SPDX-License-Identifier: Apache-2.0 */
#include "support/kernels.h"
#include "support/label.h"

#include <string.h>

TROUPE_TEST_FAKE_GPU("cutlass", "no tsan");

enum {
    PROOF_RUNS = 4, /* of a kernel that is good: two passes of two runs */
    WRONG_RUNS = 2, /* the first pass is the last */
};

static const h_product usual = {.m = 24, .n = 40, .k = 16};

typedef struct bed {
    h_kernels k;
    trp_device_options options;
} bed;

static h_product run(const bed *b, h_product p)
{
    trp_error error = {0};
    h_product_make(&b->k, &p);
    H_OK(h_product_send(&b->k, &p));
    if (h_await(p.done.future, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s: %s", p.chosen.kernel, error.message);
    h_product_check(&b->k, &p);
    h_product_free(&b->k, &p);
    return p;
}

static size_t runs(const bed *b)
{
    return h_kernels_reported(&b->k, "runs");
}

/* Kernels of a name's tile become wrong: "s90_half_128x256x64_2x1". */
static void spoil(const bed *b, const char *kernel, char tile[32])
{
    unsigned m = 0, n = 0;
    for (const char *at = strchr(kernel, '_'); at; at = strchr(at + 1, '_')) {
        if (sscanf(at, "_%ux%ux", &m, &n) == 2)
            break;
    }
    H_CHECK(m > 0 && n > 0);
    snprintf(tile, 32, "%ux%u,", m, n);
    h_kernels_set(&b->k, "cutlass_wrong", tile);
}

static bed open_bed(void)
{
    bed b = {.options = h_options()};
    b.options.standby = TRP_STANDBY_OFF;
    b.k = h_kernels_open(&b.options);
    return b;
}

static void reenter(bed *b)
{
    h_close(&b->k.world);
    b->k.world = h_open(&b->options);
    b->k.cutlass = h_actor(b->k.world.device, "cutlass");
}

static void close_bed(bed *b)
{
    h_kernels_close(&b->k);
}

/* A good kernel runs no more often than a proof takes, and once for each request; in another
 * process none is proven again. */
static void good(void)
{
    bed b = open_bed();
    h_product p = run(&b, usual);
    H_CHECK(p.ran.proven && strcmp(p.ran.kernel, p.chosen.kernel) == 0);
    H_EQUAL(runs(&b), PROOF_RUNS + 1);
    run(&b, usual);
    H_EQUAL(runs(&b), PROOF_RUNS + 2);
    reenter(&b);
    p = run(&b, usual);
    H_CHECK(p.ran.proven);
    H_EQUAL(runs(&b), PROOF_RUNS + 3);
    close_bed(&b);
}

/* Other sizes are another proof. */
static void other_sizes(void)
{
    bed b = open_bed();
    run(&b, usual);
    h_product p = usual;
    p.m++;
    p = run(&b, p);
    H_CHECK(p.ran.proven);
    H_EQUAL(runs(&b), 2 * (PROOF_RUNS + 1));
    close_bed(&b);
}

/* What is wrong is computed by the reference; the next request has the next kernel, which is
 * proven; another process knows that the first was rejected. */
static void wrong(void)
{
    bed b = open_bed();
    char tile[32];
    const h_product first = run(&b, usual);
    h_product p = usual;
    p.k *= 2;
    spoil(&b, first.chosen.kernel, tile);
    size_t before = runs(&b);
    p = run(&b, p);
    H_CHECK(strcmp(p.chosen.kernel, first.chosen.kernel) == 0);
    H_CHECK(p.ran.proven && strcmp(p.ran.kernel, "reference") == 0);
    H_EQUAL(runs(&b), before + WRONG_RUNS);
    int more = 0;
    do {
        p = usual;
        p.k *= 2;
        p = run(&b, p);
        H_CHECK(strcmp(p.chosen.kernel, first.chosen.kernel) != 0);
    } while (strcmp(p.ran.kernel, "reference") == 0 && ++more < 20); /* others of the tile */
    H_CHECK(p.ran.proven && strcmp(p.ran.kernel, p.chosen.kernel) == 0);
    h_kernels_unset(&b.k, "cutlass_wrong");
    reenter(&b);
    before = runs(&b);
    p = usual;
    p.k *= 2;
    p = run(&b, p);
    H_CHECK(strcmp(p.ran.kernel, "reference") == 0);
    H_EQUAL(runs(&b), before);
    close_bed(&b);
}

/* With the library allowed and all kernels wrong, the library computes. */
static void library(void)
{
    bed b = open_bed();
    const h_product first = run(&b, usual);
    h_product p = usual;
    char tile[32];
    p.k *= 2;
    p.kernel = first.chosen.kernel;
    spoil(&b, first.chosen.kernel, tile);
    h_product q = run(&b, p);
    H_CHECK(strcmp(q.ran.kernel, "reference") == 0);
    q = run(&b, p);
    H_CHECK(strcmp(q.chosen.kernel, "cublaslt") == 0);
    H_CHECK(strncmp(q.ran.kernel, "cublaslt_", 9) == 0 && q.ran.proven);
    close_bed(&b);
}

/* Without proofs what is chosen serves; a rejection that is known counts all the same. */
static void off(void)
{
    bed b = open_bed();
    b.options.proof = TRP_PROOF_OFF;
    reenter(&b);
    h_product p = run(&b, usual);
    H_CHECK(!p.ran.proven && strcmp(p.ran.kernel, p.chosen.kernel) == 0);
    H_EQUAL(runs(&b), 1);
    b.options.proof = TRP_PROOF_ON;
    reenter(&b);
    char tile[32];
    spoil(&b, p.chosen.kernel, tile);
    p = run(&b, usual);
    H_CHECK(strcmp(p.ran.kernel, "reference") == 0);
    b.options.proof = TRP_PROOF_OFF;
    reenter(&b);
    p = run(&b, usual);
    H_CHECK(strcmp(p.ran.kernel, "reference") == 0);
    close_bed(&b);
}

/* A search finds none that is wrong, and times none before its proof. */
static void searched(void)
{
    bed b = open_bed();
    h_product p = usual;
    p.tune = TRP_TUNE_QUICK;
    p = run(&b, p);
    H_CHECK(p.chosen.searching && p.ran.proven);
    char tile[32];
    spoil(&b, p.ran.kernel, tile);
    h_kernels_set(&b.k, "fast", tile);
    h_product q = usual;
    q.tune = TRP_TUNE_QUICK;
    q.k *= 2;
    q = run(&b, q);
    H_CHECK(q.ran.proven);
    close_bed(&b);
}

static const h_case cases[] = {
    {"good", good}, {"other_sizes", other_sizes}, {"wrong", wrong}, {"library", library},
    {"off", off},   {"searched", searched},
};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake())
        return H_EXIT_SKIPPED;
    return h_kernels_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

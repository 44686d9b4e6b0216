/* The matmul actor against float64: every combination of types, layouts, epilogues and scales. */
#include "support/problems/matmul_problem.h"
#include "support/label.h"

TROUPE_TEST("long", "one isolation");
TROUPE_TEST_FAKE_GPU("no sanitizer");

static mm_bench bench;

static trp_order order_of(unsigned bit)
{
    return bit ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
}

static size_t below(size_t n)
{
    return ref_rng_below(h_rng(), n);
}

/* Sanitizers make all of it slow, and see as much in a part of it. */
static bool left_out(void)
{
    return H_SANITIZED && below(H_TSAN ? 32 : 4) > 0;
}

/* Sizes, layout and scalars at random; no epilogue and no scales. */
static mm_problem plain(const mm_types *types, size_t size_limit, size_t k_limit)
{
    mm_problem p = mm_draw(types, size_limit, k_limit);
    p.activation = TRP_ACTIVATION_NONE;
    p.gradient = TRP_BIAS_GRADIENT_NONE;
    p.bias = p.aux = p.scale_d = p.scale_aux = p.amax_d = p.amax_aux = p.scalars = false;
    p.scale_a = p.scale_b = MM_UNSCALED;
    return p;
}

static void layouts(void)
{
    mm_open(&bench);
    for (size_t row = 0; row < mm_row_count; row++) {
        for (unsigned way = 0; way < 2 * 2 * 8 * 3 * 2; way++) {
            mm_problem p = plain(&mm_rows[row], 12, 24);
            unsigned rest = way / 32;
            p.trans_a = way & 1 ? TRP_T : TRP_N;
            p.trans_b = way & 2 ? TRP_T : TRP_N;
            if (way & 1 && below(3) == 0)
                p.trans_a = TRP_C;
            if (way & 2 && below(3) == 0)
                p.trans_b = TRP_C;
            p.order_a = order_of(way & 4);
            p.order_b = order_of(way & 8);
            p.order_d = order_of(way & 16);
            p.c = (mm_c)(rest % 3);
            p.batch = rest / 3 ? 3 : 1;
            if (!left_out())
                mm_run(&bench, p);
        }
    }
    mm_close(&bench);
}

/* Whether mm_settle() leaves an epilogue as it is. */
static bool possible(const mm_problem *p)
{
    mm_problem settled = *p;
    mm_settle(&settled);
    return settled.activation == p->activation && settled.bias == p->bias &&
           settled.aux == p->aux && settled.gradient == p->gradient;
}

static void epilogues(void)
{
    mm_open(&bench);
    for (size_t row = 0; row < mm_row_count; row++) {
        for (unsigned way = 0; way < 6 * 2 * 2 * 4 * 2 * 2; way++) {
            mm_problem p = plain(&mm_rows[row], 24, 20);
            unsigned rest = way / 16;
            p.bias = way & 1;
            p.aux = way & 2;
            p.order_d = order_of(way & 4);
            p.batch = way & 8 ? 3 : 1;
            p.gradient = (trp_bias_gradient)(rest % 4);
            p.activation = (trp_activation)(rest / 4);
            p.scale_d = below(2);
            p.amax_d = below(2);
            p.scale_aux = below(2);
            p.amax_aux = below(2);
            if (possible(&p) && !left_out())
                mm_run(&bench, p);
        }
    }
    mm_close(&bench);
}

/* Blocks of 128 and tiles of 128 lines by 4 blocks, whole ones and parts of them. */
static void scales(void)
{
    mm_open(&bench);
    for (size_t row = 0; row < mm_row_count; row++) {
        if (trp_dtype_bits(mm_rows[row].a) > 8 || mm_rows[row].a == TRP_I8)
            continue;
        for (int way = 0; way < 7 * 7; way++) {
            bool large = below(10) == 0;
            mm_problem p = plain(&mm_rows[row], large ? 260 : 20, large ? 600 : 300);
            mm_problem settled;
            p.scale_a = way % 7 - 1;
            p.scale_b = way / 7 - 1;
            p.batch = p.scale_a > 0 || p.scale_b > 0 ? 1 : p.batch;
            p.scale_d = below(2);
            p.amax_d = below(2);
            if (below(4) == 0)
                p.activation = TRP_ACTIVATION_GELU;
            p.aux = p.scale_aux = p.amax_aux = below(2);
            settled = p;
            mm_settle(&settled);
            if (settled.scale_a == p.scale_a && settled.scale_b == p.scale_b && !left_out())
                mm_run(&bench, p);
        }
    }
    mm_close(&bench);
}

static void scalars_in_a_buffer(void)
{
    mm_open(&bench);
    for (size_t row = 0; row < mm_row_count; row++) {
        for (int way = 0; way < 8; way++) {
            mm_problem p = plain(&mm_rows[row], 20, 20);
            p.scalars = true;
            p.c = way % 2 ? MM_C_IN_PLACE : MM_C_APART;
            mm_run(&bench, p);
        }
    }
    mm_close(&bench);
}

/* Sizes that the host computes in several tiles. */
static void larger(void)
{
    static const int64_t sizes[][3] = {{523, 7, 20}, {9, 1027, 16}, {13, 11, 1033}, {514, 515, 60}};
    static const size_t rows[] = {0, 1, 3, 4, 7, 8, 9, 10, 13, 20, 32};
    mm_open(&bench);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            bool all = k == 3;
            if (all && i != 1 && (H_SANITIZED || i != 7))
                continue;
            mm_problem p = mm_draw(&mm_rows[rows[i]], 2, 2);
            p.m = sizes[k][0];
            p.n = sizes[k][1];
            p.k = all && !H_SANITIZED ? 513 : sizes[k][2];
            p.batch = 1;
            mm_run(&bench, p);
            if (all)
                continue;
            static const trp_activation with_aux[] = {TRP_ACTIVATION_RELU, TRP_ACTIVATION_DRELU,
                                                      TRP_ACTIVATION_DGELU};
            p.activation = with_aux[(i + k) % 3];
            p.aux = true;
            p.gradient = TRP_BIAS_GRADIENT_D;
            mm_run(&bench, p);
            p.activation = TRP_ACTIVATION_NONE;
            p.gradient = k % 2 ? TRP_BIAS_GRADIENT_B : TRP_BIAS_GRADIENT_A;
            mm_run(&bench, p);
        }
    }
    mm_close(&bench);
}

/* Where a power within an activation overflows, but the activation does not. What a GPU's library
 * makes of them is its own matter. */
static void huge_values(void)
{
    if (h_is_cuda())
        h_skip("only the host's activations are ours");
    static const size_t rows[] = {0, 1, 4, 5};
    mm_open(&bench);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int activation = 0; activation < 6; activation++) {
            mm_problem p = mm_draw(&mm_rows[rows[i]], 20, 20);
            p.activation = (trp_activation)activation;
            p.alpha = trp_real(1e25);
            p.huge_aux = true;
            mm_run(&bench, p);
        }
    }
    mm_close(&bench);
}

static void smallest(void)
{
    mm_open(&bench);
    for (size_t row = 0; row < mm_row_count; row++) {
        for (int way = 0; way < 16; way++) {
            mm_problem p = mm_draw(&mm_rows[row], 3, 3);
            p.m = way & 1 ? 1 : p.m;
            p.n = way & 2 ? 1 : p.n;
            p.k = way & 4 ? 1 : p.k;
            p.fit = false;
            mm_run(&bench, p);
        }
    }
    mm_close(&bench);
}

/* With m or n 0 nothing is written, and no handle is looked at. */
static void empty(void)
{
    mm_open(&bench);
    trp_device *device = bench.world.device;
    trp_buffer d = h_buffer(device, 64), stale = {UINT64_MAX};
    char before[64], after[64];
    h_random_bytes(h_rng(), before, sizeof before);
    h_write(device, d, 0, before, sizeof before);
    for (size_t row = 0; row < mm_row_count; row++) {
        for (int way = 0; way < 3; way++) {
            const mm_types *t = &mm_rows[row];
            trp_matmul_request r = {.m = way == 0 ? 0 : 4, .n = way == 1 ? 0 : 4, .k = 4};
            r.m = way == 2 ? 0 : r.m;
            r.n = way == 2 ? 0 : r.n;
            r.batch = way;
            r.a = (trp_matmul_matrix){.type = t->a, .buffer = stale};
            r.b = (trp_matmul_matrix){.type = t->b, .buffer = stale};
            r.c = (trp_matmul_matrix){.type = t->c, .buffer = stale};
            r.d = (trp_matmul_matrix){.type = t->d, .buffer = d};
            r.beta = trp_real(1);
            trp_completion done = {0};
            H_OK(trp_matmul(bench.actor, &r, &done));
            H_OK(h_await_any(done));
        }
    }
    h_read(device, d, 0, after, sizeof after);
    H_SAME(after, before, sizeof after);
    mm_close(&bench);
}

/* The same bits before and after a search has chosen for the problem, and in another actor. */
static void deterministic(void)
{
    enum { M = 64, N = 48, K = 4096, TIMES = 4 };
    static uint16_t a[M * K], b[K * N];
    static float got[TIMES][M * N];
    h_world world = h_open(NULL);
    trp_actor *actors[] = {h_actor(world.device, "matmul"), h_actor(world.device, "matmul")};
    ref_fill_uniform(REF_BF16, a, M * K, h_rng());
    ref_fill_uniform(REF_BF16, b, K * N, h_rng());
    trp_matmul_request r = {.m = M, .n = N, .k = K, .trans_a = TRP_T};
    r.a = (trp_matmul_matrix){.type = TRP_BF16, .buffer = h_buffer(world.device, sizeof a)};
    r.b = (trp_matmul_matrix){.type = TRP_BF16, .buffer = h_buffer(world.device, sizeof b)};
    r.d = (trp_matmul_matrix){.type = TRP_F32, .buffer = h_buffer(world.device, sizeof got[0])};
    h_write(world.device, r.a.buffer, 0, a, sizeof a);
    h_write(world.device, r.b.buffer, 0, b, sizeof b);
    for (int i = 0; i < TIMES; i++) {
        r.deterministic = i != 1;
        r.tune = i == 1 ? TRP_TUNE_QUICK : TRP_TUNE_OFF;
        H_OK(trp_matmul(actors[i / 3], &r, NULL));
        h_read(world.device, r.d.buffer, 0, got[i], sizeof got[i]);
    }
    H_SAME(got[2], got[0], sizeof got[0]);
    H_SAME(got[3], got[0], sizeof got[0]);
    h_close(&world);
}

static void soak(void)
{
    mm_open(&bench);
    int64_t end = h_now() + h_soak_ns(0.5);
    while (h_now() < end)
        mm_run(&bench, mm_draw(&mm_rows[below(mm_row_count)], 60, 150));
    mm_close(&bench);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"layouts", layouts},
        {"epilogues", epilogues},
        {"scales", scales},
        {"scalars_in_a_buffer", scalars_in_a_buffer},
        {"larger", larger},
        {"huge_values", huge_values},
        {"smallest", smallest},
        {"empty", empty},
        {"deterministic", deterministic},
        {"soak", soak},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

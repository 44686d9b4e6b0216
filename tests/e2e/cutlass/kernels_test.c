/* What becomes of a kernel of the cutlass actor between the request that needs it and its launch,
 * on fakes of the driver and the compilers: compiled once, built once for a problem, and what
 * happens if any of that goes wrong. SPDX-License-Identifier: Apache-2.0 */
#include "support/folder.h"
#include "support/kernels.h"
#include "support/label.h"

TROUPE_TEST_FAKE_GPU("cutlass");

static const h_product usual = {.m = 24, .n = 40, .k = 16};

static h_product with_k(int k)
{
    h_product p = usual;
    p.k = k;
    return p;
}

static void run(const h_kernels *k, h_product p)
{
    trp_error error = {0};
    trp_status status = h_product_run(k, p, &error);
    if (status != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", error.message);
}

/* --- before the compiler --- */

/* First of all cases: what was found stays known to the process. */
static void missing_headers(void)
{
    trp_error error = {0};
    const char *right = getenv("TROUPE_CUTLASS");
    char *kept = strdup(right ? right : "");
    setenv("TROUPE_CUTLASS", "/tmp", 1); /* actors look for them as soon as they are made */
    h_kernels k = h_kernels_open(NULL);
    for (int i = 0; i < 2; i++) {
        H_IS(h_product_run(&k, usual, &error), TRP_E_MISSING);
        h_check_says(__FILE__, __LINE__, error.message, "TROUPE_CUTLASS: expected a folder with");
    }
    setenv("TROUPE_CUTLASS", "/nowhere", 1);
    H_IS(h_product_run(&k, usual, &error), TRP_E_MISSING);
    setenv("TROUPE_CUTLASS", kept, 1);
    H_EQUAL(h_kernels_reported(&k, "compiles"), 0);
    run(&k, usual);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
    free(kept);
}

/* --- compiling --- */

/* The request that wanted it fails, the next one is told why, and the one after it tries again. */
static void fails_with(const char *what, const char *log, const char *said)
{
    trp_error error = {0};
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, what, log);
    H_IS(h_product_run(&k, usual, &error), TRP_E_DEPENDENCY);
    H_IS(h_product_run(&k, with_k(32), &error), TRP_E_LIBRARY);
    h_check_says(__FILE__, __LINE__, error.message, said);
    H_EQUAL(h_kernels_reported(&k, "compiles"), 1);
    h_kernels_unset(&k, what);
    run(&k, usual);
    run(&k, with_k(32));
    H_EQUAL(h_kernels_reported(&k, "compiles"), 2);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

static void compile_fails(void)
{
    fails_with("compile_fails", "x.cuh(7): error: no such thing\nx.cuh(8): error: more\n",
               "could not be compiled: error: no such thing");
}

static void link_fails(void)
{
    fails_with("link_fails", "error   : too much\n", "could not be compiled: error   : too much");
}

/* A log may be longer than what is looked at, and say nothing. */
static void long_log(void)
{
    static char log[1000];
    memset(log, 'x', sizeof log - 2);
    log[sizeof log - 2] = '\n';
    fails_with("compile_fails", log, "its log does not say why");
}

/* Sizes and scalars are no part of a kernel. */
static void many_problems(void)
{
    enum { COUNT = 200 };
    h_kernels k = h_kernels_open(NULL);
    h_product *p = h_malloc(COUNT * sizeof *p);
    for (int i = 0; i < COUNT; i++) {
        p[i] = (h_product){.m = 8 * (1 + (int)ref_rng_below(h_rng(), 8)),
                           .n = 8 * (1 + (int)ref_rng_below(h_rng(), 8)),
                           .k = 8 * (1 + (int)ref_rng_below(h_rng(), 8)),
                           .kernel = "s90_half_64x64x64_1x1_pingpong"};
        h_product_make(&k, &p[i]);
        H_OK(h_product_send(&k, &p[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        H_OK(h_await(p[i].done.future, NULL));
        h_product_check(&k, &p[i]);
        h_product_free(&k, &p[i]);
    }
    H_EQUAL(h_kernels_reported(&k, "compiles"), 1);
    H_EQUAL(h_kernels_reported(&k, "links"), 1);
    H_EQUAL(h_kernels_reported(&k, "runs"), COUNT);
    free(p);
    h_kernels_close(&k);
}

/* Another kernel computes while the best one is compiled, if the request likes that. */
static void fallback(void)
{
    h_kernels k = h_kernels_open(NULL);
    h_product first = usual, second = usual, third = usual;
    first.kernel = "s80_half_64x64x32_a1";
    run(&k, first);
    h_kernels_set(&k, "compile_ms", "100000");
    second.first = third.first = TRP_CUTLASS_FIRST_FALLBACK;
    h_product_make(&k, &second);
    H_OK(h_product_send(&k, &second));
    H_CHECK(second.chosen.fallback && second.chosen.ready);
    H_CHECK(strcmp(second.chosen.kernel, first.kernel) == 0);
    H_OK(h_await(second.done.future, NULL));
    h_product_check(&k, &second);
    h_kernels_unset(&k, "compile_ms");
    h_kernels_await(&k, "links", 2);
    h_product_make(&k, &third);
    do {
        H_OK(h_product_send(&k, &third));
        H_OK(h_await(third.done.future, NULL));
        h_product_check(&k, &third);
    } while (third.chosen.fallback);
    H_CHECK(third.chosen.ready && strcmp(third.chosen.kernel, first.kernel) != 0);
    H_EQUAL(h_kernels_reported(&k, "compiles"), 2);
    h_product_free(&k, &second);
    h_product_free(&k, &third);
    h_kernels_close(&k);
}

static void *send_some(void *argument)
{
    const h_kernels *k = argument;
    for (int i = 0; i < 20; i++) {
        const trp_cutlass_gemm_request r = {.m = 8,
                                            .n = 8,
                                            .k = 8,
                                            .a = {.buffer = h_buffer(k->world.device, 256),
                                                  .type = TRP_F16,
                                                  .order = TRP_ROW_MAJOR},
                                            .b = {.buffer = h_buffer(k->world.device, 256)},
                                            .d = {.buffer = h_buffer(k->world.device, 256)}};
        trp_completion done = {0};
        H_OK(trp_cutlass_gemm(k->cutlass, &r, &done));
        H_OK(h_await(done.future, NULL));
    }
    return NULL;
}

/* Threads that want the same kernel at the same time. */
static void threads(void)
{
    enum { COUNT = 4 };
    h_thread *thread[COUNT];
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "compile_ms", "30");
    for (int i = 0; i < COUNT; i++)
        thread[i] = h_start(send_some, &k);
    for (int i = 0; i < COUNT; i++)
        h_join(thread[i]);
    H_EQUAL(h_kernels_reported(&k, "compiles"), 1);
    H_EQUAL(h_kernels_reported(&k, "runs"), COUNT * 20);
    h_kernels_close(&k);
}

/* One that is cancelled while its kernel is compiled ends at once; the kernel is made all the same.
 * A deadline is none for the compiler. It is one for the kernel: false if this machine, with all
 * else that it does, could not run it in that time. */
static bool cancelled_and_within(int64_t deadline_ns)
{
    trp_error error = {0};
    h_kernels k = h_kernels_open(NULL);
    h_product p = usual, late = with_k(32);
    if (h_isolation() == TRP_ISOLATION_PROCESS)
        late.deadline_ns = (uint64_t)deadline_ns;
    h_kernels_set(&k, "compile_ms", "100000");
    h_product_make(&k, &p);
    h_product_make(&k, &late);
    H_OK(h_product_send(&k, &p));
    H_OK(h_product_send(&k, &late));
    h_kernels_await(&k, "compiles", 1);
    H_OK(trp_cancel(p.done.future));
    H_IS(h_await(p.done.future, &error), TRP_E_CANCELLED);
    H_IS(trp_await(late.done.future, 5 * deadline_ns, NULL), TRP_E_TIMEOUT);
    h_kernels_unset(&k, "compile_ms");
    trp_status status = h_await(late.done.future, &error);
    bool in_time = status != TRP_E_FAULT || error.fault != TRP_FAULT_HANG;
    if (in_time) {
        H_IS(status, TRP_OK);
        h_product_check(&k, &late);
    }
    h_product_free(&k, &p);
    h_product_free(&k, &late);
    if (in_time) {
        run(&k, usual);
        H_EQUAL(h_kernels_reported(&k, "compiles"), 1);
        H_EQUAL(h_kernels_reported(&k, "runs"), 2);
        H_EQUAL(h_info(k.world.device).incarnation, 1);
    }
    h_kernels_close(&k);
    return in_time;
}

static void cancel_and_deadline(void)
{
    int64_t deadline_ns = 20 * H_MS;
    while (!cancelled_and_within(deadline_ns)) {
        deadline_ns *= 4;
        H_CHECK(deadline_ns < 60 * H_SEC);
    }
}

/* An actor ends when all is done that was sent to it, what is compiled for it too. Another
 * makes its own. */
static void destroyed_in_a_compile(void)
{
    h_kernels k = h_kernels_open(NULL);
    h_product p = usual;
    h_kernels_set(&k, "compile_ms", "100");
    h_product_make(&k, &p);
    H_OK(h_product_send(&k, &p));
    trp_actor_destroy(k.cutlass);
    H_OK(trp_await(p.done.future, 0, NULL));
    h_product_check(&k, &p);
    h_product_free(&k, &p);
    k.cutlass = h_actor(k.world.device, "cutlass");
    run(&k, usual);
    h_kernels_close(&k);
}

/* Whoever closes a device does not wait for a compiler. */
static void closed_in_a_compile(void)
{
    h_kernels k = h_kernels_open(NULL);
    h_product p = usual;
    h_kernels_set(&k, "compile_ms", "1000000");
    h_product_make(&k, &p);
    H_OK(h_product_send(&k, &p));
    h_kernels_await(&k, "compiles", 1);
    int64_t start = h_now();
    h_kernels_close(&k);
    H_CHECK(h_now() - start < 60 * H_SEC);
    free(p.a);
    free(p.b);
}

/* --- building --- */

enum {
    BUILDS = 3
}; /* for a shape: of the problem, and of two with marks in the place of addresses */

static void built_once(void)
{
    enum { ROUNDS = 30 };
    h_kernels k = h_kernels_open(NULL);
    h_product p = usual, other = with_k(48);
    h_product_make(&k, &p);
    h_product_make(&k, &other);
    for (int i = 0; i < ROUNDS; i++) {
        H_OK(h_product_send(&k, &p));
        H_OK(h_product_send(&k, &other));
        H_OK(h_await(p.done.future, NULL));
        H_OK(h_await(other.done.future, NULL));
    }
    h_product_check(&k, &p);
    h_product_check(&k, &other);
    H_EQUAL(h_kernels_reported(&k, "builds"), 2 * BUILDS);
    H_EQUAL(h_kernels_reported(&k, "runs"), 2 * ROUNDS);
    h_product_free(&k, &p);
    h_product_free(&k, &other);
    h_kernels_close(&k);
}

/* Other buffers are no other shape, by either kind of kernels. */
static void refitted(void)
{
    enum { PRODUCTS = 12 };
    static const char *const kernels[] = {"s90_half_64x64x64_1x1_pingpong", "s80_half_64x64x64_a8",
                                          "s80_half_128x128x32_a8_streamk"};
    h_kernels k = h_kernels_open(NULL);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        h_product p[PRODUCTS];
        for (int j = 0; j < PRODUCTS; j++) {
            p[j] = usual;
            p[j].kernel = kernels[i];
            h_product_make(&k, &p[j]);
            H_OK(h_product_send(&k, &p[j]));
        }
        for (int j = 0; j < PRODUCTS; j++) {
            H_OK(h_await(p[j].done.future, NULL));
            h_product_check(&k, &p[j]);
            h_product_free(&k, &p[j]);
        }
    }
    /* The third has a workspace, which was asked for first. */
    H_EQUAL(h_kernels_reported(&k, "builds"), 4 * BUILDS);
    h_kernels_close(&k);
}

/* More parameters than are kept, all of one shape. The last is the first again. */
static void forgotten(void)
{
    enum { COUNT = 1100, DEPTH = 100 };
    h_kernels k = h_kernels_open(NULL);
    h_product p = {.m = 8, .n = 8, .k = 8, .kernel = "s90_half_64x64x64_1x1_pingpong"};
    trp_completion done[DEPTH] = {{0}};
    h_product_make(&k, &p);
    for (int i = 0; i <= COUNT; i++) {
        const trp_cutlass_gemm_request r = {
            .m = p.m,
            .n = p.n,
            .k = p.k,
            .a = {.buffer = p.buffer[0], .type = TRP_BF16, .order = TRP_ROW_MAJOR},
            .b = {.buffer = p.buffer[1]},
            .d = {.buffer = p.buffer[2], .type = TRP_F32, .order = TRP_ROW_MAJOR},
            .kernel = p.kernel,
            .alpha = trp_real(1 + i % COUNT)};
        if (i >= DEPTH)
            H_OK(h_await(done[i % DEPTH].future, NULL));
        done[i % DEPTH] = (trp_completion){0};
        H_OK(trp_cutlass_gemm(k.cutlass, &r, &done[i % DEPTH]));
    }
    for (int i = 0; i < DEPTH; i++)
        H_OK(h_await(done[i].future, NULL));
    h_product_check(&k, &p); /* alpha is 1 again */
    H_EQUAL(h_kernels_reported(&k, "builds"), BUILDS);
    h_product_free(&k, &p);
    h_kernels_close(&k);
}

/* More shapes than are kept; the first comes again, elsewhere. */
static void shapes_forgotten(void)
{
    enum { COUNT = 520 };
    h_kernels k = h_kernels_open(NULL);
    h_product p = {.n = 8, .k = 8, .kernel = "s80_half_64x64x64_a8"}, held;
    for (p.m = 1; p.m <= COUNT; p.m++)
        run(&k, p);
    p.m = 1;
    held = p;
    h_product_make(&k, &held); /* where the first has been */
    run(&k, p);
    h_product_free(&k, &held);
    H_EQUAL(h_kernels_reported(&k, "builds"), BUILDS * (COUNT + 1));
    h_kernels_close(&k);
}

/* It grows with what is asked for; what must be zero in it is, at every launch; those that were
 * built with a smaller one are built again. */
static void workspace(void)
{
    static const char *const bytes[] = {"100", "5000000", "100", "9000000", "200000000"};
    h_kernels k = h_kernels_open(NULL);
    h_product p = usual;
    h_product_make(&k, &p);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        h_kernels_set(&k, "workspace", bytes[i]);
        for (int round = 0; round < 3; round++) {
            H_OK(h_product_send(&k, &p));
            H_OK(h_await(p.done.future, NULL));
            h_product_check(&k, &p);
            run(&k, with_k(24 + 8 * (int)i));
        }
    }
    h_product_free(&k, &p);
    p = (h_product){.m = 128, .n = 128, .k = 512, .kernel = "s90_half_128x128x64_1x1_streamk"};
    h_kernels_unset(&k, "workspace");
    run(&k, p);
    p.kernel = "s80_half_128x128x32_a8_streamk";
    run(&k, p);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* What a builder leaves is looked at before anything is done with it. */
static void builder_goes_wrong(void)
{
    static const struct {
        const char *how, *said;
    } ways[] = {
        {"refuse", "refuses a problem"},
        {"nothing", "left no parameter (ABI 0, status 0"},
        {"rubbish", "left no parameter"},
        {"bytes", "4294967295 bytes, not"},
        {"zero", "left no parameter"},
        {"more", "which it does not have"},
        {"again", "which it has"},
        {"grid", "cuLaunchKernelEx"},
        {"maps", "tensor maps in a parameter"},
        {"rank", "a tensor map of 6 dimensions"},
        {"im2col", "a tensor map of images in 2 dimensions"},
    };
    h_kernels k = h_kernels_open(NULL);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        h_product p = with_k(8 * (int)(i + 1));
        trp_error error = {0};
        p.kernel = "s90_half_64x64x64_1x1_pingpong";
        h_kernels_set(&k, "build", ways[i].how);
        trp_status status = h_product_run(&k, p, &error);
        if (status != TRP_E_INTERNAL && status != TRP_E_LIBRARY)
            h_fail(__FILE__, __LINE__, "%s: %s %s", ways[i].how, trp_status_name(status),
                   error.message);
        h_check_says(__FILE__, __LINE__, error.message, ways[i].said);
        h_kernels_unset(&k, "build");
        p.m += 8; /* what was refused or launched is kept */
        run(&k, p);
    }
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    H_EQUAL(h_kernels_reported(&k, "compiles"), 1);
    h_kernels_close(&k);
}

/* A kernel of other templates than this library's. */
static void other_abi(void)
{
    trp_error error = {0};
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "abi", "77");
    H_IS(h_product_run(&k, usual, &error), TRP_E_VERSION);
    h_check_says(__FILE__, __LINE__, error.message, "other templates than this library's");
    H_EQUAL(h_kernels_reported(&k, "builds"), 0);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* --- compiled ahead --- */

static const char *const packed_rows[] = {"s90_half_64x64x64_1x1_pingpong", "s80_half_64x64x64_a8"};

/* A pack of what requests() sends. */
static void make_pack(const char *folder, char encoder[300])
{
    static const char spec[] =
        "[{\"rows\": [\"s90_half_64x64x64_1x1_pingpong\", \"s80_half_64x64x64_a8\"],\n"
        "  \"type\": \"bf16\", \"c\": \"f16\", \"d\": \"f32\",\n"
        "  \"layouts\": [\"tn\", \"tt\", \"nn\", \"nt\", \"tnn\", \"ttn\", \"nnn\", \"ntn\"],\n"
        "  \"epilogue\": [null, \"fma(alpha, acc, beta * c)\", \"relu(b[row] + acc)\"]}]\n";
    const char *command = getenv("TROUPE_COMMAND");
    char path[300], line[1200];
    snprintf(path, sizeof path, "%s/spec.json", folder);
    snprintf(encoder, 300, "%s/kernels.encoder", folder);
    h_file_write(path, spec);
    snprintf(line, sizeof line, "'%s' cutlass pack -q --spec '%s' --arch 90a -j 2 -o '%s'",
             command ? command : "", path, encoder);
    H_EQUAL(system(line), 0);
}

/* All of them get buffers of zeros: what is computed is tested elsewhere. */
static void send_packed(const h_kernels *k, const trp_buffer buffer[4], int orders, int epilogue,
                        const char *row)
{
    const trp_epilogue_node nodes[] = {
        {0},
        {.kind = TRP_EPILOGUE_ACCUMULATOR},
        {.kind = TRP_EPILOGUE_PER_ROW, .buffer = buffer[3]},
        {.kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_ADD, .input = {1, 2}},
        {.kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {3}},
    };
    trp_order order[3];
    trp_completion done = {0};
    trp_error error = {0};
    for (int i = 0; i < 3; i++)
        order[i] = orders >> i & 1 ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    trp_cutlass_gemm_request r = {.m = 24,
                                  .n = 40,
                                  .k = 16,
                                  .a = {.buffer = buffer[0], .type = TRP_BF16, .order = order[0]},
                                  .b = {.buffer = buffer[1], .type = TRP_BF16, .order = order[1]},
                                  .c = {.type = TRP_F16, .order = order[2]},
                                  .d = {.buffer = buffer[2], .type = TRP_F32, .order = order[2]},
                                  .kernel = row};
    if (epilogue == 1) {
        r.c.buffer = buffer[3];
        r.beta = (trp_scalar){.given = true, .re = 0.5};
    } else if (epilogue == 2) {
        r.epilogue = nodes;
        r.epilogue_count = sizeof nodes / sizeof *nodes;
    }
    if (trp_cutlass_gemm(k->cutlass, &r, &done) != TRP_OK || h_await(done.future, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "orders %d, epilogue %d, %s: %s; %s", orders, epilogue, row,
               trp_error_message(), error.message);
}

/* Whatever kernel a request wants, the command has put it under the name that it is looked for. */
static void packed(void)
{
    char folder[256], encoder[300];
    if (h_isolation() == TRP_ISOLATION_THREAD)
        h_skip("the store of a process is opened once");
    h_folder_make(folder, sizeof folder, "pack");
    make_pack(folder, encoder);
    setenv("TROUPE_CACHE_PACKS", encoder, 1);
    h_kernels k = h_kernels_open(NULL);
    trp_buffer buffer[4];
    for (int i = 0; i < 4; i++)
        buffer[i] = h_filled(k.world.device, 4096, 0);
    for (int orders = 0; orders < 8; orders++) {
        for (int epilogue = 0; epilogue < 3; epilogue++) {
            for (size_t i = 0; i < sizeof packed_rows / sizeof *packed_rows; i++)
                send_packed(&k, buffer, orders, epilogue, packed_rows[i]);
        }
    }
    H_EQUAL(h_kernels_reported(&k, "compiles"), 0);
    send_packed(&k, buffer, 0, 0, "s80_half_64x64x32_a4");
    H_EQUAL(h_kernels_reported(&k, "compiles"), 1);
    h_kernels_close(&k);
    unsetenv("TROUPE_CACHE_PACKS");
    h_folder_remove(folder);
}

static const h_case cases[] = {H_CASE(missing_headers),
                               H_CASE(compile_fails),
                               H_CASE(link_fails),
                               H_CASE(long_log),
                               H_CASE(many_problems),
                               H_CASE(fallback),
                               H_CASE(threads),
                               H_CASE(cancel_and_deadline),
                               H_CASE(destroyed_in_a_compile),
                               H_CASE(closed_in_a_compile),
                               H_CASE(built_once),
                               H_CASE(refitted),
                               H_CASE(forgotten),
                               H_CASE(shapes_forgotten),
                               H_CASE(workspace),
                               H_CASE(builder_goes_wrong),
                               H_CASE(other_abi),
                               H_CASE(packed)};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake())
        return H_EXIT_SKIPPED;
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

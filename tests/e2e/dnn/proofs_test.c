/* Engines serve only after they were proven, on a fake cuDNN whose engines go wrong in the ways
 * that a test names: those are rejected, the next serves, and whoever sent the request sees nothing
 * of it. SPDX-License-Identifier: Apache-2.0 */
#include "support/dnn_bed.h"
#include "support/label.h"

#include <troupe/layers.h>

TROUPE_TEST_FAKE_GPU("dnn");

/* Of an engine that is good: passes of two runs, with a relu and a result of f16 one with NaN,
 * which a relu may lose, and one with sums that leave f16. */
enum { PROOF_RUNS = 4, RELU_PROOF_RUNS = 8 };

static db_bed open_bed(const char *takes)
{
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF;
    return db_open(&options, takes);
}

static size_t reported(const db_bed *b, const char *name)
{
    return h_kernels_reported(&b->k, name);
}

static void conv(const db_bed *b, int64_t n, const char *engine, bool proven)
{
    trp_dnn_ran ran;
    trp_error error = {0};
    if (db_conv(b, n, (trp_dnn_options){0}, &ran, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", error.message);
    if (strcmp(ran.engine, engine) != 0 || ran.proven != proven)
        h_fail(__FILE__, __LINE__, "%s, %s; expected %s, %s", ran.engine,
               ran.proven ? "proven" : "not proven", engine, proven ? "proven" : "not proven");
}

/* --- ways of being wrong --- */

static void one_way(const char *file)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, file, "0");
    conv(&b, 1, "eng1_k2=1", true);
    size_t runs = reported(&b, "cudnn_runs");
    conv(&b, 1, "eng1_k2=1", true); /* as planned */
    H_EQUAL(reported(&b, "cudnn_runs"), runs + 1);
    h_kernels_set(&b.k, file, "0,1");
    conv(&b, 2, "eng2_k2=2", true);
    db_close(&b);
}

static void wrong(void)
{
    one_way("cudnn_wrong");
}

static void wrong_for_extremes(void)
{
    one_way("cudnn_wrong_extreme");
}

/* 0 where a sum leaves f16, of numbers that are none of the extreme ones. */
static void loses_overflow(void)
{
    one_way("cudnn_loses_overflow");
}

static void wrong_again(void)
{
    one_way("cudnn_wrong_second");
}

static void reads_workspace(void)
{
    one_way("cudnn_reads_workspace");
}

/* As what multiplies what lies there by 0, for padding. */
static void reads_beside(void)
{
    one_way("cudnn_reads_beside");
}

/* As what adds to 0 times what was there. */
static void reads_output(void)
{
    one_way("cudnn_reads_output");
}

static void writes_beside(void)
{
    one_way("cudnn_beside");
}

static void fails_at_launch(void)
{
    one_way("cudnn_fails");
}

/* A convolution of f32 alone, of so many elements that a bound that grew with them would show. */
static trp_dnn_ran conv_f32(const db_bed *b, bool tf32)
{
    enum { N = 2, C = 16, S = 256 };
    trp_device *device = b->k.world.device;
    const trp_buffer x = h_buffer(device, N * C * S * S * 4),
                     y = h_buffer(device, N * C * S * S * 4), w = h_buffer(device, C * C * 4);
    trp_dnn_ran ran = {0};
    trp_completion done = {0};
    trp_conv_request r = {.x = {.type = TRP_F32, .rank = 4, .dim = {N, C, S, S}, .buffer = x},
                          .w = {.type = TRP_F32, .rank = 4, .dim = {C, C, 1, 1}, .buffer = w},
                          .y = {.type = TRP_F32, .rank = 4, .dim = {N, C, S, S}, .buffer = y},
                          .options = {.tf32 = tf32, .ran = &ran}};
    H_OK(trp_conv_forward(b->dnn, &r, &done));
    H_OK(h_await(done.future, NULL));
    for (int i = 0; i < 3; i++)
        H_OK(trp_buffer_free(device, (trp_buffer[]){x, w, y}[i]));
    return ran;
}

/* An engine that rounds f32 to tf32 serves only where tf32 is allowed: the first says that it does,
 * the second does not. */
static void rounds(void)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, "cudnn_rounds", "0,1");
    trp_dnn_ran exact = conv_f32(&b, false), rounded = conv_f32(&b, true);
    H_CHECK(strcmp(exact.engine, "eng2_k2=2") == 0 && exact.proven);
    H_CHECK(strcmp(rounded.engine, "eng0_k2=0") == 0 && rounded.proven);
    db_close(&b);
}

/* The gradient of a layer norm of rows that no kernel holds: by the engine that a proof leaves. */
static trp_dnn_ran norm_gradient(const db_bed *b, int64_t columns)
{
    enum { ROWS = 3, TENSORS = 8 };
    trp_device *device = b->k.world.device;
    const trp_dnn_tensor x = {.type = TRP_F32, .rank = 2, .dim = {ROWS, columns}};
    const trp_dnn_tensor row = {.type = TRP_F32, .rank = 2, .dim = {1, columns}};
    const trp_dnn_tensor one = {.type = TRP_F32, .rank = 2, .dim = {ROWS, 1}};
    trp_dnn_ran ran = {0};
    trp_completion done = {0};
    trp_norm_request r = {.mode = TRP_DNN_LAYER,
                          .x = x,
                          .y = x,
                          .dx = x,
                          .scale = row,
                          .mean = one,
                          .inv_variance = one,
                          .dscale = row,
                          .dbias = row,
                          .options = {.ran = &ran}};
    trp_dnn_tensor *const tensors[TENSORS] = {
        &r.x, &r.y, &r.dx, &r.scale, &r.mean, &r.inv_variance, &r.dscale, &r.dbias};
    for (int i = 0; i < TENSORS; i++)
        tensors[i]->buffer =
            h_buffer(device, (size_t)(tensors[i]->dim[0] * tensors[i]->dim[1]) * sizeof(float));
    H_OK(trp_norm_backward(b->dnn, &r, &done));
    H_OK(h_await_any(done));
    for (int i = 0; i < TENSORS; i++)
        H_OK(trp_buffer_free(device, tensors[i]->buffer));
    return ran;
}

/* Reciprocals of the largest deviations are denormal, those of the smallest have no cubes; where no
 * engine is right with them, the gradient is one of steps. */
static void statistics(void)
{
    db_bed b = open_bed("all");
    trp_dnn_ran ran = norm_gradient(&b, 20000);
    H_CHECK(strcmp(ran.engine, "eng0_k2=0") == 0 && ran.proven);
    db_close(&b);
    b = open_bed("all");
    h_kernels_set(&b.k, "cudnn_flushes", "0,2");
    h_kernels_set(&b.k, "cudnn_cubes", "1");
    ran = norm_gradient(&b, 20008);
    H_CHECK(strcmp(ran.engine, "eng3_k2=3") == 0 && ran.proven);
    H_CHECK(h_log_said("of widely spread numbers") && h_log_said("of tightly spread numbers"));
    db_close(&b);
    b = open_bed("all");
    h_kernels_set(&b.k, "cudnn_flushes", "0,1,2,3,4");
    ran = norm_gradient(&b, 20016);
    H_CHECK(strncmp(ran.engine, "map_", 4) == 0 && ran.proven);
    db_close(&b);
}

/* A function of a b. */
static trp_dnn_ran bent_product(const db_bed *b, trp_dnn_pointwise mode, trp_dtype type,
                                int64_t rows)
{
    enum { K = 384, N = 64 };
    const size_t size = trp_dtype_bits(type) / 8;
    trp_device *device = b->k.world.device;
    trp_dnn_ran ran = {0};
    trp_completion done = {0};
    const trp_dnn_tensor tensors[] = {
        {0},
        {.type = type,
         .rank = 3,
         .dim = {1, rows, K},
         .buffer = h_buffer(device, (size_t)rows * K * size)},
        {.type = type, .rank = 3, .dim = {1, K, N}, .buffer = h_buffer(device, K * N * size)},
        {0},
        {.type = type,
         .rank = 3,
         .dim = {1, rows, N},
         .buffer = h_buffer(device, (size_t)rows * N * size)}};
    const trp_dnn_node nodes[] = {{.kind = TRP_DNN_MATMUL, .a = 1, .b = 2, .y = 3},
                                  {.kind = TRP_DNN_POINTWISE, .pointwise = mode, .x = 3, .y = 4}};
    const trp_dnn_graph_request r = {.tensors = tensors,
                                     .tensor_count = 5,
                                     .nodes = nodes,
                                     .node_count = 2,
                                     .options = {.tf32 = true, .ran = &ran}};
    H_OK(trp_dnn_graph(b->dnn, &r, &done));
    H_OK(h_await_any(done));
    for (int i = 1; i <= 4; i++) {
        if (tensors[i].buffer.id)
            H_OK(trp_buffer_free(device, tensors[i].buffer));
    }
    return ran;
}

/* An error of tanh is a share of results of gelu near 0 that no error of sums explains; those of
 * the sums themselves serve. */
static void functions(void)
{
    static const trp_dtype types[] = {TRP_BF16, TRP_F16, TRP_F32};
    db_bed b = open_bed("all");
    for (int i = 0; i < 3; i++) {
        h_kernels_set(&b.k, "cudnn_truncates", "0,1");
        for (int mode = TRP_DNN_RELU; mode <= TRP_DNN_SWISH; mode++) {
            const trp_dnn_ran ran = bent_product(&b, (trp_dnn_pointwise)mode, types[i], 128);
            if (strcmp(ran.engine, "eng0_k2=0") != 0 || !ran.proven)
                h_fail(__FILE__, __LINE__, "function %d of %s: %s", mode, trp_dtype_name(types[i]),
                       ran.engine);
        }
        h_kernels_set(&b.k, "cudnn_coarse", "0");
        const trp_dnn_ran ran = bent_product(&b, TRP_DNN_GELU_TANH, types[i], 136);
        if (types[i] != TRP_F32) /* tf32 is allowed, whose sums are off as far */
            H_CHECK(strcmp(ran.engine, "eng1_k2=1") == 0 && ran.proven);
        h_kernels_unset(&b.k, "cudnn_coarse");
    }
    db_close(&b);
}

/* All engines of the whole graph and of its pieces: kernels of the actor's. */
static void all_wrong(void)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, "cudnn_wrong", "0,1,2,3,4");
    conv(&b, 1, "direct", true);
    db_close(&b);
}

/* A good engine is right, and runs no more often than a proof takes. */
static void good(void)
{
    db_bed b = open_bed("all");
    conv(&b, 1, "eng0_k2=0", true);
    H_EQUAL(reported(&b, "cudnn_runs"), RELU_PROOF_RUNS + 1);
    db_close(&b);
}

/* --- verdicts --- */

/* Another process finds the plan; where that is gone, for the graph is another one, the verdict. */
static void kept(void)
{
    db_bed b = open_bed("conv");
    h_kernels_set(&b.k, "cudnn_wrong", "0");
    conv(&b, 1, "eng1_k2=1", true);
    size_t runs = reported(&b, "cudnn_runs");
    h_kernels_unset(&b.k, "cudnn_wrong");
    db_reopen(&b);
    conv(&b, 1, "eng1_k2=1", true);
    H_EQUAL(reported(&b, "cudnn_runs"), runs + 1);
    trp_dnn_ran ran;
    trp_error error = {0}; /* another plan of the same part */
    H_OK(db_conv(&b, 1, (trp_dnn_options){.workspace_bytes = 4200}, &ran, &error));
    H_CHECK(strcmp(ran.engine, "eng1_k2=1") == 0 && ran.proven && !ran.found);
    H_EQUAL(reported(&b, "cudnn_runs"), runs + 2);
    db_close(&b);
}

/* What a command says, which must succeed. */
static void command(const char *words, char *out, size_t size)
{
    char line[512];
    const char *troupe = getenv("TROUPE_COMMAND");
    snprintf(line, sizeof line, "'%s' %s", troupe ? troupe : "troupe", words);
    FILE *pipe = popen(line, "r");
    H_CHECK(pipe != NULL);
    out[fread(out, 1, size - 1, pipe)] = '\0';
    H_EQUAL(pclose(pipe), 0);
}

/* As people see them, with their reasons. */
static void listed(void)
{
    char out[4096];
    if (!getenv("TROUPE_COMMAND"))
        h_skip("there is no command");
    db_bed b = open_bed("conv");
    h_kernels_set(&b.k, "cudnn_wrong_extreme", "0");
    conv(&b, 1, "eng1_k2=1", true);
    command("proofs", out, sizeof out);
    H_CHECK(strstr(out, "rejected  dnn      eng0_k2=0 ") && strstr(out, "of saturating numbers"));
    H_CHECK(strstr(out, "proven    dnn      eng1_k2=1 ") &&
            strstr(out, "conv_forward 1x16x6x6 f16"));
    H_CHECK(strstr(out, "1 proven, 1 rejected"));
    command("proofs --json --rejected", out, sizeof out);
    H_CHECK(strstr(out, "\"verdict\": \"rejected\"") && strstr(out, "\"plan\": \"eng0_k2=0\"") &&
            !strstr(out, "eng1"));
    db_close(&b);
}

/* Without proofs what is proposed serves, and the reply says so. A plan that is kept so does not
 * serve those who want proofs; a rejection that is known counts for all. */
static void off(void)
{
    db_bed b = open_bed("all");
    b.options.proof = TRP_PROOF_OFF;
    db_reopen(&b);
    size_t runs = reported(&b, "cudnn_runs");
    conv(&b, 1, "eng0_k2=0", false);
    H_EQUAL(reported(&b, "cudnn_runs"), runs + 1);
    b.options.proof = TRP_PROOF_ON;
    db_reopen(&b);
    h_kernels_set(&b.k, "cudnn_wrong", "0");
    conv(&b, 1, "eng1_k2=1", true);
    b.options.proof = TRP_PROOF_OFF;
    db_reopen(&b);
    conv(&b, 1, "eng1_k2=1", true);
    db_close(&b);
}

/* A convolution of 512 images, for whose proof there is no memory: it is made with fewer. */
static void little_memory(void)
{
    enum { IMAGES = 512, ROWS = 128, COLUMNS = 128, COUNT = IMAGES * ROWS * COLUMNS };
    static const uint16_t filter[] = {0, 0x4000, 0}; /* 2 in the middle */
    trp_dnn_ran ran = {0};
    trp_completion done = {0};
    db_bed b = open_bed("all");
    setenv("FAKE_CUDA_MEMORY_MB", "40", 1);
    db_reopen(&b);
    unsetenv("FAKE_CUDA_MEMORY_MB");
    h_kernels_set(&b.k, "cudnn_wrong", "0");
    uint16_t *data = h_malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++)
        data[i] = (uint16_t)(0x3c00 + i % 0x3ff);
    trp_buffer x = h_buffer(b.k.world.device, COUNT * sizeof *data),
               w = h_buffer(b.k.world.device, sizeof filter),
               y = h_buffer(b.k.world.device, COUNT * sizeof *data);
    h_write(b.k.world.device, x, 0, data, COUNT * sizeof *data);
    h_write(b.k.world.device, w, 0, filter, sizeof filter);
    const trp_dnn_tensor tensors[] = {
        {0},
        {.type = TRP_F16, .rank = 4, .dim = {IMAGES, 1, ROWS, COLUMNS}, .buffer = x},
        {.type = TRP_F16, .rank = 4, .dim = {1, 1, 1, 3}, .buffer = w},
        {.type = TRP_F16, .rank = 4, .dim = {IMAGES, 1, ROWS, COLUMNS}, .buffer = y}};
    const trp_dnn_node node = {.kind = TRP_DNN_CONV_FORWARD,
                               .x = 1,
                               .w = 2,
                               .y = 3,
                               .pre_pad = {0, 1},
                               .post_pad = {0, 1}};
    H_OK(trp_dnn_graph(b.dnn,
                       &(trp_dnn_graph_request){.tensors = tensors,
                                                .tensor_count = 4,
                                                .nodes = &node,
                                                .node_count = 1,
                                                .options = {.ran = &ran}},
                       &done));
    H_OK(h_await_any(done));
    H_CHECK(strcmp(ran.engine, "eng1_k2=1") == 0 && ran.proven);
    h_read(b.k.world.device, y, 0, data, COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++)
        H_EQUAL(data[i], 0x4000 + i % 0x3ff);
    free(data);
    db_close(&b);
}

/* Where there is no reference nothing can be proven. */
static void no_reference(void)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, "compile_fails", "x.cu(1): error: no such luck\n");
    for (int i = 0; i < 3; i++)
        conv(&b, 1, "eng0_k2=0", false);
    H_CHECK(h_log_said("plans serve unproven") && h_log_said("no such luck"));
    db_close(&b);
}

/* Requests wait for the reference: a wrong engine would serve meanwhile. A worker that ends calls
 * the compile off. */
static void compiled_first(void)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, "cudnn_wrong_extreme", "0");
    h_kernels_set(&b.k, "compile_ms", "100000");
    const trp_completion done = db_begin_conv(&b, 1);
    while (reported(&b, "compiles") == 0)
        h_sleep(H_MS);
    H_IS(trp_await(done.future, 20 * H_MS, NULL), TRP_E_TIMEOUT);
    db_reopen(&b);
    h_kernels_unset(&b.k, "compile_ms");
    conv(&b, 1, "eng1_k2=1", true);
    H_EQUAL(reported(&b, "compiles"), 2); /* one that was called off */
    db_close(&b);
}

/* --- refusals at run time --- */

/* After the proof. */
static void refused(void)
{
    char from[32];
    db_bed b = open_bed("all");
    snprintf(from, sizeof from, "0 %d", RELU_PROOF_RUNS + 2);
    h_kernels_set(&b.k, "cudnn_fails_from", from);
    conv(&b, 1, "eng0_k2=0", true);
    conv(&b, 1, "eng1_k2=1", true);
    conv(&b, 1, "eng1_k2=1", true);
    H_EQUAL(h_info(b.k.world.device).incarnation, 1);
    db_close(&b);
}

/* Two convolutions without padding of one image of 16 channels and 6 x 6 pixels, all ones: 4 x 4,
 * then 2 x 2 pixels. */
static trp_dnn_ran two_convs(const db_bed *b)
{
    enum { CHANNELS = 16, IN = 6, BETWEEN = 4, OUT = 2 };
    const trp_buffer x = db_buffer(b, CHANNELS * IN * IN, 0x3c00),
                     w = db_buffer(b, CHANNELS * CHANNELS * 9, 0x3c00),
                     y = db_buffer(b, CHANNELS * OUT * OUT, 0x7e00);
    trp_dnn_ran ran = {0};
    trp_completion done = {0};
    uint16_t got[CHANNELS * OUT * OUT];
    const trp_dnn_tensor tensors[] = {
        {0},
        {.type = TRP_F16, .rank = 4, .dim = {1, CHANNELS, IN, IN}, .buffer = x},
        {.type = TRP_F16, .rank = 4, .dim = {CHANNELS, CHANNELS, 3, 3}, .buffer = w},
        {.type = TRP_F16, .rank = 4, .dim = {1, CHANNELS, BETWEEN, BETWEEN}},
        {.type = TRP_F16, .rank = 4, .dim = {1, CHANNELS, OUT, OUT}, .buffer = y}};
    const trp_dnn_node nodes[] = {{.kind = TRP_DNN_CONV_FORWARD, .x = 1, .w = 2, .y = 3},
                                  {.kind = TRP_DNN_CONV_FORWARD, .x = 3, .w = 2, .y = 4}};
    const trp_dnn_graph_request r = {.tensors = tensors,
                                     .tensor_count = 5,
                                     .nodes = nodes,
                                     .node_count = 2,
                                     .options = {.ran = &ran}};
    H_OK(trp_dnn_graph(b->dnn, &r, &done));
    H_OK(h_await_any(done));
    h_read(b->k.world.device, y, 0, got, sizeof got);
    for (int i = 0; i < CHANNELS * OUT * OUT; i++)
        H_EQUAL(got[i], 0x7510); /* 144 times 144 */
    return ran;
}

/* Of the second piece, when the first has run; then of the first, too. */
static void refused_later(void)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, "cudnn_nodes", "1");
    h_kernels_set(&b.k, "cudnn_fails_from", "0 12");
    const trp_dnn_ran ran = two_convs(&b);
    H_CHECK(strcmp(ran.engine, "eng1_k2=1") == 0 && ran.proven);
    H_EQUAL(ran.parts, 2);
    H_EQUAL(h_info(b.k.world.device).incarnation, 1);
    db_close(&b);
}

/* All engines that are proven are refused later: kernels of the actor's are left. */
static void all_refused(void)
{
    char from[32];
    db_bed b = open_bed("conv");
    h_kernels_set(&b.k, "cudnn_wrong", "1,2,3,4");
    snprintf(from, sizeof from, "0 %d", PROOF_RUNS + 1);
    h_kernels_set(&b.k, "cudnn_fails_from", from);
    conv(&b, 1, "direct", true);
    db_close(&b);
}

/* --- workers that a proof costs --- */

static void costs_a_worker(const char *file)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker that is a thread can't be replaced");
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, file, "0");
    conv(&b, 1, "eng1_k2=1", true);
    H_EQUAL(h_info(b.k.world.device).incarnation, 2);
    db_reopen(&b); /* it stays rejected */
    conv(&b, 1, "eng1_k2=1", true);
    conv(&b, 1, "eng1_k2=1", true);
    H_EQUAL(h_info(b.k.world.device).incarnation, 1);
    db_close(&b);
}

static void breaks_the_context(void)
{
    costs_a_worker("cudnn_faults");
}

static void kills_the_worker(void)
{
    costs_a_worker("cudnn_kills");
}

/* --- deadlines --- */

/* Plans for four and a half times as long as the request may run. False if the worker was killed:
 * this machine, with all else that it does, could not run the request in that time. */
static bool planned_beyond(int64_t deadline_ns)
{
    char compile_ms[32];
    trp_dnn_ran ran;
    trp_error error = {0};
    db_bed b = open_bed("");
    b.deadline_ns = (uint64_t)deadline_ns;
    snprintf(compile_ms, sizeof compile_ms, "%lld", (long long)(deadline_ns * 9 / 2 / H_MS));
    h_kernels_set(&b.k, "compile_ms", compile_ms); /* of a kernel without which nothing goes */
    trp_status status = db_conv(&b, 1, (trp_dnn_options){0}, &ran, &error);
    bool hung = status == TRP_E_FAULT && error.fault == TRP_FAULT_HANG;
    if (!hung)
        H_IS(status, TRP_OK);
    bool killed = hung || h_info(b.k.world.device).incarnation != 1; /* it may run again */
    if (!killed) {
        H_CHECK(strcmp(ran.engine, "direct") == 0 && ran.proven);
        H_CHECK(reported(&b, "compiles") > 0);
    }
    db_close(&b);
    return !killed;
}

/* A plan takes longer than the request may: it does not count. */
static void deadline(void)
{
    int64_t deadline_ns = H_SEC;
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker that is a thread has no deadlines");
    setenv("TROUPE_CACHE_DIR", "", 1); /* each bed compiles */
    while (!planned_beyond(deadline_ns)) {
        deadline_ns *= 4;
        H_CHECK(deadline_ns < 60 * H_SEC);
    }
}

static const h_case cases[] = {H_CASE(wrong),
                               H_CASE(reads_workspace),
                               H_CASE(reads_beside),
                               H_CASE(reads_output),
                               H_CASE(rounds),
                               H_CASE(statistics),
                               H_CASE(functions),
                               H_CASE(wrong_for_extremes),
                               H_CASE(loses_overflow),
                               H_CASE(wrong_again),
                               H_CASE(writes_beside),
                               H_CASE(fails_at_launch),
                               H_CASE(all_wrong),
                               H_CASE(good),
                               H_CASE(kept),
                               H_CASE(listed),
                               H_CASE(off),
                               H_CASE(little_memory),
                               H_CASE(no_reference),
                               H_CASE(compiled_first),
                               H_CASE(refused),
                               H_CASE(refused_later),
                               H_CASE(all_refused),
                               H_CASE(breaks_the_context),
                               H_CASE(kills_the_worker),
                               H_CASE(deadline)};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake() || !getenv("TROUPE_CUDNN"))
        return H_EXIT_SKIPPED;
    return h_kernels_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

/* Kernels compiled by NVRTC and run on a real GPU, against results of the processor. Needs a GPU,
 * the driver for CUDA 12.4 or later, and NVRTC; clusters and tensor maps need compute
 * capability 9.0. Each case says what it shows, and prints what it measured: numbers decide
 * nothing. */
#include "support/gpu.h"

#include <math.h>
#include <signal.h>

enum { N = 100000, MANY = 100 };

static trp_actor *jit;
static h_world world;
static trp_device *device;

static void close_world(void)
{
    trp_actor_destroy(jit);
    h_close(&world);
}

/* Opens what a case works with. Where there is no NVRTC, or only the fake driver, it is skipped. */
static void open_world(void)
{
    static bool known;
    trp_jit_compile_request r = {.source = "__global__ void k() {}"};
    trp_module m;
    trp_completion c = {0};
    trp_status status = TRP_OK;
    if (!h_is_gpu())
        h_skip("needs a real GPU");
    world = h_open(NULL);
    device = world.device;
    jit = h_actor(device, "jit");
    if (known)
        return;
    H_OK(trp_jit_compile(jit, &r, &m, &c));
    status = h_await(c.future, NULL);
    known = status == TRP_OK;
    if (known)
        return;
    printf("       %s\n", trp_error_message());
    close_world();
    H_IS(status, TRP_E_MISSING);
    h_skip("NVRTC is not installed");
}

/* A module of a source, with names up to NULL; prints the log if it can't be made. */
static trp_module compiled_with(const char *source, const char *const *names,
                                const char *const *options, uint32_t option_count)
{
    trp_jit_compile_request r = {
        .source = source, .names = names, .options = options, .option_count = option_count};
    trp_module m;
    trp_completion c = {0};
    trp_error error = {0};
    while (names[r.name_count])
        r.name_count++;
    int64_t start = h_now();
    H_OK(trp_jit_compile(jit, &r, &m, &c));
    trp_status status = h_await(c.future, &error);
    if (status != TRP_OK) {
        char log[4000] = "";
        uint64_t bytes = 0;
        trp_module_read(device, m, TRP_MODULE_LOG, log, sizeof log - 1, &bytes);
        printf("       %s\n%s\n", error.message, log);
    }
    H_OK(status);
    printf("       compiled %s in %.0f ms\n", names[0], (double)(h_now() - start) / 1e6);
    return m;
}

static trp_module compiled(const char *source, const char *const *names)
{
    return compiled_with(source, names, NULL, 0);
}

static trp_kernel_launch_request launch_of(trp_module m, const char *kernel, uint32_t grid,
                                           uint32_t block, const trp_kernel_arg *args,
                                           uint32_t count)
{
    return (trp_kernel_launch_request){.module = m,
                                       .kernel = kernel,
                                       .grid = {grid},
                                       .block = {block},
                                       .args = args,
                                       .arg_count = count};
}

static float *random_floats(uint32_t count)
{
    float *out = h_malloc(count * sizeof *out);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (float)ref_rng_uniform(h_rng(), -1, 1);
    return out;
}

static trp_buffer buffer_of(const void *data, uint64_t bytes)
{
    trp_buffer b = h_buffer(device, bytes);
    h_write(device, b, 0, data, bytes);
    return b;
}

/* Two instantiations of one template, by the names of their expressions. */
static void templates(void)
{
    static const char source[] =
        "template <class T, int K> __global__ void poly(T *y, const T *x, T a, unsigned n)\n"
        "{\n"
        "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i >= n) return;\n"
        "    T p = a;\n"
        "    for (int k = 0; k < K; k++) p = p * x[i] + a;\n"
        "    y[i] = p;\n"
        "}\n";
    static const char *const names[] = {"poly<float, 3>", "poly<double, 5>", NULL};
    open_world();
    trp_module m = compiled(source, names);
    float *x = random_floats(N), *y = h_malloc(N * sizeof *y);
    double *dx = h_malloc(N * sizeof *dx), *dy = h_malloc(N * sizeof *dy);
    for (int i = 0; i < N; i++)
        dx[i] = x[i];
    trp_buffer bx = buffer_of(x, N * 4), by = h_buffer(device, N * 4);
    trp_buffer bdx = buffer_of(dx, N * 8), bdy = h_buffer(device, N * 8);
    const trp_kernel_arg single[] = {trp_arg_buffer(by, TRP_ACCESS_COVER),
                                     trp_arg_buffer(bx, TRP_ACCESS_READ), trp_arg_f32(0.75f),
                                     trp_arg_u32(N)};
    const trp_kernel_arg twice[] = {trp_arg_buffer(bdy, TRP_ACCESS_COVER),
                                    trp_arg_buffer(bdx, TRP_ACCESS_READ), trp_arg_f64(0.75),
                                    trp_arg_u32(N)};
    trp_kernel_launch_request r = launch_of(m, names[0], (N + 255) / 256, 256, single, 4);
    H_OK(trp_kernel_launch(jit, &r, NULL));
    r = launch_of(m, names[1], (N + 255) / 256, 256, twice, 4);
    H_OK(trp_kernel_launch(jit, &r, NULL));
    h_read(device, by, 0, y, N * 4);
    h_read(device, bdy, 0, dy, N * 8);
    for (int i = 0; i < N; i++) {
        double p = 0.75, q = 0.75;
        for (int k = 0; k < 3; k++)
            p = p * x[i] + 0.75;
        for (int k = 0; k < 5; k++)
            q = q * dx[i] + 0.75;
        H_CHECK(fabs(y[i] - p) < 1e-5 && fabs(dy[i] - q) < 1e-12);
    }
    trp_kernel_info info = {0};
    trp_completion c = {0};
    const trp_kernel_query_request q = {
        .module = m, .kernel = names[1], .block_threads = 256, .out = &info};
    H_OK(trp_kernel_query(jit, &q, &c));
    H_OK(h_await(c.future, NULL));
    printf("       %s: %u registers, %u blocks of 256 a multiprocessor, binary %u\n", names[1],
           info.registers, info.blocks_per_processor, info.binary_version);
    H_CHECK(info.registers > 0 && info.parameters == 4 && info.blocks_per_processor > 0);
    free(x);
    free(y);
    free(dx);
    free(dy);
    close_world();
}

/* Constant memory and a variable, set before a launch, changed, and set again by the next worker.
 */
static void variables(void)
{
    static const char source[] = "__constant__ float table[4];\n"
                                 "namespace deep { __device__ int offset; }\n"
                                 "extern \"C\" __global__ void lookup(float *y, unsigned n)\n"
                                 "{\n"
                                 "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                 "    if (i < n) y[i] = table[i % 4] + deep::offset;\n"
                                 "}\n";
    static const char *const names[] = {"lookup", "&table", "&deep::offset", NULL};
    open_world();
    trp_module m = compiled(source, names);
    float table[4] = {1, 20, 300, 4000}, y[64];
    int32_t offset = 7;
    trp_buffer by = h_buffer(device, sizeof y);
    const trp_kernel_arg args[] = {trp_arg_buffer(by, TRP_ACCESS_COVER), trp_arg_u32(64)};
    const trp_kernel_launch_request r = launch_of(m, "lookup", 1, 64, args, 2);
    trp_module_set_request t = {
        .module = m, .variable = "table", .data = table, .bytes = sizeof table};
    trp_module_set_request o = {
        .module = m, .variable = "&deep::offset", .data = &offset, .bytes = sizeof offset};
    for (int round = 0; round < 3; round++) {
        if (round < 2) { /* the third time what was set before must be there */
            table[1] += 1;
            offset += 1;
            H_OK(trp_module_set(jit, &t, NULL));
            H_OK(trp_module_set(jit, &o, NULL));
        }
        H_OK(trp_kernel_launch(jit, &r, NULL));
        h_read(device, by, 0, y, sizeof y);
        for (int i = 0; i < 64; i++)
            H_CHECK(y[i] == table[i % 4] + (float)offset);
        if (round == 1) {
            uint32_t before = h_info(device).incarnation;
            kill((pid_t)h_info(device).worker_pid, SIGKILL);
            h_await_incarnation(device, before + 1);
        }
    }
    close_world();
}

/* All blocks of a cooperative launch run at a time: they wait for each other at a barrier. */
static void cooperative(void)
{
    static const char source[] =
        "extern \"C\" __global__ void turns(unsigned *count, unsigned *out, unsigned rounds)\n"
        "{\n"
        "    for (unsigned r = 1; r <= rounds; r++) {\n"
        "        if (threadIdx.x == 0) {\n"
        "            __threadfence();\n"
        "            atomicAdd(count, 1);\n"
        "            while (*(volatile unsigned *)count < r * gridDim.x) {}\n"
        "            __threadfence();\n"
        "            atomicAdd(&out[r - 1], *(volatile unsigned *)count >= r * gridDim.x);\n"
        "        }\n"
        "        __syncthreads();\n"
        "    }\n"
        "}\n";
    static const char *const names[] = {"turns", NULL};
    enum { ROUNDS = 20 };
    open_world();
    trp_module m = compiled(source, names);
    uint32_t blocks = h_info(device).processors, got[ROUNDS];
    trp_buffer count = h_filled(device, 4, 0), out = h_filled(device, sizeof got, 0);
    const trp_kernel_arg args[] = {trp_arg_buffer(count, TRP_ACCESS_READ_WRITE),
                                   trp_arg_buffer(out, TRP_ACCESS_READ_WRITE), trp_arg_u32(ROUNDS)};
    trp_kernel_launch_request r = launch_of(m, NULL, blocks, 128, args, 3);
    r.cooperative = true;
    H_OK(trp_kernel_launch(jit, &r, NULL));
    h_read(device, out, 0, got, sizeof got);
    for (int i = 0; i < ROUNDS; i++)
        H_EQUAL(got[i], blocks);
    /* More blocks than fit at a time: refused, and nothing else is harmed. */
    trp_completion c = {0};
    trp_error error = {0};
    r.grid[0] = blocks * 64;
    r.block[0] = 1024;
    H_OK(trp_kernel_launch(jit, &r, &c));
    H_IS(h_await(c.future, &error), TRP_E_LIBRARY);
    printf("       too many blocks: %s\n", error.message);
    H_EQUAL(h_info(device).restarts, 0);
    close_world();
}

static void need_hopper(void)
{
    if (!h_is_gpu())
        h_skip("needs a real GPU");
    h_world w = h_open(NULL);
    uint32_t major = h_info(w.device).compute_major;
    h_close(&w);
    if (major < 9)
        h_skip("needs compute capability 9.0");
}

/* Blocks of a cluster read each other's shared memory. */
static void clusters(void)
{
    static const char source[] =
        "extern \"C\" __global__ void neighbour(unsigned *out)\n"
        "{\n"
        "    extern __shared__ unsigned mine[];\n"
        "    unsigned rank, size, there, value;\n"
        "    asm volatile(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(rank));\n"
        "    asm volatile(\"mov.u32 %0, %%cluster_nctarank;\" : \"=r\"(size));\n"
        "    mine[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;\n"
        "    asm volatile(\"barrier.cluster.arrive.aligned;\\n\"\n"
        "                 \"barrier.cluster.wait.aligned;\" ::: \"memory\");\n"
        "    unsigned at = (unsigned)__cvta_generic_to_shared(&mine[threadIdx.x]);\n"
        "    asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\"\n"
        "                 : \"=r\"(there) : \"r\"(at), \"r\"((rank + 1) % size));\n"
        "    asm volatile(\"ld.shared::cluster.u32 %0, [%1];\" : \"=r\"(value) : \"r\"(there)\n"
        "                 : \"memory\");\n"
        "    asm volatile(\"barrier.cluster.arrive.aligned;\\n\"\n"
        "                 \"barrier.cluster.wait.aligned;\" ::: \"memory\");\n"
        "    out[blockIdx.x * blockDim.x + threadIdx.x] = value;\n"
        "}\n";
    static const char *const names[] = {"neighbour", NULL};
    enum { BLOCKS = 32, THREADS = 64 };
    need_hopper();
    open_world();
    trp_module m = compiled(source, names);
    static uint32_t got[BLOCKS * THREADS];
    trp_buffer out = h_buffer(device, sizeof got);
    const trp_kernel_arg args[] = {trp_arg_buffer(out, TRP_ACCESS_COVER)};
    static const uint32_t sizes[] = {2, 4, 8, 16}; /* 16 is allowed by an attribute first */
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        trp_kernel_launch_request r = launch_of(m, NULL, BLOCKS, THREADS, args, 1);
        r.cluster[0] = sizes[s];
        r.shared_bytes = s % 2 ? THREADS * 4 : 100 << 10; /* as is more than 48 KiB */
        trp_completion c = {0};
        trp_error error = {0};
        H_OK(trp_kernel_launch(jit, &r, &c));
        trp_status status = h_await(c.future, &error);
        if (status != TRP_OK && sizes[s] == 16) { /* a GPU with fewer in a group may refuse it */
            printf("       clusters of 16: %s\n", error.message);
            continue;
        }
        H_OK(status);
        h_read(device, out, 0, got, sizeof got);
        for (uint32_t b = 0; b < BLOCKS; b++) {
            uint32_t next = b / sizes[s] * sizes[s] + (b % sizes[s] + 1) % sizes[s];
            for (uint32_t t = 0; t < THREADS; t++)
                H_EQUAL(got[b * THREADS + t], next * 1000 + t);
        }
    }
    close_world();
}

/* A tile of a matrix is copied by the tensor memory unit; what lies outside is 0. */
static void tensor_maps(void)
{
    static const char source[] =
        "struct alignas(64) map { unsigned long long opaque[16]; };\n"
        "extern \"C\" __global__ void tile(const __grid_constant__ map m, float *out, int x, int "
        "y)\n"
        "{\n"
        "    __shared__ alignas(128) float got[16 * 32];\n"
        "    __shared__ alignas(8) unsigned long long bar;\n"
        "    unsigned to = (unsigned)__cvta_generic_to_shared(got);\n"
        "    unsigned b = (unsigned)__cvta_generic_to_shared(&bar);\n"
        "    if (threadIdx.x == 0) {\n"
        "        asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\\n\"\n"
        "                     \"fence.mbarrier_init.release.cluster;\\n\"\n"
        "                     \"fence.proxy.async.shared::cta;\" :: \"r\"(b) : \"memory\");\n"
        "        asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\"\n"
        "                     :: \"r\"(b), \"r\"(16 * 32 * 4) : \"memory\");\n"
        "        asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.tile\"\n"
        "                     \".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\"\n"
        "                     :: \"r\"(to), \"l\"(&m), \"r\"(x), \"r\"(y), \"r\"(b) : "
        "\"memory\");\n"
        "    }\n"
        "    __syncthreads();\n"
        "    unsigned done = 0;\n"
        "    while (!done)\n"
        "        asm volatile(\"{ .reg .pred p;\\n\"\n"
        "                     \"mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\\n\"\n"
        "                     \"selp.u32 %0, 1, 0, p; }\" : \"=r\"(done) : \"r\"(b) : "
        "\"memory\");\n"
        "    for (unsigned i = threadIdx.x; i < 16 * 32; i += blockDim.x) out[i] = got[i];\n"
        "}\n";
    static const char *const names[] = {"tile", NULL};
    enum { WIDTH = 200, HEIGHT = 50 };
    need_hopper();
    open_world();
    trp_module m = compiled(source, names);
    float *x = random_floats(WIDTH * HEIGHT), got[16 * 32];
    trp_buffer bx = buffer_of(x, WIDTH * HEIGHT * 4), out = h_buffer(device, sizeof got);
    const trp_tensor_map map = {
        .type = TRP_F32, .rank = 2, .size = {WIDTH, HEIGHT}, .box = {32, 16}};
    static const int places[][2] = {{0, 0}, {32, 16}, {8, 3}, {192, 40}, {-8, -2}};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        const trp_kernel_arg args[] = {trp_arg_tensor_map(bx, &map, TRP_ACCESS_READ),
                                       trp_arg_buffer(out, TRP_ACCESS_COVER),
                                       trp_arg_i32(places[p][0]), trp_arg_i32(places[p][1])};
        const trp_kernel_launch_request r = launch_of(m, NULL, 1, 128, args, 4);
        trp_completion c = {0};
        trp_error error = {0};
        H_OK(trp_kernel_launch(jit, &r, &c));
        if (h_await(c.future, &error) != TRP_OK)
            h_fail(__FILE__, __LINE__, "tile at %d, %d: %s", places[p][0], places[p][1],
                   error.message);
        h_read(device, out, 0, got, sizeof got);
        for (int i = 0; i < 16 * 32; i++) {
            int col = places[p][0] + i % 32, row = places[p][1] + i / 32;
            bool inside = col >= 0 && col < WIDTH && row >= 0 && row < HEIGHT;
            H_CHECK(got[i] == (inside ? x[row * WIDTH + col] : 0));
        }
    }
    free(x);
    close_world();
}

/* A hundred kernels, compiled side by side, each launched behind its compile without waiting. */
static void many(void)
{
    static char source[MANY][300];
    static const char *const names[] = {"k"};
    open_world();
    trp_module m[MANY];
    float *x = random_floats(N), *y = h_malloc(N * sizeof *y);
    trp_buffer bx = buffer_of(x, N * 4), by[MANY];
    int64_t start = h_now();
    for (int i = 0; i < MANY; i++) {
        snprintf(source[i], sizeof source[i],
                 "extern \"C\" __global__ void k(float *y, const float *x, unsigned n)\n"
                 "{ unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                 "  if (i < n) y[i] = x[i] * %d.0f + %d.0f; }\n",
                 i, i * i);
        const trp_jit_compile_request c = {.source = source[i], .names = names, .name_count = 1};
        H_OK(trp_jit_compile(jit, &c, &m[i], NULL));
        by[i] = h_buffer(device, N * 4);
        const trp_kernel_arg args[] = {trp_arg_buffer(by[i], TRP_ACCESS_COVER),
                                       trp_arg_buffer(bx, TRP_ACCESS_READ), trp_arg_u32(N)};
        const trp_kernel_launch_request r = launch_of(m[i], "k", (N + 255) / 256, 256, args, 3);
        H_OK(trp_kernel_launch(jit, &r, NULL));
    }
    for (int i = 0; i < MANY; i++) {
        h_read(device, by[i], 0, y, N * 4);
        for (int k = 0; k < N; k += 997)
            H_CHECK(fabsf(y[k] - (x[k] * (float)i + (float)(i * i))) <= 1e-3f * (float)(i * i + 1));
        H_OK(trp_module_free(device, m[i]));
    }
    printf("       %d kernels compiled and run in %.2f s\n", MANY, (double)(h_now() - start) / 1e9);
    free(x);
    free(y);
    close_world();
}

static const char touch_source[] =
    "extern \"C\" __global__ void touch(unsigned *p, unsigned n)\n"
    "{ unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = i + 1; }\n"
    "extern \"C\" __global__ void wild(unsigned long long at) { *(volatile unsigned *)at = 1; }\n"
    "extern \"C\" __global__ void sum(unsigned long long *out, const unsigned *p, unsigned n)\n"
    "{ unsigned long long s = 0; for (unsigned i = 0; i < n; i++) s += p[i]; *out = s; }\n";
static const char *const touch_names[] = {"touch", "wild", "sum", NULL};

/* A kernel that faults costs its own request; the module works on the next worker at once. */
static void fault(void)
{
    open_world();
    trp_module m = compiled(touch_source, touch_names);
    trp_buffer before = h_buffer(device, 4000), after = h_buffer(device, 4000);
    const trp_kernel_arg first[] = {trp_arg_buffer(before, TRP_ACCESS_COVER), trp_arg_u32(1000)};
    const trp_kernel_arg last[] = {trp_arg_buffer(after, TRP_ACCESS_COVER), trp_arg_u32(1000)};
    const trp_kernel_arg nowhere[] = {trp_arg_u64(16)};
    trp_kernel_launch_request r = launch_of(m, "touch", 4, 256, first, 2);
    trp_completion c[3] = {{0}};
    trp_error error = {0};
    h_await_standby(device);
    H_OK(trp_kernel_launch(jit, &r, &c[0]));
    r = launch_of(m, "wild", 1, 1, nowhere, 1);
    H_OK(trp_kernel_launch(jit, &r, &c[1]));
    r = launch_of(m, "touch", 4, 256, last, 2);
    H_OK(trp_kernel_launch(jit, &r, &c[2]));
    H_IS(h_await(c[1].future, &error), TRP_E_FAULT);
    int64_t start = h_now();
    printf("       %s\n", error.message);
    H_EQUAL(error.fault, TRP_FAULT_GPU);
    H_OK(h_await(c[0].future, NULL));
    H_OK(h_await(c[2].future, NULL));
    printf("       the request behind it was done %.2f ms after the fault was told\n",
           (double)(h_now() - start) / 1e6);
    uint32_t got[1000];
    for (int k = 0; k < 2; k++) {
        h_read(device, k ? after : before, 0, got, sizeof got);
        for (uint32_t i = 0; i < 1000; i++)
            H_EQUAL(got[i], i + 1);
    }
    close_world();
}

/* A sealed buffer is read by a kernel; one that is said to write it is refused, and one that lies
 * about it faults without harm to the buffer. */
static void sealed(void)
{
    open_world();
    trp_module m = compiled(touch_source, touch_names);
    trp_buffer weights = h_sealable(device, 4000), out = h_buffer(device, 8);
    h_fill(device, weights, 5);
    H_OK(trp_buffer_seal(device, weights, TRP_FOREVER));
    trp_kernel_arg sum[] = {trp_arg_buffer(out, TRP_ACCESS_COVER),
                            trp_arg_buffer(weights, TRP_ACCESS_READ), trp_arg_u32(1000)};
    trp_kernel_arg touch[] = {trp_arg_buffer(weights, TRP_ACCESS_WRITE), trp_arg_u32(1000)};
    trp_kernel_launch_request r = launch_of(m, "sum", 1, 1, sum, 3);
    uint64_t got = 0;
    H_OK(trp_kernel_launch(jit, &r, NULL));
    h_read(device, out, 0, &got, sizeof got);
    H_EQUAL(got, 5000);
    r = launch_of(m, "touch", 4, 256, touch, 2);
    H_IS(trp_kernel_launch(jit, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("sealed");
    touch[0].mode = TRP_ACCESS_READ; /* which is not true */
    trp_completion c = {0};
    H_OK(trp_kernel_launch(jit, &r, &c));
    H_IS(h_await(c.future, NULL), TRP_E_FAULT);
    r = launch_of(m, "sum", 1, 1, sum, 3);
    H_OK(trp_kernel_launch(jit, &r, NULL));
    h_read(device, out, 0, &got, sizeof got);
    H_EQUAL(got, 5000);
    close_world();
}

/* Compiled to LTO-IR in two parts, linked, and run. */
static void linked(void)
{
    static const char *const names[] = {"caller", NULL}, *const none[] = {NULL};
    static const char *const rdc[] = {"-rdc=true"};
    open_world();
    trp_module part[2], whole;
    trp_completion c = {0};
    trp_error error = {0};
    const char *sources[] = {
        "extern __device__ float twice(float);\n"
        "extern \"C\" __global__ void caller(float *x) { x[1] = twice(x[0]); }\n",
        "__device__ float twice(float x) { return 2 * x; }\n"};
    for (int i = 0; i < 2; i++) {
        const trp_jit_compile_request r = {.source = sources[i],
                                           .names = i ? none : names,
                                           .name_count = i ? 0 : 1,
                                           .options = rdc,
                                           .option_count = 1,
                                           .output = TRP_JIT_LTOIR};
        H_OK(trp_jit_compile(jit, &r, &part[i], NULL));
    }
    const trp_jit_input in[] = {{.module = part[0]}, {.module = part[1]}};
    const trp_jit_link_request l = {
        .inputs = in, .input_count = 2, .lto = true, .names = names, .name_count = 1};
    H_OK(trp_jit_link(jit, &l, &whole, &c));
    trp_status status = h_await(c.future, &error);
    if (status == TRP_E_MISSING) {
        printf("       left out: %s\n", error.message);
        close_world();
        return;
    }
    H_OK(status);
    float x[2] = {21, 0};
    trp_buffer b = buffer_of(x, sizeof x);
    const trp_kernel_arg args[] = {trp_arg_buffer(b, TRP_ACCESS_READ_WRITE)};
    const trp_kernel_launch_request r = launch_of(whole, "caller", 1, 1, args, 1);
    H_OK(trp_kernel_launch(jit, &r, NULL));
    h_read(device, b, 0, x, sizeof x);
    H_CHECK(x[1] == 42);
    close_world();
}

static uint32_t deep(uint32_t n, uint32_t x)
{
    uint32_t sum = n ? deep(n - 1, x * 2654435761u + 1) : x;
    for (uint32_t i = 0; i < 8; i++)
        sum += (x + i) ^ n;
    return sum;
}

/* The compiler does not know how much stack a recursion needs, so the device must hold some. */
static void recursion(void)
{
    static const char source[] =
        "__device__ __noinline__ unsigned deep(unsigned n, unsigned x)\n"
        "{\n"
        "    volatile unsigned held[8];\n"
        "    for (unsigned i = 0; i < 8; i++) held[i] = x + i;\n"
        "    unsigned sum = n ? deep(n - 1, x * 2654435761u + 1) : x;\n"
        "    for (unsigned i = 0; i < 8; i++) sum += held[i] ^ n;\n"
        "    return sum;\n"
        "}\n"
        "__global__ void recurse(unsigned *y, unsigned n, unsigned depth)\n"
        "{\n"
        "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n) y[i] = deep(depth, i);\n"
        "}\n";
    static const char *const names[] = {"recurse", NULL};
    enum { DEPTH = 6 };
    open_world();
    trp_module m = compiled(source, names);
    uint32_t *y = h_malloc(N * sizeof *y);
    trp_buffer by = h_buffer(device, N * 4);
    const trp_kernel_arg args[] = {trp_arg_buffer(by, TRP_ACCESS_COVER), trp_arg_u32(N),
                                   trp_arg_u32(DEPTH)};
    trp_kernel_launch_request r = launch_of(m, names[0], (N + 255) / 256, 256, args, 3);
    H_OK(trp_kernel_launch(jit, &r, NULL));
    h_read(device, by, 0, y, N * 4);
    for (uint32_t i = 0; i < N; i++)
        H_EQUAL(y[i], deep(DEPTH, i));
    free(y);
    close_world();
}

GPU_CASES(H_CASE(templates), H_CASE(variables), H_CASE(cooperative), H_CASE(clusters),
          H_CASE(tensor_maps), H_CASE(many), H_CASE(fault), H_CASE(sealed), H_CASE(linked),
          H_CASE(recursion))

/* Modules outlive workers: what was compiled or loaded, and what was written to variables, is there
 * on the next one without the sender doing anything; and each request ends once, whatever dies. */
#include "support/jit_bed.h"

#include <signal.h>

TROUPE_TEST("many workers");
TROUPE_TEST_FAKE_GPU("no sanitizer", "FAKE_CUDA_REPORT_MS=1",
                     "cases after_a_restart with_all_lost trap order_of_sets replay");

/* `functions` times 150 instantiations: with 1 about half a second, with 40 about half a minute. */
static char *slow_source(int functions)
{
    size_t size = 1000 + (size_t)functions * 60;
    char *out = h_malloc(size);
    int n = snprintf(out, size,
                     "template <int K, int I> __device__ unsigned g(unsigned x)\n"
                     "{\n"
                     "    if constexpr (I > 0) return g<K, I - 1>(x * (I + K) + threadIdx.x);\n"
                     "    else return x;\n"
                     "}\n"
                     "extern \"C\" __global__ void slow(unsigned *x)\n"
                     "{\n");
    for (int i = 0; i < functions; i++)
        n += snprintf(out + n, size - (size_t)n, "x[%d] = g<%d, 150>(x[1]);\n", i, i);
    snprintf(out + n, size - (size_t)n, "}\n");
    return out;
}

static trp_status send_compile(const jb_bench *b, const char *source, uint64_t deadline_ns,
                               trp_module *m, trp_completion *c)
{
    const trp_jit_compile_request r = {.header = {.deadline_ns = deadline_ns},
                                       .source = source,
                                       .architecture = "sm_90",
                                       .output = TRP_JIT_PTX};
    return trp_jit_compile(b->jit, &r, m, c);
}

static void image_has(const jb_bench *b, trp_module m, const char *word)
{
    uint64_t bytes = 0;
    H_OK(trp_module_read(b->device, m, TRP_MODULE_IMAGE, NULL, 0, &bytes));
    char *image = h_malloc(bytes + 1);
    H_OK(trp_module_read(b->device, m, TRP_MODULE_IMAGE, image, bytes + 1, &bytes));
    h_check_says(__FILE__, __LINE__, image, word);
    free(image);
}

/* The worker is killed while it compiles: those in flight are compiled by the next one. */
static void killed_in_a_compile(void)
{
    enum { COUNT = 6 };
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    trp_module m[COUNT];
    trp_completion c[COUNT] = {{0}};
    char *slow = slow_source(1), quick[COUNT][100];
    H_OK(send_compile(&b, slow, 0, &m[0], &c[0]));
    for (int i = 1; i < COUNT; i++) {
        snprintf(quick[i], sizeof quick[i],
                 "extern \"C\" __global__ void k%d(int *x) { x[0] = %d; }", i, i);
        H_OK(send_compile(&b, quick[i], 0, &m[i], &c[i]));
    }
    h_sleep(50 * H_MS);
    kill((pid_t)h_info(b.device).worker_pid, SIGKILL);
    for (int i = 0; i < COUNT; i++) {
        trp_error error = {0};
        H_OK(h_await(c[i].future, &error));
        H_IS(trp_await(c[i].future, 0, NULL), TRP_E_STALE); /* once */
    }
    image_has(&b, m[0], ".entry slow(");
    for (int i = 1; i < COUNT; i++) {
        char word[32];
        snprintf(word, sizeof word, ".entry k%d(", i);
        image_has(&b, m[i], word);
    }
    H_EQUAL(h_info(b.device).restarts, 1);
    free(slow);
    jb_close(&b);
}

/* One that takes too long fails, and costs nobody else anything. */
static void deadline_of_a_compile(void)
{
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    trp_module m, other;
    trp_completion c = {0}, d = {0};
    trp_error error = {0};
    char *slow = slow_source(40);
    H_OK(send_compile(&b, slow, 100 * (uint64_t)H_MS, &m, &c));
    H_OK(send_compile(&b, "extern \"C\" __global__ void quick(int *x) { x[0] = 1; }", 0, &other,
                      &d));
    H_IS(h_await(c.future, &error), TRP_E_FAULT);
    H_EQUAL(error.fault, TRP_FAULT_HANG);
    H_OK(h_await(d.future, NULL));
    image_has(&b, other, ".entry quick(");
    trp_module_info info;
    H_OK(trp_module_get_info(b.device, m, &info));
    H_EQUAL(info.state, TRP_MODULE_FAILED);
    free(slow);
    jb_close(&b);
}

/* A device that is closed in the middle of it does not wait. */
static void closed_in_a_compile(void)
{
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    trp_module m;
    char *slow = slow_source(10);
    H_OK(send_compile(&b, slow, 0, &m, NULL));
    h_sleep(20 * H_MS);
    h_close(&b.world); /* ends the actor, too */
    free(slow);
}

/* ---- launches ---- */

static trp_status launch(const jb_bench *b, trp_module m, const char *kernel,
                         const trp_kernel_arg *args, uint32_t count, trp_completion *c)
{
    const trp_kernel_launch_request r = {.module = m,
                                         .kernel = kernel,
                                         .grid = {(JB_N + 255) / 256},
                                         .block = {256},
                                         .args = args,
                                         .arg_count = count};
    return trp_kernel_launch(b->jit, &r, c);
}

/* On every next worker a module works, with what was set. */
static void after_a_restart(void)
{
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    trp_module m = jb_loaded(&b);
    trp_buffer out = h_buffer(b.device, JB_N * 4), x = jb_ones(&b),
               y = h_buffer(b.device, JB_N * 4);
    trp_completion c = {0};
    H_OK(jb_set_factor(&b, m, 3, NULL));
    for (uint32_t round = 0; round < 3; round++) {
        H_OK(jb_fill(&b, m, out, round, NULL));
        jb_check_filled(&b, out, round);
        jb_scale(&b, m, x, y, NULL);
        H_CHECK(jb_last_of(&b, y) == 3);
        uint32_t before = h_info(b.device).incarnation;
        kill((pid_t)h_info(b.device).worker_pid, SIGKILL);
        h_await_incarnation(b.device, before + 1);
    }
    /* Lost buffers do not make a module lost. */
    H_OK(jb_fill(&b, m, out, 77, &c));
    H_OK(h_await(c.future, NULL));
    jb_close(&b);
}

/* With fault_scope all every buffer is lost, and no module. */
static void with_all_lost(void)
{
    jb_need_gpu();
    trp_device_options o = h_options();
    o.fault_scope = TRP_FAULT_SCOPE_ALL;
    jb_bench b = jb_open(&o);
    trp_module m = jb_loaded(&b);
    trp_buffer out = h_buffer(b.device, JB_N * 4);
    H_OK(jb_fill(&b, m, out, 1, NULL));
    jb_check_filled(&b, out, 1);
    uint32_t before = h_info(b.device).incarnation;
    kill((pid_t)h_info(b.device).worker_pid, SIGKILL);
    h_await_incarnation(b.device, before + 1);
    H_CHECK(h_buffer_info(b.device, out).lost);
    H_OK(jb_fill(&b, m, out, 2, NULL));
    jb_check_filled(&b, out, 2);
    jb_close(&b);
}

/* A kernel that faults costs its own request; those before and after it are right, the module works
 * on the next worker. */
static void trap(void)
{
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    trp_module m = jb_loaded(&b);
    trp_buffer before = h_buffer(b.device, JB_N * 4), after = h_buffer(b.device, JB_N * 4);
    trp_completion c[3] = {{0}};
    trp_error error = {0};
    H_OK(jb_fill(&b, m, before, 10, &c[0]));
    H_OK(launch(&b, m, "jit_trap", NULL, 0, &c[1]));
    H_OK(jb_fill(&b, m, after, 20, &c[2]));
    H_IS(h_await(c[1].future, &error), TRP_E_FAULT);
    H_EQUAL(error.fault, TRP_FAULT_GPU);
    H_OK(h_await(c[0].future, NULL));
    H_OK(h_await(c[2].future, NULL));
    jb_check_filled(&b, before, 10);
    jb_check_filled(&b, after, 20);
    jb_close(&b);
}

/* Sets and launches in flight when the worker dies run again in their order: each launch finds what
 * was set before it, and nothing that was set after. */
static void order_of_sets(void)
{
    enum { COUNT = 10 };
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    trp_module m = jb_loaded(&b);
    trp_buffer x = jb_ones(&b), y[COUNT];
    trp_completion c[COUNT] = {{0}}, spin = {0};
    const trp_kernel_arg forever[] = {trp_arg_u64(200000000)};
    H_OK(jb_set_factor(&b, m, 0.5f, NULL));
    H_OK(launch(&b, m, "jit_spin", forever, 1, &spin)); /* a while, so that all are in flight */
    for (int i = 0; i < COUNT; i++) {
        y[i] = h_buffer(b.device, JB_N * 4);
        H_OK(jb_set_factor(&b, m, (float)(i + 1), NULL));
        jb_scale(&b, m, x, y[i], &c[i]);
    }
    h_sleep(20 * H_MS);
    kill((pid_t)h_info(b.device).worker_pid, SIGKILL);
    for (int i = 0; i < COUNT; i++)
        H_OK(h_await(c[i].future, NULL));
    H_OK(h_await(spin.future, NULL));
    for (int i = 0; i < COUNT; i++)
        H_CHECK(jb_last_of(&b, y[i]) == (float)(i + 1));
    jb_close(&b);
}

/* Where the memory that is shared for modules is mapped here, and in the worker. */
static char *shared_modules(void)
{
    char line[512];
    unsigned long long base = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    H_CHECK(maps != NULL);
    while (base == 0 && fgets(line, sizeof line, maps)) {
        if (strstr(line, "memfd:troupe-heap"))
            base = strtoull(line, NULL, 16);
    }
    fclose(maps);
    H_CHECK(base != 0);
    return (char *)(uintptr_t)base;
}

/* A worker may write anything into the records of what was set (src/compile/modules/storage.h):
 * that is not looked up by the application, where it would be the end of it. */
static void wild_writes_into_records(void)
{
    enum { SETS = 32, WORDS = 5, DATA = 1, SIZES = 3 }; /* of a record, 8 bytes each */
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    trp_module m = jb_loaded(&b);
    trp_buffer x = jb_ones(&b), y = h_buffer(b.device, JB_N * 4);
    for (int i = 1; i <= 2; i++) {
        H_OK(jb_set_factor(&b, m, (float)i, NULL));
        jb_scale(&b, m, x, y, NULL);
        H_CHECK(jb_last_of(&b, y) == (float)i);
    }
    for (int i = 0; i < SETS; i++) {
        const uint64_t wild = UINT64_C(1) << 60, huge = UINT64_MAX;
        char *record = shared_modules() + i * WORDS * 8;
        memcpy(record + DATA * 8, &wild, 8);
        memcpy(record + SIZES * 8, &huge, 8);
    }
    for (int i = 3; i <= 6; i++) { /* each of which drops those that it covers */
        H_OK(jb_set_factor(&b, m, (float)i, NULL));
        jb_scale(&b, m, x, y, NULL);
        H_CHECK(jb_last_of(&b, y) == (float)i);
    }
    /* By now none of the damaged ones is left that the next worker could trip over. */
    uint32_t before = h_info(b.device).incarnation;
    kill((pid_t)h_info(b.device).worker_pid, SIGKILL);
    h_await_incarnation(b.device, before + 1);
    jb_scale(&b, m, x, y, NULL);
    H_CHECK(jb_last_of(&b, y) == 6);
    jb_close(&b);
}

H_CASES_OF_PROCESSES(H_CASE(killed_in_a_compile), H_CASE(deadline_of_a_compile),
                     H_CASE(closed_in_a_compile), H_CASE(after_a_restart), H_CASE(with_all_lost),
                     H_CASE(trap), H_CASE(order_of_sets), H_CASE(wild_writes_into_records))

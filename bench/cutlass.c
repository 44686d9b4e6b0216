/* Measures products by CUTLASS kernels: square ones against cuBLASLt's fastest algorithm, and a
 * fused epilogue against a product followed by a kernel. */
#include "bench/suite/product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Squares. */

static const int squares[] = {1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};

static bool is_chosen(const suite *s, int n)
{
    bool is_power = (n & (n - 1)) == 0; /* only these sizes have bounds */
    int most = !suite_on_gpu(s) ? 1024 : s->quick ? 4096 : 16384;
    return s->size ? n == s->size : n <= most && (is_power || s->plot);
}

static void plot_row(suite *s, const report_row *row, int n)
{
    char label[64];
    int colour = strcmp(row->type, "bf16") == 0 ? 0 : 1;
    if (!s->plot)
        return;
    snprintf(label, sizeof label, "%s, Troupe's kernels of CUTLASS", row->type);
    plot_add(s->plot, label, colour, false, n, row->scale / row->troupe_ns.p50);
    if (row->raw_ns.samples == 0)
        return;
    snprintf(label, sizeof label, "%s, cuBLASLt's fastest", row->type);
    plot_add(s->plot, label, colour, true, n, row->scale / row->raw_ns.p50);
}

static void measure_square(suite *s, trp_actor *actor, trp_dtype type, int n, mean *sum)
{
    product p = product_of(s, actor, type, (shape){n, n, n});
    p.cutlass = true;
    p.tune = s->tune;
    p.what.best = true;
    report_row row = product_row(s, &p);
    bool wide = n == 4096 || n == 8192;
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, wide || type != TRP_BF16 ? 1.0 : 0.95);
    if (!product_measure(&p, &row))
        return;
    if (p.raw)
        mean_add(sum, &row);
    plot_row(s, &row, n);
    printf("  %s%s\n", p.chosen.kernel, p.chosen.tuned ? ", found by a search" : "");
}

void suite_cutlass_kernels(suite *s)
{
    static const trp_dtype types[] = {TRP_BF16, TRP_F8E4M3};
    mean sum = {0};
    report_section(s->report, "Products by kernels of CUTLASS, D in bf16",
                   "raw: cublasLtMatmul with the fastest algorithm of its heuristic's, then "
                   "synchronize; Troupe: the cutlass actor's choice");
    trp_actor *actor = suite_actor(s, "cutlass");
    for (size_t t = 0; actor && t < sizeof types / sizeof *types; t++) {
        /* The element type follows from the kernel's name. */
        bool fp8 = s->kernel && strstr(s->kernel, "_fp8_");
        if (s->kernel && (strstr(s->kernel, "_grouped_") || fp8 != (types[t] == TRP_F8E4M3)))
            continue;
        for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
            if (is_chosen(s, squares[i]))
                measure_square(s, actor, types[t], squares[i], &sum);
        }
    }
    mean_show(s, &sum, 1.0);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

/* A fused epilogue. */

/* Applies the epilogue to the result of the product in one pass, 16 bytes (eight bf16 elements) per
 * thread and step. */
static const char fused_source[] =
    "__device__ float gelu(float x)\n"
    "{\n"
    "    float t, u = 0.7978845608f * (x + 0.044715f * x * x * x);\n"
    "    asm(\"tanh.approx.f32 %0, %1;\" : \"=f\"(t) : \"f\"(u));\n"
    "    return 0.5f * x * (1.0f + t);\n"
    "}\n"
    "__device__ unsigned two(unsigned x, unsigned c, unsigned b, float s)\n"
    "{\n"
    "    float low = gelu(__uint_as_float(x << 16) + __uint_as_float(b << 16)) * s;\n"
    "    float high = gelu(__uint_as_float(x & 0xffff0000u) + __uint_as_float(b & 0xffff0000u)) * "
    "s;\n"
    "    low += __uint_as_float(c << 16);\n"
    "    high += __uint_as_float(c & 0xffff0000u);\n"
    "    unsigned out;\n"
    "    asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(out) : \"f\"(high), \"f\"(low));\n"
    "    return out;\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) " RAW_FUSED "(\n"
    "    const uint4 *x, const uint4 *c, const uint4 *bias, const float *factors, uint4 *out,\n"
    "    unsigned vectors)\n"
    "{\n"
    "    unsigned i = blockIdx.x * 256 + threadIdx.x;\n"
    "    size_t at = (size_t)blockIdx.y * vectors + i;\n"
    "    if (i >= vectors)\n"
    "        return;\n"
    "    uint4 v = x[at], w = c[at], b = __ldg(bias + i);\n"
    "    float s = __ldg(factors + blockIdx.y);\n"
    "    out[at] = make_uint4(two(v.x, w.x, b.x, s), two(v.y, w.y, b.y, s), two(v.z, w.z, b.z, "
    "s),\n"
    "                         two(v.w, w.w, b.w, s));\n"
    "}\n";

/* Compiles the kernel for this device; the caller frees the image. */
static void *compile_fused(suite *s)
{
    static const char *const names[] = {RAW_FUSED};
    const trp_jit_compile_request r = {.source = fused_source, .names = names, .name_count = 1};
    trp_completion done = {0};
    trp_module module;
    uint64_t bytes = 0;
    void *image = NULL;
    trp_actor *jit = suite_actor(s, "jit");
    if (jit && suite_await(s, trp_jit_compile(jit, &r, &module, &done), &done, "trp_jit_compile") &&
        suite_check(s, trp_module_read(s->device, module, TRP_MODULE_IMAGE, NULL, 0, &bytes),
                    "trp_module_read"))
        image = malloc(bytes);
    if (image &&
        !suite_check(s, trp_module_read(s->device, module, TRP_MODULE_IMAGE, image, bytes, &bytes),
                     "trp_module_read")) {
        free(image);
        image = NULL;
    }
    if (jit && !image)
        suite_fail(s, "the elementwise kernel");
    trp_actor_destroy(jit);
    return image;
}

/* Measures a product, with or without the epilogue on both sides. Returns false after it has
 * reported the failure. */
static bool measure_fused(suite *s, trp_actor *actor, shape x, const void *image, report_row *row)
{
    product p = product_of(s, actor, TRP_BF16, x);
    p.cutlass = true;
    p.tune = s->tune;
    p.what.best = true;
    p.what.then = image;
    p.fused = image != NULL;
    *row = product_row(s, &p);
    snprintf(row->name, sizeof row->name, "%s bf16 %lld x %lld x %lld",
             image ? "with the epilogue" : "the product alone", (long long)x.m, (long long)x.n,
             (long long)x.k);
    bool good = product_measure(&p, row);
    printf("  %s%s\n", p.chosen.kernel, p.chosen.tuned ? ", found by a search" : "");
    return good;
}

void suite_cutlass_fused(suite *s)
{
    shape x = s->size ? (shape){s->size, s->size, s->size} : (shape){8192, 8192, 4096};
    report_row plain, fused, best;
    report_section(s->report, "A fused epilogue: gelu(sums + bias) * factors + C, bf16",
                   "raw: cuBLASLt's fastest product, then one kernel that does the rest; Troupe: "
                   "one kernel of the cutlass actor");
    if (!suite_on_gpu(s))
        return; /* the raw side is missing */
    trp_actor *actor = suite_actor(s, "cutlass");
    void *image = actor ? compile_fused(s) : NULL;
    if (image && measure_fused(s, actor, x, NULL, &plain) &&
        measure_fused(s, actor, x, image, &fused)) {
        /* The unfused variant takes the faster of both products and the kernel after it. */
        double saved = plain.raw_ns.p50 - plain.troupe_ns.p50;
        best = fused;
        snprintf(best.name, sizeof best.name, "against the faster product and a kernel");
        snprintf(best.note, sizeof best.note, "the product of %s",
                 saved > 0 ? "Troupe" : "cuBLASLt");
        if (saved > 0)
            best.raw_ns.p50 -= saved;
        suite_bound(s, &best, REPORT_RATIO_AT_LEAST, 1.25);
        report_add(s->report, &best);
    }
    free(image);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

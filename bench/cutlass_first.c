/* Measures the first product by a CUTLASS kernel in a new worker, with a pack that contains the
 * kernel and without one, where the worker compiles the kernel. */
#include "bench/suite/scratch.h"

#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 20, SAMPLES_QUICK = 5, SIZE = 256 };

typedef struct first {
    scratch files;
    char spec[SCRATCH_PATH], pack[SCRATCH_PATH], arch[16];
    const char *kernel;
} first;

/* Workers started after this call have no kernel cache except the pack. */
static bool begin(suite *s, first *f)
{
    char text[96];
    bool sm90 = s->info.compute_major == 9;
    *f =
        (first){.kernel = sm90 && !s->quick ? "s90_half_128x256x64_2x1" : "s80_half_128x128x32_a8"};
    if (!scratch_begin(s, &f->files))
        return false;
    scratch_path(&f->files, "kernels.json", f->spec);
    scratch_path(&f->files, "kernels.trpk", f->pack);
    snprintf(f->arch, sizeof f->arch, "%u%s", s->info.compute_major * 10 + s->info.compute_minor,
             sm90 ? "a" : "");
    snprintf(text, sizeof text, "[{\"rows\": \"%s\", \"type\": \"bf16\"}]\n", f->kernel);
    return scratch_write(s, f->spec, text);
}

static bool product(suite *s, const first *f, trp_actor *cutlass, const trp_buffer buffer[3],
                    double *ns)
{
    const trp_cutlass_gemm_request r = {
        .m = SIZE,
        .n = SIZE,
        .k = SIZE,
        .a = {.buffer = buffer[0], .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = buffer[1]},
        .d = {.buffer = buffer[2], .order = TRP_ROW_MAJOR},
        .kernel = f->kernel};
    trp_completion done = {0};
    int64_t from = stats_now();
    bool ok = suite_await(s, trp_cutlass_gemm(cutlass, &r, &done), &done, "trp_cutlass_gemm");
    *ns = (double)(stats_now() - from);
    return ok;
}

/* Times the first product on a prepared device with operands and actor, and the second one.
 */
static bool sample(suite *s, const first *f, double *ns, double *again)
{
    enum { MATRICES = 3 };
    const trp_actor_options actor = {.kind = "cutlass"};
    trp_device *device = NULL;
    trp_actor *cutlass = NULL;
    trp_buffer buffer[MATRICES];
    bool ok = suite_open(s, &device) &&
              suite_check(s, trp_actor_create(device, &actor, &cutlass), "trp_actor_create");
    for (int i = 0; i < MATRICES && ok; i++) {
        trp_completion done = {0};
        static const char zeros[SIZE * SIZE * 2];
        ok = suite_check(s, trp_buffer_create(device, sizeof zeros, &buffer[i]),
                         "trp_buffer_create") &&
             suite_await(s, trp_write(device, buffer[i], 0, zeros, sizeof zeros, &done), &done,
                         "trp_write");
    }
    ok = ok && product(s, f, cutlass, buffer, ns) && product(s, f, cutlass, buffer, again);
    trp_actor_destroy(cutlass);
    trp_device_close(device);
    return ok;
}

static bool make_pack(suite *s, const first *f)
{
    const char *const arguments[] = {"troupe", "cutlass", "pack", "-q",    "--spec", f->spec,
                                     "--arch", f->arch,   "-o",   f->pack, NULL};
    return suite_run(s, arguments);
}

static bool measure(suite *s, const first *f)
{
    static double ns[SAMPLES], again[SAMPLES];
    double cold, ignored;
    uint32_t count = s->quick ? SAMPLES_QUICK : SAMPLES;
    if (!sample(s, f, &cold, &ignored) || !make_pack(s, f))
        return false;
    setenv("TROUPE_CACHE_PACKS", f->pack, 1);
    for (uint32_t i = 0; i < count; i++) {
        if (!sample(s, f, &ns[i], &again[i]))
            return false;
    }
    report_row row = {.raw = "without a pack", .unit = "ms", .tail = true, .scale = 1e-6};
    snprintf(row.name, sizeof row.name, "%s", f->kernel);
    row.raw_ns = stats_summarise(&cold, 1);
    row.troupe_ns = stats_summarise(ns, count);
    suite_bound(s, &row, REPORT_VALUE_AT_MOST, 50);
    report_add(s->report, &row);
    row = (report_row){.raw = "", .unit = "ms", .tail = true, .scale = 1e-6};
    snprintf(row.name, sizeof row.name, "the next product");
    row.troupe_ns = stats_summarise(again, count);
    report_add(s->report, &row);
    return true;
}

void suite_cutlass_first(suite *s)
{
    first f;
    report_section(s->report, "The first product of a new worker, by a kernel of CUTLASS",
                   suite_on_gpu(s)
                       ? "raw: Troupe without a pack, which compiles the kernel; Troupe: "
                         "with a pack that has it"
                       : "needs a GPU");
    if (!suite_on_gpu(s))
        return;
    if (!begin(s, &f) || !measure(s, &f))
        suite_fail(s, "first product");
    scratch_end(&f.files);
}

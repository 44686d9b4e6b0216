/* Measures the waiting time for kernels compiled before, by the place where they are found. Each
 * section uses a separate cache folder and removes it. */
#include "jit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIDE_BY_SIDE = 100 };

/* A device with a jit actor in a new worker. */

typedef struct fresh {
    trp_device *device;
    trp_actor *jit;
} fresh;

static bool open_fresh(suite *s, fresh *f)
{
    trp_actor_options actor = {.kind = "jit"};
    *f = (fresh){0};
    return suite_open(s, &f->device) &&
           suite_check(s, trp_actor_create(f->device, &actor, &f->jit), "trp_actor_create");
}

static void close_fresh(fresh *f)
{
    trp_actor_destroy(f->jit);
    trp_device_close(f->device);
}

static bool compile(suite *s, trp_actor *jit, const jit_place *p, const char *source,
                    trp_module *module, trp_completion *done)
{
    static const char *const name = "warm";
    const trp_jit_compile_request r = {.header = {.wait_ns = TRP_FOREVER},
                                       .source = source,
                                       .names = &name,
                                       .name_count = 1,
                                       .architecture = p->target};
    return suite_check(s, trp_jit_compile(jit, &r, module, done), "trp_jit_compile");
}

static bool launch(suite *s, trp_actor *jit, trp_module module)
{
    const trp_kernel_arg none = trp_arg_u64(0);
    const trp_kernel_launch_request r = {
        .module = module, .grid = {1}, .block = {32}, .args = &none, .arg_count = 1};
    trp_completion done = {0};
    return suite_await(s, trp_kernel_launch(jit, &r, &done), &done, "trp_kernel_launch");
}

/* Sampled times in nanoseconds, up to SAMPLES of each. */
enum { SAMPLES = 60, SAMPLES_QUICK = 10 };

typedef struct samples {
    uint32_t count;
    double raw[SAMPLES];
    double whole[SAMPLES]; /* from the request to the end of the first launch, both sent together */
    uint32_t apart;        /* number of samples whose launch is sent after the module is loaded */
    double module[SAMPLES], launch[SAMPLES];
    double scratch[SAMPLES];
} samples;

/* Times a module and its first launch; the worker makes the launch wait for the module. The host
 * backend stops at the module. */
static bool first_use(suite *s, const jit_place *p, fresh *f, double *ns)
{
    trp_module module;
    trp_completion done = {0};
    bool gpu = suite_on_gpu(s);
    int64_t from = stats_now();
    bool ok = compile(s, f->jit, p, p->source, &module, gpu ? NULL : &done) &&
              (gpu ? launch(s, f->jit, module) : suite_await(s, TRP_OK, &done, "trp_jit_compile"));
    *ns = (double)(stats_now() - from);
    return ok;
}

static bool first_use_apart(suite *s, const jit_place *p, fresh *f, samples *all, uint32_t i)
{
    trp_module module;
    trp_completion done = {0};
    int64_t from = stats_now();
    bool ok = compile(s, f->jit, p, p->source, &module, &done) &&
              suite_await(s, TRP_OK, &done, "trp_jit_compile");
    int64_t made = stats_now();
    all->module[i] = (double)(made - from);
    ok = ok && launch(s, f->jit, module);
    all->launch[i] = (double)(stats_now() - made);
    return ok;
}

/* Writes the image to a file for the raw side. */
static bool put_image(suite *s, const jit_place *p, const char *path, uint64_t *bytes)
{
    fresh f;
    trp_module module;
    trp_completion done = {0};
    char *image = NULL;
    FILE *file = NULL;
    *bytes = 0;
    if (open_fresh(s, &f) && compile(s, f.jit, p, p->source, &module, &done) &&
        suite_await(s, TRP_OK, &done, "trp_jit_compile") &&
        suite_check(s, trp_module_read(f.device, module, TRP_MODULE_IMAGE, NULL, 0, bytes),
                    "trp_module_read"))
        image = malloc(*bytes);
    if (image &&
        suite_check(s, trp_module_read(f.device, module, TRP_MODULE_IMAGE, image, *bytes, bytes),
                    "trp_module_read"))
        file = fopen(path, "w");
    bool ok = file && fwrite(image, 1, *bytes, file) == *bytes;
    if (file)
        ok = fclose(file) == 0 && ok;
    free(image);
    close_fresh(&f);
    if (!ok && !*s->error)
        (void)suite_failed(s, path);
    return ok;
}

static bool sample_fresh(suite *s, const jit_place *p, samples *all)
{
    all->apart = suite_on_gpu(s) ? all->count / 3 : 0;
    for (uint32_t i = 0; i < all->count + all->apart; i++) {
        fresh f;
        bool ok =
            open_fresh(s, &f) && (i < all->count ? first_use(s, p, &f, &all->whole[i])
                                                 : first_use_apart(s, p, &f, all, i - all->count));
        close_fresh(&f);
        if (!ok)
            return false;
    }
    return true;
}

/* Times the raw side, also with one process per sample: the driver's cost of the first image in a
 * process occurs on both sides. */
static bool sample_raw(suite *s, const jit_place *p, const char *image, samples *all)
{
    char gpu[16], output[SCRATCH_PATH];
    const char *const arguments[] = {"troupe", "bench", SUITE_FIRST_LOAD, image, gpu, NULL};
    snprintf(gpu, sizeof gpu, "%u", s->info.ordinal);
    scratch_path(&p->files, "raw", output);
    for (uint32_t i = 0; i < all->count; i++) {
        if (!suite_run_into(s, arguments, output))
            return false;
        FILE *file = fopen(output, "r");
        bool read = file && fscanf(file, "%lf", &all->raw[i]) == 1;
        if (file)
            fclose(file);
        if (!read)
            return suite_failed(s, output);
    }
    return true;
}

bool suite_first_load(const char *path, const char *gpu)
{
    char message[320] = "";
    double ns = 0;
    struct stat about;
    char *image = NULL;
    FILE *file = fopen(path, "r");
    if (file && fstat(fileno(file), &about) == 0)
        image = malloc((size_t)about.st_size + 1);
    bool ok = image && fread(image, 1, (size_t)about.st_size, file) == (size_t)about.st_size;
    if (!ok)
        snprintf(message, sizeof message, "%s: %s", path, strerror(errno));
    if (file)
        fclose(file);
    ok = ok && raw_cuda_first_load((uint32_t)strtoul(gpu, NULL, 10), image, "warm", &ns, message,
                                   sizeof message);
    if (ok)
        printf("%.0f\n", ns);
    else
        fprintf(stderr, "troupe: bench: the first load: %s\n", message);
    free(image);
    return ok;
}

static void add_part(suite *s, const char *where, const char *what, double *ns, uint32_t count)
{
    report_row row = {.raw = "", .unit = "ms", .scale = 1e-6};
    snprintf(row.name, sizeof row.name, "%s, %s", where, what);
    row.troupe_ns = stats_summarise(ns, count);
    report_add(s->report, &row);
}

/* Adds the row, a row for each awaited request, and a row with the time beyond the raw side's
 * median, which has the bound. */
static void add_rows(suite *s, const char *where, double limit_ms, samples *all)
{
    report_row row = {.raw = "cuModuleLoadData, cuModuleGetFunction, cuLaunchKernel in a new "
                             "process",
                      .unit = "ms",
                      .tail = true,
                      .scale = 1e-6};
    uint32_t count = all->count;
    snprintf(row.name, sizeof row.name, "%s", where);
    memcpy(all->scratch, all->raw, sizeof all->scratch);
    if (suite_on_gpu(s))
        row.raw_ns = stats_summarise(all->scratch, count);
    memcpy(all->scratch, all->whole, sizeof all->scratch);
    row.troupe_ns = stats_summarise(all->scratch, count);
    report_add(s->report, &row);
    if (!suite_on_gpu(s))
        return;
    add_part(s, where, "the module alone", all->module, all->apart);
    add_part(s, where, "the launch alone", all->launch, all->apart);
    for (uint32_t i = 0; i < count; i++)
        all->scratch[i] = all->whole[i] - row.raw_ns.p50;
    row.raw_ns = (stats_summary){0};
    row.troupe_ns = stats_summarise(all->scratch, count);
    snprintf(row.name, sizeof row.name, "%s, beyond raw", where);
    suite_bound(s, &row, REPORT_VALUE_AT_MOST, limit_ms);
    report_add(s->report, &row);
}

static bool warm_disk(suite *s, const jit_place *p, samples *all)
{
    uint64_t bytes;
    char image[SCRATCH_PATH];
    scratch_path(&p->files, "image", image);
    if (!put_image(s, p, image, &bytes) || (suite_on_gpu(s) && !sample_raw(s, p, image, all)) ||
        !sample_fresh(s, p, all))
        return false;
    char where[40];
    snprintf(where, sizeof where, "from disk, %.0f KB", (double)bytes / 1e3);
    add_rows(s, where, 0.5, all);
    return true;
}

static bool warm_pack(suite *s, const jit_place *p, samples *all)
{
    const char *const arguments[] = {"troupe", "cache",   "pack", "-q",    p->list,
                                     "--arch", p->target, "-o",   p->pack, NULL};
    if (!suite_run(s, arguments))
        return false;
    setenv("TROUPE_CACHE_PACKS", p->pack, 1);
    setenv("TROUPE_CACHE_DIR", "", 1);
    bool ok = sample_fresh(s, p, all);
    if (ok)
        add_rows(s, "from a pack", 0.2, all);
    return ok;
}

void suite_jit_warm(suite *s)
{
    static samples all;
    jit_place p;
    all.count = s->quick ? SAMPLES_QUICK : SAMPLES;
    report_section(
        s->report, "A kernel that was compiled before, in a new worker",
        suite_on_gpu(s)
            ? "raw: load the image, launch, first in a process; Troupe: compile request and "
              "launch, "
              "sent, and the end of the launch. "
              "The same with CuPy: python3 bench/peers/cupy_warm.py"
            : "raw: needs a GPU, as launching does; Troupe: the compile request, awaited");
    if (!jit_begin(s, &p) || !warm_disk(s, &p, &all) || !warm_pack(s, &p, &all))
        suite_fail(s, "warm start");
    jit_end(&p);
}

/* Returns the CPU time of this thread. For a repeated request whose result is in memory only
 * computation counts, not waiting. */

static int64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

enum { BURST = 64 };

static bool burst_of_hits(suite *s, const fresh *f, const jit_place *p, const char *source,
                          double *ns)
{
    trp_module module;
    int64_t from = thread_ns();
    for (int i = 0; i < BURST; i++) {
        if (!compile(s, f->jit, p, source, &module, NULL) ||
            !suite_check(s, trp_module_free(f->device, module), "trp_module_free"))
            return false;
    }
    *ns = (double)(thread_ns() - from) / BURST;
    return suite_check(s, trp_device_drain(f->device, TRP_FOREVER), "trp_device_drain");
}

static bool burst_of_nothing(suite *s, const fresh *f, trp_actor *probe, double *ns)
{
    const trp_probe_request nothing = {.header = {.wait_ns = TRP_FOREVER}, .action = TRP_PROBE_NOP};
    int64_t from = thread_ns();
    for (int i = 0; i < BURST; i++) {
        if (!suite_check(s, trp_probe(probe, &nothing, NULL), "trp_probe"))
            return false;
    }
    *ns = (double)(thread_ns() - from) / BURST;
    return suite_check(s, trp_device_drain(f->device, TRP_FOREVER), "trp_device_drain");
}

static bool measure_hits(suite *s, const fresh *f, const jit_place *p, trp_actor *probe,
                         const char *source, const char *name)
{
    enum { BURSTS = 400 };
    static double raw_ns[BURSTS], troupe_ns[BURSTS];
    trp_module first;
    trp_completion done = {0};
    uint32_t count = s->quick ? 50 : BURSTS;
    bool ok = compile(s, f->jit, p, source, &first, &done) &&
              suite_await(s, TRP_OK, &done, "trp_jit_compile");
    for (uint32_t i = 0; i < count && ok; i++)
        ok = burst_of_nothing(s, f, probe, &raw_ns[i]) &&
             burst_of_hits(s, f, p, source, &troupe_ns[i]);
    if (!ok)
        return false;
    report_row row = {.raw = "an empty request of the probe actor", .unit = "us", .scale = 1e-3};
    row.raw_ns = stats_summarise(raw_ns, count);
    row.troupe_ns = stats_summarise(troupe_ns, count);
    snprintf(row.name, sizeof row.name, "%s", name);
    report_add(s->report, &row);
    for (uint32_t i = 0; i < count; i++)
        troupe_ns[i] -= row.raw_ns.p50;
    row.raw_ns = (stats_summary){0};
    row.troupe_ns = stats_summarise(troupe_ns, count);
    row.bound = REPORT_VALUE_AT_MOST;
    row.limit = 2;
    snprintf(row.name, sizeof row.name, "%s, beyond", name);
    report_add(s->report, &row);
    return true;
}

void suite_jit_memory(suite *s)
{
    jit_place p;
    fresh f = {0};
    trp_actor *probe = NULL;
    trp_actor_options options = {.kind = "probe"};
    report_section(
        s->report, "The same compile again in a process",
        "processor time of the sender; raw: an empty request; Troupe: a compile request, "
        "and its module freed");
    bool ok = jit_begin(s, &p) && open_fresh(s, &f) &&
              suite_check(s, trp_actor_create(f.device, &options, &probe), "trp_actor_create") &&
              measure_hits(s, &f, &p, probe, p.source, "found in memory");
    if (!ok)
        suite_fail(s, "the same again");
    trp_actor_destroy(probe);
    close_fresh(&f);
    jit_end(&p);
}

static bool compile_many(suite *s, const fresh *f, const jit_place *p, unsigned first,
                         bool together, double *ns)
{
    char *source[SIDE_BY_SIDE] = {0};
    trp_module module[SIDE_BY_SIDE];
    trp_completion done[SIDE_BY_SIDE] = {{0}};
    bool ok = true;
    for (unsigned i = 0; i < SIDE_BY_SIDE && ok; i++)
        ok = (source[i] = jit_source(first + i, JIT_STEPS_SMALL)) != NULL;
    int64_t from = stats_now();
    for (unsigned i = 0; i < SIDE_BY_SIDE && ok; i++)
        ok = compile(s, f->jit, p, source[i], &module[i], &done[i]) &&
             (together || suite_await(s, TRP_OK, &done[i], "trp_jit_compile"));
    for (unsigned i = 0; i < SIDE_BY_SIDE && ok && together; i++)
        ok = suite_await(s, TRP_OK, &done[i], "trp_jit_compile");
    *ns = (double)(stats_now() - from);
    for (unsigned i = 0; i < SIDE_BY_SIDE && ok; i++)
        ok = suite_check(s, trp_module_free(f->device, module[i]), "trp_module_free");
    for (unsigned i = 0; i < SIDE_BY_SIDE; i++)
        free(source[i]);
    return ok;
}

void suite_jit_many(suite *s)
{
    jit_place p;
    fresh f = {0};
    double ns[3];
    report_row row = {.raw = "the same, each awaited before the next is sent",
                      .name = "100 kernels, new",
                      .unit = "ms",
                      .scale = 1e-6};
    report_section(s->report, "Kernels that nobody has compiled before",
                   "raw: through Troupe, one after the other; Troupe: all sent at once");
    bool ok = jit_begin(s, &p) && open_fresh(s, &f) &&
              compile_many(s, &f, &p, 1000, true, &ns[0]) &&
              compile_many(s, &f, &p, 2000, false, &ns[1]) &&
              compile_many(s, &f, &p, 3000, true, &ns[2]); /* the first call loaded NVRTC */
    if (ok) {
        row.raw_ns = stats_summarise(&ns[1], 1);
        row.troupe_ns = stats_summarise(&ns[2], 1);
        report_add(s->report, &row);
    } else {
        suite_fail(s, row.name);
    }
    close_fresh(&f);
    jit_end(&p);
}

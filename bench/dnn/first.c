/* Measures the first convolution of a worker, and the same in a process that calls cuDNN directly,
 * phase by phase. */
#include "dnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 7, SAMPLES_QUICK = 3 };

/* Gives an actor time to finish its preparation ahead of requests. */
static const struct timespec pause_before = {0, 400 * 1000 * 1000};

enum { WITH_START, AT_ONCE, LATER, NEXT, TIMES };

static const char *const time_names[TIMES] = {[WITH_START] = "first, with the actor's start",
                                              [AT_ONCE] = "first, sent at once",
                                              [LATER] = "first, sent 0.4 s later",
                                              [NEXT] = "the next"};

typedef struct first {
    double ns[TIMES][SAMPLES];
    bool found;
} first;

static double since(int64_t from)
{
    return (double)(stats_now() - from);
}

/* Times the convolution from a prepared worker with tensors and from the start of the actor, and
 * the next convolution. */
static bool sample(suite *s, uint32_t i, bool later, first *f)
{
    const trp_actor_options dnn = {.kind = "dnn"};
    trp_device *before = s->device, *own = NULL;
    dnn_conv c = {.suite = s, .what = DNN_FIRST_SHAPE};
    bool good = suite_open(s, &own);
    s->device = good ? own : before;
    good = good && dnn_begin(&c);
    const int64_t start = stats_now();
    good = good && suite_check(s, trp_actor_create(own, &dnn, &c.actor), "trp_actor_create");
    if (later)
        nanosleep(&pause_before, NULL);
    const int64_t sent = stats_now();
    good = good && dnn_run_first(&c);
    f->ns[later ? LATER : AT_ONCE][i] = since(sent);
    if (!later)
        f->ns[WITH_START][i] = since(start);
    f->found = c.ran.found;
    const int64_t next = stats_now();
    good = good && dnn_run_first(&c);
    f->ns[NEXT][i] = since(next);
    dnn_end(&c);
    trp_actor_destroy(c.actor);
    s->device = before;
    trp_device_close(own);
    return good;
}

static bool take_samples(suite *s, const scratch *files, bool found, uint32_t count, first *f)
{
    char cache[SCRATCH_PATH];
    first ignored;
    scratch_path(files, "cache", cache);
    setenv("TROUPE_CACHE_DIR", found ? cache : "", 1);
    bool good = !found || sample(s, 0, false, &ignored); /* stores its plan there */
    for (uint32_t i = 0; good && i < 2 * count; i++) {
        good = sample(s, i / 2, i % 2 != 0, f);
        if (good && f->found != found) {
            snprintf(s->error, sizeof s->error, "the plan was %sfound", found ? "not " : "");
            good = false;
        }
    }
    return good;
}

static bool show_requests(suite *s, const scratch *files, uint32_t count)
{
    first built = {0}, found = {0};
    if (!take_samples(s, files, false, count, &built) ||
        !take_samples(s, files, true, count, &found))
        return false;
    for (int i = 0; i < TIMES; i++) {
        report_row row = {.raw = "without a cache", .unit = "ms", .tail = true, .scale = 1e-6};
        snprintf(row.name, sizeof row.name, "%s", time_names[i]);
        row.raw_ns = stats_summarise(built.ns[i], count);
        row.troupe_ns = stats_summarise(found.ns[i], count);
        report_add(s->report, &row);
    }
    return true;
}

enum { MAKE, READ, WARM_MAKE, WARM_READ, HOWS };

static const char *const hows[HOWS] = {"make", "read", "warm-make", "warm-read"};

static const struct {
    const char *name;
    bool warm; /* in a process that has already created a plan */
} phases[] = {
    [SUITE_PHASE_LIBRARY] = {"cuDNN loaded", false},
    [SUITE_PHASE_HANDLE] = {"its handle made", false},
    [SUITE_PHASE_PROPERTIES] = {"the device's properties", false},
    [SUITE_PHASE_WARM] = {"cuDNN's own start (warm-up)", true},
    [SUITE_PHASE_PLAN] = {"the plan", false},
    [SUITE_PHASE_LAUNCH] = {"the first launch", false},
    [SUITE_PHASE_NEXT] = {"the next", false},
};

typedef double phase_times[SUITE_PHASES][SAMPLES];

static bool take_phases(suite *s, const scratch *files, int how, uint32_t count, phase_times ns)
{
    char gpu[16], output[SCRATCH_PATH], record[SCRATCH_PATH];
    const char *const arguments[] = {"troupe",  "bench", SUITE_FIRST_CONV, gpu, record,
                                     hows[how], NULL};
    snprintf(gpu, sizeof gpu, "%u", s->info.ordinal);
    scratch_path(files, "phases", output);
    scratch_path(files, "record", record);
    for (uint32_t i = 0; i < count; i++) {
        if (!suite_run_into(s, arguments, output))
            return false;
        FILE *file = fopen(output, "r");
        bool good = file != NULL;
        for (int phase = 0; good && phase < SUITE_PHASES; phase++)
            good = fscanf(file, "%lf", &ns[phase][i]) == 1;
        if (file)
            fclose(file);
        if (!good)
            return suite_failed(s, output);
    }
    return true;
}

static void show_phase(suite *s, const char *name, const char *behind, double *made, double *read,
                       uint32_t count)
{
    report_row row = {.raw = "the plan made", .unit = "ms", .scale = 1e-6};
    snprintf(row.name, sizeof row.name, "%s%s", name, behind);
    row.raw_ns = stats_summarise(made, count);
    row.troupe_ns = stats_summarise(read, count);
    report_add(s->report, &row);
}

static bool show_phases(suite *s, const scratch *files, uint32_t count)
{
    static phase_times ns[HOWS];
    report_section(s->report, "The same by cuDNN alone, in a new process, by phase",
                   "raw: the plan made; Troupe's column: read from its record");
    for (int how = 0; how < HOWS; how++) {
        if (!take_phases(s, files, how, count, ns[how]))
            return false;
    }
    for (int i = 0; i < SUITE_PHASES; i++) {
        const int how = phases[i].warm ? WARM_MAKE : MAKE;
        show_phase(s, phases[i].name, "", ns[how][i], ns[how + 1][i], count);
    }
    show_phase(s, phases[SUITE_PHASE_PLAN].name, ", warmed up", ns[WARM_MAKE][SUITE_PHASE_PLAN],
               ns[WARM_READ][SUITE_PHASE_PLAN], count);
    return true;
}

void suite_dnn_first(suite *s)
{
    scratch files;
    uint32_t count = s->quick ? SAMPLES_QUICK : SAMPLES;
    report_section(s->report, "The first convolution of a new worker",
                   suite_on_gpu(s) ? "raw: Troupe without a cache, which makes the plan; Troupe: "
                                     "with the plan in the cache's folder"
                                   : "needs a GPU");
    if (!suite_on_gpu(s))
        return;
    if (!scratch_begin(s, &files) || !show_requests(s, &files, count) ||
        !show_phases(s, &files, count))
        suite_fail(s, "first convolution");
    scratch_end(&files);
}

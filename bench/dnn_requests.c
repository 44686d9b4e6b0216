/* What goes with a convolution: bias and relu in one, and the first request of a worker. */
#include "dnn.h"

#include <stdio.h>
#include <stdlib.h>

/* Bias and relu. */

static const dnn_shape fused[] = {{64, 256, 256, 56, 3, 1, 1, 1},
                                  {64, 64, 64, 56, 3, 1, 1, 1},
                                  {64, 64, 256, 56, 1, 1, 1, 1},
                                  {64, 512, 128, 28, 1, 1, 1, 1},
                                  {64, 1024, 256, 14, 1, 1, 1, 1}};
static const dnn_shape small = {2, 16, 16, 8, 3, 1, 1, 1};

static void measure_fused(suite *s, trp_actor *actor, const dnn_shape *x)
{
    dnn_conv alone = {.suite = s, .actor = actor, .what = *x}, with;
    report_row row = {.section = "conv-fused",
                      .raw = "the convolution alone",
                      .type = trp_dtype_name(TRP_BF16),
                      .unit = "us",
                      .scale = 1e-3};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    placement where;
    bool good = dnn_begin(&alone);
    with = alone;
    with.fused = true;
    const stats_side plain = {dnn_run, &alone}, more = {dnn_run, &with};
    dnn_name(x, DNN_FORWARD, row.name, sizeof row.name);
    if (good && dnn_run_first(&alone) && dnn_run_first(&with)) {
        snprintf(row.note, sizeof row.note, "%s%.30s", with.ran.parts > 1 ? "pieces " : "",
                 with.ran.engine);
        plan.count = stats_calibrate(plain, s->quick ? 3e6 : 10e6, 10000);
        plan.warm = plan.count / 8 + 1;
        placement_begin(&where, s->device, true);
        plan.placement = &where;
        if (plan.count > 0)
            suite_measure(s, &plan, plain, more, &row);
        else
            suite_fail(s, row.section, row.name);
        placement_end(&where);
    } else {
        suite_fail(s, row.section, row.name);
    }
    dnn_end(&alone);
}

void suite_dnn_fused(suite *s)
{
    dnn_place place;
    report_section(s->report, "A convolution with bias and relu, bf16",
                   "raw: the convolution alone, through the actor; Troupe: with bias and relu");
    bool good = dnn_open(s, &place);
    trp_actor *actor = good ? suite_actor(s, "dnn", "conv-fused") : NULL;
    if (!good)
        suite_fail(s, "conv-fused", "a device of its own");
    for (size_t i = 0; actor && suite_on_gpu(s) && i < sizeof fused / sizeof *fused; i++)
        measure_fused(s, actor, &fused[i]);
    if (actor && !suite_on_gpu(s))
        measure_fused(s, actor, &small);
    trp_actor_destroy(actor);
    dnn_close(s, &place);
}

/* The first request. */

enum { SAMPLES = 7, SAMPLES_QUICK = 3 };

typedef struct first {
    double ns[SAMPLES], again[SAMPLES];
    bool found;
} first;

/* From a worker that is ready, with its tensors and the actor, to the convolution; and the next
 * one. */
static bool sample(suite *s, uint32_t i, first *f)
{
    const dnn_shape shape = {8, 64, 64, 28, 3, 1, 1, 1};
    const trp_device_options options = {
        .backend = s->info.backend, .ordinal = s->info.ordinal, .standby = TRP_STANDBY_OFF};
    const trp_actor_options dnn = {.kind = "dnn"};
    trp_device *before = s->device, *own = NULL;
    dnn_conv c = {.suite = s, .what = shape};
    bool good = suite_check(s, trp_device_open(s->system, &options, &own), "trp_device_open");
    s->device = good ? own : before;
    good = good && suite_check(s, trp_actor_create(own, &dnn, &c.actor), "trp_actor_create") &&
           dnn_begin(&c);
    int64_t from = stats_now();
    good = good && dnn_run_first(&c);
    f->ns[i] = (double)(stats_now() - from);
    f->found = c.ran.found;
    from = stats_now();
    good = good && dnn_run_first(&c);
    f->again[i] = (double)(stats_now() - from);
    dnn_end(&c);
    trp_actor_destroy(c.actor);
    s->device = before;
    trp_device_close(own);
    return good;
}

static bool take_samples(suite *s, const dnn_place *place, bool found, uint32_t count, first *f)
{
    char cache[SCRATCH_PATH];
    first ignored;
    scratch_path(&place->files, "cache", cache);
    setenv("TROUPE_CACHE_DIR", found ? cache : "", 1);
    bool good = !found || sample(s, 0, &ignored); /* leaves its plan there */
    for (uint32_t i = 0; good && i < count; i++) {
        good = sample(s, i, f);
        if (good && f->found != found) {
            snprintf(s->error, sizeof s->error, "the plan was %sfound", found ? "not " : "");
            good = false;
        }
    }
    return good;
}

void suite_dnn_first(suite *s)
{
    dnn_place place = {.before = s->device};
    uint32_t count = s->quick ? SAMPLES_QUICK : SAMPLES;
    first built = {0}, found = {0};
    report_section(s->report, "The first convolution of a new worker",
                   suite_on_gpu(s) ? "raw: Troupe without a cache, which makes the plan; Troupe: "
                                     "with the plan in the cache's folder"
                                   : "needs a GPU");
    if (!suite_on_gpu(s))
        return;
    if (scratch_begin(s, &place.files) && take_samples(s, &place, false, count, &built) &&
        take_samples(s, &place, true, count, &found)) {
        report_row row = {.section = "conv-first",
                          .raw = "without a cache",
                          .unit = "ms",
                          .tail = true,
                          .scale = 1e-6,
                          .name = "first"};
        row.raw_ns = stats_summarise(built.ns, count);
        row.troupe_ns = stats_summarise(found.ns, count);
        report_add(s->report, &row);
        snprintf(row.name, sizeof row.name, "the next");
        row.raw_ns = stats_summarise(built.again, count);
        row.troupe_ns = stats_summarise(found.again, count);
        report_add(s->report, &row);
    } else {
        suite_fail(s, "conv-first", "first convolution");
    }
    scratch_end(&place.files);
}

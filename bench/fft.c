/* Measures transforms of the fft actor against cuFFT called directly: 1-D batched, 2-D, 3-D and of
 * prime lengths, sent back to back and one at a time. */
#include "bench/raw/fft.h"
#include "bench/suite/filled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements of all transforms of a request together. */
#define ELEMENTS       (INT64_C(1) << 24)
#define ELEMENTS_QUICK (INT64_C(1) << 18) /* and on the host */

typedef struct class
{
    const char *name;
    int rank, count;
    int64_t n[12][3];
    int step_of_real; /* the real kinds take every so many lengths */
} class;

static const class classes[] = {
    {"1-D",
     1,
     11,
     {{1 << 4},
      {1 << 6},
      {1 << 8},
      {1 << 10},
      {1 << 12},
      {1 << 14},
      {1 << 16},
      {1 << 18},
      {1 << 20},
      {1 << 22},
      {1 << 24}},
     2},
    {"2-D", 2, 3, {{1024, 1024}, {2160, 3840}, {4096, 4096}}, 1},
    {"3-D", 3, 2, {{64, 64, 64}, {256, 256, 256}}, 1},
    {"prime", 1, 3, {{127}, {10007}, {1000003}}, 1},
};

typedef enum way { SUSTAINED, EACH, WAYS } way;
static const char *const ways[WAYS] = {"back to back", "one at a time"};

/* Ratios of the speed of both sides. */
typedef struct ratios {
    double logarithms, least;
    int count;
    char worst[40];
} ratios;

typedef struct transform {
    suite *suite;
    trp_actor *actor;
    raw_fft *lib; /* NULL: there is none */
    raw_fft_problem what;
    trp_buffer buffer[2]; /* x, y */
} transform;

/* Sides. */

static trp_fft_request request_of(const transform *t)
{
    const raw_fft_problem *p = &t->what;
    trp_fft_request r = {.header = {.wait_ns = TRP_FOREVER},
                         .kind = p->kind,
                         .inverse = p->kind == TRP_FFT_C2R,
                         .scale = {.given = true, .re = 1}, /* as cuFFT has it */
                         .rank = (uint32_t)p->rank + 1,
                         .axis_count = (uint32_t)p->rank,
                         .x = {.buffer = t->buffer[0]},
                         .y = {.buffer = t->buffer[1]}};
    r.x.type = p->kind == TRP_FFT_R2C ? p->wide ? TRP_F64 : TRP_F32 : p->wide ? TRP_C128 : TRP_C64;
    r.x.dim[0] = p->batch;
    for (int i = 0; i < p->rank; i++) {
        const bool half = p->kind == TRP_FFT_C2R && i == p->rank - 1;
        r.axis[i] = i + 1;
        r.n[i] = p->n[i];
        r.x.dim[i + 1] = half ? p->n[i] / 2 + 1 : p->n[i];
    }
    return r;
}

static bool run(void *context, uint64_t count)
{
    transform *t = context;
    const trp_fft_request r = request_of(t);
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(t->suite, trp_fft(t->actor, &r, NULL), "a transform"))
            return false;
    }
    return suite_drain(t->suite, TRP_FOREVER);
}

static bool run_each(void *context, uint64_t count)
{
    transform *t = context;
    const trp_fft_request r = request_of(t);
    for (uint64_t i = 0; i < count; i++) {
        trp_completion done = {0};
        if (!suite_await(t->suite, trp_fft(t->actor, &r, &done), &done, "a transform"))
            return false;
    }
    return true;
}

static bool run_raw(void *context, uint64_t count)
{
    const transform *t = context;
    return raw_fft_run(t->lib, count);
}

static bool run_raw_each(void *context, uint64_t count)
{
    const transform *t = context;
    return raw_fft_run_each(t->lib, count);
}

static bool begin(transform *t)
{
    suite *s = t->suite;
    unsigned char *piece = malloc(FILLED_PIECE);
    if (!piece)
        return false;
    filled_piece(TRP_BF16, piece, s->seed); /* four make an f64 of similar magnitude */
    const bool good = filled_buffer(s, piece, raw_fft_bytes(&t->what, false), &t->buffer[0]) &&
                      filled_buffer(s, NULL, raw_fft_bytes(&t->what, true), &t->buffer[1]) &&
                      (!t->lib || raw_fft_begin(t->lib, &t->what, piece, FILLED_PIECE)) &&
                      run_each(t, 1);
    free(piece);
    return good;
}

static void end(transform *t)
{
    suite_free(t->suite, t->buffer, 2);
    if (t->lib)
        raw_fft_end(t->lib);
}

static double number_at(const void *x, bool wide, size_t i)
{
    return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* Compares the first numbers of y. C2R of noise is not compared: both sides complete a spectrum
 * that is none of real numbers in ways of their own. */
static bool compare(const transform *t)
{
    suite *s = t->suite;
    trp_completion done = {0};
    const uint64_t all = raw_fft_bytes(&t->what, true);
    const size_t bytes = all < FILLED_PIECE ? (size_t)all : FILLED_PIECE;
    if (!t->lib || t->what.kind == TRP_FFT_C2R)
        return true;
    void *ours = malloc(bytes), *theirs = malloc(bytes);
    double norm = 0, distance = 0;
    bool good =
        ours && theirs && raw_fft_run(t->lib, 1) && raw_fft_result(t->lib, theirs, bytes) &&
        suite_await(s, trp_read(s->device, t->buffer[1], 0, ours, bytes, &done), &done, "trp_read");
    for (size_t i = 0; good && i < bytes / (t->what.wide ? 8 : 4); i++) {
        const double x = number_at(ours, t->what.wide, i), y = number_at(theirs, t->what.wide, i);
        norm += y * y;
        distance += (x - y) * (x - y);
    }
    if (good && !(distance <= norm * (t->what.wide ? 1e-24 : 1e-10))) {
        snprintf(s->error, sizeof s->error, "the two sides differ by %.2e of their norm",
                 sqrt(distance / norm));
        good = false;
    }
    free(ours);
    free(theirs);
    return good;
}

/* Rows. */

static report_row row_of(const transform *t)
{
    static const char *const kinds[] = {"c2c", "r2c", "c2r"};
    const raw_fft_problem *p = &t->what;
    report_row row = {.raw = t->lib ? "cufftXtExec" : NULL,
                      .type = p->wide ? "f64" : "f32",
                      .unit = "GB/s",
                      .rate = true,
                      .scale = (double)(raw_fft_bytes(p, false) + raw_fft_bytes(p, true))};
    int used = snprintf(row.name, sizeof row.name, "%s %s ", kinds[p->kind], row.type);
    for (int i = 0; i < p->rank; i++)
        used += snprintf(row.name + used, sizeof row.name - (size_t)used, "%s%lld", i ? "x" : "",
                         (long long)p->n[i]);
    snprintf(row.name + used, sizeof row.name - (size_t)used, ", %lld", (long long)p->batch);
    return row;
}

static void add_ratio(ratios *all, const report_row *row)
{
    const double speed = row->raw_ns.p50 / row->troupe_ns.p50;
    if (all->count == 0 || speed < all->least) {
        all->least = speed;
        snprintf(all->worst, sizeof all->worst, "%.39s", row->name);
    }
    all->logarithms += log(speed);
    all->count++;
}

/* Measures both ways; the row is that of requests sent back to back. */
static bool time_ways(transform *t, report_row *row, ratios of[WAYS])
{
    suite *s = t->suite;
    const stats_side raw_side = {.run = t->lib ? run_raw : NULL, .context = t},
                     raw_each = {.run = t->lib ? run_raw_each : NULL, .context = t};
    report_row each = *row;
    stats_plan plan = {
        .blocks = s->quick ? 1 : 3, .count = s->quick ? 2 : 15, .warm = 2, .each = true};
    /* Long blocks: a request that is waited for ends some 100 us late (docs/performance.md). */
    bool good = suite_time_blocks(s, 3, 30e6, false, raw_side, (stats_side){run, t}, row);
    if (good) {
        placement where;
        placement_begin(&where, s->device, false);
        plan.placement = &where;
        good = suite_time(s, &plan, raw_each, (stats_side){run_each, t}, &each);
        placement_end(&where);
    }
    if (!good || !t->lib)
        return good;
    add_ratio(&of[SUSTAINED], row);
    add_ratio(&of[EACH], &each);
    snprintf(row->note, sizeof row->note, "one at a time %.3f",
             each.raw_ns.p50 / each.troupe_ns.p50);
    return true;
}

static void measure(transform *t, ratios of[WAYS])
{
    report_row row = row_of(t);
    const bool good = begin(t) && compare(t) && time_ways(t, &row, of);
    if (good)
        report_add(t->suite->report, &row);
    else
        suite_fail(t->suite, row.name);
    end(t);
}

static void show_ratios(suite *s, const char *name, const ratios of[WAYS])
{
    for (way w = 0; w < WAYS; w++) {
        report_row row = {.raw = "1",
                          .unit = "of raw",
                          .rate = true,
                          .scale = 1,
                          .raw_ns = {.samples = 1, .operations = 1, .p50 = 1},
                          .troupe_ns = {.samples = 1, .operations = 1}};
        if (of[w].count == 0)
            return;
        row.troupe_ns.p50 = exp(-of[w].logarithms / of[w].count);
        snprintf(row.name, sizeof row.name, "%s %s, %d", name, ways[w], of[w].count);
        if (w == SUSTAINED)
            suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.99);
        snprintf(row.note, sizeof row.note, "%.3f %.30s", of[w].least, of[w].worst);
        report_add(s->report, &row);
    }
}

static void measure_class(suite *s, trp_actor *actor, raw_fft *lib, const class *c,
                          trp_fft_kind kind, int64_t begun)
{
    static const char *const kinds[] = {"c2c", "r2c", "c2r"};
    const int64_t elements = s->quick || !suite_on_gpu(s) ? ELEMENTS_QUICK : ELEMENTS;
    const int step = kind == TRP_FFT_C2C ? 1 : c->step_of_real;
    ratios of[WAYS] = {0};
    char name[32];
    for (int i = 0; i < 2 * c->count; i += i % 2 ? 2 * step - 1 : 1) {
        transform t = {.suite = s,
                       .actor = actor,
                       .lib = lib,
                       .what = {.kind = kind, .wide = i % 2, .rank = c->rank}};
        int64_t own = 1;
        if ((double)(stats_now() - begun) > s->limit * 1e9)
            break;
        memcpy(t.what.n, c->n[i / 2], sizeof t.what.n);
        for (int k = 0; k < c->rank; k++)
            own *= t.what.n[k];
        t.what.batch = elements / own > 0 ? elements / own : 1;
        if (own <= ELEMENTS_QUICK || elements == ELEMENTS)
            measure(&t, of);
    }
    snprintf(name, sizeof name, "%s %s", c->name, kinds[kind]);
    show_ratios(s, name, of);
}

void suite_fft(suite *s)
{
    raw_fft lib = {0};
    const int64_t begun = stats_now();
    report_section(s->report, "Transforms of 2^24 elements in all (on the host, or quick, of 2^18)",
                   "raw: cufftXtExec, then synchronize; C2R overwrites its input there and does "
                   "not here; Troupe: the fft actor");
    const trp_status opened = suite_on_gpu(s) ? raw_fft_open(&lib, s->raw->error) : TRP_E_MISSING;
    if (opened != TRP_OK && opened != TRP_E_MISSING)
        suite_fail(s, "cuFFT");
    s->raw->error[0] = '\0'; /* without the library there is no raw side, which is no error */
    trp_actor *actor = suite_actor(s, "fft");
    for (size_t i = 0; actor && i < sizeof classes / sizeof *classes; i++) {
        for (trp_fft_kind kind = TRP_FFT_C2C; kind <= TRP_FFT_C2R; kind++)
            measure_class(s, actor, opened == TRP_OK ? &lib : NULL, &classes[i], kind, begun);
    }
    if ((double)(stats_now() - begun) > s->limit * 1e9)
        printf("  stopped after %g s (--limit)\n", s->limit);
    trp_actor_destroy(actor);
    raw_fft_close(&lib);
}

/* troupe tune: searches for the fastest algorithms ahead of time. */
#include "tune.h"

#include "commands.h"
#include "data/run.h"
#include "ui/ui.h"

#include "cache/inspect.h"
#include "cache/key.h"
#include "cache/store_parts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPETITIONS = 10 }; /* timed products per problem */

typedef struct tune {
    run_choice choice;
    bool quick, list, quiet;
    const char *path;
    tune_problem *problems;
    size_t count, failed, known; /* known: found without a new record */
    struct run run;
    char folder[PATH_MAX];
    trp__store *store; /* where the worker stores records, without packs */
} tune;

/* Storage of records. */

static bool find_folder(tune *t)
{
    trp_error error;
    if (trp__cache_folder_path(t->folder, sizeof t->folder, &error) == TRP_OK)
        return true;
    ui_error("records can't be stored: %s", error.message);
    return false;
}

static void drop_line(void *user_data, int level, const char *line)
{
    (void)user_data, (void)level, (void)line;
}

/* Creates and removes a file where the worker would write. */
static bool check_folder(tune *t)
{
    static const char name[] = TRP__TEMPORARY "tune";
    static const trp__log silent = {.sink = drop_line}; /* errors are reported below */
    const trp__store_options options = {.packs = "", .log = &silent};
    trp_error error;
    int folder, file = -1;
    trp_status status = trp__store_open(&options, &t->store, &error);
    if (status == TRP_OK)
        status = trp__disk_folder(&t->store->disk, true, &folder, &error);
    if (status == TRP_OK) {
        status = trp__cache_file_open(folder, name, O_RDWR | O_CREAT, &file, &error);
        if (file >= 0)
            close(file);
        unlinkat(folder, name, 0);
        close(folder);
    }
    if (status != TRP_OK)
        ui_error("records can't be stored: %s; TROUPE_CACHE_DIR names another folder",
                 error.message);
    return status == TRP_OK;
}

/* Finds a record made since a search began. A file's time is that of its creation or last use; a
 * use updates it only after a minute, so a young file with an older creation time is no new
 * record. */
typedef struct newcomer {
    struct timespec since; /* by the clock of file times */
    bool found;
} newcomer;

static bool see_newcomer(void *context, const trp__inspected *one)
{
    newcomer *n = context;
    char kind[32];
    if (one->used_ns < (int64_t)n->since.tv_sec * 1000000000 + n->since.tv_nsec)
        return false; /* listed by last use */
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD)
        return true;
    trp__inspect_field(&one->entry, TRP__KEY_KIND, kind, sizeof kind);
    n->found = !strcmp(kind, TRP__KIND_MATMUL_TUNING) &&
               (int64_t)one->entry.made >= (int64_t)n->since.tv_sec - 1;
    return !n->found;
}

static newcomer begin_newcomer(void)
{
    newcomer n = {0};
    clock_gettime(CLOCK_REALTIME_COARSE, &n.since);
    return n;
}

static bool has_newcomer(const tune *t, newcomer *n)
{
    trp_error ignored;
    (void)trp__inspect_all(t->store, false, see_newcomer, n, &ignored);
    return n->found;
}

/* Memory of one problem. */

static void free_buffers(tune *t, const trp_buffer *buffers)
{
    for (int i = 0; i < TUNE_OPERANDS; i++) {
        if (buffers[i].id)
            trp_buffer_free(t->run.device, buffers[i]);
    }
}

/* Allocates a buffer for each operand, aligned to 256 bytes: an algorithm may rely on alignment,
 * and records apply to operands aligned alike. */
static trp_status make_buffers(tune *t, const tune_problem *p, trp_buffer *buffers)
{
    trp_status status = TRP_OK;
    for (int i = 0; i < TUNE_OPERANDS && status == TRP_OK; i++) {
        if (p->bytes[i] == 0)
            continue;
        trp_completion done = {0};
        status = trp_buffer_create(t->run.device, p->bytes[i], &buffers[i]);
        if (status == TRP_OK)
            status = trp_fill(t->run.device, buffers[i], 0, p->bytes[i], 0, 1, &done);
        if (status == TRP_OK)
            status = trp_await(done.future, TRP_FOREVER, NULL);
    }
    return status;
}

static trp_matmul_request request_of(const tune_problem *p, const trp_buffer *buffers)
{
    trp_matmul_request r = p->request;
    bool gradient = r.gradient_of != TRP_BIAS_GRADIENT_NONE;
    r.a.buffer = buffers[TUNE_A];
    r.b.buffer = buffers[TUNE_B];
    r.c.buffer = buffers[TUNE_C];
    r.d.buffer = buffers[TUNE_D];
    if (p->in_place)
        r.c = r.d;
    r.aux.buffer = buffers[TUNE_AUX];
    *(gradient ? &r.gradient.buffer : &r.bias.buffer) = buffers[TUNE_VECTOR];
    r.a.scale.buffer = buffers[TUNE_SCALE_A];
    r.b.scale.buffer = buffers[TUNE_SCALE_B];
    r.d.scale.buffer = buffers[TUNE_SCALE_D];
    r.amax_d = buffers[TUNE_AMAX];
    return r;
}

/* One problem. */

static trp_status multiply(tune *t, const trp_matmul_request *request, trp_tune how, int times,
                           uint64_t *ns)
{
    trp_matmul_request r = *request;
    trp_completion done[REPETITIONS] = {{0}};
    trp_status status = TRP_OK;
    uint64_t began = ui_now();
    int sent = 0;
    r.tune = how;
    while (sent < times && status == TRP_OK) {
        status = trp_matmul(t->run.actor, &r, &done[sent]);
        sent += status == TRP_OK;
    }
    for (int i = 0; i < sent; i++) {
        trp_status ended = trp_await(done[i].future, TRP_FOREVER, NULL);
        status = status == TRP_OK ? ended : status;
    }
    *ns = ui_now() - began;
    return status;
}

/* Searches, then times the winner: once to make the plan, then in a row. */
static trp_status search(tune *t, const tune_problem *p, uint64_t *search_ns, uint64_t *product_ns)
{
    trp_buffer buffers[TUNE_OPERANDS] = {{0}};
    uint64_t ignored;
    trp_status status = make_buffers(t, p, buffers);
    trp_matmul_request r = request_of(p, buffers);
    if (status == TRP_OK)
        status = multiply(t, &r, t->quick ? TRP_TUNE_QUICK : TRP_TUNE_FULL, 1, search_ns);
    if (status == TRP_OK)
        status = multiply(t, &r, TRP_TUNE_OFF, 1, &ignored);
    if (status == TRP_OK)
        status = multiply(t, &r, TRP_TUNE_OFF, REPETITIONS, product_ns);
    *product_ns /= REPETITIONS;
    free_buffers(t, buffers);
    return status;
}

static double flops_of(const tune_problem *p)
{
    const trp_matmul_request *r = &p->request;
    bool complex = r->a.type == TRP_C64 || r->a.type == TRP_C128;
    return (complex ? 8.0 : 2.0) * (double)r->m * (double)r->n * (double)r->k * (double)r->batch;
}

static void show_progress(const tune *t, size_t i, uint64_t began)
{
    uint64_t left = i ? (ui_now() - began) / i * (t->count - i) : 0;
    if (i == 0)
        ui_progress("1 of %zu: %s", t->count, t->problems[i].text);
    else
        ui_progress("%zu of %zu, about %s left: %s", i + 1, t->count, ui_duration(left).s,
                    t->problems[i].text);
}

static void tune_one(tune *t, size_t i)
{
    const tune_problem *p = &t->problems[i];
    uint64_t search_ns = 0, product_ns = 0;
    char label[48];
    newcomer record = begin_newcomer();
    trp_status status = search(t, p, &search_ns, &product_ns);
    snprintf(label, sizeof label, "%zu of %zu", i + 1, t->count);
    if (status == TRP_OK) {
        bool found = has_newcomer(t, &record);
        ui_step(found ? UI_GOOD : UI_NONE, label, search_ns, "%s: %s a product, %s%s", p->text,
                ui_duration(product_ns).s, ui_flop_rate(flops_of(p), product_ns).s,
                found ? ""
                      : "; no new record: it was searched before, or there was no room for a "
                        "search");
        t->known += !found;
        return;
    }
    t->failed++;
    ui_step(UI_BAD, label, search_ns, "%s", p->text);
    ui_error("%s:%d: %s: %s (%s)", t->path, p->line, p->text, trp_error_message(),
             trp_status_name(status));
}

static void list(const tune *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const tune_problem *p = &t->problems[i];
        uint64_t bytes = 0;
        for (int j = 0; j < TUNE_OPERANDS; j++)
            bytes += p->bytes[j];
        ui_line("%4d  %-52s %10s", p->line, p->text, ui_bytes(bytes).s);
    }
    ui_line("%s search for %s; records are kept in %s", t->quick ? "a quick" : "a full",
            ui_plural(t->count, "problem").s, t->folder);
}

static bool run_all(tune *t)
{
    uint64_t began = ui_now();
    ui_progress("opening the device");
    if (!run_open(&t->run, &t->choice, "matmul", NULL))
        return false;
    ui_step(UI_NONE, "device", ui_now() - began, "%s", run_device_text(&t->run.info).s);
    if (t->run.info.backend == TRP_BACKEND_HOST) {
        ui_line("the host backend has nothing to search");
        return true;
    }
    if (!check_folder(t))
        return false;
    began = ui_now();
    for (size_t i = 0; i < t->count; i++) {
        show_progress(t, i, began);
        tune_one(t, i);
    }
    ui_line("%zu of %s searched in %s; records are kept in %s", t->count - t->failed - t->known,
            ui_plural(t->count, "problem").s, ui_duration(ui_now() - began).s, t->folder);
    return t->failed == 0;
}

static bool read_options(tune *t, int argc, char **argv, int *exit_status)
{
    const option options[] = {
        RUN_DEVICE_OPTIONS(t->choice),
        {0, "quick", NULL, "search fewer algorithms, and measure them for a shorter time",
         OPTION_FLAG, &t->quick, NULL},
        {0, "list", NULL, "show the problems, and do nothing", OPTION_FLAG, &t->list, NULL},
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &t->quiet, NULL},
    };
    const struct command command = {
        .name = "tune",
        .operands = "PROBLEMS.txt",
        .about =
            "Searches for cuBLASLt's fastest algorithms for the problems of a text file, so that\n"
            "later requests of the matmul actor, in any process, find them. One problem a line:\n"
            "m n k, then any of these words; '#' begins a comment.\n\n"
            "  type=T type_b=T type_c=T type_d=T   element types (default f32; D as A)\n"
            "  trans=tn          A and B: n, t or c (default nn)\n"
            "  order=col|row|rcr order in memory, or that of A, B and D (default col)\n"
            "  batch=N           products in one request\n"
            "  epilogue=X+Y+...  bias relu gelu drelu dgelu aux sums_a sums_b sums_d\n"
            "  add=d|apart       a C, in D's place or apart from it\n"
            "  scale=tensor|vector  scale factors of A and B;  scale_d, amax: of D\n"
            "  tf32, pedantic, fast   arithmetic; fast: fp8 accumulated faster\n"
            "  workspace=BYTES   the most that an algorithm may use",
        OPTIONS_OF(options),
        .operand_count = 1,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    t->path = argv[1];
    *exit_status = EXIT_USAGE;
    return run_choice_resolve(&command, &t->choice);
}

int command_tune(int argc, char **argv)
{
    tune t = {.choice = RUN_CHOICE_INIT};
    int exit_status;
    if (!read_options(&t, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(t.quiet);
    bool ok = tune_read_file(t.path, &t.problems, &t.count) && find_folder(&t);
    if (ok && t.count == 0)
        ui_line("%s: no problems", t.path);
    else if (ok && t.list)
        list(&t);
    else if (ok)
        ok = run_all(&t);
    free(t.problems);
    trp__store_close(t.store);
    run_close(&t.run);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

/* troupe demo: two products of real files with a fault between them, each step checked. */
#include "commands.h"

#include "matmul_check.h"
#include "drill.h"
#include "ui/ui.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILE_A, FILE_B, FILE_C, FILE_COUNT };
static const char *const file_names[FILE_COUNT] = {"A.npy", "B.npy", "C.npy"};

typedef struct demo {
    run_choice choice;
    const char *parent; /* folder for the temporary one */
    int64_t size, seed;
    bool keep;
    char folder[4096];
    char paths[FILE_COUNT][4096 + 16];
    struct run run;
    matrix a, b, c;
    pthread_mutex_t log_lock;
    char log[256]; /* the first line that Troupe logged about the fault */
} demo;

/* Keeps the log line for the report. Called from threads of Troupe. */
static void keep_log(void *user_data, int level, const char *line)
{
    demo *d = user_data;
    pthread_mutex_lock(&d->log_lock);
    if (level > 0 && !d->log[0])
        snprintf(d->log, sizeof d->log, "%s", line);
    pthread_mutex_unlock(&d->log_lock);
}

static bool make_folder(demo *d)
{
    const char *parent = d->parent ? d->parent : secure_getenv("TMPDIR");
    if (!parent || !*parent)
        parent = "/tmp";
    int n = snprintf(d->folder, sizeof d->folder, "%s/troupe-demo-XXXXXX", parent);
    if (n < 0 || (size_t)n >= sizeof d->folder)
        errno = ENAMETOOLONG;
    else if (mkdtemp(d->folder)) {
        for (int i = 0; i < FILE_COUNT; i++)
            snprintf(d->paths[i], sizeof d->paths[i], "%s/%s", d->folder, file_names[i]);
        return true;
    }
    ui_error("a folder in %s: %s", parent, strerror(errno));
    d->folder[0] = '\0';
    return false;
}

static void remove_folder(demo *d)
{
    if (!d->folder[0])
        return;
    if (d->keep) {
        ui_line("the files are in %s", d->folder);
        return;
    }
    for (int i = 0; i < FILE_COUNT; i++)
        unlink(d->paths[i]);
    if (rmdir(d->folder) != 0)
        ui_error("%s: %s", d->folder, strerror(errno));
}

static bool make_file(const char *path, uint64_t rows, uint64_t cols, bool fortran, uint64_t seed)
{
    matrix m;
    if (!matrix_shape(&m, TRP_F32, rows, cols))
        return false;
    m.shape.fortran_order = fortran;
    float *data = malloc(m.shape.data_bytes);
    if (!data) {
        ui_error("no memory for a matrix of %s", matrix_describe(&m).s);
        return false;
    }
    matrix_randomise(&m.shape, data, seed);
    bool ok = array_file_write_matrix(path, &m.shape, data);
    free(data);
    return ok;
}

static bool make_files(demo *d)
{
    uint64_t m = (uint64_t)d->size, k = m + m / 5, n = m - m / 10;
    uint64_t began = ui_now();
    ui_progress("making files");
    if (!make_folder(d) || !make_file(d->paths[FILE_A], m, k, false, (uint64_t)d->seed) ||
        !make_file(d->paths[FILE_B], k, n, true, (uint64_t)d->seed + 1))
        return false;
    ui_step(UI_GOOD, "make files", ui_now() - began, "A.npy and B.npy in %s", d->folder);
    return true;
}

static bool open_device(demo *d)
{
    const trp_system_options options = {.log = keep_log, .log_user_data = d};
    ui_progress("opening the device");
    uint64_t began = ui_now();
    d->choice.standby = true;
    if (!run_open(&d->run, &d->choice, "blas", &options))
        return false;
    ui_step(UI_GOOD, "open device", ui_now() - began, "%s, worker process %" PRIi64,
            run_device_text(&d->run.info).s, d->run.info.worker_pid);
    return true;
}

static bool load(demo *d, const char *path, matrix *m)
{
    trp_io_file *file = matrix_open(path, m);
    uint64_t began = ui_now();
    bool ok = file && matrix_place(&d->run, m) && matrix_read_file(m, file);
    uint64_t read = ui_now();
    ok = ok && matrix_upload(&d->run, m);
    if (ok)
        ui_step(UI_GOOD, "read, upload", ui_now() - began, "%s: %s, %s order, %s at %s and %s",
                strrchr(path, '/') + 1, matrix_describe(m).s,
                m->shape.fortran_order ? "Fortran" : "C", ui_bytes(m->shape.data_bytes).s,
                ui_byte_rate(m->shape.data_bytes, read - began).s,
                ui_byte_rate(m->shape.data_bytes, ui_now() - read).s);
    trp_io_close(file);
    return ok;
}

/* Computes c = a b on the device, shows its time and checks the result. */
static bool product(demo *d, const char *label, const char *formula, const matrix *a,
                    const matrix *b, matrix *c)
{
    double flops = 2.0 * (double)a->shape.rows * (double)a->shape.cols * (double)b->shape.cols;
    ui_progress("%s", label);
    if (!matrix_shape(c, a->shape.type, a->shape.rows, b->shape.cols) || !matrix_place(&d->run, c))
        return false;
    uint64_t began = ui_now();
    if (!matrix_multiply(&d->run, a, b, c, TRP_COMPUTE_DEFAULT))
        return false;
    uint64_t took = ui_now() - began;
    ui_step(UI_GOOD, label, took, "%s: %" PRIu64 " x %" PRIu64 " x %" PRIu64 " at %s", formula,
            c->shape.rows, a->shape.cols, c->shape.cols, ui_flop_rate(flops, took).s);
    const check_matmul checked = check_matmul_of(a, b, c);
    return matrix_download(&d->run, c) && check_matmul_and_show("check", &checked);
}

static bool first_product(demo *d)
{
    if (!product(d, "first product", "C = A B", &d->a, &d->b, &d->c))
        return false;
    uint64_t began = ui_now();
    if (!array_file_write_matrix(d->paths[FILE_C], &d->c.shape, d->c.data))
        return false;
    ui_step(UI_GOOD, "write", ui_now() - began, "C.npy: %s", matrix_describe(&d->c).s);
    return true;
}

/* Multiplies the transposed operands in reverse order: another product of the same bytes on the
 * device. */
static bool second_product(demo *d)
{
    matrix bt = matrix_transposed(&d->b), at = matrix_transposed(&d->a), c = {0};
    bool ok = product(d, "second product", "B' A', the same data transposed", &bt, &at, &c);
    matrix_release(&d->run, &c);
    return ok;
}

static bool inject_fault(demo *d)
{
    struct drill drill;
    ui_progress("injecting a fault");
    if (!drill_run(&d->run, &drill))
        return false;
    bool good = drill_good(&drill);
    const trp_error *e = &drill.error;
    ui_step(good ? UI_GOOD : UI_BAD, "inject a fault", drill.failed_ns, "%s in the worker: %s",
            trp_probe_action_name(drill.action), drill_cause(&drill).s);
    ui_note("error", "%s: %s", trp_status_name(e->status), e->message);
    ui_note("where", "actor %s, request %" PRIu64 ", worker incarnation %" PRIu32,
            e->actor[0] ? e->actor : "(none)", e->request, e->incarnation);
    ui_note("worker",
            "process %" PRIi64 " is gone, %" PRIi64 " (incarnation %" PRIu32
            ") was ready %s after the report",
            drill.before.worker_pid, drill.after.worker_pid, drill.after.incarnation,
            ui_duration(drill.ready_ns).s);
    ui_note("its output", "%s",
            drill.output_lost ? "marked lost: reading it gives TRP_E_LOST" : "NOT marked lost");
    pthread_mutex_lock(&d->log_lock);
    if (d->log[0])
        ui_note("log", "%s", d->log);
    pthread_mutex_unlock(&d->log_lock);
    return good;
}

/* Reads a matrix back from the device and compares it with what was sent. */
static bool kept(demo *d, const char *name, const matrix *m)
{
    matrix copy = {.shape = m->shape, .buffer = m->buffer};
    uint64_t bytes = m->shape.data_bytes, began = ui_now();
    if (!run_check(trp_host_alloc(d->run.device, bytes, &copy.data), "getting host memory"))
        return false;
    bool read = matrix_download(&d->run, &copy);
    bool same = read && memcmp(copy.data, m->data, bytes) == 0;
    if (read)
        ui_step(same ? UI_GOOD : UI_BAD, "data survived", ui_now() - began,
                "%s read back from the device: %" PRIu64 " bytes, %s", name, bytes,
                same ? "all as they were sent" : "NOT as they were sent");
    run_check(trp_host_free(d->run.device, copy.data), "giving host memory back");
    return same;
}

static bool run_demo(demo *d)
{
    return make_files(d) && open_device(d) && load(d, d->paths[FILE_A], &d->a) &&
           load(d, d->paths[FILE_B], &d->b) && first_product(d) && inject_fault(d) &&
           kept(d, "A", &d->a) && kept(d, "B", &d->b) && kept(d, "C", &d->c) && second_product(d);
}

static int64_t fresh_seed(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)(((uint64_t)t.tv_sec ^ (uint64_t)t.tv_nsec) & 0x7fffffff);
}

int command_demo(int argc, char **argv)
{
    demo d = {.choice = RUN_CHOICE_INIT, .size = 1000, .seed = -1};
    const option options[] = {
        RUN_DEVICE_OPTIONS(d.choice),
        {0, "size", "N", "A is N x 1.2 N, B is 1.2 N x 0.9 N (default 1000)", OPTION_NUMBER,
         &d.size, NULL},
        {0, "seed", "N", "seed of the random matrices (default: another each time)", OPTION_NUMBER,
         &d.seed, NULL},
        {0, "dir", "DIR", "where to make the temporary folder (default $TMPDIR or /tmp)",
         OPTION_TEXT, &d.parent, NULL},
        {0, "keep", NULL, "leave the files", OPTION_FLAG, &d.keep, NULL},
    };
    const struct command command = {
        .name = "demo",
        .operands = "",
        .about = "Makes two npy files and multiplies them on the device; then brings down the\n"
                 "worker that runs the library (GPU: a kernel writes to an illegal address; host:\n"
                 "SIGSEGV), shows that data and program are still there, and multiplies again.\n"
                 "Both products are checked against float64.",
        OPTIONS_OF(options),
    };
    int exit_status;
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (d.size < 1 || d.size > 100000)
        return options_reject(&command, "--size: expected 1 to 100000");
    if (!run_choice_resolve(&command, &d.choice))
        return EXIT_USAGE;
    if (d.seed < 0)
        d.seed = fresh_seed();

    pthread_mutex_init(&d.log_lock, NULL);
    ui_heading("Troupe %s: two products and a fault between them (seed %" PRIi64 ")", trp_version(),
               d.seed);
    uint64_t began = ui_now();
    bool ok = run_demo(&d);
    matrix_release(&d.run, &d.a);
    matrix_release(&d.run, &d.b);
    matrix_release(&d.run, &d.c);
    run_close(&d.run);
    remove_folder(&d);
    pthread_mutex_destroy(&d.log_lock);
    if (ok)
        ui_heading("Held: the fault cost its own request and nothing else (%s in all).",
                   ui_duration(ui_now() - began).s);
    else
        ui_heading("FAILED: see above.");
    return ok ? EXIT_DONE : EXIT_FAILED;
}

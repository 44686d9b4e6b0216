/* troupe matmul: a product of two npy files, into a third. */
#include "commands.h"

#include "check.h"
#include "ui.h"

#include <inttypes.h>
#include <unistd.h>

/* One invocation: two operands and the result. */
typedef struct matmul {
    run_choice choice;
    const char *out_path;
    bool tf32, check, quiet;
    const char *paths[2];
    int fds[2];
    matrix in[2], out;
    struct run run;
} matmul;

static trp_compute compute_of(const matmul *job)
{
    return job->tf32 ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT;
}

/* Headers only: what can't work is refused before a worker is started. */
static bool open_inputs(matmul *job)
{
    for (int i = 0; i < 2; i++) {
        job->fds[i] = matrix_open(job->paths[i], &job->in[i]);
        if (job->fds[i] < 0)
            return false;
    }
    if (!matrix_agree(job->paths[0], &job->in[0], job->paths[1], &job->in[1]))
        return false;
    if (job->tf32 && job->in[0].shape.item_size != 4) {
        ui_error("--tf32 is for f32 matrices; these are %s", matrix_describe(&job->in[0]).s);
        return false;
    }
    return matrix_shape(&job->out, job->in[0].shape.item_size, job->in[0].shape.rows,
                        job->in[1].shape.cols);
}

/* Looked at first because the host backend's memory is the machine's own, lent out page by page: a
 * matrix that doesn't fit would be noticed by the system killing us. There the copies that the
 * device holds count too. */
static bool fits(const matmul *job)
{
    double need = (double)job->in[0].shape.data_bytes + (double)job->in[1].shape.data_bytes +
                  (double)job->out.shape.data_bytes;
    if (job->run.info.backend == TRP_BACKEND_HOST)
        need *= 2;
    if (need <= (double)job->run.info.memory_total)
        return true;
    ui_error("the matrices need %s of memory; %s has %s", ui_bytes((uint64_t)need).s,
             run_device_text(&job->run.info).s, ui_bytes(job->run.info.memory_total).s);
    return false;
}

static bool read_inputs(matmul *job)
{
    for (int i = 0; i < 2; i++) {
        matrix *m = &job->in[i];
        ui_progress("reading %s", job->paths[i]);
        uint64_t began = ui_now();
        if (!matrix_place(&job->run, m) || !matrix_read_file(m, job->fds[i], job->paths[i]))
            return false;
        uint64_t took = ui_now() - began;
        ui_step(UI_NONE, "read", took, "%s: %s, %s order, %s at %s", job->paths[i],
                matrix_describe(m).s, m->shape.fortran_order ? "Fortran" : "C",
                ui_bytes(m->shape.data_bytes).s, ui_byte_rate(m->shape.data_bytes, took).s);
    }
    return matrix_place(&job->run, &job->out);
}

static bool upload(matmul *job)
{
    uint64_t bytes = job->in[0].shape.data_bytes + job->in[1].shape.data_bytes;
    ui_progress("uploading");
    uint64_t began = ui_now();
    if (!matrix_upload(&job->run, &job->in[0]) || !matrix_upload(&job->run, &job->in[1]))
        return false;
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "upload", took, "%s at %s", ui_bytes(bytes).s, ui_byte_rate(bytes, took).s);
    return true;
}

static bool multiply(matmul *job)
{
    const npy_info *c = &job->out.shape;
    double flops = 2.0 * (double)c->rows * (double)c->cols * (double)job->in[0].shape.cols;
    ui_progress("multiplying");
    uint64_t began = ui_now();
    if (!matrix_multiply(&job->run, &job->in[0], &job->in[1], &job->out, compute_of(job)))
        return false;
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "product", took, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " in %s at %s",
            c->rows, job->in[0].shape.cols, c->cols,
            job->tf32 ? "tf32" : trp_dtype_name(matrix_dtype(&job->out)),
            ui_flop_rate(flops, took).s);
    return true;
}

static bool download(matmul *job)
{
    uint64_t bytes = job->out.shape.data_bytes;
    ui_progress("downloading");
    uint64_t began = ui_now();
    if (!matrix_download(&job->run, &job->out))
        return false;
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "download", took, "%s at %s", ui_bytes(bytes).s, ui_byte_rate(bytes, took).s);
    return true;
}

static bool write_output(matmul *job)
{
    char error[256];
    uint64_t bytes = job->out.shape.data_bytes;
    ui_progress("writing %s", job->out_path);
    uint64_t began = ui_now();
    if (!npy_write(job->out_path, &job->out.shape, job->out.data, error, sizeof error)) {
        ui_error("%s", error);
        return false;
    }
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "write", took, "%s: %s, %s at %s", job->out_path, matrix_describe(&job->out).s,
            ui_bytes(bytes).s, ui_byte_rate(bytes, took).s);
    return true;
}

static bool open_run(matmul *job)
{
    ui_progress("opening the device");
    uint64_t began = ui_now();
    if (!run_open(&job->run, &job->choice, NULL) || !fits(job))
        return false;
    ui_step(UI_NONE, "device", ui_now() - began, "%s, worker process %" PRIi64,
            run_device_text(&job->run.info).s, job->run.info.worker_pid);
    return true;
}

static bool check(matmul *job)
{
    return !job->check ||
           check_and_show("check", &job->in[0], &job->in[1], &job->out, compute_of(job));
}

int command_matmul(int argc, char **argv)
{
    matmul job = {.choice = RUN_CHOICE_INIT, .fds = {-1, -1}};
    const option options[] = {
        {'o', "output", "C.npy", "the file to write; may be one of the inputs", OPTION_TEXT,
         &job.out_path, NULL},
        RUN_DEVICE_OPTIONS(job.choice),
        {0, "tf32", NULL, "let a GPU round f32 inputs to tf32: faster, 3 digits", OPTION_FLAG,
         &job.tf32, NULL},
        {0, "check", NULL, "compare with a float64 product; a wrong result is not written",
         OPTION_FLAG, &job.check, NULL},
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &job.quiet, NULL},
    };
    const struct command command = {
        .name = "matmul",
        .operands = "A.npy B.npy -o C.npy",
        .about =
            "Multiplies two matrices of f32 or f64 in NumPy files, in C or Fortran order, on a\n"
            "GPU or this machine's processors, and writes the product in C order.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .operand_count = 2,
    };
    int exit_status;
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (!job.out_path)
        return options_reject(&command, "expected -o C.npy, the file to write");
    if (!run_choice_resolve(&command, &job.choice))
        return EXIT_USAGE;
    job.paths[0] = argv[1];
    job.paths[1] = argv[2];
    ui_set_quiet(job.quiet);

    bool ok = open_inputs(&job) && open_run(&job) && read_inputs(&job) && upload(&job) &&
              multiply(&job) && download(&job) && check(&job) && write_output(&job);

    for (int i = 0; i < 2; i++) {
        if (job.fds[i] >= 0)
            close(job.fds[i]);
        matrix_release(&job.run, &job.in[i]);
    }
    matrix_release(&job.run, &job.out);
    run_close(&job.run);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

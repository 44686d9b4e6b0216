/* troupe fft: the discrete Fourier transform of an array in a file. */
#include "fft.h"

#include "commands.h"
#include "ui/sizes.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RANK = TRP_FFT_RANK_MAX };

static const char *const kind_names[] = {"c2c", "r2c", "c2r", NULL};            /* trp_fft_kind */
static const char *const norm_names[] = {"backward", "ortho", "forward", NULL}; /* trp_fft_norm */

static bool read_options(fft *job, int argc, char **argv, int *exit_status)
{
    const char *out = NULL;
    const option options[] = {
        {'o', "output", "Y.npy", "the file to write; may be the input", OPTION_TEXT, &out, NULL},
        {0, "axes", "N,...", "axes to transform, from 0, or from the end: -1 (default: all)",
         OPTION_TEXT, &job->axes, NULL},
        {0, "length", "N,...", "length of each axis: X is cropped, or padded with zeros",
         OPTION_TEXT, &job->lengths, NULL},
        {0, "kind", "c2c|r2c|c2r",
         "complex, from real or to real numbers; r2c halves the last axis named, c2r makes it "
         "whole (default: c2c, or r2c if X is real)",
         OPTION_CHOICE, &job->kind, kind_names},
        {0, "inverse", NULL, "exp(+2 pi i j k / n) instead of exp(-2 pi i j k / n)", OPTION_FLAG,
         &job->inverse, NULL},
        {0, "norm", "backward|ortho|forward",
         "1 / n is a factor of the inverse, its root of both, or it is one of the forward "
         "transform",
         OPTION_CHOICE, &job->norm, norm_names},
        RUN_DEVICE_OPTIONS(job->choice),
        {0, "check", NULL, "compare with a float64 computation; a wrong result is not written",
         OPTION_FLAG, &job->check, NULL},
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &job->quiet, NULL},
    };
    const struct command command = {
        .name = "fft",
        .operands = "X.npy -o Y.npy",
        .about =
            "The discrete Fourier transform of an array in a NumPy file, of complex numbers or\n"
            "of f32 or f64, with the conventions of numpy.fft.",
        OPTIONS_OF(options),
        .operand_count = 1,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    job->x = (tensor){.use = OPERAND_INPUT, .option = "X", .path = argv[1]};
    job->y = (tensor){.use = OPERAND_OUTPUT, .option = "the result", .path = out};
    *exit_status =
        out ? EXIT_DONE : options_reject(&command, "expected -o Y.npy, the file to write");
    if (*exit_status == EXIT_DONE && !run_choice_resolve(&command, &job->choice))
        *exit_status = EXIT_USAGE;
    return *exit_status == EXIT_DONE;
}

/* The plan. */

static bool settle_types(fft *job)
{
    const trp_dtype x = job->x.file.type;
    const bool complex = x == TRP_C64 || x == TRP_C128, wide = x == TRP_F64 || x == TRP_C128;
    if (!complex && x != TRP_F32 && x != TRP_F64) {
        ui_error("X: expected c64, c128, f32 or f64; %s; convert it with .astype(np.float32)",
                 tensor_describe(&job->x).s);
        return false;
    }
    if (job->kind < 0)
        job->kind = complex ? TRP_FFT_C2C : TRP_FFT_R2C;
    if (complex == (job->kind == TRP_FFT_R2C)) {
        ui_wrong("--kind %s: expected %s numbers; %s; convert it with .astype(%s)",
                 kind_names[job->kind], complex ? "real" : "complex", tensor_describe(&job->x).s,
                 array_file_numpy(complex ? (wide ? TRP_F64 : TRP_F32)
                                  : wide  ? TRP_C128
                                          : TRP_C64));
        return false;
    }
    job->request.kind = (trp_fft_kind)job->kind;
    job->request.norm = (trp_fft_norm)job->norm;
    job->request.inverse = job->inverse;
    job->request.x.type = x;
    job->request.y.type = job->kind == TRP_FFT_C2R ? (wide ? TRP_F64 : TRP_F32)
                          : wide                   ? TRP_C128
                                                   : TRP_C64;
    return true;
}

static bool read_axes(fft *job)
{
    const int rank = (int)job->x.file.rank;
    bool named[RANK] = {false};
    const char *at = job->axes;
    for (int i = 0; i < rank && !job->axes; i++)
        job->axis[job->count++] = i;
    while (at && (job->count == 0 || *at)) {
        int64_t number = 0;
        const bool back = *at == '-';
        at = job->count < rank ? sizes_next(at + back, &number) : NULL;
        const int64_t axis = back ? rank - number : number;
        if (!at || axis < 0 || axis >= rank || named[axis]) {
            ui_wrong("--axes: expected different numbers from %d to %d, got '%s'; %s", -rank,
                     rank - 1, job->axes, tensor_describe(&job->x).s);
            return false;
        }
        named[axis] = true;
        job->axis[job->count++] = (int)axis;
    }
    return true;
}

static bool read_lengths(fft *job)
{
    const char *at = job->lengths;
    for (int i = 0; i < job->count; i++) {
        const int64_t dim = (int64_t)job->x.file.dim[job->axis[i]];
        const bool half = job->kind == TRP_FFT_C2R && i == job->count - 1;
        job->length[i] = half ? 2 * (dim - 1) : dim;
        at = at ? sizes_next(at, &job->length[i]) : NULL;
        if (job->lengths && (!at || job->length[i] < 1 || (i == job->count - 1) != !*at)) {
            ui_wrong("--length: expected %s from 1 on, one for each axis, got '%s'",
                     ui_plural((uint64_t)job->count, "number").s, job->lengths);
            return false;
        }
        if (job->length[i] < 1) {
            ui_error("axis %d has no elements to transform; %s", job->axis[i],
                     tensor_describe(&job->x).s);
            return false;
        }
        job->request.axis[i] = job->axis[i];
        job->request.n[i] = job->length[i];
    }
    job->request.axis_count = (uint32_t)job->count;
    return true;
}

static void set_tensor(const tensor *from, trp_fft_tensor *to)
{
    for (uint32_t i = 0; i < from->device.rank; i++) {
        to->dim[i] = from->device.dim[i];
        to->stride[i] = from->device.stride[i];
    }
}

static bool plan(fft *job)
{
    int64_t dim[RANK];
    tensor *x = &job->x, *y = &job->y;
    if (!array_file_try_write(y->path) || !tensor_open_all(x, 1) || !settle_types(job) ||
        !read_axes(job) || !read_lengths(job))
        return false;
    for (uint32_t i = 0; i < x->file.rank; i++)
        dim[i] = (int64_t)x->file.dim[i];
    for (int i = 0; i < job->count; i++) {
        const bool half = job->kind == TRP_FFT_R2C && i == job->count - 1;
        dim[job->axis[i]] = half ? job->length[i] / 2 + 1 : job->length[i];
    }
    job->request.rank = x->file.rank;
    if (!tensor_shape_output(y, job->request.y.type, x->file.rank, dim) ||
        !tensor_lay_out(x, job->request.x.type, TENSOR_AS_FILE) ||
        !tensor_lay_out(y, job->request.y.type, TENSOR_AS_FILE))
        return false;
    set_tensor(x, &job->request.x);
    set_tensor(y, &job->request.y);
    return true;
}

/* Sending. */

static bool start(fft *job)
{
    ui_progress("opening the device");
    uint64_t began = ui_now();
    if (!run_open(&job->run, &job->choice, "fft", NULL) ||
        !run_fits(&job->run, "arrays", (double)job->x.bytes + (double)job->y.bytes, 0))
        return false;
    ui_step(UI_NONE, "device", ui_now() - began, "%s, worker process %" PRIi64,
            run_device_text(&job->run.info).s, job->run.info.worker_pid);
    ui_progress("reading %s", job->x.path);
    began = ui_now();
    if (!tensor_place(&job->run, &job->x) || !tensor_place(&job->run, &job->y) ||
        !tensor_read(&job->x))
        return false;
    const uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "read", took, "%s: %s, %s at %s", job->x.path,
            tensor_shape_text(&job->x.file).s, ui_bytes(job->x.bytes).s,
            ui_byte_rate(job->x.bytes, took).s);
    return tensor_upload(&job->run, &job->x);
}

static bool transform(fft *job)
{
    trp_completion done = {0};
    ui_progress("transforming");
    const uint64_t began = ui_now();
    job->request.x.buffer = job->x.device.buffer;
    job->request.y.buffer = job->y.device.buffer;
    if (!run_await(trp_fft(job->run.actor, &job->request, &done), &done, "the transform"))
        return false;
    ui_step(UI_NONE, "transform", ui_now() - began, "%s%s along %s: %s", kind_names[job->kind],
            job->inverse ? ", inverse," : "", job->count == 1 ? "one axis" : "several axes",
            tensor_shape_text(&job->y.file).s);
    return tensor_download(&job->run, &job->y);
}

static bool write_result(fft *job)
{
    ui_progress("writing %s", job->y.path);
    const uint64_t began = ui_now();
    if (!tensor_write(&job->y))
        return false;
    const uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "write", took, "%s: %s, %s at %s", job->y.path,
            tensor_shape_text(&job->y.file).s, ui_bytes(job->y.file.data_bytes).s,
            ui_byte_rate(job->y.file.data_bytes, took).s);
    return true;
}

int command_fft(int argc, char **argv)
{
    fft job = {.choice = RUN_CHOICE_INIT, .kind = -1};
    int exit_status;
    if (!read_options(&job, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(job.quiet);
    const bool ok = plan(&job) && start(&job) && transform(&job) &&
                    (!job.check || fft_check(&job)) && write_result(&job);
    tensor_release(&job.run, &job.x);
    tensor_release(&job.run, &job.y);
    run_close(&job.run);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

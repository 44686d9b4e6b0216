/* troupe random: an array of random numbers in a file. */
#include "commands.h"
#include "data/tensor.h"
#include "ui/sizes.h"
#include "ui/ui.h"

#include <troupe/random.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* trp_random_distribution, trp_random_ends */
static const char *const dist_names[] = {"bits",      "integers",    "uniform", "normal",
                                         "lognormal", "exponential", "laplace", "cauchy",
                                         "gumbel",    "bernoulli",   "dropout", NULL};
static const char *const ends_names[] = {"half-open", "open", "closed", "open-low", NULL};
static const char *const type_names[] = {"f64", "f32", "f16", "bf16", "c64",  "c128",
                                         "i64", "i32", "i8",  "u8",   "bool", NULL};
static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16, TRP_C64, TRP_C128,
                                  TRP_I64, TRP_I32, TRP_I8,  TRP_U8,   TRP_BOOL};

typedef struct job {
    run_choice choice;
    bool quiet;
    int dist, type, ends;           /* -1: not given */
    const char *shape, *low, *high; /* options as given */
    int64_t seed, stream, offset;
    tensor y;
    trp_random_request request; /* the buffer once it is placed */
    struct run run;
} job;

static bool read_options(job *j, int argc, char **argv, int *exit_status)
{
    const char *out = NULL;
    trp_random_request *r = &j->request;
    const option options[] = {
        {'o', "output", "X.npy", "the file to write", OPTION_TEXT, &out, NULL},
        {0, "shape", "N,...", "sizes of the dimensions, at most eight", OPTION_TEXT, &j->shape,
         NULL},
        {0, "dist",
         "bits|integers|uniform|normal|lognormal|exponential|laplace|cauchy|gumbel|bernoulli|"
         "dropout",
         "the distribution (default: uniform)", OPTION_CHOICE, &j->dist, dist_names},
        {0, "type", "f64|f32|f16|bf16|c64|c128|i64|i32|i8|u8|bool",
         "of the array; bf16 is written as f32 (default: f64; i64 of bits and integers, bool of "
         "bernoulli)",
         OPTION_CHOICE, &j->type, type_names},
        {0, "seed", "N", "the key of the generator (default: 0)", OPTION_NUMBER, &j->seed, NULL},
        {0, "stream", "N", "which of its sequences (default: 0)", OPTION_NUMBER, &j->stream, NULL},
        {0, "offset", "N", "where in it to begin, in words of 32 bits (default: 0)", OPTION_NUMBER,
         &j->offset, NULL},
        {0, "low", "N", "of uniform numbers and integers (default: 0)", OPTION_TEXT, &j->low, NULL},
        {0, "high", "N", "of uniform numbers (default: 1) and integers", OPTION_TEXT, &j->high,
         NULL},
        {0, "ends", "half-open|open|closed|open-low",
         "which of low and high uniform numbers can be: low, none, both, high", OPTION_CHOICE,
         &j->ends, ends_names},
        {0, "endpoint", NULL, "high is one of the integers", OPTION_FLAG, &r->endpoint, NULL},
        {0, "loc", "N", "where the distribution is (default: 0); mean of lognormal's logarithm",
         OPTION_SCALAR, &r->loc, NULL},
        {0, "scale", "N", "how wide it is (default: 1); sigma of lognormal", OPTION_SCALAR,
         &r->scale, NULL},
        {'p', "probability", "P", "of bernoulli's 1 and dropout's 0 (default: 0.5)", OPTION_SCALAR,
         &r->p, NULL},
        RUN_DEVICE_OPTIONS(j->choice),
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &j->quiet, NULL},
    };
    const struct command command = {
        .name = "random",
        .operands = "-o X.npy --shape N,...",
        .about =
            "Random numbers in a NumPy file, by Philox4x32-10. The same seed, stream, offset and\n"
            "parameters give the same bits everywhere. On this machine's processors.",
        OPTIONS_OF(options),
        .operand_count = 0,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    j->y = (tensor){.use = OPERAND_OUTPUT, .option = "the result", .path = out};
    *exit_status = !out        ? options_reject(&command, "expected -o X.npy, the file to write")
                   : !j->shape ? options_reject(&command, "expected --shape, as in --shape 1000,3")
                               : EXIT_DONE;
    if (*exit_status == EXIT_DONE && !run_choice_resolve(&command, &j->choice))
        *exit_status = EXIT_USAGE;
    return *exit_status == EXIT_DONE;
}

/* The plan. */

static bool read_integer(const char *name, const char *text, int64_t *out)
{
    char *end;
    if (!text)
        return true;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0') {
        *out = value;
        return true;
    }
    ui_wrong("--%s: expected an integer of 64 bits, got '%s'", name, text);
    return false;
}

static bool read_number(const char *name, const char *text, trp_scalar *out)
{
    double value;
    if (!text)
        return true;
    if (options_real(text, &value)) {
        *out = trp_real(value);
        return true;
    }
    ui_wrong("--%s: expected a number, got '%s'", name, text);
    return false;
}

static bool read_parameters(job *j)
{
    trp_random_request *r = &j->request;
    r->distribution = j->dist < 0 ? TRP_RANDOM_UNIFORM : (trp_random_distribution)j->dist;
    r->ends = j->ends < 0 ? TRP_RANDOM_HALF_OPEN : (trp_random_ends)j->ends;
    r->seed = (uint64_t)j->seed;
    r->stream = (uint64_t)j->stream;
    r->offset = (uint64_t)j->offset;
    if (j->type >= 0)
        r->y.type = types[j->type];
    else if (r->distribution <= TRP_RANDOM_INTEGERS)
        r->y.type = TRP_I64;
    else
        r->y.type = r->distribution == TRP_RANDOM_BERNOULLI ? TRP_BOOL : TRP_F64;
    if (r->distribution == TRP_RANDOM_INTEGERS)
        return read_integer("low", j->low, &r->low_integer) &&
               read_integer("high", j->high, &r->high_integer);
    return read_number("low", j->low, &r->low) && read_number("high", j->high, &r->high);
}

static bool plan(job *j)
{
    const char *at = j->shape;
    trp_random_request *r = &j->request;
    while (at && (r->rank == 0 || *at)) {
        int64_t size;
        at = r->rank < TRP_RANDOM_RANK_MAX ? sizes_next(at, &size) : NULL;
        if (at)
            r->y.dim[r->rank++] = size;
    }
    if (!at) {
        ui_wrong("--shape: expected one to eight sizes, such as 1000,3, got '%s'", j->shape);
        return false;
    }
    return read_parameters(j) && array_file_try_write(j->y.path) &&
           tensor_shape_output(&j->y, r->y.type, r->rank, r->y.dim) &&
           tensor_lay_out(&j->y, r->y.type, TENSOR_AS_FILE);
}

/* Sending. */

static bool make(job *j)
{
    trp_completion done = {0};
    ui_progress("opening the device");
    uint64_t began = ui_now();
    if (!run_open(&j->run, &j->choice, "random", NULL) ||
        !run_fits(&j->run, "the array", (double)j->y.bytes, 0))
        return false;
    ui_step(UI_NONE, "device", ui_now() - began, "%s, worker process %" PRIi64,
            run_device_text(&j->run.info).s, j->run.info.worker_pid);
    if (!tensor_place(&j->run, &j->y))
        return false;
    ui_progress("making numbers");
    began = ui_now();
    j->request.y.buffer = j->y.device.buffer;
    if (!run_await(trp_random(j->run.actor, &j->request, &done), &done, "the request"))
        return false;
    ui_step(UI_NONE, "random", ui_now() - began, "%s: %s", dist_names[j->request.distribution],
            tensor_shape_text(&j->y.file).s);
    return tensor_download(&j->run, &j->y);
}

static bool write_result(job *j)
{
    ui_progress("writing %s", j->y.path);
    const uint64_t began = ui_now();
    if (!tensor_write(&j->y))
        return false;
    const uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "write", took, "%s: %s, %s at %s", j->y.path, tensor_shape_text(&j->y.file).s,
            ui_bytes(j->y.file.data_bytes).s, ui_byte_rate(j->y.file.data_bytes, took).s);
    return true;
}

int command_random(int argc, char **argv)
{
    job j = {.choice = RUN_CHOICE_INIT, .dist = -1, .type = -1, .ends = -1};
    int exit_status;
    if (!read_options(&j, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(j.quiet);
    const bool ok = plan(&j) && make(&j) && write_result(&j);
    tensor_release(&j.run, &j.y);
    run_close(&j.run);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

#include "layer.h"

#include "ui/sizes.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAMES "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8"
const char *const layer_type_names[] = {NAMES, NULL};
const char *const layer_result_names[] = {NAMES, "i32", NULL};
const char *const layer_order_names[] = {"", "nchw", "nhwc", NULL};

void layer_set(layer *job, int which, const char *name, const char *path, operand_use use)
{
    job->tensor[which] = (tensor){0};
    if (path)
        job->tensor[which] = (tensor){.use = use, .option = name, .path = path};
}

bool layer_open(layer *job)
{
    return tensor_open_all(job->tensor, LAYER_TENSORS);
}

bool layer_settle_type(const tensor *t, trp_dtype *type)
{
    trp_dtype file = t->file.type;
    if (*type)
        return true;
    *type = file;
    if (file != TRP_I32 && file != TRP_C64 && file != TRP_C128)
        return true;
    ui_error("%s: expected f64, f32, f16, i8 or u8, or --type; %s; convert it with "
             ".astype(np.float32)",
             t->option, tensor_describe(t).s);
    return false;
}

trp_dtype layer_side_type(trp_dtype type)
{
    bool wide = type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
    return wide ? type : TRP_F32;
}

/* Windows. */

bool layer_read_steps(const char *name, const char *text, uint32_t dims, int64_t *out)
{
    for (uint32_t i = 0; i < dims; i++)
        out[i] = 1;
    if (!sizes_each(name, text, dims, out))
        return false;
    for (uint32_t i = 0; i < dims; i++) {
        if (out[i] < 1) {
            ui_wrong("--%s: expected at least 1, got '%s'", name, text);
            return false;
        }
    }
    return true;
}

bool layer_read_window(const layer_window *w, uint32_t dims, int64_t *pre_pad, int64_t *post_pad,
                       int64_t *stride)
{
    return sizes_each("pad", w->pad, dims, pre_pad) &&
           sizes_each("pad-after", w->pad_after ? w->pad_after : w->pad, dims, post_pad) &&
           layer_read_steps("stride", w->stride, dims, stride);
}

/* Activations. */

static const struct {
    const char *name;
    trp_dnn_pointwise mode;
    int parameters;
} activations[] = {
    {"relu", TRP_DNN_RELU, 3},         {"tanh", TRP_DNN_TANH, 0},
    {"sigmoid", TRP_DNN_SIGMOID, 0},   {"elu", TRP_DNN_ELU, 1},
    {"gelu", TRP_DNN_GELU, 0},         {"gelu-tanh", TRP_DNN_GELU_TANH, 0},
    {"softplus", TRP_DNN_SOFTPLUS, 1}, {"swish", TRP_DNN_SWISH, 1},
};

/* Reads "0,,0.1"; an omitted number keeps its default. */
static bool read_parameters(const char *text, int most, trp_scalar *out)
{
    for (int i = 0; i < most; i++) {
        char number[32];
        double value;
        size_t length = strcspn(text, ",");
        snprintf(number, sizeof number, "%.*s", (int)(length < 31 ? length : 31), text);
        if (length >= sizeof number || (length > 0 && !options_real(number, &value)))
            return false;
        if (length > 0)
            out[i] = trp_real(value);
        text += length;
        if (!*text)
            return length > 0;
        text++;
    }
    return false;
}

bool layer_read_activation(const char *text, trp_layer_activation *out)
{
    size_t length = strcspn(text, ":");
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        if (strlen(activations[i].name) != length ||
            strncmp(activations[i].name, text, length) != 0)
            continue;
        out->mode = activations[i].mode;
        return !text[length] ||
               read_parameters(text + length + 1, activations[i].parameters, out->parameter);
    }
    return false;
}

spell_text layer_activation_hint(const char *text)
{
    spell s = spell_begin(text, strcspn(text, ":"));
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        spell_try(&s, activations[i].name);
    return spell_hint(&s, "");
}

static bool fits(const layer *job)
{
    double need = 0, files = 0;
    for (int i = 0; i < LAYER_TENSORS; i++) {
        const tensor *t = &job->tensor[i];
        need += t->use == OPERAND_ABSENT ? 0 : (double)t->bytes;
        files +=
            t->use == OPERAND_ABSENT || !tensor_is_converted(t) ? 0 : (double)t->file.data_bytes;
    }
    return run_fits(&job->run, "arrays", need, files);
}

static bool open_run(layer *job)
{
    ui_progress("opening the device");
    uint64_t began = ui_now();
    if (!run_open(&job->run, &job->choice, "dnn", NULL) || !fits(job))
        return false;
    ui_step(UI_NONE, "device", ui_now() - began, "%s, worker process %" PRIi64,
            run_device_text(&job->run.info).s, job->run.info.worker_pid);
    return true;
}

static bool convert_input(const layer *job, tensor *t)
{
    uint64_t began = ui_now();
    if (!tensor_convert(t))
        return false;
    if (t->file_data)
        ui_step(UI_NONE, "convert", ui_now() - began, "%s: %s to %s%s%s", t->path,
                trp_dtype_name(t->file.type), trp_dtype_name(t->device.type),
                job->order ? ", " : "", job->order ? layer_order_names[job->order] : "");
    return true;
}

static bool read_input(layer *job, tensor *t)
{
    ui_progress("reading %s", t->path);
    uint64_t began = ui_now();
    if (!tensor_place(&job->run, t) || !tensor_read(t))
        return false;
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "read", took, "%s: %s, %s order, %s at %s", t->path,
            tensor_shape_text(&t->file).s, t->file.fortran_order ? "Fortran" : "C",
            ui_bytes(t->file.data_bytes).s, ui_byte_rate(t->file.data_bytes, took).s);
    return convert_input(job, t);
}

static bool transfer(layer *job, operand_use use, const char *label)
{
    uint64_t bytes = 0, began = ui_now();
    ui_progress("%sing", label);
    for (int i = 0; i < LAYER_TENSORS; i++) {
        const tensor *t = &job->tensor[i];
        if (t->use != use || !t->path)
            continue;
        bytes += t->bytes;
        if (use == OPERAND_INPUT ? !tensor_upload(&job->run, t) : !tensor_download(&job->run, t))
            return false;
    }
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, label, took, "%s at %s", ui_bytes(bytes).s, ui_byte_rate(bytes, took).s);
    return true;
}

bool layer_start(layer *job)
{
    if (!open_run(job))
        return false;
    for (int i = 0; i < LAYER_TENSORS; i++) {
        tensor *t = &job->tensor[i];
        bool input = t->use == OPERAND_INPUT && t->path;
        if (input ? !read_input(job, t) : !tensor_place(&job->run, t))
            return false;
    }
    return transfer(job, OPERAND_INPUT, "upload");
}

trp_dnn_options layer_options(layer *job)
{
    return (trp_dnn_options){.tf32 = job->tf32, .ran = &job->ran};
}

trp_dnn_tensor layer_tensor(const layer *job, int which)
{
    const tensor *t = &job->tensor[which];
    return t->use == OPERAND_ABSENT ? (trp_dnn_tensor){0} : t->device;
}

void layer_show(const layer *job, const char *label, uint64_t began, int result, double flops)
{
    const tensor *t = &job->tensor[result];
    uint64_t took = ui_now() - began;
    char in[64] = "";
    if (t->device.type != t->file.type)
        snprintf(in, sizeof in, " in %s", trp_dtype_name(t->device.type));
    if (flops > 0)
        ui_step(UI_NONE, label, took, "%s%s at %s", tensor_shape_text(&t->file).s, in,
                ui_flop_rate(flops, took).s);
    else
        ui_step(UI_NONE, label, took, "%s%s", tensor_shape_text(&t->file).s, in);
    if (job->ran.engine[0] && job->ran.parts > 1)
        ui_note("engine", "%s, in %u pieces: the library takes it no other way", job->ran.engine,
                job->ran.parts);
    else if (job->ran.engine[0])
        ui_note("engine", "%s", job->ran.engine);
}

bool layer_fetch(layer *job)
{
    return transfer(job, OPERAND_OUTPUT, "download");
}

bool layer_fetch_one(layer *job, int which)
{
    tensor *t = &job->tensor[which];
    struct run *run = &job->run;
    if (t->use != OPERAND_OUTPUT || t->data || t->bytes == 0)
        return true;
    return run_check(trp_host_alloc(run->device, t->bytes, &t->data), "getting host memory") &&
           run_download(run, t->device.buffer, t->data, t->bytes);
}

bool layer_write(layer *job)
{
    for (int i = 0; i < LAYER_TENSORS; i++) {
        tensor *t = &job->tensor[i];
        if (t->use != OPERAND_OUTPUT || !t->path)
            continue;
        ui_progress("writing %s", t->path);
        uint64_t began = ui_now();
        if (!tensor_write(t))
            return false;
        uint64_t took = ui_now() - began;
        ui_step(UI_NONE, "write", took, "%s: %s, %s at %s", t->path, tensor_shape_text(&t->file).s,
                ui_bytes(t->file.data_bytes).s, ui_byte_rate(t->file.data_bytes, took).s);
    }
    return true;
}

void layer_close(layer *job)
{
    for (int i = 0; i < LAYER_TENSORS; i++)
        tensor_release(&job->run, &job->tensor[i]);
    run_close(&job->run);
}

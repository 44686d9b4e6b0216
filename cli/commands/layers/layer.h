/* What the commands with a layer share: their tensors, and the steps from opening the device to
 * writing the files. */
#ifndef TRP_CLI_COMMANDS_LAYERS_LAYER_H
#define TRP_CLI_COMMANDS_LAYERS_LAYER_H

#include "ui/spell.h"
#include "data/tensor.h"

#include <troupe/layers.h>

enum { LAYER_TENSORS = 16 };

typedef struct layer {
    run_choice choice;
    bool check, quiet, tf32;
    int order;                    /* a tensor_order */
    tensor tensor[LAYER_TENSORS]; /* a place for each, as the command has it */
    trp_dnn_ran ran;
    struct run run;
} layer;

/* Choices of options. */
extern const char *const layer_type_names[];
extern const char *const layer_result_names[]; /* i32 too */
extern const char *const layer_order_names[];  /* of tensor_order; the first can't be named */
#define LAYER_TYPES       "f64|f32|f16|bf16|f8e4m3|f8e5m2|i8"
#define LAYER_ACTIVATIONS "relu|tanh|sigmoid|elu|gelu|gelu-tanh|softplus|swish[:P,...]"

/* The type that an option chose; -1: TRP_DTYPE_NONE. */
trp_dtype layer_type(int choice);

#define LAYER_OPTIONS(job)                                                                         \
    RUN_DEVICE_OPTIONS((job).choice),                                                              \
        {.name = "layout",                                                                         \
         .argument = "nchw|nhwc",                                                                  \
         .help =                                                                                   \
             "how arrays lie on the device (default: as in the files); files stay as they are",    \
         .kind = OPTION_CHOICE,                                                                    \
         .target = &(job).order,                                                                   \
         .choices = layer_order_names},                                                            \
        {.name = "tf32",                                                                           \
         .help = "let a GPU round f32 inputs to 3 digits",                                         \
         .kind = OPTION_FLAG,                                                                      \
         .target = &(job).tf32},                                                                   \
        LAYER_LAST_OPTIONS(job)

#define LAYER_LAST_OPTIONS(job)                                                                    \
    {.name = "check",                                                                              \
     .help = "compare with a float64 computation; a wrong result is not written",                  \
     .kind = OPTION_FLAG,                                                                          \
     .target = &(job).check},                                                                      \
    {                                                                                              \
        .letter = 'q', .name = "quiet", .help = "print errors only", .kind = OPTION_FLAG,          \
        .target = &(job).quiet                                                                     \
    }

/* A tensor of a file; a path of NULL leaves it absent. */
void layer_set(layer *job, int which, const char *name, const char *path, operand_use use);

/* How a window moves, as options have it: NULL what is not given. */
typedef struct layer_window {
    const char *pad, *pad_after, *stride;
} layer_window;

/* One number for each dimension, at least 1; without a text 1. Told if they are not. */
bool layer_read_steps(const char *name, const char *text, uint32_t dims, int64_t *out);

bool layer_read_window(const layer_window *window, uint32_t dims, int64_t *pre_pad,
                       int64_t *post_pad, int64_t *stride);

/* "relu:0,6"; false: it is none. */
bool layer_read_activation(const char *text, trp_layer_activation *out);
/* ", did you mean ...?" of one that is not read. */
spell_text layer_activation_hint(const char *text);

/* What a tensor's elements are on the device: as in its file, if nothing was given. Told if there
 * are no layers of these. */
bool layer_settle_type(const tensor *t, trp_dtype *type);

/* The type of what is added to a result of `type`. */
trp_dtype layer_side_type(trp_dtype type);

/* Reads the headers of all inputs. */
bool layer_open(layer *job);

/* Opens the device, gets memory, reads and sends the inputs. */
bool layer_start(layer *job);

/* How the request is to be run; it fills job->ran. */
trp_dnn_options layer_options(layer *job);

/* What a request is given for a tensor: nothing for one that is absent. */
trp_dnn_tensor layer_tensor(const layer *job, int which);

/* A step for what was computed since `began`, of so many additions and multiplications (0: no rate
 * is shown). */
void layer_show(const layer *job, const char *label, uint64_t began, int result, double flops);

/* Fetches the results. */
bool layer_fetch(layer *job);

/* Fetches one that lies on the device only, for a check; nothing if it is here or none. */
bool layer_fetch_one(layer *job, int which);

/* Writes them. */
bool layer_write(layer *job);

/* Gives everything back, in any state. */
void layer_close(layer *job);

#endif

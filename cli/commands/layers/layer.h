/* Shared by the commands of layers: their tensors, and the steps from opening the device to writing
 * files. */
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
    tensor tensor[LAYER_TENSORS]; /* indexed by the command's enumeration */
    trp_dnn_ran ran;
    struct run run;
} layer;

/* Choices of options. */
extern const char *const layer_type_names[];
extern const char *const layer_result_names[]; /* including i32 */
extern const char *const layer_order_names[];  /* by tensor_order; the first has no name */
#define LAYER_TYPES       "f64|f32|f16|bf16|f8e4m3|f8e5m2|i8"
#define LAYER_ACTIVATIONS "relu|tanh|sigmoid|elu|gelu|gelu-tanh|softplus|swish[:P,...]"

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

/* Sets up a tensor of a file; a path of NULL leaves it absent. */
void layer_set(layer *job, int which, const char *name, const char *path, operand_use use);

/* Movement of a window as given in options; NULL: not given. */
typedef struct layer_window {
    const char *pad, *pad_after, *stride;
} layer_window;

/* Reads one number for each dimension, at least 1; 1 without a text. Reports mistakes. */
bool layer_read_steps(const char *name, const char *text, uint32_t dims, int64_t *out);

bool layer_read_window(const layer_window *window, uint32_t dims, int64_t *pre_pad,
                       int64_t *post_pad, int64_t *stride);

/* Parses "relu:0,6"; false: invalid. */
bool layer_read_activation(const char *text, trp_layer_activation *out);
/* Returns ", did you mean ...?" for an invalid one. */
spell_text layer_activation_hint(const char *text);

/* Determines a tensor's type on the device: by default its file's. Reports types that layers don't
 * have. */
bool layer_settle_type(const tensor *t, trp_dtype *type);

/* Returns the type of addends to a result of `type`. */
trp_dtype layer_side_type(trp_dtype type);

/* Reads the headers of all inputs. */
bool layer_open(layer *job);

/* Opens the device, allocates memory, reads and sends the inputs. */
bool layer_start(layer *job);

/* Returns the options of requests, which fill job->ran. */
trp_dnn_options layer_options(layer *job);

/* Returns the tensor for a request: zero for an absent one. */
trp_dnn_tensor layer_tensor(const layer *job, int which);

/* Reports a computation since `began` of so many operations (0: no rate). */
void layer_show(const layer *job, const char *label, uint64_t began, int result, double flops);

/* Fetches the results. */
bool layer_fetch(layer *job);

/* Fetches one result for a check, unless it is here or absent. */
bool layer_fetch_one(layer *job, int which);

/* Writes the results. */
bool layer_write(layer *job);

/* Releases everything, in any state. */
void layer_close(layer *job);

#endif

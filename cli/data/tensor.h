/* What one layer reads or writes: an array of an npy file of up to eight dimensions, and its copy
 * on the device, which may be of another type and lie there in another order. */
#ifndef TRP_CLI_DATA_TENSOR_H
#define TRP_CLI_DATA_TENSOR_H

#include "operand.h"

#include <troupe/dnn.h>

typedef enum tensor_order {
    TENSOR_AS_FILE,
    TENSOR_CHANNELS_FIRST,
    TENSOR_CHANNELS_LAST,
} tensor_order;

typedef struct tensor {
    operand_use use;
    const char *option;  /* for messages: "--bias", "X" */
    const char *path;    /* NULL: lies on the device only */
    trp_io_file *source; /* an input's file; NULL: none */
    file_array file;
    trp_dnn_tensor device; /* packed */
    uint64_t bytes;        /* on the device */
    void *file_data;       /* as in the file, where that differs from: */
    void *data;            /* trp_host_alloc(), as on the device; NULL for one without elements */
} tensor;

/* Tries whether outputs can be written, before anything is read; then opens the files of inputs and
 * reads their headers. Tells what is wrong. */
bool tensor_open_all(tensor *all, size_t count);

trp_dtype tensor_file_type(const tensor *t);

/* "x.npy is 2 x 3 x 4 f32". */
typedef struct tensor_text {
    char s[320];
} tensor_text;
tensor_text tensor_describe(const tensor *t);
tensor_text tensor_shape_text(const file_array *array); /* "2 x 3 x 4 f32" */

/* Whether an input has so many dimensions; told if not. `what` names them: "n x c x spatial". */
bool tensor_expect_rank(const tensor *t, uint32_t least, uint32_t most, const char *what);

/* Whether an input has these dimensions; told if not. `why` is "as the result has" or the like. */
bool tensor_expect_dims(const tensor *t, uint32_t rank, const int64_t *dim, const char *why);

/* The shape of what is written; false, and told, if it is too large. */
bool tensor_shape_output(tensor *t, trp_dtype type, uint32_t rank, const int64_t *dim);

/* Settles type and order on the device. False, and told, if it can't be converted. */
bool tensor_lay_out(tensor *t, trp_dtype type, tensor_order order);

uint64_t tensor_elements(const tensor *t);

bool tensor_is_converted(const tensor *t);

/* Gets the memory. What is missing is told by these and by all below. */
bool tensor_place(struct run *run, tensor *t);
void tensor_release(struct run *run, tensor *t);

bool tensor_read(tensor *t);    /* from its file */
bool tensor_convert(tensor *t); /* from file_data to data */
bool tensor_upload(struct run *run, const tensor *t);
bool tensor_download(struct run *run, const tensor *t);
bool tensor_write(tensor *t); /* to its file */

/* The elements of `from`, which has strides, one after the other in C order, as float64. From the
 * device's copy, or from what was read of the file. NULL: no memory, told. */
double *tensor_values(const tensor *t, bool of_file);

#endif

/* An operand of a layer: an array of an npy file of up to eight dimensions, and its copy on the
 * device, which may be of another type and order. */
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
    const char *path;    /* NULL: on the device only */
    trp_io_file *source; /* an input's file; NULL: none */
    file_array file;
    trp_dnn_tensor device; /* packed */
    uint64_t bytes;        /* on the device */
    void *file_data;       /* as in the file, where that differs from `data` */
    void *data;            /* trp_host_alloc(), as on the device; NULL without elements */
} tensor;

/* Checks that outputs can be written, then opens the inputs and reads their headers. Reports
 * errors. */
bool tensor_open_all(tensor *all, size_t count);

/* Describes a tensor: "x.npy is 2 x 3 x 4 f32". */
typedef struct tensor_text {
    char s[320];
} tensor_text;
tensor_text tensor_describe(const tensor *t);
tensor_text tensor_shape_text(const file_array *array); /* "2 x 3 x 4 f32" */

/* Checks an input's rank; reports a mismatch. `what` names the dimensions: "n x c x spatial". */
bool tensor_expect_rank(const tensor *t, uint32_t least, uint32_t most, const char *what);

/* Checks an input's dimensions; reports a mismatch. `why` is "as the result has" or the like. */
bool tensor_expect_dims(const tensor *t, uint32_t rank, const int64_t *dim, const char *why);

/* Sets an output's shape; false after reporting that it is too large. */
bool tensor_shape_output(tensor *t, trp_dtype type, uint32_t rank, const int64_t *dim);

/* Sets type and order on the device. False after reporting that it can't be converted. */
bool tensor_lay_out(tensor *t, trp_dtype type, tensor_order order);

uint64_t tensor_elements(const tensor *t);

bool tensor_is_converted(const tensor *t);

/* Allocate and free memory. These and the following report errors. */
bool tensor_place(struct run *run, tensor *t);
void tensor_release(struct run *run, tensor *t);

bool tensor_read(tensor *t);    /* from its file */
bool tensor_convert(tensor *t); /* from file_data to data */
bool tensor_upload(struct run *run, const tensor *t);
bool tensor_download(struct run *run, const tensor *t);
bool tensor_write(tensor *t); /* to its file */

/* Returns the elements in C order as float64, from the device's copy or the file's. NULL: no
 * memory, reported. */
double *tensor_values(const tensor *t, bool of_file);

#endif

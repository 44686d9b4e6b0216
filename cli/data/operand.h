/* What one product reads or writes: a matrix or vector of an npy file, or a number, and its copy on
 * the device, which may be of another type and order. */
#ifndef TRP_CLI_DATA_OPERAND_H
#define TRP_CLI_DATA_OPERAND_H

#include "check/sums.h"
#include "matrix.h"

/* How elements lie in memory. */
typedef struct layout {
    trp_dtype type;
    uint64_t rows, cols;
    bool row_major;
    uint64_t ld; /* elements from one line to the next */
    uint64_t bytes;
} layout;

typedef enum operand_use {
    OPERAND_ABSENT,
    OPERAND_INPUT,
    OPERAND_OUTPUT,
} operand_use;

typedef struct operand {
    operand_use use;
    const char *option; /* for messages: "--bias"; of A, B and D their place, "A" */
    const char *path;   /* NULL: a number, without a file */
    double number;
    trp_io_file *source; /* an input's file; NULL: none */
    file_matrix file;
    layout layout;     /* on the device */
    void *file_data;   /* as in the file, where that differs from: */
    void *data;        /* trp_host_alloc(), as on the device; NULL for one without elements */
    trp_buffer buffer; /* likewise */
} operand;

/* Tries whether outputs can be written, before anything is read; then opens the files of inputs and
 * reads their headers. Tells what is wrong. */
bool operand_open_all(operand *all, size_t count);

trp_dtype operand_file_type(const operand *o);

/* "a.npy is 3 x 4 f32". */
typedef struct operand_text {
    char s[256];
} operand_text;
operand_text operand_describe(const operand *o);

/* Rounded numbers are what is asked for; but not integers that were none, nor half of a complex
 * number. */
bool operand_can_convert(trp_dtype from, trp_dtype to);

/* What a type is written as: bf16 and fp8 are widened to f32. */
trp_dtype operand_type_in_file(trp_dtype type);

/* Settles how it lies on the device: lines are padded to `unit` elements. False, and told, if it is
 * too large or can't be converted to `type`. */
bool operand_lay_out(operand *o, trp_dtype type, bool row_major, uint64_t unit);

/* The shape of an output's file. */
bool operand_shape_output(operand *o, trp_dtype type, uint64_t rows, uint64_t cols, bool vector);

/* A number, as an f32 on the device. */
void operand_set_number(operand *o, operand_use use, const char *name, double value);

/* Whether device and file differ in type, order or leading dimension. */
bool operand_is_converted(const operand *o);

/* Gets the memory. What is missing is told by these and by all below. */
bool operand_place(struct run *run, operand *o);
void operand_release(struct run *run, operand *o);

bool operand_read(operand *o);    /* from its file */
bool operand_convert(operand *o); /* from file_data, or from its number, to data */
bool operand_upload(struct run *run, const operand *o);
bool operand_download(struct run *run, const operand *o);
bool operand_write(operand *o); /* to its file */

/* As it is on the device; as it is in the file, if it is converted. */
check_view operand_view(const operand *o);
check_view operand_file_view(const operand *o);

#endif

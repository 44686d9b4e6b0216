/* An operand of a product: a matrix or vector of an npy file, or a number, and its copy on the
 * device, which may be of another type and order. */
#ifndef TRP_CLI_DATA_OPERAND_H
#define TRP_CLI_DATA_OPERAND_H

#include "check/sums.h"
#include "matrix.h"

/* Layout of elements in memory. */
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
    const char *option; /* for messages: "--bias", "A" */
    const char *path;   /* NULL: a number, without a file */
    double number;
    trp_io_file *source; /* an input's file; NULL: none */
    file_matrix file;
    layout layout;     /* on the device */
    void *file_data;   /* as in the file, where that differs from `data` */
    void *data;        /* trp_host_alloc(), as on the device; NULL without elements */
    trp_buffer buffer; /* likewise */
} operand;

/* Checks that outputs can be written, then opens the inputs and reads their headers. Reports
 * errors. */
bool operand_open_all(operand *all, size_t count);

/* Returns the type of a name; TRP_DTYPE_NONE: there is none. */
trp_dtype operand_named_type(const char *name);

/* Returns the type that an option chose among names; -1: TRP_DTYPE_NONE. */
trp_dtype operand_chosen_type(const char *const *names, int choice);

/* Describes an operand: "a.npy is 3 x 4 f32". */
typedef struct operand_text {
    char s[256];
} operand_text;
operand_text operand_describe(const operand *o);

/* Tells whether a conversion is allowed: rounding is, but not making integers of other numbers, or
 * dropping imaginary parts. */
bool operand_can_convert(trp_dtype from, trp_dtype to);

/* Returns the type that a result is written as: bf16 and fp8 are widened to f32. */
trp_dtype operand_type_in_file(trp_dtype type);

/* Lays an operand out on the device, with lines padded to `unit` elements. False after reporting
 * that it is too large or can't be converted to `type`. */
bool operand_lay_out(operand *o, trp_dtype type, bool row_major, uint64_t unit);

/* Sets the shape of an output's file. */
bool operand_shape_output(operand *o, trp_dtype type, uint64_t rows, uint64_t cols, bool vector);

/* Makes an operand of a number, an f32 on the device. */
void operand_set_number(operand *o, operand_use use, const char *name, double value);

/* Tells whether device and file differ in type, order or leading dimension. */
bool operand_is_converted(const operand *o);

/* Allocate and free memory. These and the following report errors. */
bool operand_place(struct run *run, operand *o);
void operand_release(struct run *run, operand *o);

bool operand_read(operand *o);    /* from its file */
bool operand_convert(operand *o); /* from file_data, or from its number, to data */
bool operand_upload(struct run *run, const operand *o);
bool operand_download(struct run *run, const operand *o);
bool operand_write(operand *o); /* to its file */

/* View an operand as on the device, and as in the file, if it is converted. */
check_view operand_view(const operand *o);
check_view operand_file_view(const operand *o);

#endif

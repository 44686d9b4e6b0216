/* Operations whose requests have tensors as fields (troupe/training.h). A problem consists of
 * arrays with their values in float64, and of the values that each must hold afterwards.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONFORMANCE_CALLS_H
#define TESTS_CONFORMANCE_CALLS_H

#include "conformance/conformance.h"
#include "support/problems/field.h"

#include <troupe/training.h>

enum { CF_FIELDS = 16, CF_SEGMENTS = 5 };

typedef struct cf_call cf_call;

typedef struct cf_fields {
    const cf_call *call;
    f_field field[CF_FIELDS];
    block blocks[CF_FIELDS];
    unsigned count;
    struct {
        double *v; /* NULL: not written, or compared by `check` */
        double size, units;
        bool wide; /* see f_right() */
    } wanted[CF_FIELDS];
    /* buffers hold the number of a field, from 1 on */
    _Alignas(16) unsigned char request[CF_REQUEST_BYTES];
    bool packed, tight; /* layout of fields that are drawn next; `tight` for bad_input */
    bool may_fault;
    trp_dnn_ran ran;
    trp_parameter_segment segments[CF_SEGMENTS]; /* segments that a request may point to */
    /* the engine that must have run on a GPU; NULL: any */
    const char *engine;
} cf_fields;

/* How a request accesses a tensor. CF_SHARED: it may be the same array as another such tensor. */
enum { CF_READ = 0, CF_WRITE = 1, CF_SHARED = 2, CF_UPDATE = CF_WRITE | CF_SHARED };

typedef struct cf_tensor {
    const char *name;
    size_t at;
    unsigned use;
} cf_tensor;

#define CF_TENSOR(of, use, x)                                                                      \
    {                                                                                              \
#x, offsetof(trp_##of##_request, x), use                                                   \
    }

struct cf_call {
    const char *name;
    trp_status (*send)(trp_actor *dnn, const void *request, trp_completion *done);
    size_t request_bytes, ran_at;
    /* Draws the fields and the request for the type of the first field; false: `way` does not suit
     * the type. */
    bool (*draw)(cf_fields *p, trp_dtype type, unsigned way);
    /* types: how many, from the first of f64, f32, f16, bf16, i8, u8, i32, bool */
    unsigned types, ways;
    bool (*check)(cf_fields *p); /* further checks; NULL: none */
    bool runs_again;
    cf_tensor tensor[CF_FIELDS]; /* the last one has no name */
};

/* Defines the functions of a row: NAME stands for trp_NAME(), which takes a trp_OF_request. */
#define CF_SEND(name, of)                                                                          \
    static trp_status send_##name(trp_actor *dnn, const void *request, trp_completion *done)       \
    {                                                                                              \
        return trp_##name(dnn, (const trp_##of##_request *)request, done);                         \
    }
#define CF_CALL(of_name, of)                                                                       \
    .name = #of_name, .send = send_##of_name, .draw = of_name,                                     \
    .request_bytes = sizeof(trp_##of##_request),                                                   \
    .ran_at = offsetof(trp_##of##_request, options.ran)

/* Add a field with values from `low` to `high`, which is read, and one without values, which must
 * be written. */
f_field *cf_in(cf_fields *p, trp_dtype type, int rank, const int64_t *dim, double low, double high);
f_field *cf_out(cf_fields *p, trp_dtype type, int rank, const int64_t *dim);
/* Returns the values that a field must hold, zero at first, for the caller to set; see f_right().
 */
double *cf_want(cf_fields *p, const f_field *f, double size, double units, bool wide);
double *cf_zeros(int64_t count);
/* The request, zero at first; `of` as in trp_OF_request. */
#define CF_REQUEST(p, of) ((trp_##of##_request *)(void *)(p)->request)

int cf_calls_main(int argc, char **argv, const char *title, const cf_call *calls, size_t count);

#endif

/* Operations whose request has tensors as its fields (troupe/training.h): what is drawn are arrays
 * with values in float64 beside them, and what each must hold afterwards. SPDX-License-Identifier:
 * Apache-2.0 */
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
        double *v; /* NULL: it is not written, or `check` knows */
        double size, units;
        bool wide; /* see f_right() */
    } wanted[CF_FIELDS];
    _Alignas(
        16) unsigned char request[CF_REQUEST_BYTES]; /* buffers are numbers of fields, from 1 on */
    bool packed, tight; /* as fields are laid out from here on; for bad_input */
    bool may_fault;
    trp_dnn_ran ran;
    trp_parameter_segment segments[CF_SEGMENTS]; /* that a request may point to */
    const char *engine;                          /* that must have run on a GPU; NULL: any */
} cf_fields;

/* What is done with a tensor of a request; CF_SHARED: it may be in the place of another such. */
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
    /* Its fields and the request, for a type of the first; false: that does not go with `way`. */
    bool (*draw)(cf_fields *p, trp_dtype type, unsigned way);
    unsigned types, ways;        /* types: the first of f64, f32, f16, bf16, i8, u8, i32, bool */
    bool (*check)(cf_fields *p); /* beside what is wanted; NULL: nothing */
    bool runs_again;
    cf_tensor tensor[CF_FIELDS]; /* up to one without a name */
};

/* A row: NAME is trp_NAME(), which takes a trp_OF_request. */
#define CF_SEND(name, of)                                                                          \
    static trp_status send_##name(trp_actor *dnn, const void *request, trp_completion *done)       \
    {                                                                                              \
        return trp_##name(dnn, (const trp_##of##_request *)request, done);                         \
    }
#define CF_CALL(of_name, of)                                                                       \
    .name = #of_name, .send = send_##of_name, .draw = of_name,                                     \
    .request_bytes = sizeof(trp_##of##_request),                                                   \
    .ran_at = offsetof(trp_##of##_request, options.ran)

/* A field with numbers from low to high, which is read; one that is not, which must be written. */
f_field *cf_in(cf_fields *p, trp_dtype type, int rank, const int64_t *dim, double low, double high);
f_field *cf_out(cf_fields *p, trp_dtype type, int rank, const int64_t *dim);
/* What a field must hold: zeros, to be changed by the caller; see f_right(). */
double *cf_want(cf_fields *p, const f_field *f, double size, double units, bool wide);
double *cf_zeros(int64_t count);
/* The request, all zero; `of` as in trp_OF_request. */
#define CF_REQUEST(p, of) ((trp_##of##_request *)(void *)(p)->request)

int cf_calls_main(int argc, char **argv, const char *title, const cf_call *calls, size_t count);

#endif

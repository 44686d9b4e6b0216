/* Reading the entries of troupe cutlass pack (spec.h): their fields, each of which takes one value
 * at a time into a product in the making. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_SPEC_READ_H
#define TRP_CLI_COMMANDS_CUTLASS_SPEC_READ_H

#include "epilogue.h"
#include "problem.h"
#include "spec.h"

#include "data/json.h"

#include "actors/cutlass/encode/gemm_run.h"
#include "actors/cutlass/request/request.h"

/* What a kernel computes, as a file says it. */
typedef struct spec_operation {
    const char *name;
    trp__cutlass_operation kind;
    trp_conv_operation conv;
} spec_operation;

/* A product in the making: one value of each field. */
typedef struct spec_combination {
    const spec_operation *operation;
    trp_dtype type[TRP__GEMM_MATRICES]; /* TRP_DTYPE_NONE: the default */
    trp_order order[TRP__GEMM_MATRICES];
    trp_compute compute;
    const char *epilogue; /* NULL: none */
    const char *layouts;  /* NULL: the default */
    uint32_t align;
    int64_t m, n, k, batch;
    int64_t group; /* of k, of a narrow B; 0: it has none */
    bool zeros;
    trp_scale_mode scale[2]; /* of A and B */
    int dims, channels;      /* of convolutions; 0: the default */
    bool strided;
    /* What is made of these. */
    trp__epilogue_pack made;
    epilogue text;
    trp__cutlass_problem problem;
} spec_combination;

/* The values that an entry has for a field. */
typedef struct spec_values {
    const cJSON *one, *at; /* one: the whole value, NULL: not there; at: the one in hand */
} spec_values;

typedef struct spec_reader {
    const char *path;
    spec *out;
    size_t entry;
    const cJSON *value; /* that is looked at, */
    const char *field;  /* and its field */
    spec_combination x;
    char why[512]; /* the last row did not apply */
} spec_reader;

/* "FILE: [3].layouts: ..."; false. */
bool spec_wrong(const spec_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same: "expected WHAT, got ..." */
bool spec_expected(const spec_reader *r, const char *what);

/* Rows are the outermost loop; then, here, come those that others may overrule. */
enum {
    SPEC_ROWS,
    SPEC_ARCH,
    SPEC_PRODUCTS,
    SPEC_OPERATION = SPEC_PRODUCTS,
    SPEC_TYPE,
    SPEC_FIELDS = SPEC_TYPE + 18
};

typedef struct spec_field {
    const char *name;
    bool (*take)(spec_reader *r);
} spec_field;

extern const spec_field spec_fields[SPEC_FIELDS];

extern const spec_operation spec_operations[]; /* the first is the default */

/* 90 of "sm_90"; 0: it is none. */
uint32_t spec_capability(const cJSON *value);

#endif

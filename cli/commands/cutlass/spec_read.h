/* Reads the entries of troupe cutlass pack (spec.h): each field takes one value at a time into a
 * combination. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_SPEC_READ_H
#define TRP_CLI_COMMANDS_CUTLASS_SPEC_READ_H

#include "epilogue.h"
#include "problem.h"
#include "spec.h"

#include "data/json.h"

#include "actors/cutlass/encode/gemm_run.h"
#include "actors/cutlass/request/request.h"

/* A kernel's operation by its name in files. */
typedef struct spec_operation {
    const char *name;
    trp__cutlass_operation kind;
    trp_conv_operation conv;
} spec_operation;

/* A product: one value of each field. */
typedef struct spec_combination {
    const spec_operation *operation;
    trp_dtype type[TRP__GEMM_MATRICES]; /* TRP_DTYPE_NONE: the default */
    trp_order order[TRP__GEMM_MATRICES];
    trp_compute compute;
    const char *epilogue; /* NULL: none */
    const char *layouts;  /* NULL: the default */
    uint32_t align;
    int64_t m, n, k, batch;
    int64_t group; /* along k, of a narrow B; 0: none */
    bool zeros;
    trp_scale_mode scale[2]; /* of A and B */
    int dims, channels;      /* of convolutions; 0: the default */
    bool strided;
    /* Made of the fields above. */
    trp__epilogue_encoding made;
    epilogue text;
    trp__cutlass_problem problem;
} spec_combination;

/* An entry's values of a field. */
typedef struct spec_values {
    const cJSON *one, *at; /* one: the whole value, NULL: absent; at: the current one */
} spec_values;

typedef struct spec_reader {
    const char *path;
    spec *out;
    size_t entry;
    const cJSON *value; /* the current value */
    const char *field;  /* its field */
    int which;          /* the `which` of the field */
    spec_combination x;
    char why[512]; /* why the last row did not apply */
} spec_reader;

/* Reports a mistake as "FILE: [3].layouts: ..."; returns false. */
bool spec_wrong(const spec_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reports "expected WHAT, got ...". */
bool spec_expected(const spec_reader *r, const char *what);

/* Rows are the outermost loop, then architectures. Among the others, those that later ones may
 * overrule come first. */
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
    int which; /* which of several values `take` sets */
} spec_field;

extern const spec_field spec_fields[SPEC_FIELDS];

extern const spec_operation spec_operations[]; /* the first is the default */

/* Parses "sm_90" into 90; 0: invalid. */
uint32_t spec_capability(const cJSON *value);

#endif

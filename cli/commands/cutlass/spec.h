/* troupe cutlass pack: reads a JSON file into kernels. docs/cutlass-kernels.md describes its
 * fields. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_SPEC_H
#define TRP_CLI_COMMANDS_CUTLASS_SPEC_H

#include "actors/cutlass/plan/compile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One compile. */
typedef struct spec_kernel {
    char *label; /* for messages: row, architecture, types, layouts, epilogue */
    trp__cutlass_compile compile;
} spec_kernel;

typedef struct spec {
    spec_kernel **kernel; /* without duplicates, in the order of the file */
    size_t count;
} spec;

/* Reads a file and renders its kernels for devices of these capabilities. Reports mistakes with
 * line, entry and field. The caller ends *out in any case. */
bool spec_read(const char *path, const uint32_t *capabilities, size_t count, spec *out);
void spec_end(spec *s);

#endif

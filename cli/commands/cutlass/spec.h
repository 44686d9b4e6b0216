/* troupe cutlass pack: which kernels a JSON file stands for. docs/cutlass-kernels.md has its
 * fields. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_SPEC_H
#define TRP_CLI_COMMANDS_CUTLASS_SPEC_H

#include "actors/cutlass/plan/compile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One compile. */
typedef struct spec_kernel {
    char *label; /* for people: the row, what for, types, layouts, epilogue */
    trp__cutlass_compile compile;
} spec_kernel;

typedef struct spec {
    spec_kernel **kernel; /* each once, in the order of the file */
    size_t count;
} spec;

/* Reads a file, and renders what it asks for on devices of these capabilities. Tells what is wrong,
 * with line, entry and field. The caller ends *out in any case. */
bool spec_read(const char *path, const uint32_t *capabilities, size_t count, spec *out);
void spec_end(spec *s);

#endif

/* Prints epilogue trees, for tests of the parser of their text. */
#ifndef TESTS_UNIT_CLI_EPILOGUE_PRINT_H
#define TESTS_UNIT_CLI_EPILOGUE_PRINT_H

#include "cli/commands/cutlass/epilogue.h"

/* Writes a text that reads back as the same computation with the same numbers, to `out` as far as
 * `size` bytes reach, its end included; returns its whole length. The tree must be valid.
 * Operands without a name get one. */
size_t epilogue_print(const epilogue *tree, char *out, size_t size);

#endif

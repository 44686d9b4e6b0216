/* Hypothetical problems: which kernels they would get on which device. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_PROBLEM_H
#define TRP_CLI_COMMANDS_CUTLASS_PROBLEM_H

#include "cutlass.h"

#include "actors/cutlass/plan/run.h"

/* Gives each named operand of a text a placeholder buffer; numbers are by value. */
void cutlass_give_places(epilogue *text);

/* Sets a typical device of that capability. */
void cutlass_set_device(trp__cutlass_problem *p, uint32_t capability);

/* Parses "90a" or "sm_80" into 90 or 80; 0: no capability that kernels exist for. */
uint32_t cutlass_capability(const char *text);

#endif

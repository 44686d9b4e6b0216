/* Problems that are only thought of: what kernels they would get on which device. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_PROBLEM_H
#define TRP_CLI_COMMANDS_CUTLASS_PROBLEM_H

#include "cutlass.h"

#include "actors/cutlass/plan/run.h"

/* Operands of a text that have a name get a place, which nobody looks at; numbers are by value. */
void cutlass_give_places(epilogue *text);

/* A device of that capability, of the usual size. */
void cutlass_set_device(trp__cutlass_problem *p, uint32_t capability);

/* "90a", "sm_80": the capability of a device, 90 or 80; 0: it is none that kernels are for. */
uint32_t cutlass_capability(const char *text);

#endif

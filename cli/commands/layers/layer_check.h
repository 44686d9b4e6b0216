/* Holds what a layer made against float64: what the checks of all layers share. */
#ifndef TRP_CLI_COMMANDS_LAYERS_LAYER_CHECK_H
#define TRP_CLI_COMMANDS_LAYERS_LAYER_CHECK_H

#include "check/type.h"
#include "layer.h"

/* Terms of all sums in one check: seconds, not minutes. More, and elements are sampled. */
#define CHECK_LAYER_STEPS 5e8

/* A value in float64, and how far a right result may be from it. Infinite: anything is right. */
typedef struct check_number {
    double x, bound;
} check_number;

/* What was found so far. */
typedef struct check_tally {
    uint64_t wrong, compared, all;
    double error2, norm2;
    double worst; /* error of a value, as a part of its bound */
    uint64_t at;  /* of the worst: its index in C order */
    double got;
    check_number expected;
} check_tally;

/* Adds one comparison; the bound is widened by what rounding to `type` does. */
void check_compare(check_tally *tally, trp_dtype type, uint64_t at, double got, check_number v);

/* Compares elements of a result with what `element` says they should be: all, or as many as
 * CHECK_LAYER_STEPS allows with so many terms each, spread evenly. False: no memory, told. */
bool check_elements(check_tally *tally, const tensor *result, double terms,
                    check_number (*element)(const void *user, uint64_t at), const void *user);

/* Shows a tally as a step; true if nothing is wrong. */
bool check_show(const check_tally *tally, const tensor *result, uint64_t began);

/* Both of a result, if it was made and is here; true otherwise. */
bool check_result(const tensor *result, double terms,
                  check_number (*element)(const void *user, uint64_t at), const void *user,
                  uint64_t began);

/* That what was sent of all inputs is what their files say, rounded; told if not. */
bool check_inputs(const layer *job);

/* Half the distance of 1 and the next number of what is computed in. */
double check_unit(trp_dtype compute);

/* An activation of a value with a bound, computed with `unit`. */
check_number check_activation(const trp_layer_activation *activation, check_number v, double unit);

#endif

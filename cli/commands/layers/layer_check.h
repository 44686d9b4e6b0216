/* Compares results of layers with float64: shared by the checks of all layers. */
#ifndef TRP_CLI_COMMANDS_LAYERS_LAYER_CHECK_H
#define TRP_CLI_COMMANDS_LAYERS_LAYER_CHECK_H

#include "check/type.h"
#include "layer.h"

/* Terms of all sums in one check, a matter of seconds. With more, elements are sampled. */
#define CHECK_LAYER_STEPS 5e8

/* A value in float64 and the allowed error. Infinite: anything is right. */
typedef struct check_number {
    double x, bound;
} check_number;

/* Result of comparisons so far. */
typedef struct check_tally {
    uint64_t wrong, compared, all;
    double error2, norm2;
    double worst; /* largest error, relative to its bound */
    uint64_t at;  /* its index */
    double got;
    check_number expected;
} check_tally;

/* Compares elements of a result with those that `element` returns: all, or an even sample bounded
 * by CHECK_LAYER_STEPS at so many terms each. False: no memory, reported. */
bool check_elements(check_tally *tally, const tensor *result, double terms,
                    check_number (*element)(const void *user, uint64_t at), const void *user);

/* Shows a tally as a step; true if nothing is wrong. */
bool check_show(const check_tally *tally, const tensor *result, uint64_t began);

/* Does both for a result that was computed and fetched; true otherwise. */
bool check_result(const tensor *result, double terms,
                  check_number (*element)(const void *user, uint64_t at), const void *user,
                  uint64_t began);

/* Checks that all inputs were converted to the nearest values; reports if not. */
bool check_inputs(const layer *job);

/* Returns half the distance from 1 to the next number of a type of arithmetic. */
double check_unit(trp_dtype compute);

/* Applies an activation to a value with a bound, in arithmetic of `unit`. */
check_number check_activation(const trp_layer_activation *activation, check_number v, double unit);

#endif

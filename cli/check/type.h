/* Rounding to a type, implemented independently of the library. */
#ifndef TRP_CLI_CHECK_TYPE_H
#define TRP_CLI_CHECK_TYPE_H

#include <troupe/types.h>

#include <stdbool.h>

typedef struct check_type {
    double unit;     /* relative: half the distance of 1 and the next number; 0: integers */
    double smallest; /* half the smallest positive number: the error of an underflow */
    double largest;
    bool saturates;
} check_type;

check_type check_type_of(trp_dtype type);

/* Clamps to the range of a type that saturates. */
double check_saturated(double x, check_type t);

/* Tells whether y is x rounded to a type. */
bool check_is_nearest(double x, double y, trp_dtype type);

#endif

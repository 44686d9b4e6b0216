/* What rounding to a type does, worked out apart from the library. */
#ifndef TRP_CLI_CHECK_TYPE_H
#define TRP_CLI_CHECK_TYPE_H

#include <troupe/types.h>

#include <stdbool.h>

typedef struct check_type {
    double unit;     /* relative: half the distance of 1 and the next number; 0: integers */
    double smallest; /* half of the smallest positive number: what underflow may take away */
    double largest;
    bool saturates;
} check_type;

check_type check_type_of(trp_dtype type);

/* The nearest of the range of a type that saturates. */
double check_saturated(double x, check_type t);

/* Whether y is the nearest number of a type to x. */
bool check_is_nearest(double x, double y, trp_dtype type);

#endif

#include "type.h"

#include <float.h>
#include <math.h>

check_type check_type_of(trp_dtype type)
{
    switch (type) {
    case TRP_F64:
    case TRP_C128:
        return (check_type){0x1p-53, DBL_TRUE_MIN, DBL_MAX, false};
    case TRP_F16:
        return (check_type){0x1p-11, 0x1p-25, 65504, false};
    case TRP_BF16:
        return (check_type){0x1p-8, 0x1p-134, 0x1.fep127, false};
    case TRP_F8E4M3:
        return (check_type){0x1p-4, 0x1p-10, 448, true};
    case TRP_F8E5M2:
        return (check_type){0x1p-3, 0x1p-17, 57344, true};
    case TRP_I8:
        return (check_type){0, 0.5, 127, true};
    case TRP_I32:
        return (check_type){0, 0.5, 2147483647, true};
    default:
        return (check_type){0x1p-24, 0x1p-150, (double)FLT_MAX, false};
    }
}

double check_saturated(double x, check_type t)
{
    double least = t.unit == 0 ? -t.largest - 1 : -t.largest; /* integers have one more */
    return x > t.largest ? t.largest : x < least ? least : x;
}

bool check_is_nearest(double x, double y, trp_dtype type)
{
    check_type t = check_type_of(type);
    double expected = t.saturates ? check_saturated(x, t) : x;
    /* Half a unit of the value, which rounding may have raised to a power of two. */
    return fabs(y - expected) <= t.unit * fabs(expected) + t.smallest || x == y ||
           (isnan(x) && (isnan(y) || t.unit == 0)) ||
           (!t.saturates && isinf(y) && fabs(x) >= t.largest && x * y > 0);
}

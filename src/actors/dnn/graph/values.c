#include "actors/dnn/graph/values.h"

#include <troupe/convert.h>

#include <math.h>
#include <string.h>

void trp__dnn_value_store(uint8_t type, double value, void *out)
{
    if (type == TRP_BOOL)
        *(uint8_t *)out = value != 0;
    else if (type == TRP_U8)
        *(uint8_t *)out = value <= 0 ? 0 : value >= UINT8_MAX ? UINT8_MAX : (uint8_t)rint(value);
    else if (type == TRP_I64)
        memcpy(out, &value, sizeof value);
    else
        (void)trp_convert(TRP_F64, &value, (trp_dtype)type, out, 1);
}

double trp__dnn_value_number(uint8_t type, const void *value)
{
    double number = 0;
    if (type == TRP_BOOL || type == TRP_U8)
        number = *(const uint8_t *)value;
    else if (type == TRP_I64)
        memcpy(&number, value, sizeof number);
    else
        (void)trp_convert((trp_dtype)type, value, TRP_F64, &number, 1);
    return number;
}

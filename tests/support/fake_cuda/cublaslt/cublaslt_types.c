/* Elements of the fake cuBLASLt's matrices. */
#include "support/fake_cuda/cublaslt/cublaslt.h"

#include "base/numbers/narrow.h"

#include <math.h>
#include <string.h>

#define T(name) TRP__CUBLASLT_##name

static int real_of(int type)
{
    return type == T(C_32F) ? T(R_32F) : type == T(C_64F) ? T(R_64F) : type;
}

static size_t real_bytes(int type)
{
    switch (type) {
    case T(R_64F):
        return 8;
    case T(R_32F):
    case T(R_32I):
        return 4;
    case T(R_16F):
    case T(R_16BF):
        return 2;
    default:
        return 1;
    }
}

bool fake_lt_complex(int type)
{
    return type != real_of(type);
}

size_t fake_lt_bytes(int type)
{
    return real_bytes(real_of(type)) * (fake_lt_complex(type) ? 2 : 1);
}

bool fake_lt_is_f8(int type)
{
    return type == T(R_8F_E4M3) || type == T(R_8F_E5M2);
}

double fake_lt_load_real(int type, const char *at)
{
    union {
        double f64;
        float f32;
        int32_t i32;
        uint16_t f16;
        int8_t i8;
        uint8_t f8;
    } bits = {0};
    memcpy(&bits, at, real_bytes(type));
    switch (type) {
    case T(R_64F):
        return bits.f64;
    case T(R_32F):
        return (double)bits.f32;
    case T(R_32I):
        return bits.i32;
    case T(R_16F):
        return (double)trp__f16_to_f32(bits.f16);
    case T(R_16BF):
        return (double)trp__bf16_to_f32(bits.f16);
    case T(R_8I):
        return bits.i8;
    case T(R_8F_E4M3):
        return (double)trp__f8e4m3_to_f32(bits.f8);
    default:
        return (double)trp__f8e5m2_to_f32(bits.f8);
    }
}

static double to_integer(double value, double least, double most)
{
    return isnan(value) ? 0 : fmin(fmax(nearbyint(value), least), most);
}

void fake_lt_store_real(int type, char *at, double value)
{
    union {
        double f64;
        float f32;
        int32_t i32;
        uint16_t f16;
        int8_t i8;
        uint8_t f8;
    } bits = {0};
    switch (type) {
    case T(R_64F):
        bits.f64 = value;
        break;
    case T(R_32F):
        bits.f32 = (float)value;
        break;
    case T(R_32I):
        bits.i32 = (int32_t)to_integer(value, INT32_MIN, INT32_MAX);
        break;
    case T(R_16F):
        bits.f16 = trp__f64_to_f16(value);
        break;
    case T(R_16BF):
        bits.f16 = trp__f64_to_bf16(value);
        break;
    case T(R_8I):
        bits.i8 = (int8_t)to_integer(value, INT8_MIN, INT8_MAX);
        break;
    case T(R_8F_E4M3):
        bits.f8 = trp__f32_to_f8e4m3(trp__f64_to_f32_odd(value));
        break;
    default:
        bits.f8 = trp__f32_to_f8e5m2(trp__f64_to_f32_odd(value));
    }
    memcpy(at, &bits, real_bytes(type));
}

fake_number fake_lt_load(int type, const char *at)
{
    int real = real_of(type);
    return fake_pair(fake_lt_load_real(real, at),
                     type == real ? 0 : fake_lt_load_real(real, at + real_bytes(real)));
}

void fake_lt_store(int type, char *at, fake_number value)
{
    int real = real_of(type);
    fake_lt_store_real(real, at, creal(value));
    if (type != real)
        fake_lt_store_real(real, at + real_bytes(real), cimag(value));
}

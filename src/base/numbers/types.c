#include <troupe/types.h>
#include <troupe/version.h>

static const struct {
    const char *name;
    uint32_t bits;
} dtypes[TRP_DTYPE_COUNT] = {
    [TRP_DTYPE_NONE] = {"none", 0}, [TRP_F64] = {"f64", 64},      [TRP_F32] = {"f32", 32},
    [TRP_F16] = {"f16", 16},        [TRP_BF16] = {"bf16", 16},    [TRP_F8E4M3] = {"f8e4m3", 8},
    [TRP_F8E5M2] = {"f8e5m2", 8},   [TRP_F4E2M1] = {"f4e2m1", 4}, [TRP_I8] = {"i8", 8},
    [TRP_I32] = {"i32", 32},        [TRP_I64] = {"i64", 64},      [TRP_U8] = {"u8", 8},
    [TRP_BOOL] = {"bool", 8},       [TRP_C64] = {"c64", 64},      [TRP_C128] = {"c128", 128},
    [TRP_F8E8M0] = {"f8e8m0", 8},   [TRP_I4] = {"i4", 4},
};

const char *trp_dtype_name(trp_dtype type)
{
    return (unsigned)type < TRP_DTYPE_COUNT ? dtypes[type].name : "none";
}

uint32_t trp_dtype_bits(trp_dtype type)
{
    return (unsigned)type < TRP_DTYPE_COUNT ? dtypes[type].bits : 0;
}

const char *trp_version(void)
{
    return TRP_VERSION_STRING;
}

/* Transforms in the conformance suite, compared with plain sums in long double. Memory outside the
 * tensors holds NaN. */
#include "conformance/fft/problem.h"

TROUPE_TEST("one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { ALWAYS = 1, HAS_X = 2, HAS_Y = 4, WAVES = 8 };

/* ---- the request ---- */

#define BUFFER(x, bit)                                                                             \
    {                                                                                              \
#x, offsetof(trp_fft_request, x.buffer), offsetof(trp_fft_request, x.offset), bit, bit,    \
            TRP_E_STALE                                                                            \
    }
static const cf_operand operands[] = {BUFFER(x, HAS_X), BUFFER(y, HAS_Y)};

static const cf_field fields[] = {
    {"x.type", CF_TYPE, offsetof(trp_fft_request, x.type), ALWAYS, 0, 0, 0},
    {"kind", CF_OPTION, offsetof(trp_fft_request, kind), ALWAYS, TRP_FFT_DST4 + 1, 0, 0},
    {"orthogonalize", CF_OPTION, offsetof(trp_fft_request, orthogonalize), WAVES, 3, 0, 0},
    {"norm", CF_OPTION, offsetof(trp_fft_request, norm), ALWAYS, 3, 0, 0},
    {"scale", CF_SCALAR, offsetof(trp_fft_request, scale), ALWAYS, 0, ALWAYS, 0},
};

static void set_tensor(const cf_fft *p, const cf_fft_tensor *from, trp_buffer buffer, bool dims,
                       trp_fft_tensor *to)
{
    to->buffer = buffer;
    to->offset = (uint64_t)(from->first * cf_fft_size_of(from));
    for (int i = 0; i < p->rank; i++) {
        to->dim[i] = dims ? from->dim[i] : 0;
        to->stride[i] = from->packed ? 0 : from->stride[i];
    }
}

static trp_dtype default_type(const cf_fft *p)
{
    return cf_fft_is_wave(p)        ? p->x.type
           : p->kind != TRP_FFT_C2R ? p->y.type
           : p->wide                ? TRP_F64
                                    : TRP_F32;
}

static void make_request(const cf_problem *problem, void *out)
{
    const cf_fft *p = problem->own;
    trp_fft_request r = {.kind = p->kind,
                         .inverse = p->inverse,
                         .norm = p->norm < 3 ? (trp_fft_norm)p->norm : TRP_FFT_BACKWARD,
                         .orthogonalize = p->orthogonalize,
                         .rank = (uint32_t)p->rank,
                         .axis_count = p->all ? 0 : (uint32_t)p->axes,
                         .x.type = p->x.type,
                         .y.type = p->backwards || p->y.type != default_type(p) ? p->y.type
                                                                                : TRP_DTYPE_NONE};
    if (p->norm == 3)
        r.scale = trp_real(p->scale);
    for (int i = 0; i < p->axes; i++) {
        r.axis[i] = p->all ? 0 : p->backwards ? p->axis[i] - p->rank : p->axis[i];
        r.shift_x |= (p->shift_x >> p->axis[i] & 1) << i;
        r.shift_y |= (p->shift_y >> p->axis[i] & 1) << i;
        r.n[i] = p->named[i] ? p->n[p->axis[i]] : 0;
    }
    set_tensor(p, &p->x, p->blocks[CF_FFT_X].buffer, true, &r.x);
    set_tensor(p, &p->y, p->blocks[p->in_place ? CF_FFT_X : CF_FFT_Y].buffer, p->backwards, &r.y);
    *(trp_fft_request *)out = r;
}

static trp_status send(trp_actor *fft_actor, const cf_problem *p, trp_completion *done)
{
    trp_fft_request r;
    make_request(p, &r);
    return trp_fft(fft_actor, &r, done);
}

/* ---- mistakes ---- */

typedef struct mistake {
    const char *word;
    void (*make)(const cf_fft *p, trp_fft_request *r);
} mistake;

#define MISTAKE(name, ...)                                                                         \
    static void name(const cf_fft *p, trp_fft_request *r)                                          \
    {                                                                                              \
        (void)p;                                                                                   \
        __VA_ARGS__;                                                                               \
    }
MISTAKE(no_rank, r->rank = 0)
MISTAKE(large_rank, r->rank = CF_FFT_RANK + 1)
MISTAKE(many_axes, r->axis_count = r->rank + 1)
MISTAKE(axis_twice, r->axis[1] = r->axis[0])
MISTAKE(axis_twice_backwards,
        r->axis[1] = r->axis[0] < 0 ? r->axis[0] + (int)r->rank : r->axis[0] - (int)r->rank)
MISTAKE(axis_beyond, r->axis[0] = (int)r->rank)
MISTAKE(axis_before, r->axis[0] = -(int)r->rank - 1)
MISTAKE(axis_behind, r->axis[CF_FFT_RANK - 1] = 1)
MISTAKE(axis_uncounted, r->axis_count = 0; r->axis[0] = 1)
MISTAKE(negative_length, r->n[0] = -1)
MISTAKE(huge_length, r->n[0] = INT64_C(1) << 48)
MISTAKE(longest_length, r->n[1] = INT64_MAX)
MISTAKE(longer_result, r->n[0] = p->n[p->axis[0]] + 3; memset(r->y.dim, 0, sizeof r->y.dim))
MISTAKE(length_behind, r->n[CF_FFT_RANK - 1] = 3)
MISTAKE(no_length, r->x.dim[p->axis[0]] = 0; r->n[0] = 0; memset(r->y.dim, 0, sizeof r->y.dim))
MISTAKE(negative_dim, r->x.dim[0] = -1)
MISTAKE(huge_dim, r->x.dim[0] = INT64_MAX)
MISTAKE(dim_behind, r->x.dim[CF_FFT_RANK - 1] = 2)
MISTAKE(many_elements, for (int i = 0; i < p->rank; i++) r->x.dim[i] = INT64_C(1) << 40;
        memset(r->n, 0, sizeof r->n); memset(r->y.dim, 0, sizeof r->y.dim))
MISTAKE(other_dim_of_y, memcpy(r->y.dim, p->y.dim, sizeof r->y.dim); r->y.dim[0]++)
MISTAKE(one_place, for (int i = 0; i < p->rank; i++) r->y.stride[i] = 1)
MISTAKE(broadcast_result, r->y.stride[p->rank - 1] = 1)
MISTAKE(huge_stride, r->x.stride[0] = INT64_MAX)
MISTAKE(smallest_stride, r->y.stride[0] = INT64_MIN)
MISTAKE(far_apart, r->x.stride[0] = (INT64_C(1) << 48) - 1)
MISTAKE(stride_behind, r->x.stride[CF_FFT_RANK - 1] = 1)
MISTAKE(backwards_at_begin, r->x.stride[0] = -1)
MISTAKE(integers, r->y.type = TRP_I32)
MISTAKE(other_precision, r->y.type = p->wide ? TRP_C64 : TRP_C128)
MISTAKE(eight_bits, r->y.type = TRP_F8E4M3)
MISTAKE(half_of_f64, r->y.type = p->wide ? TRP_F16 : TRP_F64)
MISTAKE(shift_behind, r->shift_x = 1u << r->axis_count)
MISTAKE(shift_far_behind, r->shift_y = 1u << 31)
MISTAKE(shift_halved, if (p->kind == TRP_FFT_C2R) r->shift_x = 2; else r->shift_y = 2;
        if (p->kind == TRP_FFT_C2C) r->shift_y = 4)
MISTAKE(shift_padded, r->n[0] = p->n[p->axis[0]] + 1; r->shift_x = 1;
        memset(r->y.dim, 0, sizeof r->y.dim))
MISTAKE(norm_and_scale, r->norm = TRP_FFT_ORTHO; r->scale = trp_real(2))
MISTAKE(scale_not_given, r->norm = TRP_FFT_BACKWARD; r->scale = (trp_scalar){.re = 2})

static bool spoil(const cf_problem *problem, unsigned which, const cf_wrong *wrong, void *request)
{
    static const mistake mistakes[] = {
        {"rank", no_rank},
        {"rank", large_rank},
        {"axis_count", many_axes},
        {"axis[1]", axis_twice},
        {"axis[1]", axis_twice_backwards},
        {"axis[0]", axis_beyond},
        {"axis[0]", axis_before},
        {"axis[7]", axis_behind},
        {"axis[0]", axis_uncounted},
        {"n[0]", negative_length},
        {"n[0]", huge_length},
        {"n[1]", longest_length},
        {"y", longer_result},
        {"n[7]", length_behind},
        {"n[0]", no_length},
        {"x.dim[0]", negative_dim},
        {"x.dim[0]", huge_dim},
        {"x.dim[7]", dim_behind},
        {"x.dim", many_elements},
        {"y.dim[0]", other_dim_of_y},
        {"y.stride", one_place},
        {"y.stride", broadcast_result},
        {"x.stride[0]", huge_stride},
        {"y.stride[0]", smallest_stride},
        {"x", far_apart},
        {"x.stride[7]", stride_behind},
        {"x.offset", backwards_at_begin},
        {"y.type", integers},
        {"y.type", other_precision},
        {"y.type", eight_bits},
        {"y.type", half_of_f64},
        {"shift_x", shift_behind},
        {"shift_y", shift_far_behind},
        {"shift_", shift_halved},
        {"shift_x", shift_padded},
        {"norm", norm_and_scale},
        {"scale", scale_not_given},
    };
    if (which >= COUNT_OF(mistakes))
        return false;
    mistakes[which].make(problem->own, request);
    *wrong->word = mistakes[which].word;
    return true;
}

/* ---- the family ---- */

static const cf_family family = {
    .operands = operands,
    .operand_count = COUNT_OF(operands),
    .fields = fields,
    .field_count = COUNT_OF(fields),
    .request_bytes = sizeof(trp_fft_request),
    .draw = cf_fft_draw,
    .request = make_request,
    .send = send,
    .check = cf_fft_check,
    .drop = cf_fft_drop,
    .spoil = spoil,
};

static const trp_fft_kind kinds[] = {TRP_FFT_C2C,  TRP_FFT_R2C,  TRP_FFT_C2R,  TRP_FFT_DCT1,
                                     TRP_FFT_DCT2, TRP_FFT_DCT3, TRP_FFT_DCT4, TRP_FFT_DST1,
                                     TRP_FFT_DST2, TRP_FFT_DST3, TRP_FFT_DST4};
static const cf_variant complex_variants[] = {
    {.name = "c64", .type = TRP_C64, .is_complex = true},
    {.name = "c128", .type = TRP_C128, .is_complex = true},
};
static const cf_variant real_variants[] = {
    {.name = "f32", .type = TRP_F32},
    {.name = "f64", .type = TRP_F64},
    {.name = "f16", .type = TRP_F16},
    {.name = "bf16", .type = TRP_BF16},
};
static const cf_variant to_real_variants[] = {
    {.name = "c64", .type = TRP_C64, .is_complex = true},
    {.name = "c128", .type = TRP_C128, .is_complex = true},
    {.name = "c64 to f16", .type = TRP_C64, .is_complex = true},
    {.name = "c64 to bf16", .type = TRP_C64, .is_complex = true},
};

int main(int argc, char **argv)
{
#define OPERATION(title, kind, of, ...)                                                            \
    {                                                                                              \
        .name = title, .op = TRP_OP_FFT, .family = &family, .row = &kinds[kind], .variants = of,   \
        .variant_count = COUNT_OF(of), .ways = CF_FFT_WAYS, .writes = HAS_Y, __VA_ARGS__           \
    }
#define FOURIER (ALWAYS | HAS_X | HAS_Y)
#define WAVE(title, kind)                                                                          \
    OPERATION(title, kind, real_variants, .has = FOURIER | WAVES, .in_place = HAS_X | HAS_Y)
    static const cf_operation operations[] = {
        OPERATION("c2c", TRP_FFT_C2C, complex_variants, .has = FOURIER, .in_place = HAS_X | HAS_Y),
        OPERATION("r2c", TRP_FFT_R2C, real_variants, .has = FOURIER, .in_place = 0),
        OPERATION("c2r", TRP_FFT_C2R, to_real_variants, .has = FOURIER, .in_place = 0),
        WAVE("dct type I", TRP_FFT_DCT1),
        WAVE("dct type II", TRP_FFT_DCT2),
        WAVE("dct type III", TRP_FFT_DCT3),
        WAVE("dct type IV", TRP_FFT_DCT4),
        WAVE("dst type I", TRP_FFT_DST1),
        WAVE("dst type II", TRP_FFT_DST2),
        WAVE("dst type III", TRP_FFT_DST3),
        WAVE("dst type IV", TRP_FFT_DST4),
    };
    const cf_actor actor = {
        .kind = "fft", .operations = operations, .count = COUNT_OF(operations), .rounds = 200};
    return cf_main(argc, argv, &actor);
}

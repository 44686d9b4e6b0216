/* What the sender of the matmul actor refuses beside what one field shows (tests/conformance): the
 * status, the argument that the message names, and that nothing was queued; and what is at the edge
 * and must not be refused. */
#include "support/reference/matmul_reference.h"
#include "support/problems/matmul/requests.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

/* Else the cases below would say nothing. */
static void right_requests(void)
{
    mq_open();
    TAKEN(plain, );
    TAKEN(biased, );
    TAKEN(in_buffer, );
    TAKEN(relu, );
    TAKEN(gelu, );
    TAKEN(drelu, );
    TAKEN(dgelu, );
    TAKEN(of_a, );
    TAKEN(fp8, );
    TAKEN(fp4, );
    TAKEN(c64, );
    TAKEN(i8, );
    TAKEN(i8_to_i8, );
    TAKEN(plain, r.d = r.c);
    TAKEN(plain, r.c = (trp_matmul_matrix){0}; r.beta = trp_real(0));
    TAKEN(plain, r.b.type = r.c.type = r.d.type = TRP_F32; r.batch = 1);
    TAKEN(plain, r.a.stride = r.d.stride = -1; r.bias.stride = -1);
    TAKEN(plain, r.compute = TRP_COMPUTE_TF32);
    TAKEN(fp8, r.fast_accumulation = true);
    TAKEN(fp8, r.aux.type = TRP_BF16; r.aux.buffer = large; r.aux.scale.buffer = r.amax_aux = none);
    TAKEN(relu, r.aux.buffer = none);
    TAKEN(gelu, r.aux.buffer = none);
    if (!h_is_cuda())
        TAKEN(biased, r.activation = TRP_ACTIVATION_SILU);
    mq_close();
}

/* ---- types and options ---- */

static void types(void)
{
    static const trp_dtype inputs[] = {TRP_DTYPE_NONE, TRP_I32,       TRP_I64,
                                       TRP_U8,         TRP_BOOL,      TRP_DTYPE_COUNT,
                                       (trp_dtype)-1,  (trp_dtype)258};
    mq_open();
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        BAD("a.type", plain, r.a.type = inputs[i]);
        if (inputs[i] == TRP_DTYPE_NONE)
            continue;
        BAD("b.type", plain, r.b.type = inputs[i]);
        CANNOT("c.type", plain, r.c.type = inputs[i]);
        CANNOT("d.type", plain, r.d.type = inputs[i]);
        BAD("bias.type", biased, r.bias.type = inputs[i]);
        BAD("gradient.type", of_a, r.gradient.type = inputs[i]);
        BAD("aux.type", gelu, r.aux.type = inputs[i]);
    }
    BAD("b.type", plain, r.b.type = TRP_F16);
    BAD("b.type", fp8, r.b.type = TRP_F4E2M1);
    BAD("b.type", fp4, r.b.type = TRP_F8E4M3);
    CANNOT("b.type", fp8, r.a.type = r.b.type = TRP_F8E5M2);
    CANNOT("b.type", fp8, r.a.type = TRP_F8E5M2);
    BAD("d_out_scale.buffer", fp4, r.d.type = TRP_DTYPE_NONE);
    CANNOT("d.type", plain, r.d.type = TRP_F64);
    CANNOT("c.type", plain, r.c.type = TRP_F16);
    CANNOT("c.type", fp8, r.c.type = TRP_F8E4M3);
    BAD("bias.type", biased, r.bias.type = TRP_F16);
    BAD("aux.type", gelu, r.aux.type = TRP_F16);
    BAD("aux.type", relu, r.aux.type = TRP_I8);
    BAD("aux.type", drelu, r.aux.type = TRP_F32);
    BAD("compute", plain, r.compute = TRP_COMPUTE_TF32; r.a.type = TRP_F16);
    BAD("compute", c64, r.compute = TRP_COMPUTE_TF32; r.a.type = TRP_C128);
    CANNOT("compute", fp8, r.compute = TRP_COMPUTE_EMULATED);
    CANNOT("compute", plain, r.compute = TRP_COMPUTE_EMULATED);
    TAKEN(fp8, r.compute = TRP_COMPUTE_PEDANTIC);
    BAD("fast_accumulation", plain, r.fast_accumulation = true);
    BAD("fast_accumulation", fp4, r.fast_accumulation = true);
    mq_close();
}

static void enums(void)
{
    mq_open();
    for (int i = 0; i < 3; i++) {
        const int bad = i == 0 ? -1 : i == 1 ? 77 : INT32_MIN;
        BAD("c.order", plain, r.c.order = (trp_order)bad);
        BAD("aux.order", gelu, r.aux.order = (trp_order)bad);
        BAD("a.scale.mode", fp8, r.a.scale.mode = (trp_scale_mode)bad);
        BAD("b.scale.mode", fp8, r.b.scale.mode = (trp_scale_mode)bad);
        BAD("c.scale.mode", fp8, r.c.scale.mode = (trp_scale_mode)bad);
        BAD("d.scale.mode", fp8, r.d.scale.mode = (trp_scale_mode)bad);
        BAD("aux.scale.mode", fp8, r.aux.scale.mode = (trp_scale_mode)bad);
        BAD("d_out_scale.mode", fp8, r.d_out_scale.mode = (trp_scale_mode)bad);
        BAD("sm_count", plain, r.sm_count = i == 1 ? 65536 : bad);
    }
    BAD("tune", plain, r.deterministic = true; r.tune = TRP_TUNE_QUICK);
    TAKEN(plain, r.deterministic = true);
    TAKEN(plain, r.sm_count = 65535);
    BAD("a.scale.mode", fp8, r.a.scale.mode = (trp_scale_mode)6);
    CANNOT("trans_a", c64, r.trans_a = TRP_C; r.a.order = TRP_ROW_MAJOR);
    CANNOT("trans_b", c64, r.trans_b = TRP_C; r.b.order = TRP_ROW_MAJOR);
    CANNOT("trans_a", c64, r.trans_a = TRP_C; r.d.order = TRP_ROW_MAJOR);
    TAKEN(c64, r.trans_a = TRP_C; r.a.order = r.d.order = TRP_ROW_MAJOR);
    TAKEN(c64, r.trans_a = TRP_T; r.a.order = TRP_ROW_MAJOR);
    TAKEN(plain, r.trans_a = TRP_C; r.a.order = TRP_ROW_MAJOR);
    CANNOT("c.order", plain, r.c.order = TRP_ROW_MAJOR);
    CANNOT("c.order", plain, r.c = r.d; r.c.order = TRP_ROW_MAJOR);
    TAKEN(plain, r.c.order = TRP_ROW_MAJOR; r.beta = trp_real(0));
    CANNOT("aux.order", gelu, r.aux.order = TRP_ROW_MAJOR);
    CANNOT("aux.order", drelu, r.aux.order = TRP_ROW_MAJOR);
    mq_close();
}

static void scalar_values(void)
{
    mq_open();
    BAD("alpha", i8, r.alpha = trp_real(0.5));
    BAD("alpha", i8, r.alpha = trp_real(0x1p31));
    BAD("alpha", i8, r.alpha = trp_real((double)NAN));
    BAD("beta", i8, r.beta = trp_real(-1.5));
    BAD("beta", i8, r.beta = trp_real((double)INFINITY));
    TAKEN(i8, r.alpha = trp_real(-0x1p31));
    TAKEN(i8_to_i8, r.alpha = trp_real(0.5));
    BAD("beta", in_buffer, r.beta = trp_real(0));
    BAD("c.buffer", in_buffer, r.c.buffer = none);
    BAD("c.buffer", plain, r.c.buffer = none);
    BAD("c.buffer", c64, r.beta = trp_complex(0, 1));
    BAD("alphas.buffer: expected none with `scalars`", in_buffer, r.alphas.buffer = vector);
    BAD("alphas.buffer: expected none with an alpha", plain, r.alphas.buffer = vector;
        r.alpha = trp_real(1));
    BAD("alphas.type", plain, r.alphas = (trp_matmul_vector){.buffer = vector, .type = TRP_F64});
    BAD("alphas.type", i8, r.alphas = (trp_matmul_vector){.buffer = large, .type = TRP_F32});
    BAD("alphas.offset", plain, r.alphas = (trp_matmul_vector){.buffer = large, .offset = 2});
    BAD("alphas:", plain, r.alphas = (trp_matmul_vector){.buffer = vector, .offset = 4});
    BAD("alphas:", plain, r.alphas.buffer = vector; r.d.order = r.c.order = TRP_ROW_MAJOR);
    BAD("d:", plain, r.alphas.buffer = d32);
    CANNOT("alphas.buffer", c64, r.alphas.buffer = large);
    TAKEN(plain, r.alphas = (trp_matmul_vector){.buffer = vector, .type = TRP_F32, .stride = -1});
    TAKEN(i8_to_i8, r.alphas = (trp_matmul_vector){.buffer = large, .type = TRP_F32});
    BAD("scalars_offset", in_buffer, r.scalars_offset = 2);
    BAD("scalars:", in_buffer, r.scalars_offset = 4);
    mq_close();
}

/* ---- what surrounds the product ---- */

static void epilogues(void)
{
    mq_open();
    CANNOT("activation", c64, r.activation = TRP_ACTIVATION_RELU);
    CANNOT("activation", i8, r.activation = TRP_ACTIVATION_GELU);
    CANNOT("bias.buffer", c64, r.bias.buffer = vector);
    CANNOT("bias.buffer", i8, r.bias.buffer = vector);
    CANNOT("gradient.buffer", c64, r.gradient_of = TRP_BIAS_GRADIENT_A; r.gradient.buffer = vector);
    CANNOT("aux.buffer", i8_to_i8, r.activation = TRP_ACTIVATION_RELU; r.aux.buffer = bits);
    CANNOT("aux.buffer", i8_to_i8, r.activation = TRP_ACTIVATION_DGELU; r.aux.buffer = bits);
    if (h_is_cuda())
        CANNOT("activation", plain, r.activation = TRP_ACTIVATION_SILU);
    else
        BAD("aux.buffer", gelu, r.activation = TRP_ACTIVATION_SILU);
    BAD("aux.buffer", gelu, r.activation = TRP_ACTIVATION_NONE);
    BAD("aux.buffer", drelu, r.aux.buffer = none);
    BAD("aux.buffer", dgelu, r.aux.buffer = none);
    BAD("gradient.buffer", dgelu, r.gradient.buffer = none);
    BAD("gradient.buffer", plain, r.gradient.buffer = vector);
    BAD("gradient.buffer", plain, r.gradient_of = TRP_BIAS_GRADIENT_B);
    CANNOT("gradient_of", of_a, r.gradient_of = TRP_BIAS_GRADIENT_D);
    CANNOT("gradient_of", of_a, r.activation = TRP_ACTIVATION_RELU);
    CANNOT("gradient_of", dgelu, r.gradient_of = TRP_BIAS_GRADIENT_A);
    CANNOT("gradient_of", drelu, r.gradient_of = TRP_BIAS_GRADIENT_B);
    CANNOT("gradient_of", fp4, r.gradient_of = TRP_BIAS_GRADIENT_A; r.gradient.buffer = vector);
    CANNOT("gradient_of", i8_to_i8, r.gradient_of = TRP_BIAS_GRADIENT_B;
           r.gradient.buffer = vector);
    CANNOT("bias.buffer", of_a, r.bias.buffer = scalars);
    CANNOT("bias.buffer", dgelu, r.bias.buffer = scalars);
    BAD("bias:", biased, r.bias.offset = 4);
    BAD("bias:", biased, r.d.order = r.c.order = TRP_ROW_MAJOR); /* of n elements now */
    BAD("gradient:", of_a, r.gradient_of = TRP_BIAS_GRADIENT_B);
    mq_close();
}

static void aux_layouts(void)
{
    mq_open();
    BAD("aux.ld", relu, r.aux.ld = 8);
    BAD("aux.ld", relu, r.aux.ld = 129);
    BAD("aux.ld", relu, r.aux.ld = -128);
    BAD("aux.ld", gelu, r.aux.ld = M);
    BAD("aux.ld", gelu, r.aux.ld = -8);
    BAD("aux.ld", dgelu, r.aux.ld = 4);
    BAD("aux:", relu, r.aux.ld = 256);
    BAD("aux:", gelu, r.aux.ld = 16);
    BAD("aux:", relu, r.aux.offset = 1);
    BAD("aux.offset", gelu, r.aux.offset = 2);
    BAD("aux:", drelu, r.aux.ld = INT64_MAX - 127);
    BAD("aux:", dgelu, r.aux.ld = INT64_MAX - 7);
    BAD("aux:", gelu, r.aux.ld = INT64_C(1) << 61);
    /* Batches. */
    for (int i = 0; i < 2; i++) {
        trp_matmul_request r = i ? gelu() : relu();
        r.batch = 2;
        r.bias.buffer = none;
        r.c.stride = 0;
        r.d = (trp_matmul_matrix){.buffer = large, .stride = M * N};
        r.aux = (trp_matmul_matrix){.buffer = large, .offset = 4096};
        r.aux.stride = i ? 4 : 64;
        mq_refused(__LINE__, "a stride askew", &r, TRP_E_ARGUMENT, "aux.stride");
        r.aux.stride = i ? 52 : 128 * N + 64;
        mq_refused(__LINE__, "a large stride askew", &r, TRP_E_ARGUMENT, "aux.stride");
        r.aux.stride = i ? 40 : 128;
        mq_refused(__LINE__, "a stride that is too small", &r, TRP_E_ARGUMENT, "aux.stride");
        r.aux.stride = i ? -8 : -128;
        mq_refused(__LINE__, "a negative stride", &r, TRP_E_ARGUMENT, "aux.stride");
        r.aux.stride = i ? 48 : 128 * N;
        mq_taken(__LINE__, "two of aux", &r);
    }
    mq_close();
}

static void scale_factors(void)
{
    mq_open();
    for (int i = 1; i < 6; i++) {
        trp_scale_mode mode = (trp_scale_mode)i;
        bool bytes = mode == TRP_SCALE_BLOCK_16 || mode == TRP_SCALE_BLOCK_32;
        BAD("a.scale", fp8, r.a.scale = (trp_scale){.mode = mode});
        BAD("b.scale", fp8, r.b.scale = (trp_scale){.mode = mode});
        CANNOT("c.scale", fp8, r.c.scale = (trp_scale){.mode = mode});
        CANNOT("d.scale", fp8, r.d.scale.mode = mode);
        CANNOT("aux.scale", fp8, r.aux.scale.mode = mode);
        CANNOT("a.scale", plain, r.a.scale = (trp_scale){.mode = mode, .buffer = large});
        if (i == TRP_SCALE_BLOCK_16) {
            CANNOT("b.scale", fp8, r.b.scale = (trp_scale){.mode = mode, .buffer = large});
            TAKEN(fp4, r.b.scale = (trp_scale){.mode = mode, .buffer = large});
        } else {
            CANNOT("b.scale", fp4, r.b.scale = (trp_scale){.mode = mode, .buffer = large});
            TAKEN(fp8, r.b.scale = (trp_scale){.mode = mode, .buffer = large});
            BAD("b.scale", fp8, r.b.scale.mode = mode; r.b.scale.offset = 16);
            BAD("a.scale.offset", fp8, r.a.scale = (trp_scale){large, bytes ? 16 : 2, mode, 0};
                if (bytes) r.a.scale.offset = 8);
            CANNOT("a.scale", fp8, r.batch = 2; r.a.scale = (trp_scale){large, 0, mode, 0};
                   r.d.buffer = r.aux.buffer = large; r.d.offset = 16384; r.aux.offset = 32768;
                   r.d.stride = r.aux.stride = SIDE * SIDE);
        }
    }
    CANNOT("b.scale.stride: expected 0", fp8, r.batch = 2; r.b.scale.buffer = factor[0];
           r.b.scale.stride = 1; r.d.buffer = r.aux.buffer = large; r.d.offset = 16384;
           r.aux.offset = 32768; r.d.stride = r.aux.stride = SIDE * SIDE);
    BAD("d_out_scale.buffer", fp8_blocks, r.d_out_scale.buffer = none);
    BAD("d_out_scale.mode", fp8_blocks, r.d_out_scale.mode = TRP_SCALE_BLOCK_16);
    BAD("d_out_scale.mode", fp4, r.d.type = TRP_F4E2M1; r.d_out_scale.buffer = large);
    BAD("d_out_scale.offset", fp8_blocks, r.d_out_scale.offset = 8);
    BAD("d_out_scale:", fp8_blocks, r.d_out_scale.offset = 65536 - 496);
    CANNOT("d_out_scale: where D is f32", plain, r.d_out_scale.buffer = large);
    CANNOT("d_out_scale: together with amax_d", fp8_blocks, r.amax_d = amax[0]);
    CANNOT("d_out_scale: together with d.scale", fp8_blocks, r.d.scale.buffer = factor[0]);
    CANNOT("d_out_scale: together with a batch", fp8_blocks, r.batch = 2; r.d.buffer = large;
           r.a.scale = r.b.scale = (trp_scale){0}; r.d.stride = SIDE * SIDE);
    CANNOT("aux.buffer", fp4, r.d.type = TRP_F4E2M1; r.activation = TRP_ACTIVATION_GELU;
           r.aux.buffer = large);
    TAKEN(fp8_blocks, r.d_out_scale.offset = 65536 - 512);
    TAKEN(fp4, r.d.type = TRP_F4E2M1; r.d.scale.buffer = factor[0];
          r.d_out_scale = (trp_scale){.buffer = large, .mode = TRP_SCALE_BLOCK_16});
    CANNOT("a.scale", plain, r.a.scale.buffer = factor[0]);
    CANNOT("b.scale", fp4, r.b.scale.buffer = factor[0]);
    CANNOT("c.scale", plain, r.c.scale.buffer = factor[0]);
    CANNOT("d.scale", plain, r.d.scale.buffer = factor[0]);
    CANNOT("amax_d", plain, r.amax_d = amax[0]);
    CANNOT("aux.scale", gelu, r.aux.scale.buffer = factor[0]);
    CANNOT("amax_aux", gelu, r.amax_aux = amax[0]);
    CANNOT("amax_aux", plain, r.amax_aux = amax[0]);
    CANNOT("aux.scale", plain, r.aux.scale.buffer = factor[0]);
    CANNOT("aux.scale", fp8, r.activation = TRP_ACTIVATION_RELU);
    CANNOT("amax_aux", fp8, r.activation = TRP_ACTIVATION_DGELU);
    CANNOT("aux.scale", fp8, r.aux.type = TRP_BF16; r.aux.buffer = large);
    BAD("d.scale.offset", fp8, r.d.scale.offset = 2);
    BAD("amax_d_offset", fp8, r.amax_d_offset = 3);
    mq_close();
}

/* What needs a newer device says so. */
static void devices(void)
{
    mq_open();
    for (int fp4_d = 0; fp4_d < 2; fp4_d++) {
        trp_completion done = {0};
        trp_matmul_request r = fp4_d ? fp4() : fp8_blocks();
        if (fp4_d) {
            r.d.type = TRP_F4E2M1;
            r.d_out_scale = (trp_scale){.buffer = large, .mode = TRP_SCALE_BLOCK_16};
        } else {
            r.a.scale = r.b.scale = (trp_scale){0};
        }
        H_OK(trp_matmul(matmul, &r, &done));
        const trp_status status = h_await_any(done);
        H_CHECK(status == TRP_OK || (h_is_cuda() && status == TRP_E_UNSUPPORTED &&
                                     (strstr(trp_error_message(), "need compute capability 10.0") ||
                                      strstr(trp_error_message(), "capability 1"))));
    }
    mq_close();
}

/* Factors up to the last byte of their buffer, and one element further. */
static void ends_of_scale_factors(void)
{
    static const int64_t sizes[][2] = {{16, 16}, {16, 528}, {144, 16}, {144, 272}, {32, 640}};
    mq_open();
    for (int i = 0; i < 5 * 5; i++) {
        trp_scale_mode mode = (trp_scale_mode)(i % 5 + 1);
        bool bytes = mode == TRP_SCALE_BLOCK_16 || mode == TRP_SCALE_BLOCK_32;
        int64_t lines = sizes[i / 5][0], k = sizes[i / 5][1];
        trp_buffer four = h_buffer(world.device, 4 * H_MIB);
        trp_matmul_request r = {.m = lines, .n = SIDE, .k = k, .trans_a = TRP_T};
        r.a = r.b = (trp_matmul_matrix){.buffer = four, .type = TRP_F8E4M3};
        if (mode == TRP_SCALE_BLOCK_16)
            r.a.type = r.b.type = TRP_F4E2M1;
        r.d = (trp_matmul_matrix){.buffer = four, .offset = H_MIB, .type = TRP_F32};
        r.a.scale = (trp_scale){large, 65536 - (uint64_t)ref_scale_bytes(mode, lines, k), mode, 0};
        mq_taken(__LINE__, "scale factors at the end", &r);
        r.a.scale.offset += bytes ? 16 : 4;
        mq_refused(__LINE__, "scale factors past the end", &r, TRP_E_ARGUMENT, "a.scale:");
        H_OK(trp_buffer_free(world.device, four));
    }
    mq_close();
}

H_CASES(H_CASE(right_requests), H_CASE(types), H_CASE(enums), H_CASE(scalar_values),
        H_CASE(epilogues), H_CASE(aux_layouts), H_CASE(scale_factors), H_CASE(devices),
        H_CASE(ends_of_scale_factors))

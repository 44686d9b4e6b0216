/* The catalogue of kernels: which rows apply to a problem and why not, in which order, and what
 * text they become. Random problems are in choose_test.c. SPDX-License-Identifier: Apache-2.0 */
#include "actors/cutlass/catalogue/catalogue.h"
#include "support/label.h"
#include "support/unit.h"

TROUPE_TEST("no tsan");

enum { TEXT_MAX = 1 << 17, ROWS_MAX = TRP__CUTLASS_ROWS_MAX };

static trp_error error;
static char text[TEXT_MAX], again[TEXT_MAX];
static trp__tree tree;

/* relu(acc + bias[col]), and with c: + c. */
static void set_tree(trp__cutlass_problem *p)
{
    const trp_epilogue_node nodes[] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_PER_COLUMN, .buffer = {2}},
        [3] = {.kind = TRP_EPILOGUE_BINARY, .input = {1, 2}},
        [4] = {.kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {3}},
        [5] = {.kind = TRP_EPILOGUE_C},
        [6] = {.kind = TRP_EPILOGUE_BINARY, .input = {4, 5}},
    };
    const trp__tree_types types = {.accumulator = (trp_dtype)p->accumulator,
                                   .c = (trp_dtype)p->c,
                                   .d = (trp_dtype)p->d,
                                   .order = TRP_ROW_MAJOR};
    if (trp__tree_build(nodes, p->c ? 7 : 5, &types, &tree, &error) != TRP_OK)
        fail_msg("%s", error.message);
    p->tree = &tree;
}

static trp__cutlass_problem problem(trp_dtype a, trp_dtype d)
{
    return (trp__cutlass_problem){
        .m = 4096,
        .n = 4096,
        .k = 4096,
        .batch = 1,
        .a = (uint8_t)a,
        .b = (uint8_t)a,
        .d = (uint8_t)d,
        .accumulator = a == TRP_F64  ? TRP_F64
                       : a == TRP_I8 ? TRP_I32
                                     : TRP_F32,
        .a_row = true,
        .align = {16, 16, 16, 16, 16},
        .divides = {16, 16, 16},
        .align_scales = 16,
        .capability = 90,
        .processors = 132,
        .shared_bytes = 232448,
    };
}

/* One whose operands have the layouts of the problem. */
static trp__cutlass_convolution convolution(const trp__cutlass_problem *p)
{
    return (trp__cutlass_convolution){.operation = !p->a_row  ? TRP_CONV_WGRAD
                                                   : p->b_row ? TRP_CONV_DGRAD
                                                              : TRP_CONV_FPROP,
                                      .dims = 2,
                                      .tma = true,
                                      .inner = 128};
}

static const trp__cutlass_row *best(const trp__cutlass_problem *p)
{
    const trp__cutlass_row *row = NULL;
    memset(&error, 0, sizeof error);
    if (trp__cutlass_choose(p, &row, 1, &error) == 0)
        fail_msg("%s", error.message);
    return row;
}

static void require_none(const trp__cutlass_problem *p, const char *reason)
{
    const trp__cutlass_row *row = NULL;
    memset(&error, 0, sizeof error);
    assert_int_equal(trp__cutlass_choose(p, &row, 1, &error), 0);
    assert_int_equal(error.status, TRP_E_UNSUPPORTED);
    if (!strstr(error.message, reason))
        fail_msg("expected \"%s\" in \"%s\"", reason, error.message);
}

static void require_refused(const char *name, const trp__cutlass_problem *p, const char *reason)
{
    const trp__cutlass_row *row = trp__cutlass_row_find(name);
    assert_non_null(row);
    assert_int_equal(trp__cutlass_row_applies(row, p, &error), TRP_E_UNSUPPORTED);
    if (strncmp(error.message, name, strlen(name)) != 0 || !strstr(error.message, reason))
        fail_msg("expected \"%s: %s\", got \"%s\"", name, reason, error.message);
}

static void render(const trp__cutlass_row *row, const trp__cutlass_problem *p, char *to)
{
    trp__text out = {.out = to, .size = TEXT_MAX};
    if (trp__cutlass_row_render(row, p, &out, &error) != TRP_OK)
        fail_msg("%s: %s", row->name, error.message);
    assert_in_range(out.length, 1, TEXT_MAX - 1);
}

/* Tables. */

static void test_rows(void **state)
{
    (void)state;
    const uint32_t count = trp__cutlass_row_count();
    assert_in_range(count, 1, ROWS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const trp__cutlass_row *row = trp__cutlass_row_at(i);
        assert_ptr_equal(trp__cutlass_row_find(row->name), row);
        assert_in_range(row->efficiency, 1, 100);
        if (trp__cutlass_row_3x(row))
            continue;
        for (int x = 0; x < 2; x++) {
            assert_int_equal(row->tile[x] % row->warp[x], 0);
            assert_int_equal(row->warp[x] % row->instruction[x], 0);
        }
        assert_int_equal(row->tile[2], row->warp[2]);
    }
    assert_null(trp__cutlass_row_find("s80_half"));
}

/* Choices. */

static void test_large_products(void **state)
{
    (void)state;
    const struct {
        trp_dtype a, d;
        const char *family;
    } cases[] = {
        {TRP_BF16, TRP_BF16, "s90_half_"},  {TRP_F16, TRP_F32, "s90_half_"},
        {TRP_F32, TRP_F32, "s80_f32_"},     {TRP_F64, TRP_F64, "s80_f64_"},
        {TRP_F8E4M3, TRP_BF16, "s90_fp8_"}, {TRP_I8, TRP_F32, "s90_i8_"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trp__cutlass_problem p = problem(cases[i].a, cases[i].d);
        set_tree(&p);
        assert_memory_equal(best(&p)->name, cases[i].family, strlen(cases[i].family));
        assert_false(best(&p)->fast);
    }
    trp__cutlass_problem p = problem(TRP_F32, TRP_F32);
    set_tree(&p);
    p.compute = TRP_COMPUTE_TF32;
    assert_memory_equal(best(&p)->name, "s90_tf32_", 9);
    p.b_row = true; /* wgmma reads tf32 along k only */
    assert_memory_equal(best(&p)->name, "s80_tf32_", 9);
}

/* fp8 with less exact sums, and with factors of blocks. */
static void test_fp8(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_F8E4M3, TRP_BF16);
    set_tree(&p);
    p.fast = true;
    assert_string_equal(best(&p)->name, "s90_fp8_128x256x128_2x1_fast");
    p.capability = 89;
    p.shared_bytes = 101376;
    assert_string_equal(best(&p)->name, "s80_fp8_128x128x64_a16_fast");
    render(best(&p), &p, text);
    assert_non_null(strstr(text, "#define TRP_OPERATOR OpMultiplyAddFastAccum\n"));
    p.fast = false;
    assert_string_equal(best(&p)->name, "s80_fp8_128x128x64_a16");
    render(best(&p), &p, text);
    assert_non_null(strstr(text, "#define TRP_OPERATOR OpMultiplyAdd\n"));
    p.capability = 90;
    p.shared_bytes = 232448;
    p.scale_a = TRP_SCALE_BLOCK_128;
    p.scale_b = TRP_SCALE_BLOCK_128X128;
    p.align_scales = 16;
    assert_memory_equal(best(&p)->name, "s90_fp8_blocks_", 15);
    require_refused("s90_fp8_128x128x128_1x1", &p, "with factors of blocks of 128 and sums in f32");
    p.m = 4098;
    require_none(&p, "needs a multiple of 4 lines of A");
    p.m = 4096;
    p.align_scales = 8;
    require_none(&p, "factors at a multiple of 16 bytes, got 4096 and 8");
    p.scale_a = TRP_SCALE_BLOCK_128X128;
    require_refused("s90_fp8_blocks_64x128x128_1x1_pingpong", &p,
                    "has tiles of 64 lines of A, fewer than a factor is for");
    assert_memory_equal(best(&p)->name, "s90_fp8_blocks_", 15);
    p.scale_a = p.scale_b = TRP_SCALE_BLOCK_32;
    require_none(&p, "is for compute capability 12.0");
    p.scale_a = p.scale_b = TRP_SCALE_TENSOR;
    require_refused("s90_fp8_blocks_128x128x128_1x1", &p, "with no factors of blocks");
}

/* Weights that are narrower than what they are multiplied by. */
static void test_mixed(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_BF16, TRP_BF16);
    set_tree(&p);
    p.b = TRP_I4;
    assert_memory_equal(best(&p)->name, "s90_mixed_i4_", 13);
    p.b_row = true;
    require_none(&p, "needs A row-major and B column-major");
    p.b_row = false;
    p.align[1] = 8;
    require_none(&p, "needs B's lines at multiples of 16 bytes, got 8");
    p.align[1] = 16;
    p.capability = 86;
    p.shared_bytes = 101376;
    assert_memory_equal(best(&p)->name, "s80_mixed_i4_", 13);
    p.capability = 90;
    p.shared_bytes = 232448;
    require_refused("s90_mixed_128x128x64_1x1", &p, "does not multiply bf16 by i4");
    p.b = TRP_I8;
    require_refused("s90_mixed_i4_128x128x64_1x1", &p, "does not multiply bf16 by i8");
    p.group = 128;
    assert_memory_equal(best(&p)->name, "s90_mixed_", 10);
    render(best(&p), &p, text);
    assert_non_null(strstr(text, "#define TRP_SWAP 1\n"));
    assert_non_null(strstr(text, "#define TRP_GROUPS cutlass::bfloat16_t\n"));
    assert_non_null(strstr(text, "#define TRP_ZEROS void\n"));
    assert_non_null(strstr(text, "fusion::Sm90ColBroadcast<")); /* the bias of each column */
    p.zeros = true;
    render(best(&p), &p, again);
    assert_non_null(strstr(again, "#define TRP_ZEROS cutlass::bfloat16_t\n"));
    p.group = 96;
    require_refused("s90_mixed_128x128x64_1x1", &p, "needs groups of a multiple of 64 elements");
    assert_memory_equal(best(&p)->name, "s80_mixed_", 10); /* a step of mma.sync has one factor */
    render(best(&p), &p, text);
    assert_non_null(strstr(text, "#define TRP_A cutlass::bfloat16_t\n"));
    assert_non_null(strstr(text, "#define TRP_B cutlass::bfloat16_t\n"));
    assert_non_null(strstr(text, "#define TRP_NARROW int8_t\n"));
    assert_non_null(strstr(text, "#define TRP_LEFT_NARROW 0\n"));
    assert_non_null(strstr(text, "#define TRP_FACTORS 1\n"));
    assert_non_null(strstr(text, "#define TRP_ZEROS 1\n"));
    assert_non_null(strstr(text, "#include \"mixed_sm80.cuh\"\n"));
    p.group = 80;
    require_refused("s80_mixed_64x64x64_a16", &p, "needs groups of a multiple of 32 elements");
    require_none(&p, "needs groups of a multiple of 32 elements");
    p.group = p.k;
    assert_memory_equal(best(&p)->name, "s90_mixed_", 10);
    p.n = 4100;
    require_refused("s90_mixed_128x128x64_1x1", &p, "of a multiple of 8 columns");
    p.n = 4096;
    /* Its transpose, where the weights come first. */
    p.a = TRP_I8;
    p.b = TRP_BF16;
    render(best(&p), &p, text);
    assert_non_null(strstr(text, "#define TRP_SWAP 0\n"));
    assert_non_null(strstr(text, "fusion::Sm90RowBroadcast<"));
    p.group = 0;
    p.zeros = false;
    p.capability = 80;
    p.shared_bytes = 166912;
    p.a = TRP_F8E4M3;
    assert_memory_equal(best(&p)->name, "s80_mixed_", 10);
    render(best(&p), &p, text);
    assert_non_null(strstr(text, "#define TRP_A cutlass::bfloat16_t\n"));
    assert_non_null(strstr(text, "#define TRP_NARROW cutlass::float_e4m3_t\n"));
    assert_non_null(strstr(text, "#define TRP_LEFT_NARROW 1\n"));
    assert_non_null(strstr(text, "#define TRP_FACTORS 0\n"));
    render(trp__cutlass_row_find("s80_mixed_64x128x64_a16"), &p, text);
    assert_non_null(strstr(text, "#define TRP_TILE 128, 64, 64\n"));
    assert_non_null(strstr(text, "#define TRP_WARP 32, 64, 64\n"));
    p.n = 8ll * 65535 * 64 + 1;
    require_refused("s80_mixed_64x128x64_a16", &p, "n: expected at most 33553920, got 33553921");
}

static void test_integers_without_a_tree(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_I8, TRP_I32);
    assert_memory_equal(best(&p)->name, "s90_i8_", 7);
    p.c = TRP_I32;
    assert_memory_equal(best(&p)->name, "s90_i8_", 7);
    p.a_row = false;
    assert_memory_equal(best(&p)->name, "s80_i8_simt_", 12);
    p = problem(TRP_BF16, TRP_BF16);
    require_none(&p, "through an epilogue tree only, and there is none");
}

static void test_few_tiles(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_BF16, TRP_BF16);
    set_tree(&p);
    p.m = p.n = 128;
    p.k = 65536;
    assert_true(best(&p)->stream_k);
    p.k = 64;
    assert_false(best(&p)->stream_k);
    p.m = p.n = 64;
    assert_true(best(&p)->tile[0] * best(&p)->tile[1] <= 128 * 64);
    p.k = 65536;
    p.batch = 7;
    assert_false(best(&p)->stream_k && best(&p)->family == TRP__CUTLASS_SM80);
}

static void test_alignment(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_BF16, TRP_BF16);
    set_tree(&p);
    p.align[3] = 4;
    require_refused("s90_half_128x256x64_2x1", &p,
                    "needs D's lines at multiples of 16 bytes, got 4");
    assert_memory_equal(best(&p)->name, "s80_half_", 9);
    assert_int_equal(best(&p)->lines, 0);
    assert_int_equal(best(&p)->align, 8);
    p.align[0] = 2;
    require_refused("s80_half_128x128x32_a2", &p, "needs A's lines at multiples of 4 bytes, got 2");
    assert_int_equal(best(&p)->align, 1);
    /* Lines whose last vector would be cut are TMA's alone. */
    p = problem(TRP_BF16, TRP_BF16);
    set_tree(&p);
    p.k = 4097;
    require_refused("s80_half_128x128x32_a8", &p,
                    "needs A's lines in multiples of 8 elements, got 4097");
    assert_int_equal(best(&p)->family, TRP__CUTLASS_SM90);
    p.capability = 80;
    p.shared_bytes = 166912;
    require_refused("s90_half_128x256x64_2x1", &p, "is for compute capability 9.0, got 8.0");
    assert_int_equal(best(&p)->align, 1);
    /* C is read as it is aligned, and so are vectors along n. */
    p = problem(TRP_F16, TRP_F16);
    p.c = TRP_F32;
    set_tree(&p);
    p.align[2] = 4;
    require_refused("s90_half_128x256x64_2x1", &p,
                    "needs C's lines at multiples of 16 bytes, got 4");
    assert_int_equal(best(&p)->lines, 0);
    p.align[2] = 16;
    p.align[4] = 4;
    require_refused("s80_half_128x128x32_a8", &p,
                    "needs a vector's lines at multiples of 16 bytes, got 4");
    assert_int_equal(best(&p)->family, TRP__CUTLASS_SM90);
}

static void test_sizes(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_BF16, TRP_BF16);
    set_tree(&p);
    p.m = p.n = p.k = 1;
    assert_non_null(best(&p));
    p.m = (int64_t)INT32_MAX;
    assert_non_null(best(&p));
    p.m++;
    require_none(&p, "m: expected 1 to 2147483647, got 2147483648");
    p.m = 1;
    p.n = INT64_MAX;
    require_none(&p, "n: expected 1 to 2147483647, got 9223372036854775807");
    p.n = 1;
    p.k = 0;
    require_none(&p, "k: expected 1 to 2147483647, got 0");
    p.k = 1;
    p.batch = (int64_t)INT32_MAX + 1;
    require_none(&p, "batch: expected 1 to 2147483647");
    p.batch = 65536;
    require_refused("s80_half_128x128x32_a1", &p, "batch: expected at most 65535, got 65536");
    assert_int_equal(best(&p)->family, TRP__CUTLASS_SM90);
    p.batch = 1;
    p.n = INT32_MAX;
    require_refused("s80_half_64x64x32_a1", &p, "n: expected at most");
}

static void test_layouts(void **state)
{
    (void)state;
    const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int layout = 0; layout < 4; layout++) {
            for (uint32_t align = 1; align <= 16; align *= 2) {
                trp__cutlass_problem p = problem(types[i], types[i] == TRP_F64 ? TRP_F64 : TRP_F32);
                set_tree(&p);
                uint32_t least = trp_dtype_bits(types[i]) / 8;
                p.align[0] = p.align[1] = align > least ? align : least;
                p.a_row = layout & 1;
                p.b_row = layout & 2;
                p.m = 1001;
                p.n = 77;
                p.k = 333;
                p.align[3] = p.align[2] = least < 4 ? 4 : least;
                assert_non_null(best(&p));
            }
        }
    }
    trp__cutlass_problem p = problem(TRP_F8E4M3, TRP_BF16);
    set_tree(&p);
    p.a_row = false;
    require_refused("s90_fp8_128x128x128_1x1", &p,
                    "needs A row-major and B column-major, got column-major and column-major");
    p = problem(TRP_F8E4M3, TRP_BF16);
    set_tree(&p);
    p.capability = 86;
    p.shared_bytes = 101376;
    require_refused("s80_fp8_64x64x64_a16", &p, "is for compute capability 8.9 and above, got 8.6");
    require_refused("s80_fp8_128x128x64_a16", &p, "is for compute capability 8.9");
    p.capability = 89;
    require_refused("s80_i8_128x128x64_a16", &p, "does not multiply f8e4m3 by f8e4m3");
    assert_memory_equal(best(&p)->name, "s80_fp8_", 8);
    p.shared_bytes = 8192;
    require_refused("s80_fp8_64x64x64_a16", &p, "bytes of shared memory, a block has 8192");
}

/* Convolutions. */

static void test_convolutions(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_BF16, TRP_BF16);
    set_tree(&p);
    require_refused("s90_conv_half_128x256x64_2x1", &p, "computes convolutions, not products");
    p.operation = TRP__CUTLASS_CONV;
    p.conv = convolution(&p);
    require_refused("s80_half_128x128x32_a8", &p, "computes products, not convolutions");
    assert_memory_equal(best(&p)->name, "s90_conv_half_", 14);
    /* Channels of each pixel of the filter are filled up to a tile. */
    p.k = 9 * 65;
    p.conv.inner = 65;
    const double filled = trp__cutlass_row_cost(best(&p), &p);
    p.k = 9 * 128;
    p.conv.inner = 128;
    assert_true(trp__cutlass_row_cost(best(&p), &p) >= filled * 0.99);
    p.batch = 2;
    p.conv.inner = 100;
    require_refused("s90_conv_half_128x256x64_2x1", &p,
                    "needs channels of a group in multiples of 64, got 100");
    p.batch = 1;
    p.a_row = false;
    p.b_row = true;
    p.conv = convolution(&p);
    p.conv.inner = 96;
    require_refused("s90_conv_half_128x256x64_2x1", &p,
                    "needs channels in multiples of 64, got 96");
    p.a_row = true;
    p.conv = convolution(&p);
    p.conv.tma = false;
    p.conv.why_not_tma = "is a DGRAD with strides";
    require_refused("s90_conv_half_128x256x64_2x1", &p, "problem that is a DGRAD with strides");
    assert_memory_equal(best(&p)->name, "s80_conv_half_", 14);
}

/* Text. */

static void test_every_row_renders(void **state)
{
    (void)state;
    static const trp_dtype inputs[][3] = {
        [TRP__CUTLASS_HALF] = {TRP_F16, TRP_BF16, TRP_BF16},
        [TRP__CUTLASS_TF32] = {TRP_F32, TRP_F32, TRP_F32},
        [TRP__CUTLASS_F32] = {TRP_F32, TRP_F32, TRP_F32},
        [TRP__CUTLASS_F64] = {TRP_F64, TRP_F64, TRP_F64},
        [TRP__CUTLASS_I8] = {TRP_I8, TRP_I8, TRP_I8},
        [TRP__CUTLASS_FP8] = {TRP_F8E4M3, TRP_F8E5M2, TRP_F8E4M3},
        [TRP__CUTLASS_MIXED] = {TRP_F16, TRP_BF16, TRP_F16},
        [TRP__CUTLASS_MIXED_I4] = {TRP_F16, TRP_BF16, TRP_F16},
        [TRP__CUTLASS_FP8_BLOCKS] = {TRP_F8E4M3, TRP_F8E5M2, TRP_F8E4M3},
        [TRP__CUTLASS_MXFP8] = {TRP_F8E4M3, TRP_F8E5M2, TRP_F8E4M3},
        [TRP__CUTLASS_NVFP4] = {TRP_F4E2M1, TRP_F4E2M1, TRP_F4E2M1},
    };
    static const trp_dtype outputs[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    for (uint32_t r = 0; r < trp__cutlass_row_count(); r++) {
        const trp__cutlass_row *row = trp__cutlass_row_at(r);
        uint32_t applied = 0;
        for (uint32_t i = 0; i < 3 * 4 * 6 * 2; i++) {
            trp_dtype a = inputs[row->inputs][i % 3];
            trp__cutlass_problem p =
                problem(a, a == TRP_F64 ? (i / 12 % 6 ? TRP_F64 : TRP_F32) : outputs[i / 12 % 6]);
            p.operation = row->operation;
            p.a_row = i / 3 & 1;
            p.b_row = i / 6 & 1;
            p.c = i / 72 ? p.d : TRP_DTYPE_NONE;
            p.compute = row->inputs == TRP__CUTLASS_TF32 ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT;
            p.operation = row->operation;
            if (row->operation == TRP__CUTLASS_CONV)
                p.conv = convolution(&p);
            if (row->inputs == TRP__CUTLASS_FP8_BLOCKS) {
                p.scale_a = i % 2 ? TRP_SCALE_BLOCK_128 : TRP_SCALE_BLOCK_128X128;
                p.scale_b = i % 5 ? TRP_SCALE_BLOCK_128X128 : TRP_SCALE_BLOCK_128;
            }
            if (row->inputs == TRP__CUTLASS_MIXED || row->inputs == TRP__CUTLASS_MIXED_I4) {
                p.b = row->inputs == TRP__CUTLASS_MIXED_I4 ? TRP_I4 : i % 5 ? TRP_I8 : TRP_F8E4M3;
                p.group = i % 7 ? 128 : 0;
                p.zeros = p.group && i % 2;
            }
            if (row->inputs == TRP__CUTLASS_MXFP8)
                p.scale_a = p.scale_b = TRP_SCALE_BLOCK_32;
            if (row->inputs == TRP__CUTLASS_NVFP4)
                p.scale_a = p.scale_b = TRP_SCALE_BLOCK_16;
            if (row->family >= TRP__CUTLASS_SM100)
                p.capability = row->family == TRP__CUTLASS_SM100 ? 100 : 120;
            set_tree(&p);
            if (trp__cutlass_row_applies(row, &p, &error) != TRP_OK)
                continue;
            applied++;
            render(row, &p, text);
            assert_non_null(strstr(text, row->name));
            assert_non_null(strstr(text, "#define TRP_FUSION "));
            assert_null(strstr(text, "void\n#define TRP_D"));
            /* What the text stands for does not change with sizes and places. */
            p.m = 17;
            p.n = 23;
            p.k = 5;
            p.batch = 3;
            p.align[0] = p.align[1] = p.align[2] = p.align[3] = 1;
            p.processors = 7;
            render(row, &p, again);
            assert_string_equal(text, again);
            p.b_row = !p.b_row;
            render(row, &p, again);
            assert_string_not_equal(text, again);
        }
        if (applied == 0)
            fail_msg("%s applies to nothing", row->name);
    }
}

/* Grouped products have kernels of their own, chosen by what is known of all groups. */
static void test_groups(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_BF16, TRP_BF16);
    set_tree(&p);
    p.operation = TRP__CUTLASS_GROUPED;
    p.batch = 70000;
    p.m = 64;
    p.n = 2048;
    p.k = 7168;
    assert_non_null(strstr(best(&p)->name, "s90_grouped_half_64x256"));
    p.batch = 8;
    p.m = p.n = 4096;
    assert_non_null(strstr(best(&p)->name, "s90_grouped_half_128x256"));
    p.align[0] = 2; /* what nobody knows of the places of groups */
    assert_non_null(strstr(best(&p)->name, "s80_grouped_half_"));
    assert_int_equal(best(&p)->align, 1);
    p.align[0] = 16;
    p.capability = 80;
    p.shared_bytes = 166912;
    assert_int_equal(best(&p)->align, 8);
    p.divides[1] = 1; /* nor of the length of D's lines */
    assert_int_equal(best(&p)->lines, 0);
    p.divides[2] = 1;
    assert_int_equal(best(&p)->align, 1);
    assert_int_equal(
        trp__cutlass_row_applies(trp__cutlass_row_find("s80_half_64x64x64_a8"), &p, &error),
        TRP_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "computes products, not grouped products"));
    p = problem(TRP_I8, TRP_I32);
    p.operation = TRP__CUTLASS_GROUPED;
    require_none(&p, "does not multiply i8");
}

static void test_text_differs(void **state)
{
    (void)state;
    trp__cutlass_problem p = problem(TRP_BF16, TRP_BF16);
    set_tree(&p);
    const trp__cutlass_row *row = trp__cutlass_row_find("s90_half_128x256x64_2x1");
    render(row, &p, text);
    assert_non_null(strstr(text, "#define TRP_C void\n"));
    p.a = p.b = TRP_F16;
    render(row, &p, again);
    assert_string_not_equal(text, again);
    p.a = p.b = TRP_BF16;
    p.c = TRP_BF16;
    set_tree(&p);
    render(row, &p, again);
    assert_string_not_equal(text, again);
    assert_non_null(strstr(again, "#define TRP_C cutlass::bfloat16_t\n"));
    render(trp__cutlass_row_find("s90_half_256x128x64_2x1"), &p, text);
    assert_string_not_equal(text, again);
    assert_non_null(strstr(text, "gemm_sm90_head.cuh\"\n"));

    trp__cutlass_problem integers = problem(TRP_I8, TRP_I32);
    render(trp__cutlass_row_find("s80_i8_128x128x64_a16"), &integers, text);
    assert_non_null(strstr(text, "#define TRP_SCALAR int32_t\n"));
    assert_null(strstr(text, "TRP_FUSION"));
}

static void test_architecture(void **state)
{
    (void)state;
    char arch[16];
    trp__cutlass_problem p = problem(TRP_BF16, TRP_BF16);
    trp__cutlass_row_architecture(trp__cutlass_row_find("s90_half_128x256x64_2x1"), &p, arch);
    assert_string_equal(arch, "sm_90a");
    trp__cutlass_row_architecture(trp__cutlass_row_find("s80_half_128x128x32_a8"), &p, arch);
    assert_string_equal(arch, "sm_90");
    p.capability = 86;
    trp__cutlass_row_architecture(trp__cutlass_row_find("s80_half_128x128x32_a8"), &p, arch);
    assert_string_equal(arch, "sm_86");
}

UNIT_MAIN(UNIT(test_rows), UNIT(test_large_products), UNIT(test_fp8), UNIT(test_mixed),
          UNIT(test_integers_without_a_tree), UNIT(test_few_tiles), UNIT(test_alignment),
          UNIT(test_sizes), UNIT(test_layouts), UNIT(test_convolutions),
          UNIT(test_every_row_renders), UNIT(test_groups), UNIT(test_text_differs),
          UNIT(test_architecture))

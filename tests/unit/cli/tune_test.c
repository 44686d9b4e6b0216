/* The lines that `troupe tune` reads: what they mean, and that any bytes at all end in a problem
 * that is sound or in a message. */
#include "cli/commands/tune.h"

#include "support/reference/reference.h"
#include "support/label.h"

#include "support/unit.h"

TROUPE_TEST("no tsan");

static tune_problem parse(const char *line)
{
    tune_problem p;
    char error[256] = "";
    if (!tune_parse_line(line, &p, error, sizeof error))
        fail_msg("%s: %s", line, error);
    return p;
}

static void defaults(void **state)
{
    (void)state;
    tune_problem p = parse("  3 4\t5 # a comment\n");
    assert_string_equal(p.text, "3 4 5");
    assert_true(p.request.m == 3 && p.request.n == 4 && p.request.k == 5 && p.request.batch == 1);
    assert_int_equal(p.request.a.type, TRP_F32);
    assert_true(p.request.a.ld == 3 && p.request.b.ld == 5 && p.request.d.ld == 3);
    assert_true(p.bytes[TUNE_A] == 60 && p.bytes[TUNE_B] == 80 && p.bytes[TUNE_D] == 48);
    for (int i = 0; i < TUNE_OPERANDS; i++)
        assert_true(p.bytes[i] == 0 || i == TUNE_A || i == TUNE_B || i == TUNE_D);
    assert_int_equal(parse("").line, 0);
    assert_int_equal(parse(" \t # 1 2 3").line, 0);
}

static void all_words(void **state)
{
    (void)state;
    tune_problem p = parse("30 200 50 type=bf16 type_d=f32 trans=tc order=rcr batch=7 tf32 fast "
                           "epilogue=bias+relu+aux add=apart workspace=1000");
    const trp_matmul_request *r = &p.request;
    assert_true(r->a.type == TRP_BF16 && r->b.type == TRP_DTYPE_NONE && r->d.type == TRP_F32);
    assert_true(r->trans_a == TRP_T && r->trans_b == TRP_C);
    assert_true(r->a.order == TRP_ROW_MAJOR && r->b.order == TRP_COL_MAJOR);
    assert_true(r->d.order == TRP_ROW_MAJOR && r->c.order == r->d.order);
    assert_true(r->aux.order == r->d.order && r->aux.ld == 256 && r->aux.stride == 256 * 30);
    assert_true(r->a.ld == 30 && r->b.ld == 200 && r->d.ld == 200 && r->d.stride == 6000);
    assert_true(r->batch == 7 && r->workspace_bytes == 1000 && r->fast_accumulation);
    assert_true(r->compute == TRP_COMPUTE_TF32 && r->activation == TRP_ACTIVATION_RELU);
    assert_true(r->beta.given && r->beta.re == 1 && !p.in_place);
    assert_true(p.bytes[TUNE_AUX] == 7 * 256 * 30 / 8 && p.bytes[TUNE_C] == 7 * 6000 * 4);
    assert_true(p.bytes[TUNE_A] == 7 * 1500 * 2 && p.bytes[TUNE_VECTOR] >= 200 * 4);

    p = parse("16 32 48 type=f8e4m3 type_b=f8e5m2 scale=vector scale_d amax add=d");
    assert_true(p.bytes[TUNE_SCALE_A] == 64 && p.bytes[TUNE_SCALE_B] == 128);
    assert_true(p.bytes[TUNE_SCALE_D] == 4 && p.bytes[TUNE_AMAX] == 4);
    assert_true(p.request.a.scale.mode == TRP_SCALE_VECTOR && p.in_place && p.bytes[TUNE_C] == 0);
    p = parse("8 9 10 epilogue=sums_a");
    assert_true(p.request.gradient_of == TRP_BIAS_GRADIENT_A && p.bytes[TUNE_VECTOR] >= 32);
    p = parse("8 9 10 epilogue=dgelu+sums_d");
    assert_true(p.request.activation == TRP_ACTIVATION_DGELU && p.bytes[TUNE_AUX] == 8 * 9 * 4);
}

static void long_lines(void **state)
{
    (void)state;
    char line[2000] = "1 2 3", error[256];
    tune_problem p;
    while (strlen(line) < 400)
        strcat(line, " type_d=f32");
    p = parse(line);
    assert_true(strlen(p.text) == sizeof p.text - 1);
    while (strlen(line) < 1900)
        strcat(line, " type_d=f32");
    assert_false(tune_parse_line(line, &p, error, sizeof error));
    assert_string_equal(error, "the line is longer than 511 bytes");
    memset(line, 'x', 1999);
    assert_false(tune_parse_line(line, &p, error, sizeof error));
}

/* Mutated lines: a message, or buffers that hold what the request says. */
static void anything_else(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "4096 4096 1024 type=bf16 trans=tn epilogue=bias+gelu+aux",
        "64 64 64 type=f8e4m3 type_d=bf16 trans=tn scale=tensor batch=3 # x",
        "128 64 32 order=rrr add=apart type=c64 tf32 epilogue=drelu+sums_d",
    };
    ref_rng rng;
    ref_rng_init(&rng, ref_seed());
    for (int i = 0; i < 100000; i++) {
        char line[256], error[256] = "";
        tune_problem p;
        strcpy(line, lines[ref_rng_below(&rng, 3)]);
        for (size_t n = 1 + ref_rng_below(&rng, 4); n > 0; n--) {
            size_t at = ref_rng_below(&rng, strlen(line));
            if (ref_rng_below(&rng, 2))
                line[at] = (char)(1 + ref_rng_below(&rng, 255));
            else
                line[at] = "0123456789 =+#_"[ref_rng_below(&rng, 15)];
        }
        if (!tune_parse_line(line, &p, error, sizeof error)) {
            assert_true(error[0] != '\0');
        } else if (p.line) {
            const trp_matmul_request *r = &p.request;
            assert_true(r->m > 0 && r->n > 0 && r->k > 0 && r->batch > 0);
            uint64_t bits = trp_dtype_bits(r->a.type);
            assert_true(p.bytes[TUNE_A] * 8 / bits >= (uint64_t)r->m * (uint64_t)r->k);
            assert_true(p.bytes[TUNE_D] > 0 && p.bytes[TUNE_D] <= INT64_MAX);
        }
    }
}

UNIT_MAIN(UNIT(defaults), UNIT(all_words), UNIT(long_lines), UNIT(anything_else))

/* Philox4x32-10 against the known answers that its authors publish (Random123, kat_vectors), and
 * what is made of its words. */
#include "base/numbers/philox.h"
#include "support/label.h"

#include "support/unit.h"

TROUPE_TEST("no tsan");

static void known_answers(void **unused)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, /* digits of pi */
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        trp__philox(rows[i].counter, rows[i].key, out);
        assert_memory_equal(out, rows[i].out, sizeof out);
    }
}

static void blocks(void **unused)
{
    uint32_t out[TRP__PHILOX_WORDS];
    (void)unused;
    trp__philox_block(UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e),
                      UINT64_C(0x85a308d3243f6a88), out);
    assert_int_equal(out[0], 0xd16cfe09);
    assert_int_equal(out[3], 0x24126ea1);
}

static void uniform(void **unused)
{
    double sum = 0;
    (void)unused;
    assert_true(trp__philox_uniform(0) == 0);
    assert_true(trp__philox_uniform(255) == 0);
    assert_true(trp__philox_uniform(256) == 0x1p-24F);
    assert_true(trp__philox_uniform(UINT32_C(1) << 31) == 0.5F);
    assert_true(trp__philox_uniform(UINT32_MAX) == 1 - 0x1p-24F);
    for (uint64_t i = 0; i < 4096; i++) {
        uint32_t out[TRP__PHILOX_WORDS];
        trp__philox_block(7, 0, i, out);
        for (int k = 0; k < TRP__PHILOX_WORDS; k++)
            sum += (double)trp__philox_uniform(out[k]);
    }
    assert_true(sum / 16384 > 0.49 && sum / 16384 < 0.51);
}

int main(int count, char **argument)
{
    const struct CMUnitTest tests[] = {UNIT(known_answers), UNIT(blocks), UNIT(uniform)};
    if (count > 1)
        cmocka_set_test_filter(argument[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* "did you mean": what is near, and what is not. */
#include "cli/ui/spell.h"

#include "support/unit.h"

static const char *const names[] = {"matmul",    "cutlass", "conv",   "pool",  "norm",
                                    "attention", "cache",   "doctor", "bench", "trans",
                                    "top",       "ls",      "",       NULL};

static const char *nearest(const char *word)
{
    spell s = spell_begin(word, strlen(word));
    spell_try_all(&s, names);
    return s.best;
}

static void finds_what_was_meant(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"matmlu", "matmul"},
        {"matmull", "matmul"},
        {"mamul", "matmul"},
        {"matnul", "matmul"},
        {"mat", "matmul"},
        {"atention", "attention"},
        {"attetnion", "attention"},
        {"docotr", "doctor"},
        {"confv", "conv"},
        {"chace", "cache"},
        {"pol", "pool"},
        {"matmul", "matmul"},
        {"tpo", "top"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *found = nearest(pairs[i][0]);
        if (!found || strcmp(found, pairs[i][1]) != 0)
            fail_msg("'%s': expected '%s', got '%s'", pairs[i][0], pairs[i][1],
                     found ? found : "nothing");
    }
}

static void stays_silent_otherwise(void **state)
{
    (void)state;
    static const char *const words[] = {"", "x", "zebra", "frobnicate", "--", "l", "q", "s"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = nearest(words[i]);
        if (found)
            fail_msg("'%s': expected nothing, got '%s'", words[i], found);
    }
    char longest[5000];
    memset(longest, 'm', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(nearest(longest));
}

/* Only the first bytes count, the rest may be anything. */
static void looks_at_its_length(void **state)
{
    (void)state;
    spell s = spell_begin("matmlu=7", 6);
    spell_try_all(&s, names);
    assert_string_equal(s.best, "matmul");
    assert_string_equal(spell_hint(&s, "--").s, ", did you mean '--matmul'?");
    s = spell_begin("zebra", 5);
    spell_try_all(&s, names);
    assert_string_equal(spell_hint(&s, "--").s, "");
}

UNIT_MAIN(UNIT(finds_what_was_meant), UNIT(stays_silent_otherwise), UNIT(looks_at_its_length))

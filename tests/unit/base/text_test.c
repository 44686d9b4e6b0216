/* base/text: what comes from elsewhere is made harmless, and a buffer is never overrun. */
#include "support/unit.h"

#include "base/text.h"
#include "support/label.h"

TROUPE_TEST("no tsan");

static void clean(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", ""},
        {"blas", "blas"},
        {"a\tb\nc\x7f\x1b[2J", "a?b?c??[2J"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "2J\xc2\x80\xc2\xa0",
         "?2J?\xc2\xa0"},        /* C1 controls; a space that is none */
        {"\xff\xfe\x80", "???"}, /* never in UTF-8 */
        {"\xc3", "?"},           /* cut off */
        {"\xe2\x82", "??"},
        {"\xf0\x9f\x98", "???"},
        {"\xc0\xaf", "??"}, /* overlong */
        {"\xe0\x80\xaf", "???"},
        {"\xf0\x80\x80\xaf", "????"},
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xf4\x90\x80\x80", "????"}, /* past the last character */
        {"\xc3(", "?("},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        strcpy(text, cases[i].text);
        trp__text_clean(text);
        assert_string_equal(text, cases[i].wanted);
        trp__text_clean(text); /* what is clean stays */
        assert_string_equal(text, cases[i].wanted);
    }
}

static void clean_random(void **unused)
{
    (void)unused;
    srand(1);
    for (int i = 0; i < 20000; i++) {
        char text[24], before[24];
        size_t length = (size_t)rand() % sizeof text;
        for (size_t k = 0; k < length; k++)
            text[k] = (char)(rand() % 255 + 1);
        text[length] = '\0';
        trp__text_clean(text);
        assert_true(strlen(text) <= length);
        for (const char *p = text; *p; p++)
            assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
        strcpy(before, text);
        trp__text_clean(text);
        assert_string_equal(text, before);
    }
}

/* Whatever room there is: what fits is written and ended, and the whole length counted. */
static void bounded(void **unused)
{
    (void)unused;
    const char *wanted = "n=42 a\\\"b\\\\c.";
    for (size_t size = 0; size <= strlen(wanted) + 2; size++) {
        char out[64];
        memset(out, 'x', sizeof out);
        trp__text t = {.out = size ? out : NULL, .size = size};
        trp__text_add(&t, "n=%d ", 42);
        trp__text_add_quoted(&t, "a\"b\\c");
        trp__text_add(&t, "%s", ".");
        assert_int_equal(t.length, strlen(wanted));
        if (size > 0) {
            size_t fits = size - 1 < strlen(wanted) ? size - 1 : strlen(wanted);
            assert_int_equal(strlen(out), fits);
            assert_memory_equal(out, wanted, fits);
        }
        for (size_t i = size; i < sizeof out; i++)
            assert_int_equal(out[i], 'x');
    }
}

UNIT_MAIN(UNIT(clean), UNIT(clean_random), UNIT(bounded))

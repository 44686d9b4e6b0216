/* The lines that `troupe cache warm` and `pack` read: what they mean, and that any bytes at all end
 * in a request or in a message. */
#include "cli/commands/cache/kernels.h"
#include "support/label.h"

#include "support/unit.h"

TROUPE_TEST("no tsan");

static kernel parse(const char *line, const char *folder)
{
    kernel k;
    char error[256] = "";
    if (!kernel_parse(line, folder, &k, error, sizeof error))
        fail_msg("%s: %s", line, error);
    return k;
}

static void words(void **state)
{
    (void)state;
    kernel k = parse("\t/a/b.cu -DN=4 --name \"f<int, 4>\" --use_fast_math --name=&t --as c.cu "
                     "--include /i --include=j --header 'h h.h'=k.h --output ltoir -DS='\"x\"' #y ",
                     "/folder");
    assert_string_equal(k.path, "/a/b.cu");
    assert_string_equal(k.name, "c.cu");
    assert_int_equal(k.options.count, 3);
    assert_string_equal(k.options.item[0], "-DN=4");
    assert_string_equal(k.options.item[1], "--use_fast_math");
    assert_string_equal(k.options.item[2], "-DS=\"x\"");
    assert_int_equal(k.names.count, 2);
    assert_string_equal(k.names.item[0], "f<int, 4>");
    assert_string_equal(k.names.item[1], "&t");
    assert_int_equal(k.includes.count, 2);
    assert_string_equal(k.includes.item[0], "/i");
    assert_string_equal(k.includes.item[1], "/folder/j");
    assert_int_equal(k.header_names.count, 1);
    assert_string_equal(k.header_names.item[0], "h h.h");
    assert_string_equal(k.header_paths.item[0], "/folder/k.h");
    assert_int_equal(k.output, TRP_JIT_LTOIR);
    assert_int_equal(strncmp(k.text, "/a/b.cu -DN=4", 13), 0);
    assert_string_equal(k.text + strlen(k.text) - 4, "\"x\"'");
    trp_jit_compile_request r = kernel_request(&k, "sm_90");
    assert_string_equal(r.architecture, "sm_90");
    assert_int_equal(r.option_count, 3);
    kernel_end(&k);
}

static void plain(void **state)
{
    (void)state;
    kernel k = parse("a#b.cu", NULL);
    assert_string_equal(k.path, "a#b.cu");
    assert_null(k.name);
    assert_int_equal(k.output, TRP_JIT_CUBIN);
    kernel_end(&k);
    static const char *const nothing[] = {"", " \t", "# a.cu", "  #"};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        k = parse(nothing[i], "/");
        assert_int_equal(k.line, 0);
        kernel_end(&k);
    }
}

static void too_many(void **state)
{
    (void)state;
    enum { MANY = TRP_JIT_OPTIONS_MAX + 1 };
    char line[8 + 4 * MANY] = "a.cu", error[256];
    kernel k;
    for (int i = 1; i < MANY; i++)
        strcat(line, " -a");
    k = parse(line, NULL);
    assert_int_equal(k.options.count, MANY - 1);
    kernel_end(&k);
    strcat(line, " -b");
    assert_false(kernel_parse(line, NULL, &k, error, sizeof error));
    assert_non_null(strstr(error, "'-b': expected at most 256"));
    kernel_end(&k);
}

static void random_lines(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "a.cu",     " ",    "\"", "'",   "--name", "=",   "#",  "--include", "--header",
        "--output", "--as", "-D", "ptx", "\xff",   "x=y", "\r", "--name=x",  "\t"};
    enum { PARTS = sizeof parts / sizeof *parts };
    srand(1);
    for (int i = 0; i < 20000; i++) {
        char line[256] = "", error[64] = "";
        kernel k;
        for (int n = rand() % 16; n > 0; n--)
            strcat(line, parts[rand() % PARTS]);
        bool ok = kernel_parse(line, rand() % 2 ? "/f" : NULL, &k, error, sizeof error);
        assert_true(ok ? (k.line != 0) == (k.path != NULL) : error[0] != '\0');
        kernel_end(&k);
    }
}

UNIT_MAIN(UNIT(words), UNIT(plain), UNIT(too_many), UNIT(random_lines))

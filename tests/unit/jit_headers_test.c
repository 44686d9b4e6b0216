/* Which headers a compile may read: nothing is missed that it does not say it may have missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "actors/jit/headers.h"
#include "actors/jit/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void put_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static int begin(void **state)
{
    (void)state;
    char path[128];
    strcpy(folder, "/tmp/troupe-headers-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/sub", folder);
    return mkdir(path, 0700);
}

static int end(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? 0 : 1;
}

/* What is found for a source with the test's folder, and its folder sub, as include paths. */
static trp__jit_headers trace(const char *source, const trp__jit_text *memory, uint32_t count,
                              const char *const *options, uint32_t option_count)
{
    char sub[128];
    snprintf(sub, sizeof sub, "%s/sub", folder);
    const char *const includes[] = {folder, sub};
    const trp__jit_program program = {.source = {"kernel.cu", source},
                                      .headers = memory,
                                      .header_count = count,
                                      .includes = includes,
                                      .include_count = 2,
                                      .options = options,
                                      .option_count = option_count};
    trp__jit_headers h = {0};
    trp_error error;
    assert_int_equal(trp__jit_headers_trace(&program, &h, &error), TRP_OK);
    return h;
}

static bool has(const trp__jit_headers *h, trp__jit_found kind, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s%s", kind == TRP__JIT_FOUND_MEMORY ? "" : folder,
             kind == TRP__JIT_FOUND_MEMORY ? "" : "/", name);
    for (size_t i = 0; i < h->count; i++) {
        if (h->row[i].kind == kind && strcmp(h->row[i].name, path) == 0)
            return true;
    }
    return false;
}

static size_t found(const trp__jit_headers *h)
{
    size_t n = 0;
    for (size_t i = 0; i < h->count; i++)
        n += h->row[i].kind != TRP__JIT_FOUND_NONE;
    return n;
}

/* Every way to write it. */
static void forms(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "#include \"a.h\"\n",
        "#include <a.h>\n",
        "  #  include\t\"a.h\"  // why\n",
        "/* one */ # /* two */ include /* three */ \"a.h\"\n",
        "#inc\\\nlude \"a.h\"\n",
        "#include \\\n \"a.h\"\n",
        "%: include <a.h>\n",
        "/* a\n comment */ #include \"a.h\"\n",
        "#if 0\n#include \"a.h\"\n#endif\n",
        "const char *s = \"/*\";\n#include \"a.h\"\n",
        "const char *s = \"\\\"/*\";\n#include \"a.h\"\n",
        "char c = '\"';\n#include \"a.h\"\n",
        "int n = 1'000'000;\n#include \"a.h\"\n",
        "// it's \\\n still a comment\n#include \"a.h\"\n",
        "#error don't\n#include \"a.h\"\n",
        "auto r = R\"x( /* )\" )x\";\n#include \"a.h\"\n",
        "#if __has_include(\"a.h\")\n#endif\n",
        "#define N \"a.h\"\n#include N\n",
        "#include N\n#define N <a.h>\n",
        "#include_next <a.h>\n",
        "#import \"a.h\"\n",
        "\r\n#include \"a.h\"\r\n",
        "#include \"a.h\"", /* no end of line */
    };
    put_file("a.h", "int a;\n");
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        trp__jit_headers h = trace(sources[i], NULL, 0, NULL, 0);
        if (!has(&h, TRP__JIT_FOUND_FILE, "a.h") || h.unsure)
            fail_msg("source %zu: %s", i, h.unsure ? "unsure" : "not found");
        trp__jit_headers_free(&h);
    }
}

/* What only looks like one. */
static void not_forms(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "// #include \"a.h\"\n",
        "/*\n#include \"a.h\"\n*/\n",
        "s = R\"(\n#include \"a.h\"\n)\";\n",
        "x #include \"a.h\"\n",
        "#pragma include \"a.h\"\n",
        "s = \"\\\n#include \\\"a.h\\\"\";\n",
    };
    put_file("a.h", "int a;\n");
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        trp__jit_headers h = trace(sources[i], NULL, 0, NULL, 0);
        if (found(&h) != 0 || h.unsure)
            fail_msg("source %zu: %s", i, h.unsure ? "unsure" : "found");
        trp__jit_headers_free(&h);
    }
}

/* What can't be known is said. */
static void unsure(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "#include UNKNOWN\n",
        "#define F(x) <x>\n#include F(a.h)\n",
        "#define N a.h\n#include N\n",
        "#define N \"a.h\"\n#undef N\n#define N STR(b.h)\n#include N\n",
        "#embed \"a.h\"\n",
        "#if __has_include(N)\n#endif\n",
        "#include A B\n",
    };
    put_file("a.h", "int a;\n");
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        trp__jit_headers h = trace(sources[i], NULL, 0, NULL, 0);
        if (!h.unsure)
            fail_msg("source %zu is sure", i);
        trp__jit_headers_free(&h);
    }
}

/* Where it is looked for, and where it might come from. */
static void places(void **state)
{
    (void)state;
    const trp__jit_text memory[] = {{"m.h", "#include \"deep/n.h\"\n"},
                                    {"deep/n.h", "#include \"o.h\"\n#include <sub.h>\n"},
                                    {"deep/o.h", ""},
                                    {"other.h", ""}};
    put_file("sub/sub.h", "#include \"beside.h\"\n");
    put_file("sub/beside.h", "#include \"sub.h\"\n"); /* round and round */
    trp__jit_headers h = trace("#include \"m.h\"\n", memory, 4, NULL, 0);
    assert_true(has(&h, TRP__JIT_FOUND_MEMORY, "m.h"));
    assert_true(has(&h, TRP__JIT_FOUND_MEMORY, "deep/n.h"));
    assert_true(has(&h, TRP__JIT_FOUND_MEMORY, "deep/o.h"));
    assert_true(has(&h, TRP__JIT_FOUND_FILE, "sub/sub.h"));
    assert_true(has(&h, TRP__JIT_FOUND_FILE, "sub/beside.h"));
    assert_true(has(&h, TRP__JIT_FOUND_NONE, "sub.h")); /* if it comes, it is read instead */
    assert_false(has(&h, TRP__JIT_FOUND_MEMORY, "other.h"));
    assert_false(h.unsure);
    trp__hash before[32];
    size_t count = h.count;
    bool differs = false;
    for (size_t i = 0; i < count; i++)
        before[i] = h.row[i].content;
    trp__jit_headers_free(&h);
    put_file("sub/beside.h", "#include \"sub.g\"\n"); /* one byte */
    h = trace("#include \"m.h\"\n", memory, 4, NULL, 0);
    for (size_t i = 0; i < h.count && i < count; i++)
        differs = differs || !trp__hash_equal(&before[i], &h.row[i].content);
    assert_true(differs);
    trp__jit_headers_free(&h);
}

static void from_options(void **state)
{
    (void)state;
    static const char *const options[] = {"-DN=\"a.h\"", "--pre-include=b.h", "-include",
                                          "c.h",         "--define-macro",    "P=<d.h>"};
    put_file("a.h", "");
    put_file("b.h", "");
    put_file("sub/c.h", "");
    put_file("d.h", "");
    trp__jit_headers h = trace("#include N\n#include P\n", NULL, 0, options, 6);
    assert_true(has(&h, TRP__JIT_FOUND_FILE, "a.h"));
    assert_true(has(&h, TRP__JIT_FOUND_FILE, "b.h"));
    assert_true(has(&h, TRP__JIT_FOUND_FILE, "sub/c.h"));
    assert_true(has(&h, TRP__JIT_FOUND_FILE, "d.h"));
    assert_true(h.unsure); /* the current folder may have a b.h or c.h, which comes first */
    trp__jit_headers_free(&h);

    char path[128];
    const trp__jit_text memory = {"b.h", ""};
    const char *const sure[] = {"-include=b.h", "--pre-include", path, "-DN=\"a.h\""};
    snprintf(path, sizeof path, "%s/sub/c.h", folder);
    h = trace("#include N\n", &memory, 1, sure, 4);
    assert_true(has(&h, TRP__JIT_FOUND_MEMORY, "b.h"));
    assert_true(has(&h, TRP__JIT_FOUND_FILE, "sub/c.h"));
    assert_false(h.unsure);
    trp__jit_headers_free(&h);
}

/* Rubbish is read to its end and no further. */
static void rubbish(void **state)
{
    (void)state;
    static const char alphabet[] = "#include<>\"'/*\\\n R()x_ha%:";
    srand(2);
    for (int round = 0; round < 3000; round++) {
        size_t size = (size_t)rand() % 60;
        char *text = malloc(size + 1);
        for (size_t i = 0; i < size; i++)
            text[i] = alphabet[(size_t)rand() % (sizeof alphabet - 1)];
        text[size] = '\0';
        trp__jit_headers h = trace(text, NULL, 0, NULL, 0);
        trp__jit_headers_free(&h);
        free(text);
    }
}

static void error_lines(void **state)
{
    (void)state;
    char message[64];
    trp__jit_error_lines(
        "a.cu(1): warning: x\na.cu(2): error: first\n  code\na.cu(3): error #1: b\n"
        "2 errors detected in a.cu\n",
        "END", message, sizeof message);
    assert_string_equal(message, "a.cu(2): error: first; a.cu(3): error #1: b; END");
    trp__jit_error_lines(NULL, "END", message, sizeof message);
    assert_string_equal(message, "END");
    trp__jit_error_lines("error: no end of line", "END", message, 10);
    assert_string_equal(message, "error: no");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forms),        TEST(not_forms), TEST(unsure),      TEST(places),
        TEST(from_options), TEST(rubbish),   TEST(error_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

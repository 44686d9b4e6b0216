/* Which headers a compile may read: nothing is missed that it does not say it may have missed. */
#include "support/unit.h"

#include "base/os/cpu.h"
#include "compile/ahead.h"
#include "compile/make.h"
#include "support/label.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

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
        const trp__jit_header_row *row = &h->row[i];
        if (row->kind == kind && strcmp(row->path ? row->path : row->name, path) == 0)
            return true;
    }
    return false;
}

/* The row that is called so in keys. */
static const trp__jit_header_row *called(const trp__jit_headers *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++) {
        if (strcmp(h->row[i].name, name) == 0)
            return &h->row[i];
    }
    return NULL;
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
        "int n = 0xA'B'C;\n#include \"a.h\"\nint m = 'B';\n",
        "#if 0\n1R\"(\n#endif\n#include \"a.h\"\nconst char *s = \")\";\n",
        "auto r = u8R\"( /* )\";\n#include \"a.h\"\n",
        "#if __has_include(\"a.h\")\n#endif\n",
        "#define N \"a.h\"\n#include N\n",
        "#include N\n#define N <a.h>\n",
        "#include_next <a.h>\n",
        "#define F(x) <x>\n#include F(a.h)\n",
        "#include F ( a )\n#define F( x ) <x.h> // of that name\n",
        "#define F(x) \"a.h\"\n#include F(x)\n",
        "#define DIR sub/..\n#define N <DIR/a.h>\n#include N\n",
        "#define A a\n#define N <A.h>\n#include N\n",
        "#define HAS(x) __has_include(x)\n#if HAS(<a.h>)\n#endif\n",
        "#if X\n#elif HAS(\"a.h\") && Y\n#endif\n#define HAS(x) (1 && __has_include( x ))\n",
        "#define HAS(x) __has_include(x)\n#define HAS_A HAS(<a.h>)\n",
        "#import \"a.h\"\n",
        "\r\n#include \"a.h\"\r\n",
        "#include \"a.h\"", /* no end of line */
    };
    put_file("a.h", "int a;\n");
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        trp__jit_headers h = trace(sources[i], NULL, 0, NULL, 0);
        if (!(has(&h, TRP__JIT_FOUND_FILE, "a.h") || has(&h, TRP__JIT_FOUND_FILE, "sub/../a.h")) ||
            h.unsure)
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
        "#ifdef __has_include\n#endif\n#if defined(__has_include)\n#endif\n",
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
        "#define F(x, y) <x>\n#include F(a.h, b)\n",
        "#define F(x) <x>\n#include F(a b)\n",
        "#define F(x) <x>\n#include F\n",
        "#define F <a.h>\n#include F(a.h)\n",
        "#define F(x) <x>\n#define a G(1)\n#include F(a.h)\n",
        "#define N <__ROOT__/a.h>\n#include N\n",
        "#define HAS(x) __has_include(x)\n#if HAS(WHAT)\n#endif\n",
        "#define HAS(x) __has_include(x)\n#define TOO(x) HAS(x)\n#if TOO(<a.h>)\n#endif\n",
        "#define HAS(x, y) __has_include(x)\n#if HAS(<a.h>, 1)\n#endif\n",
        "#define N a.h\n#include N\n",
        "#define N \"a.h\"\n#undef N\n#define N STR(b.h)\n#include N\n",
        "#embed \"a.h\"\n",
        "#if __has_include(N)\n#endif\n",
        "#include A B\n",
        "#define H __has_include\n#if H(<a.h>)\n#endif\n",
        "const char *t = __DATE__;\n",
        "const char *t = \"\" __TIME__;\n",
        "const char *t = __TIMESTAMP__;\n",
        "?"
        "?=include \"a.h\"\n",
        "int a; /"
        "/ ?"
        "?/\n#include \"a.h\"\n",
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

/* What a file is called does not depend on where its folder lies. */
static void names(void **state)
{
    (void)state;
    put_file("a.h", "#include \"sub/c.h\"\n#include <d.h>\n");
    put_file("sub/c.h", "#include \"../a.h\"\n#include \"e.h\"\n");
    put_file("sub/d.h", "");
    put_file("sub/e.h", "");
    trp__jit_headers h = trace("#include \"a.h\"\n", NULL, 0, NULL, 0);
    assert_int_equal(called(&h, "include_paths[0]/a.h")->kind, TRP__JIT_FOUND_FILE);
    assert_int_equal(called(&h, "include_paths[0]/sub/c.h")->kind, TRP__JIT_FOUND_FILE);
    assert_int_equal(called(&h, "include_paths[0]/d.h")->kind, TRP__JIT_FOUND_NONE);
    assert_int_equal(called(&h, "include_paths[1]/d.h")->kind, TRP__JIT_FOUND_FILE);
    assert_int_equal(called(&h, "include_paths[0]/sub/e.h")->kind, TRP__JIT_FOUND_FILE);
    /* The same file by another name: told so, and followed once. */
    const trp__jit_header_row *again = called(&h, "include_paths[0]/sub/../a.h");
    assert_non_null(again);
    assert_string_equal(h.row[again->same_as].name, "include_paths[0]/a.h");
    assert_null(called(&h, "include_paths[0]/sub/../sub/c.h"));
    assert_true(h.folders);
    assert_false(h.unsure || h.placed);
    trp__jit_headers_free(&h);
}

/* A file that two folders have is two rows, which say whether it is one file. */
static void one_file_twice(void **state)
{
    (void)state;
    char from[96], to[96];
    put_file("f.h", "int f;\n");
    snprintf(from, sizeof from, "%s/f.h", folder);
    snprintf(to, sizeof to, "%s/sub/f.h", folder);
    for (int linked = 0; linked < 2; linked++) {
        (void)unlink(to);
        if (linked)
            assert_int_equal(symlink(from, to), 0);
        else
            put_file("sub/f.h", "int f;\n");
        trp__jit_headers h = trace("#include \"f.h\"\n#include \"sub/f.h\"\n", NULL, 0, NULL, 0);
        const trp__jit_header_row *second = called(&h, "include_paths[0]/sub/f.h");
        assert_int_equal(second->same_as == 0, linked);
        assert_int_equal(h.count, 2);
        trp__jit_headers_free(&h);
    }
}

/* Headers that name each other with "..", each time longer, come to an end. */
static void round_about(void **state)
{
    (void)state;
    put_file("sub/p.h", "#include \"../sub/q.h\"\n#include \"../sub/../sub/q.h\"\n");
    put_file("sub/q.h", "#include \"../sub/p.h\"\n#include \"../sub/../sub/p.h\"\n");
    trp__jit_headers h = trace("#include \"sub/p.h\"\n", NULL, 0, NULL, 0);
    assert_true(h.count < 16);
    trp__jit_headers_free(&h);
}

/* Texts that may have the path of a file in the result. */
static void asking(void **state)
{
    (void)state;
    static const struct {
        const char *source, *header, *option;
        bool placed;
    } cases[] = {
        {"#include \"g.h\"\n", "int g;\n", NULL, false},
        {"#include \"g.h\"\n", "const char *g = __FILE__;\n", NULL, true},
        {"#include \"g.h\"\n", "// __FILE__\nconst char *g = \"__FILE__ assert\";\n", NULL, false},
        {"#include \"g.h\"\n", "f() { assert(1); }\n", NULL, true},
        {"#include \"g.h\"\n", "f() { static_assert(1); }\n", NULL, false},
        {"#include \"g.h\"\n", "f(const char *p = __builtin_FILE());\n", NULL, true},
        {"#include \"g.h\"\n", "__FI\\\nLE__\n", NULL, true},
        {"#include \"g.h\"\n", "G\n", "-DG=__FILE__", true},
        {"#include \"g.h\"\nassert(2);\n", "int g;\n", NULL, false}, /* the source's own name */
        {"#define G assert(2)\n#include \"g.h\"\n", "f() { G; }\n", NULL, true},
        {"#define C(a, b) a##b\n#include \"g.h\"\n", "f() { C(__FI, LE__); }\n", NULL, true},
        {"#define C(a, b) a %:%: b\n#include \"g.h\"\n", "f() { C(__FILE, __); }\n", NULL, true},
        {"#define C(a, b) a##b\n#include \"g.h\"\n", "f() { C(g, h); }\n", NULL, false},
        {"f() { assert(2); }\n#define G __FILE__\n", "", NULL, false}, /* no file */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file("g.h", cases[i].header);
        trp__jit_headers h =
            trace(cases[i].source, NULL, 0, &cases[i].option, cases[i].option != NULL);
        if (h.placed != cases[i].placed || h.unsure)
            fail_msg("case %zu: %s", i, h.placed ? "placed" : h.unsure ? "unsure" : "not placed");
        trp__jit_headers_free(&h);
    }
}

static const trp__include_scan *scan_of(const char *path, bool *settled)
{
    const trp__include_scan *scan;
    trp__jit_stamp stamp;
    assert_int_equal(trp__include_scan_file(path, &scan, &stamp, settled), TRP__JIT_FILE_READ);
    return scan;
}

/* What is known of a file is taken again as long as nothing can have changed it unseen. */
static void known_files(void **state)
{
    (void)state;
    char path[96];
    bool settled;
    uint64_t read[2], known[2];
    struct stat s;
    put_file("k.h", "int k;\n");
    snprintf(path, sizeof path, "%s/k.h", folder);
    assert_int_equal(stat(path, &s), 0);
    trp__include_scan_counts(&read[0], &known[0]);
    const trp__include_scan *first = scan_of(path, &settled);
    trp__include_scan_counts(&read[1], &known[1]);
    assert_int_equal(read[1], read[0] + 1);
    /* Some seconds must lie between its last change and its reading. */
    for (; !settled; usleep(50000)) {
        const trp__include_scan *next = scan_of(path, &settled);
        assert_true(next != first);
        trp__include_scan_release(next);
    }
    trp__include_scan_counts(&read[0], &known[0]);
    const trp__include_scan *again = scan_of(path, &settled);
    trp__include_scan_counts(&read[1], &known[1]);
    assert_int_equal(read[1], read[0]);
    assert_int_equal(known[1], known[0] + 1);
    assert_true(settled && trp__hash_equal(&first->content, &again->content));
    /* Of the same size, with the old time put back: the time of that tells. */
    const struct timespec times[2] = {s.st_atim, s.st_mtim};
    put_file("k.h", "int j;\n");
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    const trp__include_scan *other = scan_of(path, &settled);
    assert_false(settled || trp__hash_equal(&first->content, &other->content));
    trp__include_scan_release(first);
    trp__include_scan_release(again);
    trp__include_scan_release(other);
}

/* What is read ahead the trace does not read again; it is done once for the same folders. */
static void ahead(void **state)
{
    (void)state;
    enum { FILES = 40 };
    char path[128], name[32], text[160];
    uint64_t read[3], known[3];
    trp_error error;
    snprintf(path, sizeof path, "%s/ahead", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "ahead/%d.h", i);
        snprintf(text, sizeof text,
                 "#include \"%d.h\"\n#include <%d.h>\n#include <%d.h>\n#include <none.h>\n",
                 (i + 1) % FILES, 2 * i, 2 * i + 1);
        put_file(name, text);
    }
    sleep(3); /* until they can be told from later versions */
    const char *const includes[] = {path};
    const trp__jit_program program = {
        .source = {"kernel.cu", "#include <1.h>\n"}, .includes = includes, .include_count = 1};
    trp__include_scan_counts(&read[0], &known[0]);
    trp__jit_headers_ahead(&program);
    trp__include_scan_counts(&read[1], &known[1]);
    assert_true(trp__cpu_count() < 2 || read[1] >= read[0] + FILES);
    trp__jit_headers_ahead(&program);
    trp__include_scan_counts(&read[2], &known[2]);
    assert_true(read[2] == read[1] && known[2] == known[1]);
    trp__jit_headers h = {0};
    assert_int_equal(trp__jit_headers_trace(&program, &h, &error), TRP_OK);
    trp__include_scan_counts(&read[2], &known[2]);
    assert_true(trp__cpu_count() < 2 || read[2] == read[1]);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "include_paths[0]/%d.h", i);
        size_t row = 0;
        while (row < h.count && strcmp(h.row[row].name, name) != 0)
            row++;
        assert_true(row < h.count && h.row[row].kind == TRP__JIT_FOUND_FILE);
    }
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

UNIT_MAIN(TEST(forms), TEST(not_forms), TEST(unsure), TEST(places), TEST(from_options),
          TEST(rubbish), TEST(error_lines), TEST(names), TEST(one_file_twice), TEST(round_about),
          TEST(asking), TEST(known_files), TEST(ahead))

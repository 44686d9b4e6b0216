/*
 * Loading of libraries, with copies of libm in temporary folders for what must be found in one
 * place and not in another. Run with the argument "child" it is the program that some tests start
 * with an environment of their own.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* RTLD_NOLOAD */
#endif

#include "support/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/dynlib.h"
#include "support/label.h"

TROUPE_TEST("no tsan");

typedef struct math_table {
    double (*cos)(double);
    void (*absent)(void);
    double (*hypot)(double, double);
} math_table;

static const trp__dynlib_symbol symbols[] = {
    {"cos", offsetof(math_table, cos), true},
    {"trp_no_such_function", offsetof(math_table, absent), false},
    {"hypot", offsetof(math_table, hypot), true},
};
static const trp__dynlib_symbol impossible_symbols[] = {
    {"cos", offsetof(math_table, cos), true},
    {"trp_no_such_function", offsetof(math_table, absent), true},
    {"hypot", offsetof(math_table, hypot), true},
};

enum { NAME_SIZE = 256 };

static const char *const libm[] = {"libm.so.6", NULL};
static const char *const fake[] = {"libtrpfake.so.2", "libtrpfake.so.1", NULL};

static char root[] = "/tmp/trp_dynlib_XXXXXX"; /* removed after the tests */
static char libm_path[TRP__DYNLIB_PATH_SIZE];

static trp__dynlib lib;
static math_table table;
static char error[2048];

/* What trp__dynlib_find() said to the spec that was opened last; "" if nothing. */
static char found[TRP__DYNLIB_PATH_SIZE];

static bool open_with(const trp__dynlib_spec *spec)
{
    memset(found, 'x', sizeof found);
    if (!trp__dynlib_find(spec, found))
        assert_string_equal(found, "");
    memset(&lib, 0x5a, sizeof lib);
    memset(&table, 0x5a, sizeof table);
    memset(error, 'x', sizeof error);
    return trp__dynlib_open(&lib, spec, symbols, 3, &table, error, sizeof error);
}

static void assert_opened(const char *path)
{
    assert_string_equal(error, "");
    assert_non_null(lib.handle);
    assert_string_equal(lib.path, path);
    assert_string_equal(found, path);
    assert_null(table.absent);
    assert_true(table.cos(0.0) == 1.0);
    assert_true(table.hypot(3.0, 4.0) == 5.0);
    trp__dynlib_close(&lib);
    assert_null(lib.handle);
    assert_string_equal(lib.path, "");
}

static void assert_nothing_open(void)
{
    assert_null(lib.handle);
    assert_string_equal(lib.path, "");
    assert_null(table.cos);
    assert_null(table.absent);
    assert_null(table.hypot);
    assert_non_null(memchr(error, '\0', sizeof error));
}

static void assert_mentions(const char *words)
{
    if (strstr(error, words) == NULL) {
        fail_msg("\"%s\" doesn't mention \"%s\"", error, words);
    }
}

static void assert_silent_on(const char *words)
{
    if (strstr(error, words) != NULL) {
        fail_msg("\"%s\" mentions \"%s\"", error, words);
    }
}

/* ---- files ---- */

__attribute__((format(printf, 2, 3))) static char *path_of(char name[NAME_SIZE], const char *format,
                                                           ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int prefix = snprintf(name, NAME_SIZE, "%s/", root);
    assert_true(prefix > 0 && prefix < NAME_SIZE);
    const size_t room = NAME_SIZE - (size_t)prefix;
    assert_true((size_t)vsnprintf(name + prefix, room, format, arguments) < room);
    va_end(arguments);
    return name;
}

static void make_folder(const char *name)
{
    char path[NAME_SIZE];
    assert_int_equal(mkdir(path_of(path, "%s", name), 0700), 0);
}

static void write_file(const char *name, const void *bytes, size_t count)
{
    char path[NAME_SIZE];
    FILE *file = fopen(path_of(path, "%s", name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void copy_libm(const char *name)
{
    FILE *file = fopen(libm_path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    char *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    fclose(file);
    write_file(name, bytes, (size_t)size);
    free(bytes);
}

static int set_up(void **state)
{
    (void)state;
    unsetenv("TROUPE_LIBRARY_PATH");
    if (mkdtemp(root) == NULL || !open_with(&(trp__dynlib_spec){.name = "m", .sonames = libm})) {
        return -1;
    }
    memcpy(libm_path, lib.path, sizeof libm_path);
    trp__dynlib_close(&lib);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", root, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}

static int clear_settings(void **state)
{
    (void)state;
    unsetenv("TROUPE_LIBRARY_PATH");
    unsetenv("TRP_TEST_LIBRARY");
    return 0;
}

/* ---- tests ---- */

static void opens_by_the_loader(void **state)
{
    (void)state;
    static const char *const second[] = {"libtrpabsent.so.9", "libm.so.6", NULL};
    assert_true(open_with(&(trp__dynlib_spec){.name = "m", .sonames = libm}));
    assert_int_equal(libm_path[0], '/');
    assert_opened(libm_path);
    assert_true(open_with(&(trp__dynlib_spec){.name = "m", .sonames = second}));
    assert_opened(libm_path);
    trp__dynlib_close(&lib); /* again */
}

static void missing_library_tells_what_was_tried(void **state)
{
    (void)state;
    static const char *const folders[] = {"/nonexistent/trp*/lib", "/nonexistent/lib", NULL};
    const trp__dynlib_spec spec = {
        .name = "fakelib",
        .sonames = fake,
        .env = "TRP_TEST_LIBRARY",
        .directories = folders,
        .package_hint = "install libtrpfake2",
    };
    setenv("TROUPE_LIBRARY_PATH", "/nonexistent/mine", 1);
    assert_false(open_with(&spec));
    assert_nothing_open();
    assert_mentions("fakelib");
    assert_mentions("libtrpfake.so.2, libtrpfake.so.1 in the loader's search path");
    assert_mentions("/nonexistent/mine");
    assert_mentions("/nonexistent/trp*/lib");
    assert_mentions("/nonexistent/lib");
    assert_mentions("install libtrpfake2");
    assert_mentions("TRP_TEST_LIBRARY");
    assert_silent_on("No such file"); /* that is said already */

    assert_false(open_with(&(trp__dynlib_spec){.name = "fakelib", .sonames = fake}));
    assert_nothing_open();
    assert_silent_on("(null)");
}

static void errors_fit_any_room(void **state)
{
    (void)state;
    const trp__dynlib_spec spec = {.name = "fakelib", .sonames = fake};
    char whole[2048];
    assert_false(trp__dynlib_open(&lib, &spec, symbols, 3, &table, whole, sizeof whole));
    const size_t length = strlen(whole);
    for (size_t size = 1; size <= length + 1; size++) {
        char *room = malloc(size);
        assert_non_null(room);
        assert_false(trp__dynlib_open(&lib, &spec, symbols, 3, &table, room, size));
        assert_int_equal(strlen(room), size - 1);
        assert_memory_equal(room, whole, size - 1);
        free(room);
    }
    assert_false(trp__dynlib_open(&lib, &spec, symbols, 3, &table, NULL, 0));
    assert_false(trp__dynlib_open(&lib, &spec, NULL, 0, NULL, NULL, 0));
}

static void missing_symbol_closes_the_library(void **state)
{
    (void)state;
    char path[NAME_SIZE];
    make_folder("symbol");
    copy_libm("symbol/libtrpfake.so.1");
    setenv("TRP_TEST_LIBRARY", path_of(path, "symbol/libtrpfake.so.1"), 1);
    const trp__dynlib_spec spec = {
        .name = "fakelib",
        .sonames = fake,
        .env = "TRP_TEST_LIBRARY",
        .package_hint = "install libtrpfake2",
    };
    memset(&table, 0x5a, sizeof table);
    assert_false(trp__dynlib_open(&lib, &spec, impossible_symbols, 3, &table, error, sizeof error));
    assert_nothing_open();
    assert_mentions("fakelib");
    assert_mentions("trp_no_such_function");
    assert_mentions(path);
    assert_mentions("install libtrpfake2");
    assert_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));

    assert_true(open_with(&spec));
    void *same = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(same);
    dlclose(same);
    assert_opened(path);
    assert_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
}

/* The variable wins even where it is wrong: falling back would run another library than was asked
 * for. */
static void own_variable_wins_or_fails(void **state)
{
    (void)state;
    char path[NAME_SIZE];
    make_folder("named");
    copy_libm("named/other_name.so");
    write_file("named/text.so", "not a library", 13);
    const trp__dynlib_spec spec = {.name = "m", .sonames = libm, .env = "TRP_TEST_LIBRARY"};

    setenv("TRP_TEST_LIBRARY", path_of(path, "named/other_name.so"), 1);
    setenv("TROUPE_LIBRARY_PATH", "/nonexistent", 1);
    assert_true(open_with(&spec));
    assert_opened(path);

    static const char *const bad[] = {"libm.so.6", "./libm.so.6",         "named/other_name.so",
                                      " ",         "/nonexistent/lib.so", "/",
                                      "/dev/null"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("TRP_TEST_LIBRARY", bad[i], 1);
        assert_false(open_with(&spec));
        assert_nothing_open();
        assert_mentions("TRP_TEST_LIBRARY");
        assert_mentions(bad[i]);
    }
    setenv("TRP_TEST_LIBRARY", path_of(path, "named/text.so"), 1);
    assert_false(open_with(&spec));
    assert_nothing_open();
    assert_mentions(path);

    char longer[8192];
    memset(longer, 'a', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    setenv("TRP_TEST_LIBRARY", longer, 1);
    assert_false(open_with(&spec));
    assert_nothing_open();

    setenv("TRP_TEST_LIBRARY", "", 1); /* as if unset */
    assert_true(open_with(&spec));
    assert_opened(libm_path);
}

static void listed_folders_come_before_the_loader(void **state)
{
    (void)state;
    char path[NAME_SIZE], list[4 * NAME_SIZE];
    make_folder("listed");
    make_folder("empty");
    copy_libm("listed/libm.so.6");
    path_of(path, "listed/libm.so.6");
    const trp__dynlib_spec spec = {.name = "m", .sonames = libm};

    snprintf(list, sizeof list, "%s/empty:%s/listed:/nonexistent", root, root);
    setenv("TROUPE_LIBRARY_PATH", list, 1);
    assert_true(open_with(&spec));
    assert_opened(path);

    snprintf(list, sizeof list, ":::relative:%s/listed/", root);
    setenv("TROUPE_LIBRARY_PATH", list, 1);
    assert_true(open_with(&spec));
    assert_opened(path);

    static const char *const useless[] = {"",           ":", "::", "/nonexistent", "relative:.:..",
                                          "/etc/passwd"};
    for (size_t i = 0; i < sizeof useless / sizeof useless[0]; i++) {
        setenv("TROUPE_LIBRARY_PATH", useless[i], 1);
        assert_true(open_with(&spec));
        assert_opened(libm_path);
    }
}

static void folder_order_beats_name_order(void **state)
{
    (void)state;
    char path[NAME_SIZE], list[2 * NAME_SIZE];
    make_folder("first");
    make_folder("second");
    copy_libm("first/libtrpfake.so.1");
    copy_libm("second/libtrpfake.so.1");
    copy_libm("second/libtrpfake.so.2");
    const trp__dynlib_spec spec = {.name = "fakelib", .sonames = fake};
    snprintf(list, sizeof list, "%s/first:%s/second", root, root);
    setenv("TROUPE_LIBRARY_PATH", list, 1);
    assert_true(open_with(&spec));
    assert_opened(path_of(path, "first/libtrpfake.so.1"));
    snprintf(list, sizeof list, "%s/second:%s/first", root, root);
    setenv("TROUPE_LIBRARY_PATH", list, 1);
    assert_true(open_with(&spec));
    assert_opened(path_of(path, "second/libtrpfake.so.2"));
}

static void patterns_give_the_newest_first(void **state)
{
    (void)state;
    char path[NAME_SIZE], pattern[NAME_SIZE], plain[NAME_SIZE];
    static const char *const versions[] = {"9.2", "12.9", "12.10", "11.8"};
    make_folder("versions");
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "versions/kit-%s", versions[i]);
        make_folder(name);
        snprintf(name, sizeof name, "versions/kit-%s/lib64", versions[i]);
        make_folder(name);
        snprintf(name, sizeof name, "versions/kit-%s/lib64/libtrpfake.so.1", versions[i]);
        copy_libm(name);
    }
    const char *const folders[] = {path_of(pattern, "versions/kit-*/lib64"), NULL};
    const trp__dynlib_spec spec = {.name = "fakelib", .sonames = fake, .directories = folders};
    assert_true(open_with(&spec));
    assert_opened(path_of(path, "versions/kit-12.10/lib64/libtrpfake.so.1"));

    /* A corrupt newest one is passed over; without it the next is the newest. */
    write_file("versions/kit-12.10/lib64/libtrpfake.so.1", "text", 4);
    assert_true(open_with(&spec));
    /* Who only looks takes it for good. */
    assert_string_equal(found, path_of(path, "versions/kit-12.10/lib64/libtrpfake.so.1"));
    memcpy(found, path_of(path, "versions/kit-12.9/lib64/libtrpfake.so.1"), NAME_SIZE);
    assert_opened(path);

    const char *const exact[] = {"/nonexistent/*", path_of(plain, "versions/kit-9.2/lib64"),
                                 pattern, NULL};
    assert_true(
        open_with(&(trp__dynlib_spec){.name = "fakelib", .sonames = fake, .directories = exact}));
    assert_opened(path_of(path, "versions/kit-9.2/lib64/libtrpfake.so.1"));

    /* The loader's own search comes first. */
    copy_libm("versions/kit-9.2/lib64/libm.so.6");
    assert_true(open_with(&(trp__dynlib_spec){.name = "m", .sonames = libm, .directories = exact}));
    assert_opened(libm_path);
}

static void a_library_that_does_not_load_is_the_reason_given(void **state)
{
    (void)state;
    char folder[NAME_SIZE], path[NAME_SIZE];
    make_folder("corrupt");
    write_file("corrupt/libtrpfake.so.1", "text", 4);
    setenv("TROUPE_LIBRARY_PATH", path_of(folder, "corrupt"), 1);
    assert_false(open_with(&(trp__dynlib_spec){.name = "fakelib", .sonames = fake}));
    assert_nothing_open();
    assert_mentions(path_of(path, "corrupt/libtrpfake.so.1: "));
}

static void path_is_without_links(void **state)
{
    (void)state;
    char path[NAME_SIZE], link_path[NAME_SIZE];
    make_folder("linked");
    copy_libm("linked/libtrpfake.so.1.2.3");
    path_of(link_path, "linked/libtrpfake.so.1");
    assert_int_equal(symlink("libtrpfake.so.1.2.3", link_path), 0);
    setenv("TROUPE_LIBRARY_PATH", path_of(path, "linked"), 1);
    assert_true(open_with(&(trp__dynlib_spec){.name = "fakelib", .sonames = fake}));
    assert_opened(path_of(path, "linked/libtrpfake.so.1.2.3"));
}

/* A path that lib->path can't hold is refused, not cut off. */
static void too_long_a_path_is_refused(void **state)
{
    (void)state;
    char part[201], name[4 * NAME_SIZE], cwd[PATH_MAX];
    memset(part, 'd', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    make_folder("long");
    assert_non_null(getcwd(cwd, sizeof cwd));
    copy_libm("long/libtrpfake.so.1");
    path_of(name, "long");
    assert_int_equal(chdir(name), 0);
    for (int depth = 0; depth < 3; depth++) {
        assert_int_equal(mkdir(part, 0700), 0);
        assert_int_equal(chdir(part), 0);
    }
    assert_int_equal(rename("../../../libtrpfake.so.1", "libtrpfake.so.1"), 0);
    assert_int_equal(chdir(cwd), 0);
    snprintf(name, sizeof name, "%s/long/%s/%s/%s", root, part, part, part);
    setenv("TROUPE_LIBRARY_PATH", name, 1);
    assert_false(open_with(&(trp__dynlib_spec){.name = "fakelib", .sonames = fake}));
    assert_nothing_open();
    assert_mentions("longer than 511 bytes");

    /* The same through a short link: the real path is what counts. */
    char link_path[NAME_SIZE], whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s/libtrpfake.so.1", name);
    assert_int_equal(symlink(whole, path_of(link_path, "long/short.so")), 0);
    setenv("TRP_TEST_LIBRARY", link_path, 1);
    assert_false(open_with(
        &(trp__dynlib_spec){.name = "fakelib", .sonames = fake, .env = "TRP_TEST_LIBRARY"}));
    assert_nothing_open();
    assert_mentions("longer than 511 bytes");
    assert_null(dlopen(link_path, RTLD_NOW | RTLD_NOLOAD));
}

static const char *const sneaky[] = {"libtrpfake.so.1", "./libtrpfake.so.1", "", NULL};
static const char *const relative_folders[] = {".", "", "*", "./", NULL};
static const trp__dynlib_spec sneaky_spec = {
    .name = "fakelib", .sonames = sneaky, .directories = relative_folders};

static int run_child(const char *folder, const char *library_path)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char program[PATH_MAX];
        const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        if (length < 0 || chdir(folder) != 0) {
            _exit(126);
        }
        program[length] = '\0';
        setenv("LD_LIBRARY_PATH", library_path, 1);
        execl(program, program, "child", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Exit status 1: opened. 0: refused, or not found. 2: left open. */
static int child_main(void)
{
    const bool opened = open_with(&sneaky_spec);
    const bool left_open = !opened && dlopen("libtrpfake.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL;
    return opened ? 1 : left_open ? 2 : 0;
}

static void current_folder_is_never_searched(void **state)
{
    (void)state;
    char folder[NAME_SIZE], cwd[PATH_MAX];
    make_folder("current");
    make_folder("current/sub");
    copy_libm("current/libtrpfake.so.1");
    copy_libm("current/sub/libtrpfake.so.1");
    path_of(folder, "current");
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(folder), 0);
    setenv("TROUPE_LIBRARY_PATH", ".::sub:./sub", 1);
    const bool opened = open_with(&sneaky_spec);
    assert_int_equal(chdir(cwd), 0);
    assert_false(opened);
    assert_nothing_open();
    assert_mentions(". (ignored: not absolute)");
    assert_mentions("./libtrpfake.so.1 (ignored: not a file name)");
    unsetenv("TROUPE_LIBRARY_PATH");

    assert_int_equal(run_child(folder, folder), 1); /* the loader's own search does work */
    assert_int_equal(run_child(folder, "/nonexistent"), 0);
    assert_int_equal(run_child(folder, "."), 0);
    assert_int_equal(run_child(folder, "/nonexistent:"), 0);
    assert_int_equal(run_child(folder, "sub"), 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "child") == 0) {
        return child_main();
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_settings, clear_settings)
    const struct CMUnitTest tests[] = {
        TEST(opens_by_the_loader),
        TEST(missing_library_tells_what_was_tried),
        TEST(errors_fit_any_room),
        TEST(missing_symbol_closes_the_library),
        TEST(own_variable_wins_or_fails),
        TEST(listed_folders_come_before_the_loader),
        TEST(folder_order_beats_name_order),
        TEST(patterns_give_the_newest_first),
        TEST(a_library_that_does_not_load_is_the_reason_given),
        TEST(path_is_without_links),
        TEST(too_long_a_path_is_refused),
        TEST(current_folder_is_never_searched),
    };
    return cmocka_run_group_tests_name("dynlib", tests, set_up, tear_down);
}

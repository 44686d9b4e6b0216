/* Which folders there are: what is missing is asked for once, with all that would lie in it. */
#include "support/unit.h"

#include "compile/folders.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX];

static const char *in_root(const char *path)
{
    static char whole[2 * PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    return whole;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "%s/folders-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(root) || mkdir(in_root("a"), 0700) != 0 || mkdir(in_root("a/b"), 0700) != 0 ||
        symlink("a", in_root("link")) != 0)
        return -1;
    FILE *f = fopen(in_root("a/file"), "w");
    return f ? fclose(f) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(in_root("a/file")) + unlink(in_root("link")) + rmdir(in_root("a/b")) +
           rmdir(in_root("a")) + rmdir(root);
}

static void there_and_not(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool lacks;
    } rows[] = {{"a/file", false},     {"a/none", false},          {"a/b/none.h", false},
                {"a/c/none.h", true},  {"a/c/d/e/f.h", true},      {"link/b/none.h", false},
                {"link/c/n.h", true},  {"a/file/in_a_file", true}, {"a/b/../file", false},
                {"a/c/../file", true}, {"a//b/none.h", false}};
    trp__jit_folders folders = {0};
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_int_equal(trp__jit_folders_lack(&folders, in_root(rows[i].path)), rows[i].lacks);
    }
    trp__jit_folders_free(&folders);
}

/* Answers stay what they were; many of them. */
static void remembered(void **state)
{
    (void)state;
    char path[32];
    trp__jit_folders folders = {0};
    for (int i = 0; i < 2000; i++) {
        snprintf(path, sizeof path, "none/%d/x.h", i);
        assert_true(trp__jit_folders_lack(&folders, in_root(path)));
    }
    assert_int_equal(mkdir(in_root("none"), 0700), 0);
    assert_true(trp__jit_folders_lack(&folders, in_root("none/x.h")));
    trp__jit_folders_free(&folders);
    assert_false(trp__jit_folders_lack(&folders, in_root("none/x.h")));
    assert_true(trp__jit_folders_lack(&folders, in_root("none/7/x.h")));
    trp__jit_folders_free(&folders);
    assert_int_equal(rmdir(in_root("none")), 0);
}

/* What is not looked up says nothing. */
static void not_asked(void **state)
{
    (void)state;
    static char longest[2 * PATH_MAX];
    trp__jit_folders folders = {0};
    for (size_t i = 0; i + 1 < sizeof longest; i++)
        longest[i] = i % 2 ? 'x' : '/';
    assert_false(trp__jit_folders_lack(&folders, longest));
    assert_false(trp__jit_folders_lack(&folders, "x.h"));
    assert_false(trp__jit_folders_lack(&folders, "/x.h"));
    trp__jit_folders_free(&folders);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(there_and_not),
        UNIT(remembered),
        UNIT(not_asked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

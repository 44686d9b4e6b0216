/* Own kernels: the error of a compile that fails. */
#include "support/unit.h"

#include "compile/own/own.h"
#include "support/label.h"

#include <unistd.h>

TROUPE_TEST("no tsan");
TROUPE_TEST_FAKE_GPU("no tsan");

static char folder[] = "/tmp/troupe-own-XXXXXX", log_path[sizeof folder + 16];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(log_path, sizeof log_path, "%s/compile_fails", folder);
    return setenv("FAKE_CUTLASS", folder, 1);
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(log_path);
    unsetenv("FAKE_CUTLASS");
    return rmdir(folder);
}

/* Warnings of 3 KB come before the error. */
static void error_after_a_long_log(void **state)
{
    static const trp__own_program program = {
        .actor = "test", .name = "nothing", .source = "no program\n"};
    trp_error error = {0};
    void *image = NULL;
    size_t bytes = 0;
    (void)state;
    if (!getenv("TROUPE_NVRTC") || !strstr(getenv("TROUPE_NVRTC"), "fakenvrtc"))
        skip();
    FILE *log = fopen(log_path, "w");
    assert_non_null(log);
    for (int line = 1; line <= 60; line++)
        fprintf(log, "own.h(%d): warning: a variable is declared and never used\n", line);
    fprintf(log, "own.h(77): error: the statement has no end\n");
    assert_int_equal(fclose(log), 0);
    assert_int_equal(trp__own_image(NULL, "sm_90", &program, NULL, &image, &bytes, &error),
                     TRP_E_LIBRARY);
    assert_null(image);
    assert_non_null(strstr(error.message, "own.h(77): error: the statement has no end"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT(error_after_a_long_log)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

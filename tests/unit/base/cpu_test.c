/* How many processors and threads: affinity, quotas of control groups, OMP_NUM_THREADS. */
#include "support/unit.h"

#include "base/os/cpu.h"
#include "support/folder.h"

#include <limits.h>
#include <sched.h>
#include <sys/stat.h>

static char root[256];

/* Writes a file below the root; a NULL text makes a folder. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (text)
        h_file_write(path, text);
    else
        assert_int_equal(mkdir(path, 0700), 0);
}

static unsigned int quota(const char *groups)
{
    char path[512];
    put("groups", groups);
    snprintf(path, sizeof path, "%s/groups", root);
    return trp__cpu_quota(path, root);
}

static int set_up(void **state)
{
    (void)state;
    h_folder_make(root, sizeof root, "cpu");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    h_folder_remove(root);
    return 0;
}

static void version_2(void **state)
{
    (void)state;
    put("a", NULL);
    put("a/b", NULL);
    assert_int_equal(quota("0::/a/b\n"), UINT_MAX); /* the controller is not there */
    put("a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota("0::/a/b\n"), UINT_MAX);
    put("a/b/cpu.max", "250000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 3);
    put("a/cpu.max", "100000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 1);
    put("a/cpu.max", "1000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 1);
    assert_int_equal(quota("0::/\n"), UINT_MAX);
    put("cpu.max", "800000 100000\n"); /* of a container that sees its own group as the root */
    assert_int_equal(quota("0::/\n"), 8);
    assert_int_equal(quota("0::/gone/away\n"), 8);
}

static void version_1(void **state)
{
    (void)state;
    put("cpu", NULL);
    put("cpu,cpuacct", NULL);
    put("cpu/g", NULL);
    put("cpu/g/cpu.cfs_quota_us", "-1\n");
    put("cpu/g/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota("4:memory:/g\n2:cpu:/g\n0::/\n"), UINT_MAX);
    put("cpu/g/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(quota("4:memory:/g\n2:cpu:/g\n0::/\n"), 2);
    assert_int_equal(quota("4:memory:/g\n2:cpuset:/g\n0::/\n"), UINT_MAX);
    assert_int_equal(quota("4:cpu,cpuacct:/g\n"), UINT_MAX);
    put("cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
    put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota("4:cpu,cpuacct:/docker/123\n"), 4);
    assert_int_equal(quota("4:cpuacct,cpu:/g\n"), UINT_MAX); /* no such folder */
}

static void damaged(void **state)
{
    static const char *const texts[] = {"",        "max", "0 100000", "-5 100000",
                                        "100 0",   "100", "100 -1",   "99999999999999999999 1",
                                        "nonsense"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("cpu.max", texts[i]);
        assert_int_equal(quota("0::/\n"), UINT_MAX);
    }
    put("cpu.max", "9223372036854775807 1");
    assert_int_equal(quota("0::/\n"), UINT_MAX);
    put("cpu.max", "100000 100000");
    assert_int_equal(quota(""), UINT_MAX);
    assert_int_equal(quota("0\n:\n::\n0::\n0::relative\n"), UINT_MAX);
    assert_int_equal(trp__cpu_quota("/nowhere/none", root), UINT_MAX);
}

static void counts(void **state)
{
    (void)state;
    cpu_set_t all, one;
    const unsigned int count = trp__cpu_count();
    assert_true(count >= 1);
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(trp__cpu_threads(), count);
    static const char *const no_numbers[] = {"", "0", "-3", "many", "1000000"};
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
        setenv("OMP_NUM_THREADS", no_numbers[i], 1);
        assert_int_equal(trp__cpu_threads(), count);
    }
    setenv("OMP_NUM_THREADS", "1,4", 1);
    assert_int_equal(trp__cpu_threads(), 1);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(trp__cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(version_2, set_up, tear_down),
          cmocka_unit_test_setup_teardown(version_1, set_up, tear_down),
          cmocka_unit_test_setup_teardown(damaged, set_up, tear_down), UNIT(counts))

/* The kernel cache where a disk is full, gone, not writable or hostile, and where its folder and
 * its size come from. SPDX-License-Identifier: Apache-2.0 */
#include "cache/disk.h"
#include "cache/store_parts.h"
#include "support/folder.h"
#include "support/label.h"
#include "unit/cache/store_bed.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

/* Runs a case in a process of its own. */
static void in_child(void (*run)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        run();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        print_message("left out: it is not allowed here\n");
    else
        assert_int_equal(WEXITSTATUS(status), 0);
}

#define CHILD_REQUIRE(condition)                                                                   \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* --- damage --- */

/* The compile goes on without it; one line says why. */
static void is_refused(const char *word)
{
    trp_error error = {0};
    trp__store *store = st_open(0);
    st_warnings = 0;
    for (int i = 0; i < 3; i++) {
        assert_false(st_has(store, 1));
        assert_int_not_equal(st_put(store, 1, 100, &error), TRP_OK);
    }
    if (!strstr(error.message, word) || !strstr(st_last_warning, word))
        fail_msg("'%s' is not in '%s' or '%s'", word, error.message, st_last_warning);
    assert_int_equal(st_warnings, 1);
    trp__store_close(store);
}

static void hostile_folders(void **state)
{
    (void)state;
    char kept[sizeof st_folder];
    trp__store *store = st_open(0);
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK);
    trp__store_close(store);
    chmod(st_folder, 0770);
    is_refused("only its owner can write");
    chmod(st_folder, 0700);
    chmod(st_entries, 0707);
    is_refused("only its owner can write");
    chmod(st_entries, 0700);
    if (geteuid() == 0) {
        assert_int_equal(chown(st_folder, 12345, (gid_t)-1), 0);
        is_refused("expected to belong to user");
        assert_int_equal(chown(st_folder, 0, (gid_t)-1), 0);
        assert_int_equal(chown(st_entries, 12345, (gid_t)-1), 0);
        is_refused("expected to belong to user");
        assert_int_equal(chown(st_entries, 0, (gid_t)-1), 0);
    }
    memcpy(kept, st_folder, sizeof kept);
    snprintf(st_folder, sizeof st_folder, "/nowhere/at/all");
    is_refused("/nowhere/at/all");
    snprintf(st_folder, sizeof st_folder, "/dev/null");
    is_refused("/dev/null");
    memcpy(st_folder, kept, sizeof kept);
}

static void no_folder(void **state)
{
    (void)state;
    trp__store *store;
    trp__store_options options = {.folder = "", .packs = "", .log = &st_log};
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_false(st_has(store, 1));
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_E_MISSING);
    assert_int_equal(st_warnings, 0); /* it was asked for */
    trp__store_close(store);
}

static void folder_removed_meanwhile(void **state)
{
    (void)state;
    trp__store *store = st_open(0);
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK);
    h_folder_remove(st_folder);
    assert_false(st_has(store, 1));
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK);
    assert_true(st_has(store, 1));
    trp__store_close(store);
}

/* --- disks --- */

static bool reads_and_cannot_write(void)
{
    trp_error error = {0};
    trp__store *store = st_open(0);
    trp__key key = st_key(2);
    trp__store_request request = {.key = &key};
    trp__store_hit hit;
    trp__store_claim *claim = NULL;
    bool good = st_has(store, 1) && st_put(store, 2, 100, &error) == TRP_E_SYSTEM &&
                st_warnings == 1 && st_has(store, 1) && !st_has(store, 2);
    good = good &&
           trp__store_claim_or_find(store, &request, NULL, &hit, &claim, &error) == TRP_E_MISSING;
    trp__store_claim_end(claim);
    trp__key_end(&key);
    trp__store_close(store);
    return good;
}

static void read_only_child(void)
{
    if (geteuid() == 0 &&
        (chown(st_folder, 65534, 65534) != 0 || chown(st_entries, 65534, 65534) != 0))
        _exit(77);
    char path[PATH_MAX];
    st_path(path, 1);
    chmod(path, 0400);
    chmod(st_entries, 0500);
    if (geteuid() == 0 &&
        (chown(path, 65534, 65534) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
        _exit(77);
    if (access(st_entries, X_OK) != 0) /* a folder above it is closed to that user */
        _exit(77);
    CHILD_REQUIRE(reads_and_cannot_write());
}

static void read_only_folder(void **state)
{
    (void)state;
    trp__store *store = st_open(0);
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK);
    trp__store_close(store);
    in_child(read_only_child);
}

static void file_limit_child(void)
{
    trp_error error = {0};
    trp__store *store = st_open(0);
    struct rlimit limit = {20000, RLIM_INFINITY};
    CHILD_REQUIRE(st_put(store, 1, 1000, NULL) == TRP_OK);
    CHILD_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_REQUIRE(st_put(store, 2, 100000, &error) == TRP_E_SYSTEM);
    CHILD_REQUIRE(error.code == EFBIG && st_warnings == 1);
    CHILD_REQUIRE(st_put(store, 2, 100000, &error) == TRP_E_SYSTEM && st_warnings == 1);
    CHILD_REQUIRE(st_has(store, 1) && !st_has(store, 2));
    CHILD_REQUIRE(h_folder_count(st_entries, ".tmp-", "") == 0);
    CHILD_REQUIRE(st_put(store, 3, 1000, &error) == TRP_OK && st_has(store, 3));
    limit.rlim_cur = RLIM_INFINITY;
    CHILD_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_REQUIRE(st_put(store, 2, 100000, &error) == TRP_OK && st_has(store, 2));
    trp__store_close(store);
}

static void file_limit(void **state)
{
    (void)state;
    in_child(file_limit_child);
}

static void full_disk_child(void)
{
    trp_error error = {0};
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", st_folder, "tmpfs", 0, "size=128k,mode=700") != 0)
        _exit(77);
    trp__store *store = st_open(0);
    CHILD_REQUIRE(st_put(store, 1, 1000, NULL) == TRP_OK);
    CHILD_REQUIRE(st_put(store, 2, 200000, &error) == TRP_E_SYSTEM);
    CHILD_REQUIRE(error.code == ENOSPC && st_warnings == 1);
    CHILD_REQUIRE(h_folder_count(st_entries, ".tmp-", "") == 0);
    CHILD_REQUIRE(st_has(store, 1) && !st_has(store, 2));
    CHILD_REQUIRE(st_put(store, 3, 1000, &error) == TRP_OK && st_has(store, 3));
    trp__store_close(store);
    st_warnings = 0;
    CHILD_REQUIRE(mount("none", st_folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHILD_REQUIRE(reads_and_cannot_write());
}

static void full_and_read_only_disk(void **state)
{
    (void)state;
    in_child(full_disk_child);
}

/* --- settings --- */

static void settings(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_true(trp__store_parse_bytes("0", &bytes) && bytes == 0);
    assert_true(trp__store_parse_bytes("1234", &bytes) && bytes == 1234);
    assert_true(trp__store_parse_bytes("3K", &bytes) && bytes == 3072);
    assert_true(trp__store_parse_bytes("500M", &bytes) && bytes == UINT64_C(500) << 20);
    assert_true(trp__store_parse_bytes("2G", &bytes) && bytes == UINT64_C(2) << 30);
    assert_true(trp__store_parse_bytes("1T", &bytes) && bytes == UINT64_C(1) << 40);
    static const char *const wrong[] = {"",
                                        "G",
                                        "-1",
                                        "1.5G",
                                        "2GB",
                                        "2 G",
                                        "2g",
                                        "0x9",
                                        "1P",
                                        "99999999999999999999",
                                        "99999999999T"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(trp__store_parse_bytes(wrong[i], &bytes));

    trp__store *store;
    trp__store_options options = {.folder = st_folder, .packs = "", .log = &st_log};
    setenv("TROUPE_CACHE_SIZE", "3M", 1);
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_int_equal(store->disk.max_bytes, 3 << 20);
    trp__store_close(store);
    setenv("TROUPE_CACHE_SIZE", "three", 1);
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_true(store->disk.max_bytes == TRP__STORE_BYTES_DEFAULT);
    assert_int_equal(st_warnings, 1);
    trp__store_close(store);
    unsetenv("TROUPE_CACHE_SIZE");
}

static void set_place(const char *own, const char *base, const char *home, const char *temporary)
{
    const char *const names[] = {"TROUPE_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR"};
    const char *const values[] = {own, base, home, temporary};
    for (int i = 0; i < 4; i++) {
        if (values[i])
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
    }
}

/* The place of last resort is private, and nobody can put another one there. */
static void places_child(void)
{
    char expected[PATH_MAX];
    trp__cache_place place;
    int fd;
    trp__store *store;
    trp__store_options options = {.packs = "", .log = &st_log};
    struct stat s;
    snprintf(expected, sizeof expected, "%s/troupe-%u", st_folder, (unsigned)geteuid());
    set_place(NULL, NULL, NULL, st_folder);
    CHILD_REQUIRE(trp__store_open(&options, &store, NULL) == TRP_OK);
    CHILD_REQUIRE(st_put(store, 1, 100, NULL) == TRP_OK && st_has(store, 1));
    CHILD_REQUIRE(stat(expected, &s) == 0 && (s.st_mode & 0777) == 0700);
    trp__store_close(store);
    set_place(NULL, NULL, "/nowhere/at/all", st_folder); /* a home that can't be made */
    CHILD_REQUIRE(trp__cache_place_find(&place, NULL) == TRP_OK && place.shared);
    CHILD_REQUIRE(strcmp(place.path, expected) == 0);
    set_place(NULL, NULL, st_folder, st_folder);
    CHILD_REQUIRE(trp__cache_place_find(&place, NULL) == TRP_OK && !place.shared);

    /* A link to another folder of ours. */
    h_folder_remove(expected);
    CHILD_REQUIRE(symlink(st_folder, expected) == 0);
    set_place(NULL, NULL, NULL, st_folder);
    CHILD_REQUIRE(trp__cache_place_find(&place, NULL) == TRP_OK &&
                  trp__cache_place_open(&place, true, &fd, NULL) == TRP_E_SYSTEM);
    unlink(expected);

    set_place("relative", NULL, NULL, st_folder);
    st_warnings = 0;
    CHILD_REQUIRE(trp__store_open(&options, &store, NULL) == TRP_OK && st_warnings == 1);
    CHILD_REQUIRE(st_put(store, 1, 100, NULL) == TRP_E_MISSING && st_warnings == 1);
    trp__store_close(store);
    set_place("", st_folder, st_folder, st_folder);
    st_warnings = 0;
    CHILD_REQUIRE(trp__store_open(&options, &store, NULL) == TRP_OK && st_warnings == 0);
    CHILD_REQUIRE(st_put(store, 1, 100, NULL) == TRP_E_MISSING && st_warnings == 0);
    trp__store_close(store);
}

static void places(void **state)
{
    (void)state;
    in_child(places_child);
}

UNIT_MAIN(STORE_CASE(hostile_folders), STORE_CASE(no_folder), STORE_CASE(folder_removed_meanwhile),
          STORE_CASE(read_only_folder), STORE_CASE(file_limit), STORE_CASE(full_and_read_only_disk),
          STORE_CASE(settings), STORE_CASE(places))

/* Tables on disk: what one process adds another finds, and nothing that is damaged, foreign or
 * hostile does any harm. */
#include "cache/folder.h"
#include "cache/records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct key {
    uint64_t word[2];
} key;
typedef struct value {
    uint32_t word[3];
} value;

enum { ENTRY = sizeof(key) + sizeof(value) + 8 };

static char folder[64], file[512];

static key key_of(uint64_t n)
{
    return (key){{n, ~n}};
}

static value value_of(uint32_t n)
{
    return (value){{n, n + 1, n + 2}};
}

static trp__records *open_table(const char *identity)
{
    trp__records *r = NULL;
    assert_int_equal(trp__records_open("unit", identity, sizeof(key), sizeof(value), &r, NULL),
                     TRP_OK);
    return r;
}

static bool has(trp__records *r, uint64_t n, uint32_t wanted)
{
    key k = key_of(n);
    value v = value_of(wanted);
    const void *found = trp__records_find(r, &k);
    return found && memcmp(found, &v, sizeof v) == 0;
}

static trp_status add(trp__records *r, uint64_t n, uint32_t number, trp_error *error)
{
    key k = key_of(n);
    value v = value_of(number);
    return trp__records_add(r, &k, &v, error);
}

/* Removes what is in the folder, and finds the file after the first add. */
static void empty_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
}

static void find_file(void)
{
    DIR *d = opendir(folder);
    file[0] = '\0';
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] != '.')
            snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
    }
    closedir(d);
    assert_true(file[0] != '\0');
}

static int setup(void **state)
{
    (void)state;
    chmod(folder, 0700);
    empty_folder();
    return setenv("TROUPE_CACHE_DIR", folder, 1);
}

static long file_size(void)
{
    struct stat s;
    assert_int_equal(stat(file, &s), 0);
    return (long)s.st_size;
}

static void added_and_found(void **state)
{
    (void)state;
    trp__records *a = open_table("one"), *b = open_table("one"), *c = open_table("two");
    key k = key_of(1);
    assert_null(trp__records_find(a, &k));
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(add(a, i, i, NULL), TRP_OK);
    assert_int_equal(add(a, 7, 700, NULL), TRP_OK);
    for (uint32_t i = 0; i < 200; i++) {
        assert_true(has(a, i, i == 7 ? 700 : i));
        assert_true(has(b, i, i == 7 ? 700 : i)); /* which was opened before */
    }
    assert_int_equal(trp__records_count(b), 200);
    assert_null(trp__records_find(c, &k));
    trp__records_close(a);
    trp__records_close(b);
    trp__records_close(c);
    trp__records_close(NULL);
}

/* Whatever byte is wrong, what is found is right. */
static void damage(void **state)
{
    (void)state;
    trp__records *r = open_table("one");
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(add(r, i, i, NULL), TRP_OK);
    trp__records_close(r);
    find_file();
    long size = file_size();
    for (long at = 0; at < size; at++) {
        int fd = open(file, O_RDWR);
        unsigned char byte, wrong;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        wrong = (unsigned char)~byte;
        assert_int_equal(pwrite(fd, &wrong, 1, at), 1);
        r = open_table("one");
        int found = 0;
        for (uint32_t i = 0; i < 4; i++)
            found += has(r, i, i);
        long entries = size - 4 * ENTRY;
        assert_int_equal(found, at < entries ? 0 : 3);
        assert_true(trp__records_count(r) == (uint32_t)found);
        trp__records_close(r);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
    }
}

/* A file that ends anywhere can be added to. */
static void cut_off(void **state)
{
    (void)state;
    for (long cut = 0; cut < 3 * ENTRY + 40; cut += 7) {
        empty_folder();
        trp__records *r = open_table("one");
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(add(r, i, i, NULL), TRP_OK);
        trp__records_close(r);
        find_file();
        long size = file_size(), left = size - cut;
        assert_int_equal(truncate(file, left), 0);
        r = open_table("one");
        assert_int_equal(add(r, 9, 9, NULL), TRP_OK);
        trp__records_close(r);
        r = open_table("one");
        long whole = cut > 3 * ENTRY ? 0 : 3 - (cut + ENTRY - 1) / ENTRY;
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(has(r, i, i), (long)i < whole);
        assert_true(has(r, 9, 9));
        assert_int_equal(trp__records_count(r), whole + 1);
        trp__records_close(r);
    }
}

static void refused(const char *word)
{
    trp_error error = {0};
    trp__records *r = open_table("one");
    assert_int_not_equal(add(r, 1, 1, &error), TRP_OK);
    if (!strstr(error.message, word))
        fail_msg("\"%s\" is not in: %s", word, error.message);
    assert_true(has(r, 1, 1)); /* in memory */
    trp__records_close(r);
    r = open_table("one");
    assert_false(has(r, 1, 1));
    trp__records_close(r);
}

static void hostile_folders(void **state)
{
    (void)state;
    chmod(folder, 0770);
    refused("only its owner can write");
    chmod(folder, 0702);
    refused("only its owner can write");
    chmod(folder, 0700);
    setenv("TROUPE_CACHE_DIR", "", 1);
    refused("there is no cache folder");
    setenv("TROUPE_CACHE_DIR", "relative/path", 1);
    refused("there is no cache folder");
    setenv("TROUPE_CACHE_DIR", "/dev/null", 1);
    refused("/dev/null");
    setenv("TROUPE_CACHE_DIR", "/nowhere/at/all", 1);
    refused("/nowhere/at/all");
}

static void hostile_files(void **state)
{
    (void)state;
    trp__records *r = open_table("one");
    assert_int_equal(add(r, 2, 2, NULL), TRP_OK);
    trp__records_close(r);
    find_file();
    assert_int_equal(chmod(file, 0666), 0);
    refused("only its owner can write");
    assert_int_equal(chmod(file, 0600), 0);
    unlink(file);
    assert_int_equal(symlink("/etc/passwd", file), 0);
    refused("records");
    unlink(file);
    assert_int_equal(mkfifo(file, 0600), 0);
    refused("regular file");
    unlink(file);
    assert_int_equal(mkdir(file, 0700), 0);
    refused("records");
    rmdir(file);
    int fd = open(file, O_RDWR | O_CREAT, 0600); /* rubbish of ours: begun anew */
    assert_int_equal(ftruncate(fd, 123456), 0);
    close(fd);
    r = open_table("one");
    assert_int_equal(add(r, 3, 3, NULL), TRP_OK);
    trp__records_close(r);
    r = open_table("one");
    assert_true(has(r, 3, 3));
    trp__records_close(r);
}

/* A file that may be read and not written. */
static void read_only(void **state)
{
    (void)state;
    trp__records *r = open_table("one");
    assert_int_equal(add(r, 2, 2, NULL), TRP_OK);
    trp__records_close(r);
    find_file();
    chmod(file, 0400);
    chmod(folder, 0500);
    r = open_table("one");
    assert_true(has(r, 2, 2));
    trp_error error;
    if (geteuid() != 0)
        assert_int_equal(add(r, 4, 4, &error), TRP_E_SYSTEM);
    trp__records_close(r);
}

static void many_processes(void **state)
{
    (void)state;
    enum { PROCESSES = 4, EACH = 50 };
    for (uint32_t p = 0; p < PROCESSES; p++) {
        if (fork() != 0)
            continue;
        trp__records *r = open_table("one");
        for (uint32_t i = 0; i < EACH; i++) {
            if (add(r, p * EACH + i, i, NULL) != TRP_OK)
                _exit(1);
        }
        trp__records_close(r);
        _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_true(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    trp__records *r = open_table("one");
    for (uint32_t i = 0; i < PROCESSES * EACH; i++)
        assert_true(has(r, i, i % EACH));
    trp__records_close(r);
}

static void places(void **state)
{
    (void)state;
    char path[128];
    int fd;
    unsetenv("TROUPE_CACHE_DIR");
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_int_equal(trp__cache_folder_open(true, &fd, NULL), TRP_OK);
    close(fd);
    snprintf(path, sizeof path, "%s/troupe", folder);
    assert_int_equal(rmdir(path), 0);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder, 1);
    assert_int_equal(trp__cache_folder_open(false, &fd, NULL), TRP_E_MISSING);
    assert_int_equal(trp__cache_folder_open(true, &fd, NULL), TRP_OK);
    close(fd);
    snprintf(path, sizeof path, "%s/.cache/troupe", folder);
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/.cache", folder);
    assert_int_equal(rmdir(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(added_and_found, setup),
        cmocka_unit_test_setup(damage, setup),
        cmocka_unit_test_setup(cut_off, setup),
        cmocka_unit_test_setup(hostile_folders, setup),
        cmocka_unit_test_setup(hostile_files, setup),
        cmocka_unit_test_setup(read_only, setup),
        cmocka_unit_test_setup(many_processes, setup),
        cmocka_unit_test_setup(places, setup),
    };
    snprintf(folder, sizeof folder, "/tmp/troupe-records-%d", (int)getpid());
    mkdir(folder, 0700);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    chmod(folder, 0700);
    empty_folder();
    rmdir(folder);
    return failed;
}

/* The kernel cache on disk: what was put is found, by its key and headers alone; what is damaged,
 * foreign or hostile is not there, does no harm, and is replaced; the folder stays within its
 * bound. What many processes do at a time is in store_processes_test.c. */
#include "base/os/clock.h"
#include "base/error.h"
#include "cache/disk.h"
#include "cache/prune.h"
#include "cache/store.h"
#include "cache/store_parts.h"
#include "support/folder.h"
#include "support/reference/random.h"
#include "support/label.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

static char folder[PATH_MAX - 256], entries[PATH_MAX - 128];
static int warnings;
static char last_warning[512];

static void count_warning(void *user_data, int level, const char *line)
{
    (void)user_data;
    warnings += level >= TRP__LOG_WARNING;
    snprintf(last_warning, sizeof last_warning, "%s", line);
}

static const trp__log counting = {.sink = count_warning};

static trp__store *open_store(uint64_t max_bytes)
{
    trp__store *store = NULL;
    trp__store_options options = {
        .folder = folder, .packs = "", .max_bytes = max_bytes, .log = &counting};
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    return store;
}

static trp__key key_of(int n)
{
    char name[32];
    trp__key key = {0};
    snprintf(name, sizeof name, "kernel%d", n);
    trp__key_begin(&key, "test");
    trp__key_add_text(&key, TRP__KEY_NAME, name);
    trp__key_add_text(&key, TRP__KEY_SOURCE, "__global__ void k() {}");
    trp__key_add_text(&key, TRP__KEY_OPTION, "-O3");
    return key;
}

/* Payload n is `bytes` bytes that tell n. */
static unsigned char *payload_of(int n, size_t bytes)
{
    unsigned char *payload = malloc(bytes ? bytes : 1);
    uint64_t rng = (uint64_t)n;
    for (size_t i = 0; i < bytes; i++)
        payload[i] = i % 8 ? (unsigned char)(payload[i - 1] + 1) : (unsigned char)random_next(&rng);
    return payload;
}

static trp_status put(trp__store *store, int n, size_t bytes, trp_error *error)
{
    trp__key key = key_of(n);
    unsigned char *payload = payload_of(n, bytes);
    trp__store_request request = {.key = &key};
    trp__store_entry entry = {
        .payload = payload, .bytes = bytes, .note = "a note", .note_bytes = 7};
    trp_status status = trp__store_put(store, &request, &entry, error);
    free(payload);
    trp__key_end(&key);
    return status;
}

static void is_payload(const trp__store_hit *hit, int n)
{
    unsigned char *payload = payload_of(n, hit->bytes);
    assert_memory_equal(hit->payload, payload, hit->bytes);
    assert_int_equal((uintptr_t)hit->payload % 64, 0);
    assert_int_equal(hit->note_bytes, 7);
    assert_memory_equal(hit->note, "a note", 7);
    free(payload);
}

static bool has(trp__store *store, int n)
{
    trp__key key = key_of(n);
    trp__store_request request = {.key = &key};
    trp__store_hit hit;
    trp_status status = trp__store_find(store, &request, &hit);
    if (status == TRP_OK)
        is_payload(&hit, n);
    else
        assert_int_equal(status, TRP_E_MISSING);
    trp__store_hit_end(&hit);
    trp__key_end(&key);
    return status == TRP_OK;
}

static void entry_path(char *path, int n)
{
    char name[TRP__DISK_NAME];
    trp__key key = key_of(n);
    trp__hash hash = trp__key_hash(&key);
    trp__disk_name(name, &hash, TRP__ENTRY_PAYLOAD);
    snprintf(path, PATH_MAX, "%s/%s", entries, name);
    trp__key_end(&key);
}

static int setup(void **state)
{
    (void)state;
    warnings = 0;
    h_folder_make(folder, sizeof folder, "troupe-store");
    snprintf(entries, sizeof entries, "%s/store", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    chmod(folder, 0700);
    chmod(entries, 0700);
    h_folder_remove(folder);
    return 0;
}

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

/* --- what is put is found --- */

static void put_and_found(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 5000, 300000};
    trp__store *a = open_store(0), *b = open_store(0);
    assert_false(has(a, 0));
    assert_int_equal(access(entries, F_OK), -1); /* looking makes nothing */
    for (int i = 0; i < 7; i++)
        assert_int_equal(put(a, i, sizes[i], NULL), TRP_OK);
    for (int i = 0; i < 7; i++)
        assert_true(has(a, i) && has(b, i));
    assert_false(has(a, 7));
    assert_int_equal(h_folder_count(entries, "", ".entry"), 7);
    assert_int_equal(h_folder_count(entries, ".tmp-", ""), 0);
    struct stat s;
    assert_int_equal(stat(entries, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    assert_int_equal(put(b, 3, 1000, NULL), TRP_OK); /* again: the new one counts */
    assert_true(has(a, 3));
    assert_int_equal(h_folder_count(entries, "", ".entry"), 7);
    assert_int_equal(warnings, 0);
    trp__store_close(a);
    trp__store_close(b);
    trp__store_close(NULL);
}

/* As docs/cache-format.md says that a payload is taken out. */
static void taken_out_by_dd(void **state)
{
    (void)state;
    char path[PATH_MAX], command[4 * PATH_MAX];
    trp__store *store = open_store(0);
    assert_int_equal(put(store, 1, 12345, NULL), TRP_OK);
    entry_path(path, 1);
    snprintf(command, sizeof command,
             "at=$(od -An -t u8 -j 32 -N 8 %s) && "
             "dd if=%s of=%s/out bs=64 skip=$((at / 64)) 2>/dev/null",
             path, path, folder);
    assert_int_equal(system(command), 0);
    unsigned char *payload = payload_of(1, 12345), *found = malloc(12346);
    snprintf(path, sizeof path, "%s/out", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, 12346, file), 12345);
    fclose(file);
    assert_memory_equal(found, payload, 12345);
    free(payload);
    free(found);
    trp__store_close(store);
}

static void keys_that_failed(void **state)
{
    (void)state;
    trp__store *store = open_store(0);
    trp__key key = {0};
    trp__store_hit hit;
    trp__store_claim *claim;
    trp_error error;
    trp__key_begin(&key, "test");
    trp__key_add(&key, TRP__KEY_SOURCE, "", SIZE_MAX);
    trp__store_request request = {.key = &key};
    assert_int_equal(trp__store_find(store, &request, &hit), TRP_E_ARGUMENT);
    assert_int_equal(trp__store_claim_or_find(store, &request, NULL, &hit, &claim, &error),
                     TRP_E_ARGUMENT);
    assert_null(claim);
    assert_int_equal(trp__store_put(store, &request, &(trp__store_entry){.payload = ""}, &error),
                     TRP_E_ARGUMENT);
    trp__key_end(&key);
    trp__store_close(store);
}

/* --- headers --- */

typedef struct machine { /* what "the compiler" would read */
    const char *name[8], *content[8];
    int asked;
} machine;

static bool resolve(void *context, const char *name, const char *path, trp__hash *content)
{
    machine *m = context;
    m->asked++;
    for (int i = 0; i < 8 && m->name[i]; i++) {
        if (strcmp(m->name[i], name) == 0 && m->content[i]) {
            *content = trp__hash_of(m->content[i], strlen(m->content[i]));
            return path != NULL;
        }
    }
    return false;
}

/* A compile that reads all headers of the machine, those that are not there included. */
static void compile(trp__store *store, machine *m, const char *result)
{
    trp__key key = key_of(1);
    trp__store_header headers[8] = {0};
    size_t count = 0;
    for (; count < 8 && m->name[count]; count++) {
        headers[count] = (trp__store_header){.name = m->name[count], .path = "/somewhere"};
        if (m->content[count])
            headers[count].content = trp__hash_of(m->content[count], strlen(m->content[count]));
    }
    trp__store_request request = {.key = &key, .resolve = resolve, .context = m};
    trp__store_entry entry = {
        .payload = result, .bytes = strlen(result), .headers = headers, .header_count = count};
    assert_int_equal(trp__store_put(store, &request, &entry, NULL), TRP_OK);
    trp__key_end(&key);
}

static bool gives(trp__store *store, machine *m, const char *result)
{
    trp__key key = key_of(1);
    trp__store_request request = {.key = &key, .resolve = resolve, .context = m};
    trp__store_hit hit;
    trp_status status = trp__store_find(store, &request, &hit);
    bool same = status == TRP_OK && hit.bytes == strlen(result) &&
                memcmp(hit.payload, result, hit.bytes) == 0;
    assert_true(status == TRP_E_MISSING || same);
    trp__store_hit_end(&hit);
    trp__key_end(&key);
    return same;
}

static void headers(void **state)
{
    (void)state;
    trp__store *store = open_store(0);
    machine m = {.name = {"a.h", "b.h", "c.h"}, .content = {"int a;", "int b;", NULL}};
    assert_false(gives(store, &m, "first"));
    compile(store, &m, "first");
    m.asked = 0;
    assert_true(gives(store, &m, "first"));
    assert_int_equal(m.asked, 3);

    m.content[1] = "int B;"; /* a byte of a header */
    assert_false(gives(store, &m, "second"));
    compile(store, &m, "second");
    assert_true(gives(store, &m, "second"));
    m.content[1] = "int b;"; /* and back */
    m.asked = 0;
    assert_true(gives(store, &m, "first"));
    assert_int_equal(m.asked, 3); /* of two sets with the same names */

    m.content[2] = "now there is one";
    assert_false(gives(store, &m, "first"));
    m.content[2] = NULL;
    m.content[0] = NULL;
    assert_false(gives(store, &m, "first"));
    m.content[0] = "int a;";
    assert_true(gives(store, &m, "first"));
    trp__store_close(store);
}

/* The list forgets the oldest sets; no headers at all is a set, too. */
static void many_sets(void **state)
{
    (void)state;
    trp__store *store = open_store(0);
    char text[32];
    machine m = {.name = {"a.h"}}, none = {0};
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "content %d", i);
        m.content[0] = text;
        compile(store, &m, text);
        compile(store, &m, text); /* the same set again takes no place */
    }
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "content %d", i);
        m.content[0] = text;
        assert_int_equal(gives(store, &m, text), i >= 4);
    }
    compile(store, &none, "without");
    assert_true(gives(store, &none, "without"));
    trp__store_close(store);
}

/* --- damage --- */

static void every_byte(void **state)
{
    (void)state;
    char path[PATH_MAX];
    trp__store *store = open_store(0);
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK);
    assert_int_equal(put(store, 2, 100, NULL), TRP_OK);
    entry_path(path, 1);
    long size = h_file_size(path);
    for (long at = 0; at < size; at++) {
        h_file_flip(path, at);
        assert_false(has(store, 1));
        h_file_flip(path, at);
    }
    assert_true(has(store, 1));
    for (long left = size - 1; left >= 0; left -= 1 + left / 40) {
        assert_int_equal(truncate(path, left), 0);
        assert_false(has(store, 1));
    }
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK); /* replaced */
    assert_true(has(store, 1));
    assert_int_equal(truncate(path, size + 1), 0);
    assert_false(has(store, 1));
    assert_true(has(store, 2));
    assert_int_equal(warnings, 0);
    trp__store_close(store);
}

/* A list of headers that is damaged: the compile is made again. */
static void damaged_list(void **state)
{
    (void)state;
    char path[PATH_MAX];
    trp__store *store = open_store(0);
    machine m = {.name = {"a.h"}, .content = {"int a;"}};
    compile(store, &m, "first");
    assert_true(h_folder_find(entries, ".headers", path, sizeof path));
    long size = h_file_size(path);
    for (long at = 0; at < size; at += 3) {
        h_file_flip(path, at);
        assert_false(gives(store, &m, "first"));
        h_file_flip(path, at);
    }
    h_file_flip(path, size - 1);
    compile(store, &m, "first");
    assert_true(gives(store, &m, "first"));
    trp__store_close(store);
}

/* A good entry under the name of another key, as if their hashes were the same. */
static void collision(void **state)
{
    (void)state;
    char one[PATH_MAX], two[PATH_MAX];
    trp__store *store = open_store(0);
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK);
    entry_path(one, 1);
    entry_path(two, 2);
    assert_int_equal(rename(one, two), 0);
    assert_false(has(store, 1));
    assert_false(has(store, 2));
    assert_int_equal(put(store, 2, 200, NULL), TRP_OK);
    assert_true(has(store, 2));
    trp__store_close(store);
}

static void is_replaced(trp__store *store)
{
    assert_false(has(store, 1));
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK);
    assert_true(has(store, 1));
}

static void hostile_entries(void **state)
{
    (void)state;
    char path[PATH_MAX], other[PATH_MAX + 16];
    trp__store *store = open_store(0);
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK);
    entry_path(path, 1);
    chmod(path, 0620);
    is_replaced(store);
    chmod(path, 0602);
    is_replaced(store);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
        is_replaced(store);
    }
    snprintf(other, sizeof other, "%s/good", folder);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    is_replaced(store);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    is_replaced(store);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    is_replaced(store);
    assert_int_equal(truncate(path, 0), 0);
    is_replaced(store);
    assert_int_equal(h_folder_count(entries, ".tmp-", ""), 0);
    assert_int_equal(warnings, 0);
    trp__store_close(store);
}

/* The compile goes on without it; one line says why. */
static void is_refused(const char *word)
{
    trp_error error = {0};
    trp__store *store = open_store(0);
    warnings = 0;
    for (int i = 0; i < 3; i++) {
        assert_false(has(store, 1));
        assert_int_not_equal(put(store, 1, 100, &error), TRP_OK);
    }
    if (!strstr(error.message, word) || !strstr(last_warning, word))
        fail_msg("'%s' is not in '%s' or '%s'", word, error.message, last_warning);
    assert_int_equal(warnings, 1);
    trp__store_close(store);
}

static void hostile_folders(void **state)
{
    (void)state;
    char kept[sizeof folder];
    trp__store *store = open_store(0);
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK);
    trp__store_close(store);
    chmod(folder, 0770);
    is_refused("only its owner can write");
    chmod(folder, 0700);
    chmod(entries, 0707);
    is_refused("only its owner can write");
    chmod(entries, 0700);
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, 12345, (gid_t)-1), 0);
        is_refused("expected to belong to user");
        assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
        assert_int_equal(chown(entries, 12345, (gid_t)-1), 0);
        is_refused("expected to belong to user");
        assert_int_equal(chown(entries, 0, (gid_t)-1), 0);
    }
    memcpy(kept, folder, sizeof kept);
    snprintf(folder, sizeof folder, "/nowhere/at/all");
    is_refused("/nowhere/at/all");
    snprintf(folder, sizeof folder, "/dev/null");
    is_refused("/dev/null");
    memcpy(folder, kept, sizeof kept);
}

static void no_folder(void **state)
{
    (void)state;
    trp__store *store;
    trp__store_options options = {.folder = "", .packs = "", .log = &counting};
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_false(has(store, 1));
    assert_int_equal(put(store, 1, 100, NULL), TRP_E_MISSING);
    assert_int_equal(warnings, 0); /* it was asked for */
    trp__store_close(store);
}

static void folder_removed_meanwhile(void **state)
{
    (void)state;
    trp__store *store = open_store(0);
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK);
    h_folder_remove(folder);
    assert_false(has(store, 1));
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK);
    assert_true(has(store, 1));
    trp__store_close(store);
}

/* --- disks --- */

static bool reads_and_cannot_write(void)
{
    trp_error error = {0};
    trp__store *store = open_store(0);
    trp__key key = key_of(2);
    trp__store_request request = {.key = &key};
    trp__store_hit hit;
    trp__store_claim *claim = NULL;
    bool good = has(store, 1) && put(store, 2, 100, &error) == TRP_E_SYSTEM && warnings == 1 &&
                has(store, 1) && !has(store, 2);
    good = good &&
           trp__store_claim_or_find(store, &request, NULL, &hit, &claim, &error) == TRP_E_MISSING;
    trp__store_claim_end(claim);
    trp__key_end(&key);
    trp__store_close(store);
    return good;
}

static void read_only_child(void)
{
    if (geteuid() == 0 && (chown(folder, 65534, 65534) != 0 || chown(entries, 65534, 65534) != 0))
        _exit(77);
    char path[PATH_MAX];
    entry_path(path, 1);
    chmod(path, 0400);
    chmod(entries, 0500);
    if (geteuid() == 0 &&
        (chown(path, 65534, 65534) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
        _exit(77);
    if (access(entries, X_OK) != 0) /* a folder above it is closed to that user */
        _exit(77);
    CHILD_REQUIRE(reads_and_cannot_write());
}

static void read_only_folder(void **state)
{
    (void)state;
    trp__store *store = open_store(0);
    assert_int_equal(put(store, 1, 100, NULL), TRP_OK);
    trp__store_close(store);
    in_child(read_only_child);
}

static void file_limit_child(void)
{
    trp_error error = {0};
    trp__store *store = open_store(0);
    struct rlimit limit = {20000, RLIM_INFINITY};
    CHILD_REQUIRE(put(store, 1, 1000, NULL) == TRP_OK);
    CHILD_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_REQUIRE(put(store, 2, 100000, &error) == TRP_E_SYSTEM);
    CHILD_REQUIRE(error.code == EFBIG && warnings == 1);
    CHILD_REQUIRE(put(store, 2, 100000, &error) == TRP_E_SYSTEM && warnings == 1);
    CHILD_REQUIRE(has(store, 1) && !has(store, 2));
    CHILD_REQUIRE(h_folder_count(entries, ".tmp-", "") == 0);
    CHILD_REQUIRE(put(store, 3, 1000, &error) == TRP_OK && has(store, 3));
    limit.rlim_cur = RLIM_INFINITY;
    CHILD_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_REQUIRE(put(store, 2, 100000, &error) == TRP_OK && has(store, 2));
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
        mount("none", folder, "tmpfs", 0, "size=128k,mode=700") != 0)
        _exit(77);
    trp__store *store = open_store(0);
    CHILD_REQUIRE(put(store, 1, 1000, NULL) == TRP_OK);
    CHILD_REQUIRE(put(store, 2, 200000, &error) == TRP_E_SYSTEM);
    CHILD_REQUIRE(error.code == ENOSPC && warnings == 1);
    CHILD_REQUIRE(h_folder_count(entries, ".tmp-", "") == 0);
    CHILD_REQUIRE(has(store, 1) && !has(store, 2));
    CHILD_REQUIRE(put(store, 3, 1000, &error) == TRP_OK && has(store, 3));
    trp__store_close(store);
    warnings = 0;
    CHILD_REQUIRE(mount("none", folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHILD_REQUIRE(reads_and_cannot_write());
}

static void full_and_read_only_disk(void **state)
{
    (void)state;
    in_child(full_disk_child);
}

/* --- the bound --- */

/* When an entry was last used: so many seconds ago. */
static void set_age(int n, long seconds)
{
    char path[PATH_MAX];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - seconds}};
    entry_path(path, n);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void least_recently_used_go(void **state)
{
    (void)state;
    enum { COUNT = 12, BYTES = 9000, KEPT = 10 };
    trp__store *store = open_store(KEPT * 10000);
    trp__key key = key_of(0);
    trp__store_request request = {.key = &key};
    trp__store_hit held;
    for (int i = 0; i < KEPT; i++) {
        assert_int_equal(put(store, i, BYTES, NULL), TRP_OK);
        /* 3, 4: clocks that were wrong, of which the second counts no nanoseconds in 64 bits. */
        set_age(i, i == 3 ? -5000 : i == 4 ? -10000000000 : 1000 - i);
    }
    assert_true(has(store, 1)); /* which makes it the last used */
    assert_int_equal(trp__store_find(store, &request, &held), TRP_OK);
    trp__key_end(&key);
    set_age(0, 2000);
    for (int i = KEPT; i < COUNT; i++)
        assert_int_equal(put(store, i, BYTES, NULL), TRP_OK);
    assert_false(has(store, 0));
    assert_true(has(store, 1));
    assert_false(has(store, 2));
    assert_true(has(store, 3));
    assert_true(has(store, COUNT - 1));
    is_payload(&held, 0); /* its reader has it all the same */
    trp__store_hit_end(&held);
    assert_int_equal(put(store, 20, 200000, NULL), TRP_E_ARGUMENT); /* larger than the bound */
    trp__store_close(store);

    /* All go, also what is dated in the future. */
    store = open_store(1);
    trp__disk_pruned pruned;
    assert_int_equal(trp__disk_prune(&store->disk, 0, &pruned, NULL), TRP_OK);
    assert_int_equal(pruned.left, 0);
    assert_true(pruned.removed >= 9);
    assert_int_equal(h_folder_count(entries, "", ".entry"), 0);
    trp__store_close(store);
}

/* However many write, and whatever the account says, the sum stays near the bound. */
static void bounded(void **state)
{
    (void)state;
    char account[PATH_MAX];
    snprintf(account, sizeof account, "%s/account", entries);
    trp__store *store = open_store(200000);
    for (int i = 0; i < 120; i++) {
        assert_int_equal(put(store, i, 9000, NULL), TRP_OK);
        if (i == 40)
            h_file_flip(account, 20);
        if (i == 80)
            unlink(account);
    }
    assert_true(h_folder_count(entries, "", ".entry") <= 25);
    assert_true(has(store, 119));
    trp__disk_pruned pruned;
    assert_int_equal(trp__disk_prune(&store->disk, store->disk.max_bytes, &pruned, NULL), TRP_OK);
    assert_true(pruned.left_bytes <= 200000);
    for (int i = 200; i < 240; i++)
        assert_int_equal(put(store, i, 9000, NULL), TRP_OK);
    assert_true(h_folder_count(entries, "", ".entry") <= 23);
    trp__store_close(store);
}

static void stale_temporaries(void **state)
{
    (void)state;
    char old[PATH_MAX], new[PATH_MAX], foreign[PATH_MAX];
    trp__disk_pruned pruned;
    trp__store *store = open_store(0);
    assert_int_equal(trp__disk_prune(&store->disk, 1000, &pruned, NULL), TRP_E_MISSING);
    assert_int_equal(put(store, 1, 1000, NULL), TRP_OK);
    snprintf(old, sizeof old, "%s/.tmp-1-old", entries);
    snprintf(new, sizeof new, "%s/.tmp-1-new", entries);
    snprintf(foreign, sizeof foreign, "%s/notes.txt", entries);
    h_file_write(old, "left behind");
    h_file_write(new, "being written");
    h_file_write(foreign, "nothing of ours");
    struct timespec times[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, foreign, times, 0), 0);
    assert_int_equal(trp__disk_prune(&store->disk, 1 << 20, &pruned, NULL), TRP_OK);
    assert_int_equal(pruned.reaped, 1);
    assert_int_equal(pruned.removed, 0);
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(new, F_OK), 0);
    assert_int_equal(access(foreign, F_OK), 0);
    assert_true(has(store, 1));
    trp__store_close(store);
}

/* Ten thousand entries, written without the care that takes time. */
static void ten_thousand(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    char path[PATH_MAX];
    trp__store *store = open_store(0);
    assert_int_equal(put(store, COUNT, 100, NULL), TRP_OK);
    for (int i = 0; i < COUNT; i++) {
        unsigned char *front, *payload = payload_of(i, 40);
        trp__key key = key_of(i);
        trp__entry entry = {.type = TRP__ENTRY_PAYLOAD,
                            .key = key.bytes,
                            .key_bytes = key.length,
                            .note = (const unsigned char *)"a note",
                            .note_bytes = 7,
                            .payload = payload,
                            .bytes = 40};
        assert_int_equal(trp__entry_make(&entry, &front, NULL), TRP_OK);
        entry_path(path, i);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_int_equal(write(fd, front, entry.payload_at), entry.payload_at);
        assert_int_equal(write(fd, payload, 40), 40);
        close(fd);
        free(front);
        free(payload);
        trp__key_end(&key);
    }
    for (int i = 0; i <= COUNT; i += 97)
        assert_true(has(store, i));
    trp__disk_list list;
    int fd = open(entries, O_RDONLY | O_DIRECTORY);
    int64_t began = trp__now_ns();
    assert_int_equal(trp__disk_list_all(fd, &list, NULL), TRP_OK);
    print_message("a look at %d names: %.1f ms\n", COUNT, (double)(trp__now_ns() - began) / 1e6);
    close(fd);
    assert_int_equal(list.count, COUNT + 1);
    uint64_t bytes = list.bytes;
    trp__disk_list_end(&list);
    trp__disk_pruned pruned;
    assert_int_equal(trp__disk_prune(&store->disk, bytes / 2, &pruned, NULL), TRP_OK);
    assert_true(pruned.left_bytes <= bytes / 2 && pruned.removed > COUNT / 2);
    trp__store_close(store);
}

/* --- settings --- */

static void sizes(void **state)
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
    trp__store_options options = {.folder = folder, .packs = "", .log = &counting};
    setenv("TROUPE_CACHE_SIZE", "3M", 1);
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_int_equal(store->disk.max_bytes, 3 << 20);
    trp__store_close(store);
    setenv("TROUPE_CACHE_SIZE", "three", 1);
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_true(store->disk.max_bytes == TRP__STORE_BYTES_DEFAULT);
    assert_int_equal(warnings, 1);
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
    trp__store_options options = {.packs = "", .log = &counting};
    struct stat s;
    snprintf(expected, sizeof expected, "%s/troupe-%u", folder, (unsigned)geteuid());
    set_place(NULL, NULL, NULL, folder);
    CHILD_REQUIRE(trp__store_open(&options, &store, NULL) == TRP_OK);
    CHILD_REQUIRE(put(store, 1, 100, NULL) == TRP_OK && has(store, 1));
    CHILD_REQUIRE(stat(expected, &s) == 0 && (s.st_mode & 0777) == 0700);
    trp__store_close(store);
    set_place(NULL, NULL, "/nowhere/at/all", folder); /* a home that can't be made */
    CHILD_REQUIRE(trp__cache_place_find(&place, NULL) == TRP_OK && place.shared);
    CHILD_REQUIRE(strcmp(place.path, expected) == 0);
    set_place(NULL, NULL, folder, folder);
    CHILD_REQUIRE(trp__cache_place_find(&place, NULL) == TRP_OK && !place.shared);

    /* A link to another folder of ours. */
    h_folder_remove(expected);
    CHILD_REQUIRE(symlink(folder, expected) == 0);
    set_place(NULL, NULL, NULL, folder);
    CHILD_REQUIRE(trp__cache_place_find(&place, NULL) == TRP_OK &&
                  trp__cache_place_open(&place, true, &fd, NULL) == TRP_E_SYSTEM);
    unlink(expected);

    set_place("relative", NULL, NULL, folder);
    warnings = 0;
    CHILD_REQUIRE(trp__store_open(&options, &store, NULL) == TRP_OK && warnings == 1);
    CHILD_REQUIRE(put(store, 1, 100, NULL) == TRP_E_MISSING && warnings == 1);
    trp__store_close(store);
    set_place("", folder, folder, folder);
    warnings = 0;
    CHILD_REQUIRE(trp__store_open(&options, &store, NULL) == TRP_OK && warnings == 0);
    CHILD_REQUIRE(put(store, 1, 100, NULL) == TRP_E_MISSING && warnings == 0);
    trp__store_close(store);
}

static void places(void **state)
{
    (void)state;
    in_child(places_child);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT_MAIN(CASE(put_and_found), CASE(taken_out_by_dd), CASE(keys_that_failed), CASE(headers),
          CASE(many_sets), CASE(every_byte), CASE(damaged_list), CASE(collision),
          CASE(hostile_entries), CASE(hostile_folders), CASE(no_folder),
          CASE(folder_removed_meanwhile), CASE(read_only_folder), CASE(file_limit),
          CASE(full_and_read_only_disk), CASE(least_recently_used_go), CASE(bounded),
          CASE(stale_temporaries), CASE(ten_thousand), CASE(sizes), CASE(places))

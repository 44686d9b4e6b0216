/* Packs: what was added is found, through the store too; damage costs what is damaged. */
#include "base/error.h"
#include "cache/pack.h"
#include "cache/store.h"
#include "support/folder.h"
#include "support/reference/random.h"
#include "support/label.h"

#include "support/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

enum { COUNT = 40 };

static char folder[PATH_MAX - 256], path[PATH_MAX];
static int warnings;

static void count_warning(void *user_data, int level, const char *line)
{
    (void)user_data;
    (void)line;
    warnings += level >= TRP__LOG_WARNING;
}

static const trp__log counting = {.sink = count_warning};

static trp__key key_of(int n)
{
    trp__key key = {0};
    trp__key_begin(&key, "test");
    trp__key_add(&key, TRP__KEY_SOURCE, &n, sizeof n);
    return key;
}

static size_t payload_of(int n, char *text)
{
    return (size_t)sprintf(text, "payload %d %*s", n, n * 3, "") + 1;
}

static bool resolve(void *context, const char *name, const char *where, trp__hash *out)
{
    (void)where;
    *out = trp__hash_of(name, strlen(name));
    return *(bool *)context;
}

/* Odd ones have a header. */
static trp_status add(trp__cache_pack_writer *w, int n, trp_error *error)
{
    char text[1024];
    bool there = true;
    trp__key key = key_of(n);
    trp__store_header header = {.name = "a.h", .path = "", .content = trp__hash_of("a.h", 3)};
    trp__store_request request = {
        .key = &key, .resolve = n % 2 ? resolve : NULL, .context = &there};
    trp__store_entry entry = {.payload = text,
                              .bytes = payload_of(n, text),
                              .note = "note",
                              .note_bytes = 5,
                              .headers = &header,
                              .header_count = 1};
    trp_status status = trp__cache_pack_add(w, &request, &entry, error);
    trp__key_end(&key);
    return status;
}

static void write_pack(int count)
{
    trp__cache_pack_writer *w;
    assert_int_equal(trp__cache_pack_begin(path, &w, NULL), TRP_OK);
    for (int n = 0; n < count; n++)
        assert_int_equal(add(w, n, NULL), TRP_OK);
    assert_int_equal(trp__cache_pack_finish(w, NULL), TRP_OK);
}

/* 1: found and right; 0: not there; -1: wrong. */
static int has(const trp__cache_pack *pack, int n)
{
    char text[1024];
    trp__key key = key_of(n);
    trp__hash header = trp__hash_of("a.h", 3);
    if (n % 2)
        trp__key_add_header(&key, "a.h", &header);
    trp__hash hash = trp__key_hash(&key);
    trp__entry e;
    unsigned char *memory;
    bool found =
        trp__cache_pack_find(pack, &hash, TRP__ENTRY_PAYLOAD, key.bytes, key.length, &memory, &e);
    size_t bytes = payload_of(n, text);
    trp__key_end(&key);
    if (!found)
        return 0;
    bool good = e.bytes == bytes && memcmp(e.payload, text, bytes) == 0 &&
                (uintptr_t)e.payload % 64 == 0 && e.note_bytes == 5;
    free(memory);
    return good ? 1 : -1;
}

/* What is wrong with one; its type. */
static const char *look_at(const trp__cache_pack *pack, uint64_t i, uint32_t *type)
{
    trp__entry e;
    unsigned char *memory;
    const char *wrong = trp__cache_pack_entry(pack, i, &memory, &e);
    *type = e.type;
    free(memory);
    return wrong;
}

static int setup(void **state)
{
    (void)state;
    warnings = 0;
    h_folder_make(folder, sizeof folder, "troupe-pack");
    snprintf(path, sizeof path, "%s/kernels.pack", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    h_folder_remove(folder);
    return 0;
}

static void written_and_read(void **state)
{
    (void)state;
    static const int counts[] = {0, 1, 2, 3, COUNT};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        trp__cache_pack *pack;
        write_pack(counts[i]);
        assert_int_equal(trp__cache_pack_open(path, &pack, NULL), TRP_OK);
        assert_int_equal(trp__cache_pack_count(pack), counts[i] + counts[i] / 2);
        assert_string_equal(trp__cache_pack_path(pack), path);
        for (int n = 0; n < COUNT + 5; n++)
            assert_int_equal(has(pack, n), n < counts[i]);
        for (uint64_t j = 0; j < trp__cache_pack_count(pack); j++) {
            uint32_t type;
            assert_null(look_at(pack, j, &type));
        }
        trp__cache_pack_close(pack);
    }
    trp__cache_pack_close(NULL);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0644);
    assert_int_equal(h_folder_count(folder, "", ""), 1);
}

static void writers_errors(void **state)
{
    (void)state;
    trp__cache_pack_writer *w;
    trp_error error;
    trp__cache_pack *pack;
    assert_int_equal(trp__cache_pack_begin("/nowhere/at/all", &w, &error), TRP_E_SYSTEM);
    assert_int_equal(trp__cache_pack_begin(path, &w, NULL), TRP_OK);
    assert_int_equal(add(w, 1, NULL), TRP_OK);
    assert_int_equal(add(w, 1, &error), TRP_E_ARGUMENT);
    assert_non_null(strstr(error.message, "already"));
    assert_int_equal(add(w, 2, NULL), TRP_OK);
    assert_int_equal(access(path, F_OK), -1); /* not before it is whole */
    assert_int_equal(trp__cache_pack_finish(w, NULL), TRP_OK);
    assert_int_equal(trp__cache_pack_open(path, &pack, NULL), TRP_OK);
    assert_int_equal(trp__cache_pack_count(pack), 3);
    assert_int_equal(has(pack, 1) + has(pack, 2), 2);
    trp__cache_pack_close(pack);

    assert_int_equal(trp__cache_pack_begin(path, &w, NULL), TRP_OK);
    assert_int_equal(add(w, 7, NULL), TRP_OK);
    trp__cache_pack_abandon(w); /* the old one stays */
    trp__cache_pack_abandon(NULL);
    assert_int_equal(h_folder_count(folder, "", ""), 1);
    assert_int_equal(trp__cache_pack_open(path, &pack, NULL), TRP_OK);
    assert_int_equal(has(pack, 1), 1);
    trp__cache_pack_close(pack);
}

/* Every byte of a pack, one after the other: at most one entry goes. */
static void every_byte(void **state)
{
    (void)state;
    enum { FEW = 5, ROWS = FEW + FEW / 2 };
    trp__cache_pack *pack;
    write_pack(FEW);
    long size = h_file_size(path);
    for (long at = 0; at < size; at++) {
        int found = 0, bad = 0;
        h_file_flip(path, at);
        assert_int_equal(trp__cache_pack_open(path, &pack, NULL), TRP_OK);
        assert_int_equal(trp__cache_pack_count(pack), ROWS);
        for (int n = 0; n < FEW; n++) {
            int one = has(pack, n);
            assert_true(one >= 0);
            found += one;
        }
        for (uint64_t i = 0; i < ROWS; i++) {
            uint32_t type;
            bad += look_at(pack, i, &type) != NULL;
        }
        assert_true(found >= FEW - 1 && bad <= 1);
        if (at >= 64 && at < 64 + 64 * ROWS)
            assert_int_equal(bad, 1);
        trp__cache_pack_close(pack);
        h_file_flip(path, at);
    }
}

static void cut_off(void **state)
{
    (void)state;
    trp__cache_pack *pack;
    int before = COUNT;
    write_pack(COUNT);
    for (long left = h_file_size(path); left >= 0; left -= 61) {
        assert_int_equal(truncate(path, left), 0);
        trp_status status = trp__cache_pack_open(path, &pack, NULL);
        assert_int_equal(status, left >= 64 ? TRP_OK : TRP_E_SYSTEM);
        if (status != TRP_OK)
            continue;
        int found = 0;
        for (int n = 0; n < COUNT; n++) {
            int one = has(pack, n);
            assert_true(one >= 0);
            found += one;
        }
        assert_true(found <= before);
        if (left > 20000)
            assert_true(found > 20);
        before = found;
        trp__cache_pack_close(pack);
    }
}

/* However many rows are damaged, whatever is good is found. */
static void many_rows_damaged(void **state)
{
    (void)state;
    uint64_t rng = 5;
    trp__cache_pack *pack;
    write_pack(COUNT);
    for (int round = 0; round < 50; round++) {
        enum { ROWS = COUNT + COUNT / 2 };
        bool bad[ROWS] = {false};
        int count = 0, found = 0, payloads = 0;
        for (uint32_t i = random_below(&rng, ROWS); i > 0; i--)
            bad[random_below(&rng, ROWS)] = true;
        for (int i = 0; i < ROWS; i++) {
            if (bad[i])
                h_file_flip(path, 64 + 64 * i + 3);
            count += bad[i];
        }
        assert_int_equal(trp__cache_pack_open(path, &pack, NULL), TRP_OK);
        for (uint64_t i = 0; i < ROWS; i++) {
            uint32_t type;
            payloads += !look_at(pack, i, &type) && type == TRP__ENTRY_PAYLOAD;
            count -= look_at(pack, i, &type) != NULL;
        }
        for (int n = 0; n < COUNT; n++)
            found += has(pack, n);
        assert_int_equal(count, 0);
        assert_int_equal(found, payloads); /* whatever is good is found */
        trp__cache_pack_close(pack);
        for (int i = 0; i < ROWS; i++) {
            if (bad[i])
                h_file_flip(path, 64 + 64 * i + 3);
        }
    }
}

static void refused(const char *what, const char *word)
{
    trp__cache_pack *pack;
    trp_error error = {0};
    assert_int_not_equal(trp__cache_pack_open(what, &pack, &error), TRP_OK);
    if (!strstr(error.message, word))
        fail_msg("'%s' is not in '%s'", word, error.message);
}

static void hostile(void **state)
{
    (void)state;
    char other[PATH_MAX + 16];
    refused(path, "no such file");
    h_file_write(path, "this is not a pack at all, but it is long enough to be taken for one. "
                       "This is not a pack at all, but it is long enough to be taken for one.");
    refused(path, "no pack");
    h_file_write(path, "");
    refused(path, "no pack");
    refused(folder, "regular file");
    write_pack(3);
    chmod(path, 0664);
    refused(path, "only its owner can write");
    chmod(path, 0644);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
        refused(path, "expected to belong to user");
        assert_int_equal(chown(path, 0, (gid_t)-1), 0);
    }
    int fd = open(path, O_WRONLY); /* another version, at both ends */
    assert_int_equal(pwrite(fd, "\2", 1, 8), 1);
    assert_int_equal(pwrite(fd, "\2", 1, h_file_size(path) - 56), 1);
    close(fd);
    refused(path, "another version");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(path, "regular file");
    unlink(path);
    write_pack(3);
    snprintf(other, sizeof other, "%s/link", folder);
    assert_int_equal(symlink(path, other), 0);
    trp__cache_pack *pack;
    assert_int_equal(trp__cache_pack_open(other, &pack, NULL), TRP_OK);
    trp__cache_pack_close(pack);
}

static trp_status find(trp__store *store, int n, bool header_is_there, trp__store_hit *hit)
{
    trp__key key = key_of(n);
    trp__store_request request = {
        .key = &key, .resolve = n % 2 ? resolve : NULL, .context = &header_is_there};
    trp_status status = trp__store_find(store, &request, hit);
    trp__key_end(&key);
    return status;
}

static void through_the_store(void **state)
{
    (void)state;
    char list[2 * PATH_MAX], text[1024];
    trp__store *store;
    trp__store_hit hit;
    write_pack(4);
    snprintf(list, sizeof list, ":%s/missing.pack::%s", folder, path);
    setenv("TROUPE_CACHE_PACKS", list, 1);
    trp__store_options options = {.folder = folder, .log = &counting};
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_int_equal(warnings, 1);
    unsetenv("TROUPE_CACHE_PACKS");
    for (int n = 0; n < 4; n++) {
        assert_int_equal(find(store, n, true, &hit), TRP_OK);
        assert_int_equal(hit.layer, TRP__STORE_PACK);
        assert_int_equal(hit.bytes, payload_of(n, text));
        assert_string_equal(hit.payload, text);
        assert_int_equal(hit.note_bytes, 5);
        trp__store_hit_end(&hit);
    }
    assert_int_equal(find(store, 1, false, &hit), TRP_E_MISSING); /* its header is gone */
    assert_int_equal(find(store, 4, true, &hit), TRP_E_MISSING);

    /* What is damaged in the pack is made again, on the disk. */
    trp__store_close(store);
    for (long at = 64 + 6 * 64 + 130; at < h_file_size(path) - 64; at += 60)
        h_file_flip(path, at);
    options.packs = path;
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_int_equal(find(store, 0, true, &hit), TRP_E_MISSING);
    trp__key key = key_of(0);
    trp__store_request request = {.key = &key};
    trp__store_entry entry = {.payload = "again", .bytes = 6};
    assert_int_equal(trp__store_put(store, &request, &entry, NULL), TRP_OK);
    trp__key_end(&key);
    assert_int_equal(find(store, 0, true, &hit), TRP_OK);
    assert_int_equal(hit.layer, TRP__STORE_DISK);
    trp__store_hit_end(&hit);
    trp__store_close(store);
}

/* A disk that is full while a pack is written. */
static void full_disk(void **state)
{
    (void)state;
    write_pack(3);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        trp__cache_pack_writer *w;
        struct rlimit limit = {20000, 20000};
        bool failed = false;
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || trp__cache_pack_begin(path, &w, NULL) != TRP_OK)
            _exit(1);
        for (int n = 0; n < 200 && !failed; n++)
            failed = add(w, n, NULL) != TRP_OK;
        _exit(failed && trp__cache_pack_finish(w, NULL) != TRP_OK ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(h_folder_count(folder, "", ""), 1);
    trp__cache_pack *pack;
    assert_int_equal(trp__cache_pack_open(path, &pack, NULL), TRP_OK);
    assert_int_equal(has(pack, 2), 1);
    trp__cache_pack_close(pack);
}

/* Somebody else writes to the file, or cuts it, while it is open: what was read from it before the
 * damage is as good as before, what comes later is missed, and nobody gets SIGBUS. */
static void overwritten_while_open(void **state)
{
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        trp__cache_pack *pack;
        trp__entry e;
        unsigned char *memory;
        char text[1024];
        write_pack(COUNT);
        assert_int_equal(trp__cache_pack_open(path, &pack, NULL), TRP_OK);
        trp__key key = key_of(0);
        trp__hash hash = trp__key_hash(&key);
        assert_true(trp__cache_pack_find(pack, &hash, TRP__ENTRY_PAYLOAD, key.bytes, key.length,
                                         &memory, &e));
        trp__key_end(&key);
        struct stat s;
        int fd = open(path, O_WRONLY | (cut ? O_TRUNC : 0));
        assert_true(fd >= 0 && fstat(fd, &s) == 0);
        for (off_t at = 0; at < s.st_size; at += 8)
            assert_int_equal(pwrite(fd, "overrun", 8, at), 8);
        close(fd);
        for (int n = 0; n < COUNT; n++)
            assert_int_equal(has(pack, n), 0);
        assert_int_equal(e.bytes, payload_of(0, text));
        assert_memory_equal(e.payload, text, e.bytes);
        free(memory);
        trp__cache_pack_close(pack);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT_MAIN(CASE(written_and_read), CASE(writers_errors), CASE(every_byte), CASE(cut_off),
          CASE(many_rows_damaged), CASE(hostile), CASE(through_the_store), CASE(full_disk),
          CASE(overwritten_while_open))

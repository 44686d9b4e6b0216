/* The kernel cache on disk: what was put is found, by its key and headers alone; what is
 * damaged, foreign or hostile is not there, does no harm, and is replaced; the folder stays
 * within its bound. What many processes do at a time is in store_processes_test.c. */
#include "base/os/clock.h"
#include "cache/disk.h"
#include "cache/prune.h"
#include "cache/store_parts.h"
#include "support/folder.h"
#include "support/label.h"
#include "unit/cache/store_bed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

/* --- what is put is found --- */

static void put_and_found(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 5000, 300000};
    trp__store *a = st_open(0), *b = st_open(0);
    assert_false(st_has(a, 0));
    assert_int_equal(access(st_entries, F_OK), -1); /* looking makes nothing */
    for (int i = 0; i < 7; i++)
        assert_int_equal(st_put(a, i, sizes[i], NULL), TRP_OK);
    for (int i = 0; i < 7; i++)
        assert_true(st_has(a, i) && st_has(b, i));
    assert_false(st_has(a, 7));
    assert_int_equal(h_folder_count(st_entries, "", ".entry"), 7);
    assert_int_equal(h_folder_count(st_entries, ".tmp-", ""), 0);
    struct stat s;
    assert_int_equal(stat(st_entries, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    assert_int_equal(st_put(b, 3, 1000, NULL), TRP_OK); /* again: the new one counts */
    assert_true(st_has(a, 3));
    assert_int_equal(h_folder_count(st_entries, "", ".entry"), 7);
    assert_int_equal(st_warnings, 0);
    trp__store_close(a);
    trp__store_close(b);
    trp__store_close(NULL);
}

/* As docs/cache-format.md says that a payload is taken out. */
static void taken_out_by_dd(void **state)
{
    (void)state;
    char path[PATH_MAX], command[4 * PATH_MAX];
    trp__store *store = st_open(0);
    assert_int_equal(st_put(store, 1, 12345, NULL), TRP_OK);
    st_path(path, 1);
    snprintf(command, sizeof command,
             "at=$(od -An -t u8 -j 32 -N 8 %s) && "
             "dd if=%s of=%s/out bs=64 skip=$((at / 64)) 2>/dev/null",
             path, path, st_folder);
    assert_int_equal(system(command), 0);
    unsigned char *payload = st_payload(1, 12345), *found = malloc(12346);
    snprintf(path, sizeof path, "%s/out", st_folder);
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
    trp__store *store = st_open(0);
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
    trp__key key = st_key(1);
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
    trp__key key = st_key(1);
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
    trp__store *store = st_open(0);
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
    trp__store *store = st_open(0);
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
    trp__store *store = st_open(0);
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK);
    assert_int_equal(st_put(store, 2, 100, NULL), TRP_OK);
    st_path(path, 1);
    long size = h_file_size(path);
    for (long at = 0; at < size; at++) {
        h_file_flip(path, at);
        assert_false(st_has(store, 1));
        h_file_flip(path, at);
    }
    assert_true(st_has(store, 1));
    for (long left = size - 1; left >= 0; left -= 1 + left / 40) {
        assert_int_equal(truncate(path, left), 0);
        assert_false(st_has(store, 1));
    }
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK); /* replaced */
    assert_true(st_has(store, 1));
    assert_int_equal(truncate(path, size + 1), 0);
    assert_false(st_has(store, 1));
    assert_true(st_has(store, 2));
    assert_int_equal(st_warnings, 0);
    trp__store_close(store);
}

/* A list of headers that is damaged: the compile is made again. */
static void damaged_list(void **state)
{
    (void)state;
    char path[PATH_MAX];
    trp__store *store = st_open(0);
    machine m = {.name = {"a.h"}, .content = {"int a;"}};
    compile(store, &m, "first");
    assert_true(h_folder_find(st_entries, ".headers", path, sizeof path));
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
    trp__store *store = st_open(0);
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK);
    st_path(one, 1);
    st_path(two, 2);
    assert_int_equal(rename(one, two), 0);
    assert_false(st_has(store, 1));
    assert_false(st_has(store, 2));
    assert_int_equal(st_put(store, 2, 200, NULL), TRP_OK);
    assert_true(st_has(store, 2));
    trp__store_close(store);
}

static void is_replaced(trp__store *store)
{
    assert_false(st_has(store, 1));
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK);
    assert_true(st_has(store, 1));
}

static void hostile_entries(void **state)
{
    (void)state;
    char path[PATH_MAX], other[PATH_MAX + 16];
    trp__store *store = st_open(0);
    assert_int_equal(st_put(store, 1, 100, NULL), TRP_OK);
    st_path(path, 1);
    chmod(path, 0620);
    is_replaced(store);
    chmod(path, 0602);
    is_replaced(store);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
        is_replaced(store);
    }
    snprintf(other, sizeof other, "%s/good", st_folder);
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
    assert_int_equal(h_folder_count(st_entries, ".tmp-", ""), 0);
    assert_int_equal(st_warnings, 0);
    trp__store_close(store);
}

/* --- the bound --- */

/* When an entry was last used: so many seconds ago. */
static void set_age(int n, long seconds)
{
    char path[PATH_MAX];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - seconds}};
    st_path(path, n);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void least_recently_used_go(void **state)
{
    (void)state;
    enum { COUNT = 12, BYTES = 9000, KEPT = 10 };
    trp__store *store = st_open(KEPT * 10000);
    trp__key key = st_key(0);
    trp__store_request request = {.key = &key};
    trp__store_hit held;
    for (int i = 0; i < KEPT; i++) {
        assert_int_equal(st_put(store, i, BYTES, NULL), TRP_OK);
        /* 3, 4: clocks that were wrong, of which the second counts no nanoseconds in 64 bits. */
        set_age(i, i == 3 ? -5000 : i == 4 ? -10000000000 : 1000 - i);
    }
    assert_true(st_has(store, 1)); /* which makes it the last used */
    assert_int_equal(trp__store_find(store, &request, &held), TRP_OK);
    trp__key_end(&key);
    set_age(0, 2000);
    for (int i = KEPT; i < COUNT; i++)
        assert_int_equal(st_put(store, i, BYTES, NULL), TRP_OK);
    assert_false(st_has(store, 0));
    assert_true(st_has(store, 1));
    assert_false(st_has(store, 2));
    assert_true(st_has(store, 3));
    assert_true(st_has(store, COUNT - 1));
    st_is_payload(&held, 0); /* its reader has it all the same */
    trp__store_hit_end(&held);
    assert_int_equal(st_put(store, 20, 200000, NULL), TRP_E_ARGUMENT); /* larger than the bound */
    trp__store_close(store);

    /* All go, also what is dated in the future. */
    store = st_open(1);
    trp__disk_pruned pruned;
    assert_int_equal(trp__disk_prune(&store->disk, 0, &pruned, NULL), TRP_OK);
    assert_int_equal(pruned.left, 0);
    assert_true(pruned.removed >= 9);
    assert_int_equal(h_folder_count(st_entries, "", ".entry"), 0);
    trp__store_close(store);
}

/* However many write, and whatever the account says, the sum stays near the bound. */
static void bounded(void **state)
{
    (void)state;
    char account[PATH_MAX];
    snprintf(account, sizeof account, "%s/account", st_entries);
    trp__store *store = st_open(200000);
    for (int i = 0; i < 120; i++) {
        assert_int_equal(st_put(store, i, 9000, NULL), TRP_OK);
        if (i == 40)
            h_file_flip(account, 20);
        if (i == 80)
            unlink(account);
    }
    assert_true(h_folder_count(st_entries, "", ".entry") <= 25);
    assert_true(st_has(store, 119));
    trp__disk_pruned pruned;
    assert_int_equal(trp__disk_prune(&store->disk, store->disk.max_bytes, &pruned, NULL), TRP_OK);
    assert_true(pruned.left_bytes <= 200000);
    for (int i = 200; i < 240; i++)
        assert_int_equal(st_put(store, i, 9000, NULL), TRP_OK);
    assert_true(h_folder_count(st_entries, "", ".entry") <= 23);
    trp__store_close(store);
}

static void stale_temporaries(void **state)
{
    (void)state;
    char old[PATH_MAX], new[PATH_MAX], foreign[PATH_MAX];
    trp__disk_pruned pruned;
    trp__store *store = st_open(0);
    assert_int_equal(trp__disk_prune(&store->disk, 1000, &pruned, NULL), TRP_E_MISSING);
    assert_int_equal(st_put(store, 1, 1000, NULL), TRP_OK);
    snprintf(old, sizeof old, "%s/.tmp-1-old", st_entries);
    snprintf(new, sizeof new, "%s/.tmp-1-new", st_entries);
    snprintf(foreign, sizeof foreign, "%s/notes.txt", st_entries);
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
    assert_true(st_has(store, 1));
    trp__store_close(store);
}

/* Ten thousand entries, written without the care that takes time. */
static void ten_thousand(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    char path[PATH_MAX];
    trp__store *store = st_open(0);
    assert_int_equal(st_put(store, COUNT, 100, NULL), TRP_OK);
    for (int i = 0; i < COUNT; i++) {
        unsigned char *front, *payload = st_payload(i, 40);
        trp__key key = st_key(i);
        trp__entry entry = {.type = TRP__ENTRY_PAYLOAD,
                            .key = key.bytes,
                            .key_bytes = key.length,
                            .note = (const unsigned char *)"a note",
                            .note_bytes = 7,
                            .payload = payload,
                            .bytes = 40};
        assert_int_equal(trp__entry_make(&entry, &front, NULL), TRP_OK);
        st_path(path, i);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_int_equal(write(fd, front, entry.payload_at), entry.payload_at);
        assert_int_equal(write(fd, payload, 40), 40);
        close(fd);
        free(front);
        free(payload);
        trp__key_end(&key);
    }
    for (int i = 0; i <= COUNT; i += 97)
        assert_true(st_has(store, i));
    trp__disk_list list;
    int fd = open(st_entries, O_RDONLY | O_DIRECTORY);
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

UNIT_MAIN(STORE_CASE(put_and_found), STORE_CASE(taken_out_by_dd), STORE_CASE(keys_that_failed),
          STORE_CASE(headers), STORE_CASE(many_sets), STORE_CASE(every_byte),
          STORE_CASE(damaged_list), STORE_CASE(collision), STORE_CASE(hostile_entries),
          STORE_CASE(least_recently_used_go), STORE_CASE(bounded), STORE_CASE(stale_temporaries),
          STORE_CASE(ten_thousand))

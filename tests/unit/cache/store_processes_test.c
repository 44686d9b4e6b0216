/* The kernel cache, used by many processes and threads at a time: one makes, the others wait; and
 * processes that die at every step of a write. */
#include "base/os/clock.h"
#include "cache/disk.h"
#include "cache/prune.h"
#include "cache/store.h"
#include "cache/store_parts.h"
#include "support/folder.h"
#include "support/faults/points.h"
#include "support/reference/random.h"

#include "support/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 50000 };

static char folder[PATH_MAX - 256], entries[PATH_MAX - 128];
static unsigned char content[BYTES];

/* What processes share. */
static struct shared {
    atomic_int go, made[64], compiling[64];
} * shared;

static trp__store *open_store(const char *path, uint64_t max_bytes)
{
    trp__store *store = NULL;
    trp__store_options options = {.folder = path, .packs = "", .max_bytes = max_bytes};
    if (trp__store_open(&options, &store, NULL) != TRP_OK)
        abort();
    return store;
}

static trp__key key_of(int n)
{
    trp__key key = {0};
    trp__key_begin(&key, "test");
    trp__key_add(&key, TRP__KEY_SOURCE, &n, sizeof n);
    return key;
}

static bool resolve(void *context, const char *name, const char *path, trp__hash *out)
{
    (void)context;
    (void)path;
    *out = trp__hash_of(name, strlen(name));
    return true;
}

static trp_status put(trp__store *store, int n, trp_error *error)
{
    trp__key key = key_of(n);
    trp__store_request request = {.key = &key, .resolve = resolve};
    trp__store_header header = {.name = "a.h", .path = "/a.h", .content = trp__hash_of("a.h", 3)};
    trp__store_entry entry = {
        .payload = content + n, .bytes = BYTES - 64, .headers = &header, .header_count = 1};
    trp_status status = trp__store_put(store, &request, &entry, error);
    trp__key_end(&key);
    return status;
}

/* 1: there, and right; 0: not there; -1: wrong. */
static int has(trp__store *store, int n)
{
    trp__key key = key_of(n);
    trp__store_request request = {.key = &key, .resolve = resolve};
    trp__store_hit hit;
    trp_status status = trp__store_find(store, &request, &hit);
    int result = status == TRP_E_MISSING ? 0 : -1;
    if (status == TRP_OK && hit.bytes == BYTES - 64 &&
        memcmp(hit.payload, content + n, hit.bytes) == 0)
        result = 1;
    trp__store_hit_end(&hit);
    trp__key_end(&key);
    return result;
}

static int setup(void **state)
{
    (void)state;
    memset(shared, 0, sizeof *shared);
    h_folder_make(folder, sizeof folder, "troupe-store");
    snprintf(entries, sizeof entries, "%s/store", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    h_folder_remove(folder);
    return 0;
}

/* Starts processes that begin together, and waits for all; each must return 0. */
static void at_once(int count, int (*run)(int))
{
    fflush(NULL);
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid > 0)
            continue;
        while (!atomic_load(&shared->go))
            trp__sleep_ns(TRP__MS);
        _exit(run(i));
    }
    atomic_store(&shared->go, 1);
    for (int i = 0; i < count; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* --- writing --- */

static int write_one_key(int i)
{
    trp__store *store = open_store(folder, 0);
    int before = has(store, 0);
    bool good = before >= 0 && put(store, 0, NULL) == TRP_OK && has(store, 0) == 1;
    trp__store_close(store);
    return good ? 0 : 1 + i % 100;
}

static void two_hundred_write_one_key(void **state)
{
    (void)state;
    at_once(200, write_one_key);
    trp__store *store = open_store(folder, 0);
    assert_int_equal(has(store, 0), 1);
    assert_int_equal(h_folder_count(entries, "", ".entry"), 1);
    assert_int_equal(h_folder_count(entries, "", ".headers"), 1);
    assert_int_equal(h_folder_count(entries, ".tmp-", ""), 0);
    trp__store_close(store);
}

/* Some write, some read, and some remove, all the time. */
static int write_read_prune(int i)
{
    trp__store *store = open_store(folder, 300000);
    uint64_t rng = (uint64_t)i;
    bool good = true;
    for (int round = 0; round < 12 && good; round++) {
        int n = (int)random_below(&rng, 10);
        trp__disk_pruned pruned;
        if (i % 4 == 0)
            good = put(store, n, NULL) == TRP_OK;
        else if (i % 4 == 1)
            trp__disk_prune(&store->disk, random_below(&rng, 300000), &pruned, NULL);
        else
            good = has(store, n) >= 0;
    }
    trp__store_close(store);
    return good ? 0 : 1;
}

static void eviction_beside_readers(void **state)
{
    (void)state;
    at_once(24, write_read_prune);
    assert_int_equal(h_folder_count(entries, ".tmp-", ""), 0);
}

/* --- single flight --- */

static int make_or_wait(trp__store *store, int n)
{
    trp__key key = key_of(n);
    trp__store_request request = {.key = &key, .resolve = resolve};
    trp__store_hit hit;
    trp__store_claim *claim;
    trp_status status = trp__store_claim_or_find(store, &request, NULL, &hit, &claim, NULL);
    bool good = status == TRP_OK || status == TRP_E_MISSING;
    if (status == TRP_OK)
        good = !claim && memcmp(hit.payload, content + n, hit.bytes) == 0;
    if (status == TRP_E_MISSING) {
        good = atomic_fetch_add(&shared->compiling[n], 1) == 0; /* nobody else is at it */
        trp__sleep_ns(TRP__MS);
        atomic_fetch_add(&shared->made[n], 1);
        atomic_fetch_sub(&shared->compiling[n], 1);
        good = good && (!store->disk.absent || !has(store, n));
        if (!store->disk.absent)
            good = good && put(store, n, NULL) == TRP_OK;
    }
    trp__store_claim_end(claim);
    trp__store_hit_end(&hit);
    trp__key_end(&key);
    return good ? 0 : 1;
}

enum { KERNELS = 20 };

static int want_all(int i)
{
    trp__store *store = open_store(folder, 0);
    int failed = 0;
    for (int k = 0; k < KERNELS; k++)
        failed |= make_or_wait(store, (k * 7 + i * 3) % KERNELS);
    trp__store_close(store);
    return failed;
}

static void each_made_once(void **state)
{
    (void)state;
    at_once(64, want_all);
    for (int n = 0; n < KERNELS; n++)
        assert_int_equal(atomic_load(&shared->made[n]), 1);
    assert_int_equal(h_folder_count(entries, "", ".entry"), KERNELS);
    /* Nothing is left of the claims: lock and account are for all. */
    assert_int_equal(h_folder_count(entries, "", ""), 2 * KERNELS + 2);
}

static void *want_all_thread(void *store)
{
    int failed = 0;
    for (int n = 0; n < KERNELS; n++)
        failed |= make_or_wait(store, n);
    return failed ? store : NULL;
}

static void among_threads(trp__store *store, int times)
{
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, want_all_thread, store), 0);
    for (int i = 0; i < 8; i++) {
        void *failed;
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
    }
    for (int n = 0; n < KERNELS; n++)
        assert_int_equal(atomic_load(&shared->made[n]), times);
    trp__store_close(store);
}

static void threads(void **state)
{
    (void)state;
    among_threads(open_store(folder, 0), 1);
}

/* Without a folder each makes its own, but one after the other. */
static void threads_without_folder(void **state)
{
    (void)state;
    among_threads(open_store("", 0), 8);
}

static trp_status claim(trp__store *store, int n, int64_t timeout_ns, bool (*cancelled)(void *),
                        atomic_int *asked, trp__store_claim **out)
{
    trp__key key = key_of(n);
    trp__store_request request = {.key = &key};
    trp__store_hit hit;
    trp__store_wait wait = {
        .deadline_ns = trp__deadline(timeout_ns), .is_cancelled = cancelled, .context = asked};
    trp_status status = trp__store_claim_or_find(store, &request, &wait, &hit, out, NULL);
    trp__key_end(&key);
    return status;
}

static bool third_time(void *asked)
{
    return atomic_fetch_add((atomic_int *)asked, 1) == 2;
}

static void limits_of_patience(void **state)
{
    (void)state;
    const char *const places[] = {folder, ""};
    for (int i = 0; i < 2; i++) {
        trp__store *store = open_store(places[i], 0);
        trp__store_claim *first, *second, *other;
        atomic_int asked = 0;
        assert_int_equal(claim(store, 1, -1, NULL, NULL, &first), TRP_E_MISSING);
        assert_int_equal(claim(store, 1, 0, NULL, NULL, &second), TRP_E_TIMEOUT);
        assert_null(second);
        assert_int_equal(claim(store, 1, 3 * TRP__MS, NULL, NULL, &second), TRP_E_TIMEOUT);
        assert_int_equal(claim(store, 1, -1, third_time, &asked, &second), TRP_E_CANCELLED);
        assert_int_equal(asked, 3);
        assert_int_equal(claim(store, 2, 0, NULL, NULL, &other), TRP_E_MISSING);
        trp__store_claim_end(first);
        assert_int_equal(claim(store, 1, 0, NULL, NULL, &second), TRP_E_MISSING);
        trp__store_claim_end(second);
        trp__store_claim_end(other);
        trp__store_claim_end(NULL);
        trp__store_close(store);
    }
}

/* A claim ends with its process, and a forked child of that has none of it. */
static void claims_of_the_dead(void **state)
{
    (void)state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        trp__store *store = open_store(folder, 0);
        trp__store_claim *held;
        if (claim(store, 1, -1, NULL, NULL, &held) != TRP_E_MISSING || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    trp__store *store = open_store(folder, 0);
    trp__store_claim *held;
    assert_int_equal(claim(store, 1, 0, NULL, NULL, &held), TRP_E_TIMEOUT);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(claim(store, 1, 0, NULL, NULL, &held), TRP_E_MISSING);

    /* A child that was forked meanwhile does not hold it longer than its owner wants. */
    pid = fork();
    if (pid == 0) {
        for (;;)
            pause();
    }
    trp__store_claim_end(held);
    assert_int_equal(claim(store, 1, 0, NULL, NULL, &held), TRP_E_MISSING);
    trp__store_claim_end(held);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    /* The whole folder goes while a claim is held: the next one is not held up. */
    assert_int_equal(claim(store, 1, 0, NULL, NULL, &held), TRP_E_MISSING);
    h_folder_remove(folder);
    trp__store_claim *next;
    assert_int_equal(claim(store, 1, 0, NULL, NULL, &next), TRP_E_MISSING);
    trp__store_claim_end(held);
    trp__store_claim_end(next);
    trp__store_close(store);
    close(ready[0]);
    close(ready[1]);
}

/* --- dying at every step --- */

/* What a process does in which it is to die: a new entry, one again, and more than there is room
 * for.
 */
static int walk(const char *path)
{
    trp__store *store = open_store(path, 250000);
    int failed = make_or_wait(store, 1);
    for (int n = 0; n < 6; n++)
        failed |= put(store, n, NULL) == TRP_OK ? 0 : 2;
    trp__store_close(store);
    return failed;
}

static int run_walk(const char *plan)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("TROUPE_FAULT_POINT", plan, 1);
        execl("/proc/self/exe", "store_processes_test", "--walk", folder, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* An entry that no walk touches, and that is none of the oldest. */
static void put_aside(void)
{
    trp__disk_list list;
    trp__store *store = open_store(folder, 1 << 30);
    assert_int_equal(put(store, 10, NULL), TRP_OK);
    trp__store_close(store);
    int fd = open(entries, O_RDONLY | O_DIRECTORY);
    assert_int_equal(trp__disk_list_all(fd, &list, NULL), TRP_OK);
    assert_int_equal(list.count, 2);
    for (size_t i = 0; i < list.count; i++) {
        char name[TRP__DISK_NAME];
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) + 1000}};
        trp__disk_name(name, &list.file[i].hash, list.file[i].type);
        assert_int_equal(utimensat(fd, name, times, 0), 0);
    }
    trp__disk_list_end(&list);
    close(fd);
}

static void *prune_all(void *store)
{
    trp__disk_pruned pruned;
    trp__disk_prune(&((trp__store *)store)->disk, 0, &pruned, NULL);
    return NULL;
}

/* Forks a child that lives on while a thread prunes; then it must be possible to prune again. */
static int prune_and_fork(const char *path)
{
    trp__store *store = open_store(path, 1 << 30);
    pthread_t thread;
    trp__disk_pruned pruned;
    for (int n = 0; n < 4; n++)
        put(store, n, NULL);
    if (pthread_create(&thread, NULL, prune_all, store) != 0)
        return 2;
    trp__sleep_ns(30 * TRP__MS);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    bool in_time = trp__disk_prune(&store->disk, 0, &pruned, NULL) == TRP_E_BUSY;
    pthread_join(thread, NULL);
    trp_status status = trp__disk_prune(&store->disk, 0, &pruned, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    trp__store_close(store);
    return status != TRP_OK ? 1 : in_time ? 0 : 77;
}

static int run_prune_and_fork(void)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("TROUPE_FAULT_POINT", "CACHE_EVICTING:1+:stall", 1);
        execl("/proc/self/exe", "store_processes_test", "--prune-and-fork", folder, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A lock ends with what it is for, though a forked child has its descriptor. */
static void locks_and_forks(void **state)
{
    (void)state;
    int result = 77;
    if (!h_points_built())
        skip();
    for (int i = 0; i < 10 && result == 77; i++) /* 77: the machine stood still meanwhile */
        result = run_prune_and_fork();
    assert_int_equal(result, 0);
}

/* What was there is there, nothing is wrong, and the next one can write. */
static void require_intact(const char *plan)
{
    trp__store *store = open_store(folder, 1 << 30);
    trp__store_claim *held;
    for (int n = 0; n < 20; n++) {
        if (has(store, n) < 0)
            fail_msg("%s: entry %d is wrong", plan, n);
    }
    if (has(store, 10) != 1)
        fail_msg("%s: an entry that nobody touched is lost", plan);
    assert_int_equal(claim(store, 30, 0, NULL, NULL, &held), TRP_E_MISSING);
    trp__store_claim_end(held);
    for (int n = 0; n < 6; n++) {
        assert_int_equal(put(store, n, NULL), TRP_OK);
        assert_int_equal(has(store, n), 1);
    }
    trp__store_close(store);
}

static void killed_at_every_step(void **state)
{
    (void)state;
    size_t count;
    const h_point *points = h_cache_points(&count);
    if (!h_points_built())
        skip();
    for (size_t i = 0; i < count; i++) {
        for (int hit = 1; hit <= 3; hit += 2) {
            char plan[128];
            put_aside();
            snprintf(plan, sizeof plan, "%s:%d:kill-self", points[i].name, hit);
            int status = run_walk(plan);
            bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            if (!died && hit == 1)
                fail_msg("%s: it did not come to it (%x)", plan, (unsigned)status);
            require_intact(plan);
            h_folder_remove(folder);
        }
    }
}

/* A step that fails is an error of that write alone. */
static void steps_that_fail(void **state)
{
    (void)state;
    size_t count;
    const h_point *points = h_cache_points(&count);
    if (!h_points_built())
        skip();
    for (size_t i = 0; i < count; i++) {
        char plan[128];
        if (!points[i].can_fail)
            continue;
        put_aside();
        snprintf(plan, sizeof plan, "%s:2:fail", points[i].name);
        int status = run_walk(plan);
        if (!WIFEXITED(status) || WEXITSTATUS(status) == 0 || WEXITSTATUS(status) > 3)
            fail_msg("%s: %x", plan, (unsigned)status);
        assert_int_equal(h_folder_count(entries, ".tmp-", ""), 0);
        require_intact(plan);
        h_folder_remove(folder);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(two_hundred_write_one_key),
        CASE(eviction_beside_readers),
        CASE(each_made_once),
        CASE(threads),
        CASE(threads_without_folder),
        CASE(limits_of_patience),
        CASE(claims_of_the_dead),
        CASE(locks_and_forks),
        CASE(killed_at_every_step),
        CASE(steps_that_fail),
    };
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (unsigned char)(i * 7 + i / 256);
    if (argc == 3 && strcmp(argv[1], "--walk") == 0)
        return walk(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--prune-and-fork") == 0)
        return prune_and_fork(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

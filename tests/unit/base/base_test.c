/* src/base: error records, names, shared memory, futexes, log lines, clocks. */
#include "support/unit.h"

#include "base/os/clock.h"
#include "base/error.h"
#include "base/os/futex.h"
#include "base/log.h"
#include "base/os/shm.h"
#include "base/os/zeroed.h"
#include "support/label.h"

#include <troupe/troupe.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

/* ---- errors ---- */

static void names(void **unused)
{
    (void)unused;
    assert_string_equal(trp_status_name(TRP_OK), "TRP_OK");
    assert_string_equal(trp_status_name(TRP_E_INTERNAL), "TRP_E_INTERNAL");
    for (int i = 0; i < TRP_STATUS_COUNT; i++) {
        assert_string_not_equal(trp_status_name(i), "TRP_E_UNKNOWN");
        assert_true(strlen(trp_status_text(i)) > 1);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(trp_status_name(i), trp_status_name(k));
    }
    assert_string_equal(trp_status_name(TRP_STATUS_COUNT), "TRP_E_UNKNOWN");
    assert_string_equal(trp_status_name(-1), "TRP_E_UNKNOWN");
    assert_non_null(trp_status_text(12345));
    /* The values are ABI. */
    assert_int_equal(TRP_E_ARGUMENT, 1);
    assert_int_equal(TRP_E_LOST, 3);
    assert_int_equal(TRP_E_FAULT, 8);
    assert_int_equal(TRP_E_INTERNAL, 16);
    assert_int_equal(TRP_E_CANCELLED, 17);
    assert_int_equal(TRP_STATUS_COUNT, 18);
}

static void dtypes(void **unused)
{
    (void)unused;
    static const struct {
        trp_dtype type;
        const char *name;
        uint32_t bits;
    } rows[] = {
        {TRP_F64, "f64", 64},      {TRP_F32, "f32", 32},        {TRP_F16, "f16", 16},
        {TRP_BF16, "bf16", 16},    {TRP_F8E4M3, "f8e4m3", 8},   {TRP_F8E5M2, "f8e5m2", 8},
        {TRP_F4E2M1, "f4e2m1", 4}, {TRP_I8, "i8", 8},           {TRP_I32, "i32", 32},
        {TRP_I64, "i64", 64},      {TRP_U8, "u8", 8},           {TRP_BOOL, "bool", 8},
        {TRP_C64, "c64", 64},      {TRP_C128, "c128", 128},     {TRP_F8E8M0, "f8e8m0", 8},
        {TRP_I4, "i4", 4},         {TRP_DTYPE_NONE, "none", 0},
    };
    assert_int_equal(sizeof rows / sizeof *rows, TRP_DTYPE_COUNT);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(trp_dtype_name(rows[i].type), rows[i].name);
        assert_int_equal(trp_dtype_bits(rows[i].type), rows[i].bits);
    }
    assert_string_equal(trp_dtype_name(TRP_DTYPE_COUNT), "none");
    assert_int_equal(trp_dtype_bits((trp_dtype)-1), 0);
    assert_string_equal(trp_version(), TRP_VERSION_STRING);
    assert_string_equal(trp_backend_name(TRP_BACKEND_CUDA), "cuda");
    assert_string_equal(trp_backend_name(TRP_BACKEND_HOST), "host");
    assert_string_equal(trp_backend_name(TRP_BACKEND_BEST), "best");
    assert_non_null(trp_backend_name((trp_backend)77));
}

static void records(void **unused)
{
    (void)unused;
    trp_error e;
    memset(&e, 0x55, sizeof e);
    assert_int_equal(trp__error_set(&e, TRP_E_BUSY, "%s of %d", "seven", 9), TRP_E_BUSY);
    assert_int_equal(e.status, TRP_E_BUSY);
    assert_string_equal(e.message, "seven of 9");
    assert_string_equal(e.domain, "");
    assert_string_equal(e.actor, "");
    assert_int_equal(e.fault, TRP_FAULT_NONE);
    assert_int_equal(e.code, 0);
    assert_int_equal(e.incarnation, 0);
    assert_true(e.request == 0);

    assert_int_equal(
        trp__error_set_code(&e, TRP_E_LIBRARY, "a domain of more than 15 bytes", -5, "x"),
        TRP_E_LIBRARY);
    assert_int_equal(e.code, -5);
    assert_string_equal(e.domain, "a domain of mor");

    /* Cut at the end of the field, and ended. */
    char text[2000];
    memset(text, 'q', sizeof text);
    text[sizeof text - 1] = '\0';
    trp__error_set(&e, TRP_E_SYSTEM, "%s", text);
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
    assert_int_equal(e.message[sizeof e.message - 2], 'q');

    assert_int_equal(trp__error_set(NULL, TRP_E_LOST, "nobody listens"), TRP_E_LOST);
    errno = EACCES;
    assert_int_equal(trp__error_set_errno(&e, "opening"), TRP_E_SYSTEM);
    assert_int_equal(e.code, EACCES);
    assert_string_equal(e.domain, "errno");
    assert_string_equal(e.message, "opening: Permission denied");
    errno = ENOMEM;
    assert_int_equal(trp__error_set_errno(&e, "mmap"), TRP_E_MEMORY);

    char small[4];
    trp__copy_string(small, sizeof small, "abcdef");
    assert_string_equal(small, "abc");
    trp__copy_string(small, sizeof small, "");
    assert_string_equal(small, "");
    trp__copy_string(small, 1, "abc");
    assert_string_equal(small, "");
}

static void *other_thread(void *out)
{
    assert_int_equal(trp_error_last()->status, TRP_OK);
    assert_string_equal(trp_error_message(), "");
    trp__fail(TRP_E_STALE, "of the other thread");
    *(const trp_error **)out = trp_error_last();
    return NULL;
}

static void last_error(void **unused)
{
    (void)unused;
    pthread_t thread;
    const trp_error *others = NULL;
    assert_int_equal(trp__fail(TRP_E_ARGUMENT, "of %s thread", "this"), TRP_E_ARGUMENT);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &others), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_not_equal(others, trp_error_last());
    assert_string_equal(trp_error_message(), "of this thread");
    trp_error e = {.status = TRP_E_FAULT, .fault = TRP_FAULT_SIGNAL, .request = 88};
    assert_int_equal(trp__error_raise(&e), TRP_E_FAULT);
    assert_memory_equal(&e, trp_error_last(), sizeof e);
    assert_int_equal(trp__error_raise(trp_error_last()), TRP_E_FAULT);
}

/* ---- shared memory ---- */

enum { PAGES = 4, BYTES = PAGES * 4096 };

static void sealed(void **unused)
{
    (void)unused;
    int fd = -1;
    void *map = NULL, *other = NULL;
    trp_error error = {0};
    assert_int_equal(trp__shm_create("troupe-test", BYTES, false, &fd, &map, &error), TRP_OK);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    /* Nobody can make an access to it fail. */
    assert_int_not_equal(ftruncate(fd, 0), 0);
    assert_int_not_equal(ftruncate(fd, 2 * BYTES), 0);
    assert_int_not_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(((char *)map)[i], 0);
    assert_int_equal(trp__shm_map(fd, BYTES, true, NULL, &other, &error), TRP_OK);
    ((char *)other)[BYTES - 1] = 42;
    assert_int_equal(((char *)map)[BYTES - 1], 42);
    trp__shm_unmap(other, BYTES);
    trp__shm_unmap(NULL, BYTES);
    trp__shm_unmap(map, BYTES);
    close(fd);
}

/* What the worker gets of the control block: it can be read, and nothing makes it writable. */
static void read_only_for_others(void **unused)
{
    (void)unused;
    int fd = -1;
    void *map = NULL, *other = NULL;
    trp_error error = {0};
    char path[64];
    assert_int_equal(trp__shm_create("troupe-test", BYTES, true, &fd, &map, &error), TRP_OK);
    assert_int_equal(trp__shm_map(fd, BYTES, false, NULL, &other, &error), TRP_OK);
    ((char *)map)[77] = 5; /* the maker writes on, and the other sees it */
    assert_int_equal(((volatile char *)other)[77], 5);
    assert_int_not_equal(mprotect(other, BYTES, PROT_READ | PROT_WRITE), 0);
    trp__shm_unmap(other, BYTES);
    assert_int_not_equal(trp__shm_map(fd, BYTES, true, NULL, &other, &error), TRP_OK);
    assert_true(error.message[0] != '\0');
    assert_true(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_true(write(fd, "x", 1) < 0);
    assert_true(pwrite(fd, "x", 1, 100) < 0);
    assert_int_not_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    /* Nor a second open of the same file. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    if (again >= 0) {
        assert_true(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
        assert_true(write(again, "x", 1) < 0);
        close(again);
    }
    assert_int_equal(((char *)map)[77], 5);
    trp__shm_unmap(map, BYTES);
    close(fd);
}

/* Descriptors that are something else are refused before they are mapped. */
static void mapping_checks(void **unused)
{
    (void)unused;
    int fd = -1;
    void *map = NULL, *other = NULL;
    trp_error error = {0};
    assert_int_equal(trp__shm_create("troupe-test", BYTES, false, &fd, &map, &error), TRP_OK);
    assert_int_equal(trp__shm_map(fd, BYTES + 4096, true, NULL, &other, &error), TRP_E_VERSION);
    trp__shm_unmap(map, BYTES);
    close(fd);
    /* Could be cut while it is mapped. */
    fd = memfd_create("troupe-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(trp__shm_map(fd, BYTES, true, NULL, &other, &error), TRP_E_VERSION);
    close(fd);
    fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    assert_int_not_equal(trp__shm_map(fd, BYTES, true, NULL, &other, &error), TRP_OK);
    close(fd);
    assert_int_not_equal(trp__shm_map(-1, BYTES, true, NULL, &other, &error), TRP_OK);
    assert_int_not_equal(
        trp__shm_create("troupe-test", UINT64_C(1) << 62, false, &fd, &map, &error), TRP_OK);
    assert_null(other);
    assert_int_equal(trp__page_round(1) % (uint64_t)sysconf(_SC_PAGESIZE), 0);
    assert_true(trp__page_round(1) > 0);
    assert_true(trp__page_round(4096 * 16) == 4096 * 16);
}

/* A mapping put in place of another, at its address. */
static void in_place(void **unused)
{
    (void)unused;
    int a = -1, b = -1;
    void *map_a = NULL, *map_b = NULL, *same = NULL;
    trp_error error = {0};
    assert_int_equal(trp__shm_create("troupe-test", BYTES, false, &a, &map_a, &error), TRP_OK);
    assert_int_equal(trp__shm_create("troupe-test", BYTES, false, &b, &map_b, &error), TRP_OK);
    ((char *)map_a)[0] = 1;
    ((char *)map_b)[0] = 2;
    assert_int_equal(trp__shm_map(b, BYTES, true, map_a, &same, &error), TRP_OK);
    assert_ptr_equal(same, map_a);
    assert_int_equal(((volatile char *)map_a)[0], 2);
    trp__shm_unmap(map_a, BYTES);
    trp__shm_unmap(map_b, BYTES);
    close(a);
    close(b);
}

/* ---- futex ---- */

typedef struct sleeper {
    const _Atomic uint32_t *word; /* a mapping that can only be read */
    _Atomic uint32_t awake;
} sleeper;

static void *sleep_on_word(void *argument)
{
    sleeper *s = argument;
    while (atomic_load(s->word) == 0)
        trp__futex_wait(s->word, 0, -1);
    atomic_store(&s->awake, 1);
    return NULL;
}

static void futexes(void **unused)
{
    (void)unused;
    int fd = -1;
    void *map = NULL, *other = NULL;
    trp_error error = {0};
    pthread_t thread;
    assert_int_equal(trp__shm_create("troupe-test", BYTES, true, &fd, &map, &error), TRP_OK);
    assert_int_equal(trp__shm_map(fd, BYTES, false, NULL, &other, &error), TRP_OK);
    _Atomic uint32_t *word = map;
    sleeper s = {.word = other};
    /* Comes back at once where the word differs, and after the time given. */
    trp__futex_wait(s.word, 5, -1);
    int64_t start = trp__now_ns();
    trp__futex_wait(s.word, 0, 20 * TRP__MS);
    assert_true(trp__now_ns() - start < 60 * TRP__SECOND);
    trp__futex_wait(s.word, 0, 0);
    /* A sleeper on the read-only mapping is woken through the other. */
    assert_int_equal(pthread_create(&thread, NULL, sleep_on_word, &s), 0);
    trp__sleep_ns(20 * TRP__MS);
    assert_int_equal(atomic_load(&s.awake), 0);
    atomic_store(word, 1);
    trp__futex_wake(word, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&s.awake), 1);
    trp__shm_unmap(other, BYTES);
    trp__shm_unmap(map, BYTES);
    close(fd);
}

/* ---- log and clock ---- */

static char logged[1000];
static int logged_level = -1;

static void sink(void *user_data, int level, const char *line)
{
    *(int *)user_data += 1;
    logged_level = level;
    snprintf(logged, sizeof logged, "%s", line);
}

static void log_lines(void **unused)
{
    (void)unused;
    int count = 0;
    char text[2000];
    const trp__log log = {.sink = sink, .user_data = &count};
    trp__log_line(&log, TRP__LOG_INFO, "%d and %s", 5, "more");
    assert_int_equal(count, 1);
    assert_int_equal(logged_level, TRP__LOG_INFO);
    assert_string_equal(logged, "5 and more");
    memset(text, 'l', sizeof text);
    text[sizeof text - 1] = '\0';
    trp__log_line(&log, TRP__LOG_ERROR, "%s", text);
    assert_int_equal(strlen(logged), 399);
    setenv("TROUPE_LOG", "off", 1);
    trp__log_line(NULL, TRP__LOG_ERROR, "not to be seen");
    unsetenv("TROUPE_LOG");
}

static void clocks(void **unused)
{
    (void)unused;
    int64_t a = trp__now_ns();
    trp__sleep_ns(2 * TRP__MS);
    assert_true(trp__now_ns() - a >= 2 * TRP__MS);
    assert_true(trp__deadline(-1) == INT64_MAX);
    assert_true(trp__deadline(INT64_MAX) == INT64_MAX);
    assert_true(trp__deadline(INT64_MAX - 5) == INT64_MAX);
    int64_t d = trp__deadline(TRP__SECOND);
    assert_true(d >= a + TRP__SECOND && d <= trp__now_ns() + TRP__SECOND);
}

/* A mapped table is as guarded as one from the heap. */
static void zeroed(void **unused)
{
    (void)unused;
    enum { LENGTH = 100001 };
    char *table = trp__zeroed(LENGTH);
    assert_non_null(table);
    for (int i = 0; i < LENGTH; i++)
        assert_int_equal(table[i], 0);
    memset(table, 1, LENGTH);
#ifdef __SANITIZE_ADDRESS__
    assert_true(__asan_address_is_poisoned(table - 1));
    assert_false(__asan_address_is_poisoned(table));
    assert_false(__asan_address_is_poisoned(table + LENGTH - 1));
    assert_true(__asan_address_is_poisoned(table + LENGTH));
#endif
    trp__zeroed_free(table, LENGTH);
    trp__zeroed_free(NULL, LENGTH);
}

UNIT_MAIN(UNIT(names), UNIT(dtypes), UNIT(records), UNIT(last_error), UNIT(sealed),
          UNIT(read_only_for_others), UNIT(mapping_checks), UNIT(in_place), UNIT(futexes),
          UNIT(log_lines), UNIT(clocks), UNIT(zeroed))

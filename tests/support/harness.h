/* What the tests in e2e/ and fault/ share: a list of cases run one after the other in one process,
 * checks that print what came and end the program, the device that the environment asks for, and a
 * count of what a case leaves behind.
 *
 *   TROUPE_TEST_BACKEND    host (default) or cuda; without a GPU the program ends as skipped
 *   TROUPE_TEST_GPU        fake: on the fake driver, which is as fast as a host
 *   TROUPE_TEST_ISOLATION  process (default) or thread
 *   TROUPE_TEST_SECONDS    how long each soak runs
 *   TROUPE_TEST_SEED       repeats a run, see reference.h
 *
 * Checks may be made in any thread and in forked children. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_HARNESS_H
#define TESTS_SUPPORT_HARNESS_H

#include "support/label.h"
#include "support/reference/reference.h"

#include <troupe/troupe.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define H_MS  INT64_C(1000000)
#define H_SEC INT64_C(1000000000)
#define H_KIB UINT64_C(1024)
#define H_MIB (H_KIB * 1024)

/* A timeout that is only reached if the program hangs; a loaded machine may pause for a minute. */
#define H_LONG (150 * H_SEC)

/* Under TSan a process takes several times as long to start as under ASan. */
#if defined(__SANITIZE_ADDRESS__)
#define H_SANITIZED 1
#elif defined(__SANITIZE_THREAD__)
#define H_SANITIZED 1
#define H_TSAN      1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define H_SANITIZED 1
#define H_TSAN      1
#elif __has_feature(address_sanitizer)
#define H_SANITIZED 1
#endif
#endif
#ifndef H_SANITIZED
#define H_SANITIZED 0
#endif
#ifndef H_TSAN
#define H_TSAN 0
#endif

/* ---- cases ---- */

enum { H_EXIT_SKIPPED = 77 };

typedef struct h_case {
    const char *name;
    void (*run)(void);
} h_case;

/* Runs the cases, or those named in the arguments. After each case, everything that it opened must
 * be closed: descriptors, child processes, threads. Returns the exit code. */
int h_main(int argc, char **argv, const h_case *cases, size_t count);

/* H_CASE: a case named like its function. The other macros define the main function of a program
 * that has only cases: a statement that runs before them, and the function that runs them. */
#define H_CASE(of)                                                                                 \
    {                                                                                              \
#of, of                                                                                    \
    }
#define H_MAIN(before, run, ...)                                                                   \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        static const h_case cases[] = {__VA_ARGS__};                                               \
        before;                                                                                    \
        return run(argc, argv, cases, sizeof cases / sizeof *cases);                               \
    }
#define H_CASES(...) H_MAIN((void)0, h_main, __VA_ARGS__)
/* Skipped where a worker is a thread. */
#define H_CASES_OF_PROCESSES(...) H_MAIN(h_need_process_isolation(), h_main, __VA_ARGS__)

/* Ends the running case as skipped, with a reason. Call from the main thread, before anything is
 * open. */
_Noreturn void h_skip(const char *reason);

/* Ends the program as skipped unless a worker is a process of its own. First call of main(). */
void h_need_process_isolation(void);

/* ---- checks ---- */

/* Ends the program with a message and the last error of this thread. */
_Noreturn void h_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void h_check_status(const char *file, int line, const char *call, trp_status got,
                    trp_status wanted);
void h_check_says(const char *file, int line, const char *text, const char *word);
void h_check_equal(const char *file, int line, const char *what, uint64_t got, uint64_t wanted);

#define H_CHECK(condition)                                                                         \
    ((condition) ? (void)0 : h_fail(__FILE__, __LINE__, "not true: %s", #condition))
/* Checks the status that a call returns. */
#define H_OK(call)         h_check_status(__FILE__, __LINE__, #call, (call), TRP_OK)
#define H_IS(call, status) h_check_status(__FILE__, __LINE__, #call, (call), (status))
/* Checks that trp_error_message() contains a word. */
#define H_SAYS(word) h_check_says(__FILE__, __LINE__, trp_error_message(), (word))
#define H_EQUAL(got, wanted)                                                                       \
    h_check_equal(__FILE__, __LINE__, #got, (uint64_t)(got), (uint64_t)(wanted))
/* Checks that bytes are equal. */
void h_check_bytes(const char *file, int line, const void *got, const void *wanted, size_t bytes);
#define H_SAME(got, wanted, bytes) h_check_bytes(__FILE__, __LINE__, (got), (wanted), (bytes))

/* ---- the device under test ---- */

trp_backend h_backend(void);
trp_isolation h_isolation(void);
bool h_is_cuda(void);
/* Returns whether the backend is cuda on a GPU, where sizes and times differ. */
bool h_is_gpu(void);

typedef struct h_world {
    trp_system *system;
    trp_device *device;
} h_world;

/* Creates a system that counts log lines and does not print them. worker_path may be NULL. */
trp_system *h_system_create(const char *worker_path);
/* Returns the options with which every test opens devices. */
trp_device_options h_options(void);
/* Opens a system and one of its devices. options NULL: h_options(). */
h_world h_open(const trp_device_options *options);
void h_close(h_world *world);

/* Return the number of lines logged since the start, and the last of them. */
uint64_t h_log_count(void);
void h_log_last(char *out, size_t size);
/* Returns whether one of the last few lines has a word. */
bool h_log_said(const char *word);

trp_actor *h_actor(trp_device *device, const char *kind);
trp_buffer h_buffer(trp_device *device, uint64_t bytes);
trp_buffer h_sealable(trp_device *device, uint64_t bytes);
/* Fills a buffer with a word and waits. */
void h_fill(trp_device *device, trp_buffer buffer, uint32_t word);
/* Creates a buffer and sends a fill of it, without waiting. */
trp_buffer h_filled(trp_device *device, uint64_t bytes, uint32_t word);
/* Wait until the copy is done. */
void h_write(trp_device *device, trp_buffer buffer, uint64_t offset, const void *data,
             uint64_t bytes);
void h_read(trp_device *device, trp_buffer buffer, uint64_t offset, void *data, uint64_t bytes);
trp_device_info h_info(trp_device *device);
trp_buffer_info h_buffer_info(trp_device *device, trp_buffer buffer);

/* Send a probe without buffers, and one that keeps the actor busy. */
void h_probe(trp_actor *probe, trp_probe_action action, trp_completion *completion);
void h_spin(trp_actor *probe, int64_t ns, trp_completion *completion);

/* Returns the status of a future, which must complete within H_LONG. */
trp_status h_await(trp_future future, trp_error *error);
trp_status h_await_any(trp_completion completion);

/* Waits until the device is in a state; fails after H_LONG. */
void h_await_state(trp_device *device, trp_device_state state);
/* Waits until the device and its standby are ready; returns the device's info. */
trp_device_info h_await_standby(trp_device *device);
/* Waits until the device is ready with at least this incarnation. */
void h_await_incarnation(trp_device *device, uint32_t incarnation);

/* ---- random data ---- */

/* Returns the generator of this run, for the main thread; its seed was printed. */
ref_rng *h_rng(void);
/* Returns another generator, for a thread. */
ref_rng h_rng_fork(void);
void h_random_bytes(ref_rng *rng, void *out, size_t bytes);
/* Returns random bytes from malloc(). */
void *h_random_block(ref_rng *rng, size_t bytes);
void *h_malloc(size_t bytes);
uint64_t h_hash(const void *data, size_t bytes);
/* Returns a size for a buffer or a copy, of any order of magnitude up to `limit`. */
uint64_t h_random_size(ref_rng *rng, uint64_t limit);

/* ---- time and processes ---- */

int64_t h_now(void);
void h_sleep(int64_t ns);
/* Returns the number of rounds of a test: that of the host on the fake driver, fewer under a
 * sanitizer. */
int h_rounds(int host, int gpu);
/* Returns the time that a soak may take: TROUPE_TEST_SECONDS, or else `standard`. */
int64_t h_soak_ns(double standard);

/* Return the number of open file descriptors, of children (zombies included), and of threads of
 * this process. */
size_t h_count_fds(void);
size_t h_count_children(void);
/* Lists the first `capacity` children; returns how many there are. */
size_t h_list_children(int64_t *out, size_t capacity);
size_t h_count_threads(void);
bool h_process_exists(int64_t pid);
/* Sends SIGSTOP to a child and waits until all its threads have stopped. Fails after H_LONG. */
void h_stop_process(int64_t pid);
/* Wait until a process has ended, or until a count reaches a value; fail after H_LONG. */
void h_await_gone(int64_t pid);
void h_await_count(const char *what, size_t (*count)(void), size_t wanted);
/* Waits until there are only `count` threads: the kernel lists a joined thread for a short while,
 * also when threads are counted before. */
bool h_threads_come_to(size_t count);

/* A thread whose start must succeed. */
typedef struct h_thread h_thread;
h_thread *h_start(void *(*run)(void *), void *argument);
void h_join(h_thread *thread);

#endif

/* The harness: time, processes, threads. SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int64_t h_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * H_SEC + t.tv_nsec;
}

void h_sleep(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / H_SEC, .tv_nsec = ns % H_SEC};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        continue;
}

int64_t h_soak_ns(double standard)
{
    const char *text = getenv("TROUPE_TEST_SECONDS");
    double seconds = text && *text ? strtod(text, NULL) : standard;
    return (int64_t)(seconds * (double)H_SEC);
}

static size_t count_entries(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        h_fail(__FILE__, __LINE__, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* A pack of kernels stays open once the process has read it. */
static bool is_pack(int folder, const char *entry)
{
    char name[512];
    const ssize_t n = readlinkat(folder, entry, name, sizeof name);
    return n > 5 && memcmp(name + n - 5, ".trpk", 5) == 0;
}

size_t h_count_fds(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        h_fail(__FILE__, __LINE__, "/proc/self/fd: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.' && !is_pack(dirfd(dir), entry->d_name);
    closedir(dir);
    return count - 1; /* without the descriptor of the folder itself */
}

size_t h_count_threads(void)
{
    return count_entries("/proc/self/task");
}

/* Lists the children that one thread has started, from the kernel's list. Reading /proc/PID of
 * processes that other threads wait for delays the kernel while it removes these entries: for a
 * minute, and the whole machine, if its threads are not preempted. */
static size_t children_of_thread(const char *thread, int64_t *out, size_t capacity)
{
    char path[300];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/children", thread);
    FILE *file = fopen(path, "re");
    for (long long pid; file && fscanf(file, "%lld", &pid) == 1; count++) {
        if (count < capacity)
            out[count] = pid;
    }
    if (file)
        fclose(file);
    else if (strtol(thread, NULL, 10) == (long)getpid()) /* any other thread may have ended since */
        h_fail(__FILE__, __LINE__, "%s: %s (needs CONFIG_PROC_CHILDREN)", path, strerror(errno));
    return count;
}

size_t h_list_children(int64_t *out, size_t capacity)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t room = count < capacity ? capacity - count : 0;
        if (entry->d_name[0] != '.')
            count += children_of_thread(entry->d_name, room ? out + count : NULL, room);
    }
    if (dir)
        closedir(dir);
    return count;
}

size_t h_count_children(void)
{
    return h_list_children(NULL, 0);
}

bool h_process_exists(int64_t pid)
{
    return kill((pid_t)pid, 0) == 0;
}

void h_stop_process(int64_t pid)
{
    int64_t end = h_now() + H_LONG;
    if (pid <= 0 || kill((pid_t)pid, SIGSTOP) != 0)
        h_fail(__FILE__, __LINE__, "process %lld: SIGSTOP: %s", (long long)pid, strerror(errno));
    for (siginfo_t info = {0}; info.si_pid == 0; h_sleep(H_MS / 10)) {
        /* The kernel notifies the parent when the last thread has stopped. ECHILD: it was killed.
         */
        if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) != 0)
            return;
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "process %lld does not stop", (long long)pid);
    }
}

void h_await_gone(int64_t pid)
{
    int64_t end = h_now() + H_LONG;
    while (h_process_exists(pid)) {
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "process %lld does not end", (long long)pid);
        h_sleep(H_MS);
    }
}

void h_await_count(const char *what, size_t (*count)(void), size_t wanted)
{
    int64_t end = h_now() + H_LONG;
    while (count() != wanted) {
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "there are %zu %s, expected %zu", count(), what, wanted);
        h_sleep(H_MS);
    }
}

bool h_threads_come_to(size_t count)
{
    for (int i = 0; i < 2000 && h_count_threads() > count; i++)
        h_sleep(H_MS);
    return h_count_threads() <= count;
}

struct h_thread {
    pthread_t thread;
};

h_thread *h_start(void *(*run)(void *), void *argument)
{
    h_thread *t = h_malloc(sizeof *t);
    int code = pthread_create(&t->thread, NULL, run, argument);
    if (code != 0)
        h_fail(__FILE__, __LINE__, "pthread_create: %s", strerror(code));
    return t;
}

void h_join(h_thread *thread)
{
    pthread_join(thread->thread, NULL);
    free(thread);
}

#include "base/os/cpu.h"

#include "base/os/descriptor.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sender, the scheduler and a stream or copying thread, and one for the rest of the program. */
enum { CORES_TO_SPIN = 4 };

bool trp__cpu_may_spin(void)
{
    static _Atomic int known; /* 0: not yet, 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        answer = trp__cpu_count() >= CORES_TO_SPIN ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

/* Returns the processors that one group may use at a time, from its quota and the period of that,
 * both in microseconds. In version 2 one file has both; "max", and -1 in version 1, is no quota. */
static unsigned int group_quota(const char *folder, bool version_2)
{
    char path[4300];
    long long quota = -1, period = 0;
    for (int i = 0; i < (version_2 ? 1 : 2); i++) {
        snprintf(path, sizeof path, "%s/%s", folder,
                 version_2 ? "cpu.max" : (i == 0 ? "cpu.cfs_quota_us" : "cpu.cfs_period_us"));
        FILE *file = trp__file_apart(path);
        if (!file)
            return UINT_MAX;
        const int read = version_2 ? fscanf(file, "%lld %lld", &quota, &period)
                                   : fscanf(file, "%lld", i == 0 ? &quota : &period);
        fclose(file);
        if (read < 1)
            return UINT_MAX;
    }
    if (quota <= 0 || period <= 0)
        return UINT_MAX;
    const long long count = quota / period + (quota % period != 0);
    return count < UINT_MAX ? (unsigned int)count : UINT_MAX;
}

/* Returns the smallest quota of a group and of those above it, up to the root. */
static unsigned int groups_quota(const char *root, const char *group, bool version_2)
{
    char path[4200];
    unsigned int least = UINT_MAX;
    snprintf(path, sizeof path, "%s%s", root, group);
    while (strlen(path) >= strlen(root)) {
        const unsigned int quota = group_quota(path, version_2);
        least = quota < least ? quota : least;
        *strrchr(path, '/') = '\0';
    }
    return least;
}

/* Returns whether a list such as "cpu,cpuacct" has the controller "cpu". */
static bool has_cpu(const char *list, size_t length)
{
    for (const char *at = list; at < list + length; at += strcspn(at, ",:") + 1)
        if (strcspn(at, ",:") == 3 && strncmp(at, "cpu", 3) == 0)
            return true;
    return false;
}

unsigned int trp__cpu_quota(const char *groups, const char *root)
{
    char line[4096], folder[4160];
    unsigned int least = UINT_MAX;
    FILE *file = trp__file_apart(groups);
    while (file && fgets(line, sizeof line, file)) { /* "0::/a/b" or "1:cpu,cpuacct:/a/b" */
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group || group[1] != '/')
            continue;
        *group++ = '\0';
        list++;
        const bool version_2 = *list == '\0';
        if (!version_2 && !has_cpu(list, strlen(list)))
            continue;
        snprintf(folder, sizeof folder, "%s%s%s", root, version_2 ? "" : "/", list);
        const unsigned int quota = groups_quota(folder, group, version_2);
        least = quota < least ? quota : least;
    }
    if (file)
        fclose(file);
    return least;
}

unsigned int trp__cpu_count(void)
{
    cpu_set_t cores;
    const int set = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    const unsigned int count = set > 0 ? (unsigned int)set : 1;
    int cancelling;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling); /* a send counts processors, too */
    const unsigned int quota = trp__cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    pthread_setcancelstate(cancelling, NULL);
    return quota < count ? quota : count;
}

unsigned int trp__cpu_threads(void)
{
    const unsigned int count = trp__cpu_count();
    const char *text = secure_getenv("OMP_NUM_THREADS"); /* "8", or "8,2" for nested regions */
    const long wanted = text ? strtol(text, NULL, 10) : 0;
    return wanted > 0 && wanted < (long)count ? (unsigned int)wanted : count;
}

#if defined(__x86_64__)
enum { KNOWN = 1, AVX2 = 2, FMA = 4 };

static int vector_features(void)
{
    static _Atomic int known; /* 0: not yet; cpuid traps in a virtual machine */
    int features = atomic_load_explicit(&known, memory_order_relaxed);
    if (features == 0) {
        __builtin_cpu_init();
        features = KNOWN | (__builtin_cpu_supports("avx2") ? AVX2 : 0) |
                   (__builtin_cpu_supports("fma") ? FMA : 0);
        atomic_store_explicit(&known, features, memory_order_relaxed);
    }
    return features;
}
#else
enum { AVX2 = 2, FMA = 4 };

static int vector_features(void)
{
    return 0;
}
#endif

bool trp__cpu_has_avx2(void)
{
    return vector_features() & AVX2;
}

bool trp__cpu_has_avx2_and_fma(void)
{
    const int features = vector_features();
    return (features & AVX2) && (features & FMA);
}

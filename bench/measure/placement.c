#include "placement.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST = 4 };

void placement_begin(placement *p, trp_device *device, bool both)
{
    trp_device_info info;
    *p = (placement){.device = device, .both = both};
    if (trp_device_get_info(device, &info) != TRP_OK || info.worker_pid == 0 ||
        sched_getaffinity(0, sizeof p->before, &p->before) != 0 || CPU_COUNT(&p->before) < LEAST)
        return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &p->before))
            p->cpu[p->count++] = cpu;
    }
}

/* A replaced worker or an ended thread is left alone. */
static void put_worker(const placement *p, const cpu_set_t *set)
{
    trp_device_info info;
    char path[64];
    if (trp_device_get_info(p->device, &info) != TRP_OK || info.worker_pid == 0)
        return;
    snprintf(path, sizeof path, "/proc/%lld/task", (long long)info.worker_pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;) {
        long task = strtol(entry->d_name, NULL, 10);
        if (task > 0)
            sched_setaffinity((pid_t)task, sizeof *set, set);
    }
    if (tasks)
        closedir(tasks);
}

void placement_set(const placement *p, uint32_t block, bool troupe)
{
    if (p->count == 0)
        return;
    cpu_set_t launching, other;
    CPU_ZERO(&launching);
    CPU_ZERO(&other);
    CPU_SET(p->cpu[block % p->count], &launching);
    CPU_SET(p->cpu[(block + p->count / 2) % p->count], &other);
    bool worker_launches = troupe || p->both;
    put_worker(p, worker_launches ? &launching : &other);
    sched_setaffinity(0, sizeof launching, worker_launches ? &other : &launching);
}

void placement_end(const placement *p)
{
    if (p->count == 0)
        return;
    put_worker(p, &p->before);
    sched_setaffinity(0, sizeof p->before, &p->before);
}

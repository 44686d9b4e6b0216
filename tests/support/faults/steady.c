#include "support/faults/steady.h"

#include "support/harness.h"

#include <unistd.h>

/* Allocators and thread stacks grow and shrink in steps. A leaked reply block has 4 MiB. */
#define VIRTUAL_SLACK  (48 * H_MIB)
#define RESIDENT_SLACK (12 * H_MIB)

static void read_memory(uint64_t *virtual_bytes, uint64_t *resident_bytes)
{
    unsigned long long all = 0, resident = 0;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    H_CHECK(file && fscanf(file, "%llu %llu", &all, &resident) == 2);
    fclose(file);
    *virtual_bytes = all * page;
    *resident_bytes = resident * page;
}

static void lower(size_t *least, size_t now, bool first)
{
    if (first || now < *least)
        *least = now;
}

void h_steady_sample(h_steady *least)
{
    uint64_t all, resident;
    bool first = least->samples++ == 0;
    read_memory(&all, &resident);
    lower(&least->fds, h_count_fds(), first);
    lower(&least->threads, h_count_threads(), first);
    lower(&least->children, h_count_children(), first);
    lower(&least->virtual_bytes, all, first);
    lower(&least->resident_bytes, resident, first);
}

static void print(const char *phase, const h_steady *s)
{
    printf("  %s: at least %zu descriptors, %zu threads, %zu children, %.1f MiB virtual, %.1f MiB "
           "resident (%" PRIu64 " samples)\n",
           phase, s->fds, s->threads, s->children, (double)s->virtual_bytes / (double)H_MIB,
           (double)s->resident_bytes / (double)H_MIB, s->samples);
}

void h_steady_check(const h_steady *early, const h_steady *late)
{
    print("early", early);
    print("late ", late);
    if (early->samples == 0 || late->samples == 0)
        return;
    /* On a busy machine there may always be workers that start or end, up to ten with three
     * descriptors each. A leak at each fault adds up to more. */
    H_CHECK(late->fds <= early->fds + 32);
    H_CHECK(late->threads <= early->threads);
    H_CHECK(late->children <= early->children + 10);
    if (H_SANITIZED)
        return;
    H_CHECK(late->virtual_bytes <= early->virtual_bytes + VIRTUAL_SLACK);
    H_CHECK(late->resident_bytes <= early->resident_bytes + RESIDENT_SLACK);
}

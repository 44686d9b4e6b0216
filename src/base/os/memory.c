#include "base/os/memory.h"

#include "base/os/descriptor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Returns the number that follows `word` at the beginning of a line, times `unit`; `missing` if
 * there is none. */
static uint64_t read_field(const char *path, const char *word, uint64_t unit, uint64_t missing)
{
    char line[256];
    uint64_t value = missing, number;
    size_t length = strlen(word);
    FILE *file = trp__file_apart(path);
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, word, length) == 0 && sscanf(line + length, "%" SCNu64, &number) == 1) {
            value = __builtin_mul_overflow(number, unit, &value) ? UINT64_MAX : value;
            break;
        }
    }
    if (file)
        fclose(file);
    return value;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the bytes that a group of cgroup v2 can still take; memory that it can reclaim counts as
 * free. */
static uint64_t group_room(const char *folder, bool swap)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/memory.max", folder);
    uint64_t limit = read_field(path, "", 1, UINT64_MAX); /* "max": none */
    if (limit == UINT64_MAX)
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    uint64_t used = read_field(path, "anon ", 1, 0) + read_field(path, "shmem ", 1, 0) +
                    read_field(path, "unevictable ", 1, 0);
    snprintf(path, sizeof path, "%s/memory.swap.max", folder);
    uint64_t more = swap ? read_field(path, "", 1, UINT64_MAX) : 0;
    if (more == UINT64_MAX)
        more = read_field("/proc/meminfo", "SwapFree:", 1024, 0);
    return limit > used ? limit - used + more : more;
}

/* The group of this process and those above it. */
static uint64_t groups_room(bool swap)
{
    static const char root[] = "/sys/fs/cgroup";
    char line[4096], path[4200];
    uint64_t room = UINT64_MAX;
    FILE *file = trp__file_apart("/proc/self/cgroup");
    path[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(path, sizeof path, "%s%s", root, line + 3);
    }
    if (file)
        fclose(file);
    while (strlen(path) >= strlen(root)) {
        room = smaller(room, group_room(path, swap));
        *strrchr(path, '/') = '\0';
    }
    return room;
}

uint64_t trp__memory_available(bool swap)
{
    uint64_t machine = read_field("/proc/meminfo", "MemAvailable:", 1024, UINT64_MAX);
    if (machine != UINT64_MAX && swap)
        machine += read_field("/proc/meminfo", "SwapFree:", 1024, 0);
    return smaller(machine, groups_room(swap));
}

/* Host memory of the fake driver. */
#include "support/fake_cuda/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Returns whether the processor may read and write a whole range. */
static bool writable(uintptr_t address, size_t bytes)
{
    uintptr_t from, to, end = address + bytes;
    char may[8], line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return false;
    while (address < end && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s", &from, &to, may) == 3 &&
            address >= from && address < to) {
            if (may[0] != 'r' || may[1] != 'w')
                break;
            address = to;
        }
    }
    fclose(maps);
    return address >= end;
}

static bool any_host(uintptr_t address, size_t bytes)
{
    for (const fake_range *r = fake_ranges; r; r = r->next) {
        uintptr_t at = (uintptr_t)r->bytes_at;
        if ((r->kind == REGISTERED || r->kind == HOST) && at < address + bytes &&
            address < at + r->bytes)
            return true;
    }
    return false;
}

trp__cu_result cuMemHostRegister_v2(void *base, size_t bytes, unsigned int flags)
{
    uintptr_t at = (uintptr_t)base;
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (flags & ~3u) /* PORTABLE, DEVICEMAP */
        return fake_leave(FAKE_ERROR_NOT_SUPPORTED);
    if (bytes == 0 || at + bytes < at || !writable(at, bytes))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    if (any_host(at, bytes))
        return fake_leave(FAKE_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    bool added = fake_range_add(&(fake_range){.kind = REGISTERED,
                                              .address = at + fake.settings.address_shift,
                                              .bytes = bytes,
                                              .bytes_at = base,
                                              .access = ACCESS_READWRITE,
                                              .device = fake_current()->device,
                                              .reachable = flags & 2});
    return fake_leave(added ? FAKE_SUCCESS : FAKE_ERROR_OUT_OF_MEMORY);
}

static fake_range *find_host(range_kind kind, const void *base)
{
    fake_range *r = fake_ranges;
    while (r && !(r->kind == kind && r->bytes_at == (const char *)base && !r->claimed))
        r = r->next;
    return r;
}

trp__cu_result cuMemHostUnregister(void *base)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    fake_range *r = find_host(REGISTERED, base);
    if (!r)
        return fake_leave(FAKE_ERROR_HOST_MEMORY_NOT_REGISTERED);
    fake_range_take_out(r);
    free(r);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuMemHostGetDevicePointer_v2(trp__cu_address *address, void *base,
                                            unsigned int flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    for (const fake_range *r = fake_ranges; r && flags == 0; r = r->next) {
        uint64_t offset = (uint64_t)((uintptr_t)base - (uintptr_t)r->bytes_at);
        if ((r->kind == REGISTERED || r->kind == HOST) && r->reachable && offset < r->bytes) {
            *address = r->address + offset;
            return fake_leave(FAKE_SUCCESS);
        }
    }
    return fake_leave(FAKE_ERROR_INVALID_VALUE);
}

trp__cu_result cuMemHostAlloc(void **base, size_t bytes, unsigned int flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (flags & ~3u) /* PORTABLE, DEVICEMAP */
        return fake_leave(FAKE_ERROR_NOT_SUPPORTED);
    if (bytes == 0)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    if (!fake_range_add(&(fake_range){.kind = HOST,
                                      .address = (uintptr_t)map + fake.settings.address_shift,
                                      .bytes = bytes,
                                      .bytes_at = map,
                                      .access = ACCESS_READWRITE,
                                      .device = fake_current()->device,
                                      .reachable = true})) {
        munmap(map, bytes);
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    }
    *base = map;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuMemFreeHost(void *base)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    fake_range *r = find_host(HOST, base);
    if (!r)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    r->claimed = true;
    result = fake_drain_all();
    if (result == 0)
        fake_range_free(r);
    return fake_leave(result);
}

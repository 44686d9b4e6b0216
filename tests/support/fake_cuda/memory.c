/* Device memory of the fake driver: memory files, and device addresses that the processor can't
 * use. All device addresses come from one reservation without access rights, and none is used
 * twice, so that an access by the processor, or after unmapping, is found. The bytes are mapped a
 * second time, at an address that only the fake knows. */
#include "support/fake_cuda/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ADDRESSES  (UINT64_C(256) << 30) /* size of the range of device addresses */
#define SMALL_UNIT (UINT64_C(64) << 10)  /* unit of cuMemAlloc */
#define POOL_UNIT  (UINT64_C(32) << 20)  /* growth of the pool of cuMemAllocAsync */
typedef struct reservation {
    struct reservation *next;
    uint64_t address;
    size_t bytes;
} reservation;

static reservation *reservations;
fake_range *fake_ranges;

static bool aligned(uint64_t value, uint64_t unit)
{
    return value % unit == 0;
}

/* Addresses. */

static uint64_t first_address, next_address;

/* Reserves the addresses by a plain system call: a sanitizer would prepare its own memory for all
 * of them. */
static bool have_addresses(void)
{
    if (first_address)
        return true;
    long at = syscall(SYS_mmap, NULL, ADDRESSES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == -1)
        return false;
    first_address = next_address = (uint64_t)at;
    return true;
}

/* Returns addresses followed by a gap; 0: none are left. Follows `hint` if no earlier range was
 * there. */
static uint64_t take_addresses(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t gap)
{
    if (!have_addresses() || bytes > ADDRESSES)
        return 0;
    uint64_t end = first_address + ADDRESSES;
    uint64_t address = (next_address + alignment - 1) & ~(alignment - 1);
    if (hint >= address && hint < end && aligned(hint, alignment) && bytes <= end - hint)
        address = hint;
    if (address > end || bytes > end - address)
        return 0;
    next_address = address + bytes;
    next_address += gap < end - next_address ? gap : end - next_address;
    return address;
}

/* Finding. */

/* Copies also find host memory by its host address: see fake_pin_range(). */
static bool holds(const fake_range *r, uint64_t address, bool host_view, uint64_t *offset)
{
    bool host = r->kind == REGISTERED || r->kind == HOST;
    *offset = address - r->address;
    if (address >= r->address && *offset < r->bytes && (!host || r->reachable))
        return true;
    *offset = address - (uint64_t)(uintptr_t)r->bytes_at;
    return host && host_view && address >= (uint64_t)(uintptr_t)r->bytes_at && *offset < r->bytes;
}

static fake_range *find(uint64_t address, bool host_view, uint64_t *offset)
{
    for (fake_range *r = fake_ranges; r; r = r->next) {
        if (holds(r, address, host_view, offset))
            return r;
    }
    return NULL;
}

char *fake_pin_range(uint64_t address, size_t *bytes, bool write, fake_range **range)
{
    uint64_t offset;
    fake_range *r = find(address, true, &offset);
    if (!r || !(r->access & ACCESS_READ) || (write && r->access != ACCESS_READWRITE))
        return NULL;
    if (*bytes > r->bytes - offset)
        *bytes = r->bytes - offset;
    r->pins++;
    *range = r;
    return r->bytes_at + offset;
}

void fake_unpin_range(fake_range *range)
{
    if (--range->pins == 0)
        fake_announce();
}

bool fake_known(uint64_t address, size_t bytes)
{
    while (bytes > 0) {
        uint64_t offset;
        const fake_range *r = find(address, true, &offset);
        if (!r)
            return false;
        size_t here = r->bytes - offset < bytes ? r->bytes - offset : bytes;
        address += here;
        bytes -= here;
    }
    return true;
}

_Atomic uint64_t *fake_word(uint64_t address, bool write)
{
    uint64_t offset;
    const fake_range *r = find(address, false, &offset);
    if (!r || r->bytes - offset < 8 || !(r->access & ACCESS_READ) ||
        (write && r->access != ACCESS_READWRITE))
        return NULL;
    return (_Atomic uint64_t *)(void *)(r->bytes_at + offset);
}

fake_range *fake_range_add(const fake_range *like)
{
    fake_range *r = malloc(sizeof *r);
    if (!r)
        return NULL;
    *r = *like;
    r->next = fake_ranges;
    fake_ranges = r;
    return r;
}

/* Removes the range at once, so that nothing finds it, and waits until nothing uses it. */
void fake_range_take_out(fake_range *range)
{
    fake_range **at = &fake_ranges;
    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    while (range->pins > 0)
        fake_wait();
}

static fake_range *find_start(range_kind kind, uint64_t address)
{
    fake_range *r = fake_ranges;
    while (r && !(r->kind == kind && r->address == address && !r->claimed))
        r = r->next;
    return r;
}

/* Reservations. */

trp__cu_result cuMemAddressReserve(trp__cu_address *address, size_t bytes, size_t alignment,
                                   trp__cu_address hint, unsigned long long flags)
{
    int result = fake_enter(FAKE_NEEDS_DRIVER);
    if (result)
        return result;
    if (bytes == 0 || !aligned(bytes, FAKE_GRANULE) || flags != 0 || (alignment & (alignment - 1)))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    reservation *r = malloc(sizeof *r);
    uint64_t at = take_addresses(bytes, alignment > FAKE_GRANULE ? alignment : FAKE_GRANULE, hint,
                                 FAKE_GRANULE);
    if (!r || !at) {
        free(r);
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    }
    *r = (reservation){.next = reservations, .address = at, .bytes = bytes};
    reservations = r;
    *address = at;
    return fake_leave(FAKE_SUCCESS);
}

/* Returns whether anything is mapped in [address, end). */
static bool any_mapped(uint64_t address, uint64_t end)
{
    for (const fake_range *r = fake_ranges; r; r = r->next) {
        if (r->kind == MAPPED && r->address < end && address < r->address + r->bytes)
            return true;
    }
    return false;
}

trp__cu_result cuMemAddressFree(trp__cu_address address, size_t bytes)
{
    int result = fake_enter(FAKE_ENDS_DRIVER);
    if (result)
        return result;
    reservation **at = &reservations;
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    reservation *r = *at;
    if (!r || r->bytes != bytes || any_mapped(address, address + bytes))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    *at = r->next;
    free(r);
    return fake_leave(FAKE_SUCCESS);
}

/* Mappings. */

static bool is_reserved(uint64_t address, size_t bytes)
{
    for (const reservation *r = reservations; r; r = r->next) {
        if (address >= r->address && address - r->address <= r->bytes &&
            bytes <= r->bytes - (address - r->address))
            return true;
    }
    return false;
}

trp__cu_result cuMemMap(trp__cu_address address, size_t bytes, size_t offset, trp__cu_memory handle,
                        unsigned long long flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    memory *m = fake_handle_get(FAKE_MEMORY, handle);
    if (!m || flags != 0 || offset != 0 || bytes == 0 || bytes > m->bytes ||
        !aligned(address, FAKE_GRANULE) || !aligned(bytes, FAKE_GRANULE) ||
        !is_reserved(address, bytes) || any_mapped(address, address + bytes))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    if (at == MAP_FAILED)
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    if (!fake_range_add(&(fake_range){.kind = MAPPED,
                                      .address = address,
                                      .bytes = bytes,
                                      .bytes_at = at,
                                      .device = fake_current()->device,
                                      .memory = m})) {
        munmap(at, bytes);
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    }
    m->references++;
    return fake_leave(FAKE_SUCCESS);
}

/* Returns whether a range consists of whole mappings and nothing else. */
static bool whole_mappings(uint64_t address, size_t bytes)
{
    uint64_t end = address + bytes;
    if (bytes == 0 || end < address)
        return false;
    while (address < end) {
        const fake_range *r = find_start(MAPPED, address);
        if (!r || r->bytes > end - address)
            return false;
        address += r->bytes;
    }
    return true;
}

static void unmap_range(fake_range *r)
{
    fake_range_take_out(r);
    munmap(r->bytes_at, r->bytes);
    fake_memory_drop(r->memory);
    free(r);
}

trp__cu_result cuMemUnmap(trp__cu_address address, size_t bytes)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    if (!whole_mappings(address, bytes))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    for (uint64_t end = address + bytes; address < end;) {
        fake_range *r = find_start(MAPPED, address);
        if (!r)
            break; /* another call is unmapping it */
        address += r->bytes;
        unmap_range(r);
    }
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuMemSetAccess(trp__cu_address address, size_t bytes,
                              const trp__cu_access_desc *access, size_t count)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!access || count == 0 || !whole_mappings(address, bytes))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        int flags = (int)access[i].flags;
        if ((int)access[i].location.type != 1 ||
            (flags != ACCESS_NONE && flags != ACCESS_READ && flags != ACCESS_READWRITE))
            return fake_leave(FAKE_ERROR_INVALID_VALUE);
        if (access[i].location.id < 0 || access[i].location.id >= fake.settings.devices)
            return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    }
    for (size_t i = 0; i < count; i++) {
        for (fake_range *r = fake_ranges; r; r = r->next) {
            if (r->kind == MAPPED && r->address - address < bytes &&
                r->device == access[i].location.id)
                r->access = (int)access[i].flags;
        }
    }
    return fake_leave(FAKE_SUCCESS);
}

/* Allocations. */

int fake_allocate(trp__cu_address *address, size_t bytes)
{
    int device = fake_current()->device;
    if (bytes == 0)
        return FAKE_ERROR_INVALID_VALUE;
    if (!fake_take_bytes(device, bytes))
        return FAKE_ERROR_OUT_OF_MEMORY;
    uint64_t whole = (bytes + SMALL_UNIT - 1) / SMALL_UNIT * SMALL_UNIT;
    uint64_t at = take_addresses(whole, SMALL_UNIT, 0, SMALL_UNIT);
    void *map = at ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                   : MAP_FAILED;
    if (map != MAP_FAILED && fake_range_add(&(fake_range){.kind = ALLOCATED,
                                                          .address = at,
                                                          .bytes = bytes,
                                                          .bytes_at = map,
                                                          .access = ACCESS_READWRITE,
                                                          .device = device})) {
        *address = at;
        return FAKE_SUCCESS;
    }
    if (map != MAP_FAILED)
        munmap(map, bytes);
    fake.taken[device] -= bytes;
    return FAKE_ERROR_OUT_OF_MEMORY;
}

void fake_range_free(fake_range *r)
{
    fake_range_take_out(r);
    munmap(r->bytes_at, r->bytes);
    if (r->kind == ALLOCATED)
        fake.taken[r->device] -= r->bytes;
    free(r);
}

bool fake_allocation_claim(uint64_t address)
{
    fake_range *r = find_start(ALLOCATED, address);
    if (r)
        r->claimed = true;
    return r != NULL;
}

void fake_allocation_free(uint64_t address)
{
    for (fake_range *r = fake_ranges; r; r = r->next) {
        if (r->kind == ALLOCATED && r->address == address) {
            fake_range_free(r);
            return;
        }
    }
}

trp__cu_result cuMemAlloc_v2(trp__cu_address *address, size_t bytes)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    return result ? result : fake_leave(fake_allocate(address, bytes));
}

/* Waits for all earlier work, as the driver does. */
trp__cu_result cuMemFree_v2(trp__cu_address address)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    if (address == 0)
        return fake_leave(FAKE_SUCCESS);
    if (!fake_allocation_claim(address))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    result = fake_drain_all();
    if (result == 0)
        fake_allocation_free(address);
    return fake_leave(result);
}

/* The memory is usable at once, which is earlier than the driver promises. Fails if the pool could
 * not grow. */
trp__cu_result cuMemAllocAsync(trp__cu_address *address, size_t bytes, trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!fake_stream_get(stream))
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    const int device = fake_current()->device;
    const uint64_t grown = (bytes + POOL_UNIT - 1) / POOL_UNIT * POOL_UNIT;
    if (!fake_take_bytes(device, grown))
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    fake.taken[device] -= grown;
    return fake_leave(fake_allocate(address, bytes));
}

trp__cu_result cuMemFreeAsync(trp__cu_address address, trp__cu_stream stream)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    fake_stream *s = fake_stream_get(stream);
    if (!s)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    if (!fake_allocation_claim(address))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    return fake_leave(fake_submit(s, &(fake_op){.kind = FAKE_OP_FREE, .address = address}));
}

trp__cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    *total = fake.settings.memory_bytes;
    *free_bytes = fake.settings.memory_bytes - fake.taken[fake_current()->device];
    return fake_leave(FAKE_SUCCESS);
}

/* The end of a context. */

void fake_memory_clear(int device)
{
    for (fake_range *r = fake_ranges; r;) {
        fake_range *next = r->next;
        if (r->device == device && r->kind == MAPPED) {
            unmap_range(r);
            next = fake_ranges;
        } else if (r->device == device && r->kind == REGISTERED) {
            fake_range_take_out(r);
            free(r);
            next = fake_ranges;
        } else if (r->device == device) {
            fake_range_free(r);
            next = fake_ranges;
        }
        r = next;
    }
}

void fake_memory_count(fake_counts *counts)
{
    for (const reservation *r = reservations; r; r = r->next)
        counts->reservations++;
    for (const fake_range *r = fake_ranges; r; r = r->next) {
        counts->mappings += r->kind == MAPPED;
        counts->allocations += r->kind == ALLOCATED || r->kind == HOST;
        counts->registrations += r->kind == REGISTERED;
    }
}

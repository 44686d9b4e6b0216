/* Device memory of the fake driver: memory files, and device addresses that the processor can't
 * use.
 *
 * Device addresses come out of one reservation without access, and are never used twice: what uses
 * one by mistake, on the processor or after it was unmapped, is found out. The bytes are mapped a
 * second time, at an address that only the fake knows. */
#include "support/fake_cuda/fake.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ADDRESSES   (UINT64_C(256) << 30) /* bytes of device addresses in all */
#define SMALL_UNIT  (UINT64_C(64) << 10)  /* of cuMemAlloc */
#define MEMORY_NAME "fake-cuda-memory"

/* What cuMemCreate made, or another process's. */
typedef struct memory {
    int fd;
    int device;
    size_t bytes;
    bool imported;
    unsigned int references; /* the handle's and those of mappings */
} memory;

typedef struct reservation {
    struct reservation *next;
    uint64_t address;
    size_t bytes;
} reservation;

typedef enum range_kind {
    MAPPED,     /* cuMemMap */
    ALLOCATED,  /* cuMemAlloc, cuMemAllocAsync */
    REGISTERED, /* cuMemHostRegister */
    HOST,       /* cuMemHostAlloc */
} range_kind;

enum { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_READWRITE = 3 };

struct fake_range {
    fake_range *next;
    range_kind kind;
    uint64_t address; /* the device's */
    size_t bytes;
    char *bytes_at; /* the processor's */
    int access;
    int device;
    bool claimed;   /* being freed */
    bool reachable; /* through its device address: it was mapped for the device */
    unsigned int pins;
    memory *memory; /* of MAPPED */
};

static reservation *reservations;
static fake_range *ranges;

static bool aligned(uint64_t value, uint64_t unit)
{
    return value % unit == 0;
}

/* Addresses. */

static uint64_t first_address, next_address;

/* By a plain system call: a sanitizer would prepare its own memory for all of it. */
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

/* 0: there are none left. `hint` is followed where nothing has been yet. A gap follows. */
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

/* Host memory is also known by the host's address of it, to copies: see fake_pin_range(). */
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
    for (fake_range *r = ranges; r; r = r->next) {
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

static fake_range *add_range(const fake_range *like)
{
    fake_range *r = malloc(sizeof *r);
    if (!r)
        return NULL;
    *r = *like;
    r->next = ranges;
    ranges = r;
    return r;
}

/* Takes it out at once, so that nothing finds it, and waits until nothing uses it. */
static void take_out(fake_range *range)
{
    fake_range **at = &ranges;
    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    while (range->pins > 0)
        fake_wait();
}

static fake_range *find_start(range_kind kind, uint64_t address)
{
    fake_range *r = ranges;
    while (r && !(r->kind == kind && r->address == address && !r->claimed))
        r = r->next;
    return r;
}

/* Memory of other processes. */

static bool take_bytes(int device, size_t bytes)
{
    if (bytes > fake.settings.memory_bytes - fake.taken[device])
        return false;
    fake.taken[device] += bytes;
    return true;
}

static void drop_reference(memory *m)
{
    if (--m->references > 0)
        return;
    if (!m->imported)
        fake.taken[m->device] -= m->bytes;
    close(m->fd);
    free(m);
}

static bool good_prop(const trp__cu_allocation_prop *prop)
{
    return prop && (int)prop->type == 1 && (int)prop->location.type == 1 &&
           (int)prop->requestedHandleTypes <= 1;
}

static int memory_file(size_t bytes)
{
    int fd = memfd_create(MEMORY_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Takes the descriptor over. */
static int new_memory(int fd, int device, size_t bytes, bool imported, trp__cu_memory *out)
{
    memory *m = malloc(sizeof *m);
    uintptr_t handle = m ? fake_handle_new(FAKE_MEMORY, m) : 0;
    if (!handle) {
        free(m);
        close(fd);
        return FAKE_ERROR_OUT_OF_MEMORY;
    }
    *m =
        (memory){.fd = fd, .device = device, .bytes = bytes, .imported = imported, .references = 1};
    *out = handle;
    return FAKE_SUCCESS;
}

trp__cu_result cuMemCreate(trp__cu_memory *out, size_t bytes, const trp__cu_allocation_prop *prop,
                           unsigned long long flags)
{
    int result = fake_enter(FAKE_NEEDS_DRIVER);
    if (result)
        return result;
    if (!good_prop(prop) || flags != 0 || bytes == 0 || !aligned(bytes, FAKE_GRANULE))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    int device = prop->location.id;
    if (device < 0 || device >= fake.settings.devices)
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    if (!take_bytes(device, bytes))
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    int fd = memory_file(bytes);
    result = fd >= 0 ? new_memory(fd, device, bytes, false, out) : FAKE_ERROR_OUT_OF_MEMORY;
    if (result)
        fake.taken[device] -= bytes;
    return fake_leave(result);
}

trp__cu_result cuMemRelease(trp__cu_memory handle)
{
    int result = fake_enter(FAKE_ENDS_DRIVER);
    if (result)
        return result;
    memory *m = fake_handle_get(FAKE_MEMORY, handle);
    if (!m)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    fake_handle_drop(handle);
    drop_reference(m);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuMemGetAllocationGranularity(size_t *bytes, const trp__cu_allocation_prop *prop,
                                             trp__cu_granularity option)
{
    int result = fake_enter(FAKE_NEEDS_INIT);
    if (result)
        return result;
    if (!good_prop(prop) || (int)option < 0 || (int)option > 1)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    *bytes = FAKE_GRANULE;
    return fake_leave(FAKE_SUCCESS);
}

/* The descriptor is not close-on-exec: the driver promises nothing about that. */
trp__cu_result cuMemExportToShareableHandle(void *out, trp__cu_memory handle,
                                            trp__cu_handle_type type, unsigned long long flags)
{
    int result = fake_enter(FAKE_NEEDS_DRIVER);
    if (result)
        return result;
    const memory *m = fake_handle_get(FAKE_MEMORY, handle);
    if (!m || (int)type != 1 || flags != 0)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    int fd = dup(m->fd);
    if (fd < 0)
        return fake_leave(FAKE_ERROR_UNKNOWN);
    *(int *)out = fd;
    return fake_leave(FAKE_SUCCESS);
}

static bool is_memory_file(int fd, size_t *bytes)
{
    static const char wanted[] = "/memfd:" MEMORY_NAME;
    char link[64], target[128];
    struct stat st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target);
    if (length < (ssize_t)sizeof wanted - 1 || memcmp(target, wanted, sizeof wanted - 1) != 0 ||
        fstat(fd, &st) != 0)
        return false;
    *bytes = (size_t)st.st_size;
    return true;
}

/* The descriptor stays the caller's. Which device the memory is of is not in it: the current one.
 */
trp__cu_result cuMemImportFromShareableHandle(trp__cu_memory *out, void *handle,
                                              trp__cu_handle_type type)
{
    size_t bytes = 0;
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    int fd = (int)(intptr_t)handle;
    if ((int)type != 1 || !is_memory_file(fd, &bytes))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return fake_leave(own < 0 ? FAKE_ERROR_UNKNOWN
                              : new_memory(own, fake_current()->device, bytes, true, out));
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

/* Whether anything is mapped in [address, end). */
static bool any_mapped(uint64_t address, uint64_t end)
{
    for (const fake_range *r = ranges; r; r = r->next) {
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
    if (!add_range(&(fake_range){.kind = MAPPED,
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

/* Whether a range is made of whole mappings, all of it and nothing more. */
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
    take_out(r);
    munmap(r->bytes_at, r->bytes);
    drop_reference(r->memory);
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
            break; /* another call unmaps it at the same time */
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
        for (fake_range *r = ranges; r; r = r->next) {
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
    if (!take_bytes(device, bytes))
        return FAKE_ERROR_OUT_OF_MEMORY;
    uint64_t whole = (bytes + SMALL_UNIT - 1) / SMALL_UNIT * SMALL_UNIT;
    uint64_t at = take_addresses(whole, SMALL_UNIT, 0, SMALL_UNIT);
    void *map = at ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                   : MAP_FAILED;
    if (map != MAP_FAILED && add_range(&(fake_range){.kind = ALLOCATED,
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

static void free_range(fake_range *r)
{
    take_out(r);
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
    for (fake_range *r = ranges; r; r = r->next) {
        if (r->kind == ALLOCATED && r->address == address) {
            free_range(r);
            return;
        }
    }
}

trp__cu_result cuMemAlloc_v2(trp__cu_address *address, size_t bytes)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    return result ? result : fake_leave(fake_allocate(address, bytes));
}

/* Waits for all work that was sent before, as the driver does. */
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

/* The memory is there at once, which is earlier than the driver promises. */
trp__cu_result cuMemAllocAsync(trp__cu_address *address, size_t bytes, trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!fake_stream_get(stream))
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
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

/* Host memory. */

/* Whether the processor may read and write all of it. */
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
    for (const fake_range *r = ranges; r; r = r->next) {
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
    bool added = add_range(&(fake_range){.kind = REGISTERED,
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
    fake_range *r = ranges;
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
    take_out(r);
    free(r);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuMemHostGetDevicePointer_v2(trp__cu_address *address, void *base,
                                            unsigned int flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    for (const fake_range *r = ranges; r && flags == 0; r = r->next) {
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
    if (!add_range(&(fake_range){.kind = HOST,
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
        free_range(r);
    return fake_leave(result);
}

/* The end of a context. */

void fake_memory_clear(int device)
{
    for (fake_range *r = ranges; r;) {
        fake_range *next = r->next;
        if (r->device == device && r->kind == MAPPED) {
            unmap_range(r);
            next = ranges;
        } else if (r->device == device && r->kind == REGISTERED) {
            take_out(r);
            free(r);
            next = ranges;
        } else if (r->device == device) {
            free_range(r);
            next = ranges;
        }
        r = next;
    }
}

void fake_memory_count(fake_counts *counts)
{
    for (const reservation *r = reservations; r; r = r->next)
        counts->reservations++;
    for (const fake_range *r = ranges; r; r = r->next) {
        counts->mappings += r->kind == MAPPED;
        counts->allocations += r->kind == ALLOCATED || r->kind == HOST;
        counts->registrations += r->kind == REGISTERED;
    }
}

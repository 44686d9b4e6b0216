/* Memory of the fake driver that processes can share: memory files. */
#include "support/fake_cuda/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_NAME "fake-cuda-memory"

bool fake_take_bytes(int device, size_t bytes)
{
    if (bytes > fake.settings.memory_bytes - fake.taken[device])
        return false;
    fake.taken[device] += bytes;
    return true;
}

void fake_memory_drop(memory *m)
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

/* Takes ownership of the descriptor. */
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
    if (!good_prop(prop) || flags != 0 || bytes == 0 || bytes % FAKE_GRANULE != 0)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    int device = prop->location.id;
    if (device < 0 || device >= fake.settings.devices)
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    if (!fake_take_bytes(device, bytes))
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
    fake_memory_drop(m);
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

/* The descriptor is not close-on-exec, as the driver promises nothing about that. */
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

/* The caller keeps the descriptor. The file does not say its device: the memory belongs to the
 * current one. */
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

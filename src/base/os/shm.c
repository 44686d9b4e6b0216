#include "base/os/shm.h"

#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/os/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

trp_status trp__shm_create(const char *name, uint64_t bytes, bool readonly_for_others, int *fd,
                           void **map, trp_error *error)
{
    trp_status status = TRP_OK;
    void *at = MAP_FAILED;
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int memory = trp__descriptor_apart(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (memory < 0)
        return trp__error_set_errno(error, "memfd_create");
    trp__writing writing = trp__writing_begin();
    int code = ftruncate(memory, (off_t)bytes) == 0 ? 0 : errno;
    trp__writing_end(&writing, code);
    if (code != 0) {
        status = trp__error_set_errno(error, "ftruncate of shared memory");
        goto out;
    }
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (at == MAP_FAILED) {
        status = trp__error_set_errno(error, "mmap of shared memory");
        goto out;
    }
    if (readonly_for_others)
        seals |= F_SEAL_FUTURE_WRITE;
    if (fcntl(memory, F_ADD_SEALS, seals) != 0)
        status = trp__error_set_errno(error, "sealing shared memory");
out:
    if (status != TRP_OK) {
        if (at != MAP_FAILED)
            munmap(at, bytes);
        close(memory);
        return status;
    }
    *fd = memory;
    *map = at;
    return TRP_OK;
}

trp_status trp__shm_map(int fd, uint64_t bytes, bool writable, void *at, void **map,
                        trp_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return trp__error_set_errno(error, "fstat of shared memory");
    int seals = fcntl(fd, F_GET_SEALS);
    if (st.st_size < 0 || (uint64_t)st.st_size < bytes || seals < 0 || !(seals & F_SEAL_SHRINK))
        return trp__error_set(
            error, TRP_E_VERSION,
            "shared memory: expected a sealed memory file of %llu bytes, got %lld "
            "bytes with seals %#x",
            (unsigned long long)bytes, (long long)st.st_size, (unsigned)seals);
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    void *mapped = mmap(at, bytes, protection, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    if (mapped == MAP_FAILED)
        return trp__error_set_errno(error, "mmap of shared memory");
    *map = mapped;
    return TRP_OK;
}

void trp__shm_unmap(void *map, uint64_t bytes)
{
    if (map)
        munmap(map, bytes);
}

uint64_t trp__page_round(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

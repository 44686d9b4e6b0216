/* Buffers exported to other processes and to a GPU program: they reach the same bytes, and learn
 * for which requests to wait. */
#include "support/harness.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST_FAKE_GPU("no tsan");

static void need_host(void)
{
    if (h_is_cuda())
        h_skip("memory of a GPU is not mapped");
}

static void close_exported(const trp_exported_buffer *e)
{
    close(e->fd);
    if (e->timeline_fd >= 0)
        close(e->timeline_fd);
}

static trp_exported_buffer exported(trp_device *d, trp_buffer b)
{
    trp_exported_buffer e;
    memset(&e, 0x7e, sizeof e);
    H_OK(trp_buffer_export(d, b, &e));
    H_CHECK(e.fd > STDERR_FILENO && (fcntl(e.fd, F_GETFD) & FD_CLOEXEC));
    H_EQUAL(e.kind, h_is_cuda() ? TRP_EXPORT_CUDA : TRP_EXPORT_MEMFD);
    H_CHECK(e.granularity > 0 && e.allocation_bytes % e.granularity == 0);
    H_CHECK(e.offset <= e.allocation_bytes && e.bytes <= e.allocation_bytes - e.offset);
    H_EQUAL(e.bytes, h_buffer_info(d, b).bytes);
    H_EQUAL(e.read_only, h_buffer_info(d, b).sealed);
    for (size_t i = 0; i < sizeof e.reserved / sizeof *e.reserved; i++)
        H_EQUAL(e.reserved[i], 0);
    return e;
}

/* Another process has nothing but the descriptor and three numbers. */
static void other_process(void)
{
    enum { BYTES = 200000 };
    need_host();
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    for (int sealable = 0; sealable < 2; sealable++) {
        trp_buffer b = sealable ? h_sealable(d, BYTES) : h_buffer(d, BYTES);
        char *data = h_random_block(h_rng(), BYTES), *got = h_malloc(BYTES);
        h_write(d, b, 0, data, BYTES);
        trp_exported_buffer e = exported(d, b);
        H_EQUAL(e.wait_count, 0);
        H_EQUAL(e.timeline_fd, -1);
        pid_t child = fork();
        H_CHECK(child >= 0);
        if (child == 0) {
            char *at = mmap(NULL, e.allocation_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e.fd, 0);
            bool same = at != MAP_FAILED && memcmp(at + e.offset, data, BYTES) == 0;
            if (same)
                memset(at + e.offset, 0x42, BYTES);
            _exit(same ? 0 : 1);
        }
        int end = 0;
        H_CHECK(waitpid(child, &end, 0) == child);
        H_EQUAL(end, 0);
        memset(data, 0x42, BYTES);
        h_read(d, b, 0, got, BYTES);
        H_SAME(got, data, BYTES);
        close_exported(&e);
        if (sealable) {
            H_OK(trp_buffer_seal(d, b, TRP_FOREVER));
            e = exported(d, b);
            H_CHECK(mmap(NULL, e.allocation_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e.fd, 0) ==
                    MAP_FAILED);
            /* It outlives the buffer and the device. */
            H_OK(trp_buffer_free(d, b));
            trp_device_close(d);
            char *at = mmap(NULL, e.allocation_bytes, PROT_READ, MAP_SHARED, e.fd, 0);
            H_CHECK(at != MAP_FAILED);
            H_EQUAL(e.offset, 0);
            H_SAME(at, data, BYTES);
            munmap(at, e.allocation_bytes);
            close_exported(&e);
        }
        free(data);
        free(got);
    }
    H_OK(trp_system_destroy(w.system));
}

static const volatile uint64_t *map_timeline(const trp_exported_buffer *e, void **map)
{
    H_CHECK(e->timeline_fd > STDERR_FILENO && (fcntl(e->timeline_fd, F_GETFD) & FD_CLOEXEC));
    H_CHECK(mmap(NULL, e->timeline_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e->timeline_fd,
                 (off_t)e->timeline_offset) == MAP_FAILED);
    *map = mmap(NULL, e->timeline_bytes, PROT_READ, MAP_SHARED, e->timeline_fd,
                (off_t)e->timeline_offset);
    H_CHECK(*map != MAP_FAILED);
    return *map;
}

static bool is_reached(const volatile uint64_t *timeline, const trp_export_wait *wait,
                       uint64_t ticket)
{
    return __atomic_load_n(timeline + wait->offset / 8, __ATOMIC_ACQUIRE) >= ticket;
}

/* What was sent and has not ended is listed, with its words; what only reads apart from it. */
static void waits(void)
{
    enum { BYTES = 4096 };
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *one = h_actor(d, "probe"), *two = h_actor(d, "probe"), *three = h_actor(d, "probe");
    trp_buffer b = h_buffer(d, BYTES), other = h_buffer(d, BYTES);
    h_fill(d, b, 0);
    h_fill(d, other, 0);
    const uint64_t long_ns = (uint64_t)(300 * H_MS);
    trp_completion wrote = {0}, read = {0}, unrelated = {0};
    H_OK(trp_probe(
        one, &(trp_probe_request){.action = TRP_PROBE_SPIN, .duration_ns = long_ns, .outputs = {b}},
        &wrote));
    H_OK(trp_probe(two, &(trp_probe_request){.inputs = {b}}, &read)); /* waits for the first */
    H_OK(trp_probe(
        three,
        &(trp_probe_request){.action = TRP_PROBE_SPIN, .duration_ns = long_ns, .outputs = {other}},
        &unrelated));
    trp_exported_buffer e = exported(d, b);
    bool pending = trp_await(wrote.future, 0, NULL) == TRP_E_TIMEOUT;
    if (pending) { /* else the machine stood still for all that time */
        void *memory;
        const volatile uint64_t *timeline = map_timeline(&e, &memory);
        H_EQUAL(e.wait_count, 2);
        H_EQUAL(e.incarnation, h_info(d).incarnation);
        const trp_export_wait *writer = e.wait[0].written ? &e.wait[0] : &e.wait[1];
        const trp_export_wait *reader = e.wait[0].written ? &e.wait[1] : &e.wait[0];
        H_EQUAL(reader->written, 0);
        H_EQUAL(writer->used, writer->written);
        H_CHECK(reader->used > writer->used);
        while (!is_reached(timeline, reader, reader->used))
            h_sleep(H_MS);
        H_CHECK(is_reached(timeline, writer, writer->written));
        H_OK(trp_await(wrote.future, TRP_FOREVER, NULL));
        munmap(memory, e.timeline_bytes);
    }
    close_exported(&e);
    H_OK(h_await_any(read));
    H_OK(h_await_any(unrelated));
    e = exported(d, b);
    H_EQUAL(e.wait_count, 0);
    H_EQUAL(e.timeline_fd, -1);
    close_exported(&e);
    h_close(&w);
}

/* A worker that dies leaves its words behind; those of the next one have the same numbers. */
static void waits_over_deaths(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("the worker is a thread");
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *one = h_actor(d, "probe"), *two = h_actor(d, "probe");
    trp_buffer b = h_buffer(d, 4096);
    h_fill(d, b, 0);
    for (int round = 0; round < 5; round++) {
        trp_completion killed = {0}, read = {0};
        H_OK(trp_probe(two,
                       &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                            .duration_ns = (uint64_t)(50 * H_MS),
                                            .inputs = {b}},
                       &read));
        h_probe(one, TRP_PROBE_SEGV, &killed);
        trp_exported_buffer first = exported(d, b);
        H_IS(h_await_any(killed), TRP_E_FAULT);
        trp_exported_buffer e = exported(d, b);
        for (uint32_t i = 0; i < e.wait_count; i++) {
            void *memory;
            const volatile uint64_t *timeline = map_timeline(&e, &memory);
            while (h_info(d).incarnation == e.incarnation &&
                   !is_reached(timeline, &e.wait[i], e.wait[i].used))
                h_sleep(H_MS);
            munmap(memory, e.timeline_bytes);
        }
        H_OK(h_await_any(read)); /* it runs again */
        close_exported(&first);
        close_exported(&e);
    }
    h_close(&w);
}

/* A GPU program imports what is exported, by the driver's own calls. */

static void *driver_call(void *driver, const char *name)
{
    void *call = dlsym(driver, name);
    if (!call)
        h_fail(__FILE__, __LINE__, "no %s", name);
    return call;
}

static void imported(void)
{
    enum { BYTES = 300000 };
    if (!h_is_cuda())
        h_skip("no GPU");
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    const char *path = getenv("TROUPE_CUDA_DRIVER");
    void *driver = dlopen(path && path[0] ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    H_CHECK(driver);
#define CALL(name, ...) ((int (*)(__VA_ARGS__))driver_call(driver, name))
    typedef unsigned long long address;
    void *context = NULL;
    int device = -1;
    char uuid[16] = {0};
    H_EQUAL(CALL("cuInit", unsigned)(0), 0);
    H_EQUAL(CALL("cuDeviceGet", int *, int)(&device, 0), 0);
    H_EQUAL(CALL("cuDeviceGetUuid_v2", void *, int)(uuid, device), 0);
    H_EQUAL(CALL("cuDevicePrimaryCtxRetain", void **, int)(&context, device), 0);
    H_EQUAL(CALL("cuCtxSetCurrent", void *)(context), 0);
    for (int sealed = 0; sealed < 2; sealed++) {
        trp_buffer before = h_buffer(d, 1000); /* so that the offset is not 0 */
        trp_buffer b = sealed ? h_sealable(d, BYTES) : h_buffer(d, BYTES);
        char *data = h_random_block(h_rng(), BYTES), *got = h_malloc(BYTES);
        h_write(d, b, 0, data, BYTES);
        if (sealed)
            H_OK(trp_buffer_seal(d, b, TRP_FOREVER));
        trp_exported_buffer e = exported(d, b);
        H_SAME(e.uuid, uuid, 16);
        address memory = 0, at = 0;
        int access[3] = {1, device, e.read_only ? 1 : 3}; /* CUmemAccessDesc */
        H_EQUAL(CALL("cuMemImportFromShareableHandle", address *, void *,
                     int)(&memory, (void *)(intptr_t)e.fd, 1),
                0);
        H_EQUAL(CALL("cuMemAddressReserve", address *, size_t, size_t, address,
                     address)(&at, e.allocation_bytes, e.granularity, 0, 0),
                0);
        H_EQUAL(CALL("cuMemMap", address, size_t, size_t, address, address)(at, e.allocation_bytes,
                                                                            0, memory, 0),
                0);
        H_EQUAL(CALL("cuMemSetAccess", address, size_t, const void *,
                     size_t)(at, e.allocation_bytes, access, 1),
                0);
        H_EQUAL(CALL("cuMemcpyDtoH_v2", void *, address, size_t)(got, at + e.offset, BYTES), 0);
        H_SAME(got, data, BYTES);
        if (!sealed) {
            h_random_bytes(h_rng(), data, BYTES);
            H_EQUAL(
                CALL("cuMemcpyHtoD_v2", address, const void *, size_t)(at + e.offset, data, BYTES),
                0);
            H_EQUAL(CALL("cuCtxSynchronize", void)(), 0);
            h_read(d, b, 0, got, BYTES);
            H_SAME(got, data, BYTES);
        }
        H_EQUAL(CALL("cuMemUnmap", address, size_t)(at, e.allocation_bytes), 0);
        H_EQUAL(CALL("cuMemAddressFree", address, size_t)(at, e.allocation_bytes), 0);
        H_EQUAL(CALL("cuMemRelease", address)(memory), 0);
        close_exported(&e);
        H_OK(trp_buffer_free(d, before));
        H_OK(trp_buffer_free(d, b));
        free(data);
        free(got);
    }
    H_EQUAL(CALL("cuCtxSetCurrent", void *)(NULL), 0);
    H_EQUAL(CALL("cuDevicePrimaryCtxRelease_v2", int)(device), 0);
    dlclose(driver);
    h_close(&w);
}

H_CASES(H_CASE(other_process), H_CASE(waits), H_CASE(waits_over_deaths), H_CASE(imported))

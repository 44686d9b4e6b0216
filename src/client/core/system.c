/* Systems, the registry of open devices, and finding the worker program. */
#include "base/call.h"
#include "base/os/cpu.h"
#include "base/os/descriptor.h"
#include "base/error.h"
#include "client/core/device.h"
#include "driver/device_memory.h"
#include "wire/rank.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define ALIVE_BYTES 4096

/* Open devices by tag, for handles without a device. A counter per slot makes the tags of
 * successive devices differ. */
static trp__lock registry_lock = TRP__LOCK_INITIAL(TRP__RANK_REGISTRY);
static _Atomic(trp_device *) registry[TRP__DEVICES];
static uint32_t registry_uses[TRP__DEVICES];

/* Held across fork(): a child forked while another thread held the lock would wait for ever. */
static void lock_registry(void)
{
    trp__lock_take(&registry_lock);
}

static void unlock_registry(void)
{
    trp__lock_drop(&registry_lock);
}

static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void watch_forks(void)
{
    pthread_atfork(lock_registry, unlock_registry, unlock_registry);
}

/* A device of the parent counts as free, for a forked child can't use or close it. */
static bool is_free(const trp_device *device)
{
    return !device || *device->alive == 0;
}

trp_status trp__device_known(const trp_device *device)
{
    if (!device)
        return trp__fail_null("device");
    if (!device->alive)
        return trp__fail(TRP_E_STALE, "device: it was closed");
    if (*device->alive == 0)
        return trp__fail(TRP_E_FORKED, "this device was opened by the parent process; a forked "
                                       "child must open its own");
    return TRP_OK;
}

void trp__error_down(const trp_device *device, trp_error *error)
{
    if (atomic_load(&device->closing))
        trp__error_set(error, TRP_E_DEVICE_DOWN, "the device is closed");
    else
        *error = device->down;
}

trp_status trp__device_usable(const trp_device *device)
{
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    if (atomic_load_explicit(&device->state, memory_order_acquire) != TRP_DEVICE_DOWN)
        return TRP_OK;
    trp_error error;
    trp__error_down(device, &error);
    return trp__error_raise(&error);
}

trp_status trp__system_usable(const trp_system *system)
{
    if (*system->alive != 0)
        return TRP_OK;
    return trp__fail(TRP_E_FORKED,
                     "this system was made by the parent process; a forked child must "
                     "make its own");
}

void trp__system_retain(trp_system *system, trp__remnant *remnant)
{
    remnant->next = atomic_load(&system->remnants);
    while (!atomic_compare_exchange_weak(&system->remnants, &remnant->next, remnant))
        continue;
}

static void free_remnants(trp_system *system)
{
    trp__remnant *next;
    for (trp__remnant *one = atomic_load(&system->remnants); one; one = next) {
        next = one->next;
        free(one->memory);
        free(one);
    }
}

/* Makes a word that is not zero but reads zero in a forked child. */
static const uint32_t *alive_create(trp_error *error)
{
    uint32_t *word =
        mmap(NULL, ALIVE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (word == MAP_FAILED) {
        trp__error_set_errno(error, "mmap");
        return NULL;
    }
    if (madvise(word, ALIVE_BYTES, MADV_WIPEONFORK) != 0) {
        trp__error_set_errno(error, "madvise(MADV_WIPEONFORK) (Linux 4.14 or later is needed)");
        munmap(word, ALIVE_BYTES);
        return NULL;
    }
    *word = 1;
    return word;
}

static void alive_destroy(const uint32_t *alive)
{
    munmap((void *)(uintptr_t)alive, ALIVE_BYTES);
}

trp_device *trp__device_by_tag(uint32_t tag)
{
    trp_device *device = atomic_load_explicit(&registry[tag % TRP__DEVICES], memory_order_acquire);
    return device && device->tag == tag ? device : NULL;
}

trp_status trp__device_register(trp_device *device)
{
    trp_system *system = device->system;
    trp_status status = TRP_OK;
    uint32_t uses_max = (1U << TRP__TAG_BITS) / TRP__DEVICES - 1;
    uint32_t i = 0;
    trp__lock_take(&registry_lock);
    while (i < TRP__DEVICES && !is_free(atomic_load(&registry[i])))
        i++;
    if (i == TRP__DEVICES) {
        status =
            trp__fail(TRP_E_BUSY, "expected at most %d open devices, all are open", TRP__DEVICES);
    } else {
        registry_uses[i] = registry_uses[i] % uses_max + 1; /* never 0, so no tag is 0 */
        device->tag = registry_uses[i] * TRP__DEVICES + i;
        atomic_store(&registry[i], device);
    }
    trp__lock_drop(&registry_lock);
    if (status != TRP_OK)
        return status;
    trp__lock_take(&system->lock);
    system->device[i] = device;
    system->devices++;
    trp__lock_drop(&system->lock);
    return TRP_OK;
}

/* Takes a device off the list of devices that waiting threads sweep; waits for sweeps in
 * progress. */
void trp__device_unlist(trp_device *device)
{
    trp_system *system = device->system;
    trp__lock_take(&system->lock);
    system->device[device->tag % TRP__DEVICES] = NULL;
    system->devices--;
    trp__lock_drop(&system->lock);
}

/* Waits for trp__devices_see(). */
void trp__device_unregister(trp_device *device)
{
    trp__lock_take(&registry_lock);
    atomic_store(&registry[device->tag % TRP__DEVICES], NULL);
    trp__lock_drop(&registry_lock);
}

/* Calls see() for the devices that this process, not its parent, has open; none is closed
 * meanwhile. */
void trp__devices_see(void (*see)(trp_device *device))
{
    trp__lock_take(&registry_lock);
    for (uint32_t i = 0; i < TRP__DEVICES; i++) {
        trp_device *device = atomic_load(&registry[i]);
        if (!is_free(device) && atomic_load_explicit(&device->observable, memory_order_acquire))
            see(device);
    }
    trp__lock_drop(&registry_lock);
}

/* The worker program. */

static bool try_path(char *out, size_t size, const char *folder, size_t folder_length,
                     const char *rest)
{
    int n = snprintf(out, size, "%.*s%s/troupe-worker", (int)folder_length, folder, rest);
    if (n > 0 && (size_t)n < size && access(out, X_OK) == 0)
        return true;
    out[0] = '\0';
    return false;
}

static bool try_beside(char *out, size_t size, const char *file)
{
    const char *slash = strrchr(file, '/');
    size_t length = slash ? (size_t)(slash - file) : 0;
    return slash && (try_path(out, size, file, length, "") ||
                     try_path(out, size, file, length, "/../libexec/troupe") ||
                     try_path(out, size, file, length, "/../../libexec/troupe"));
}

/* Workers are started later, too, when the program may have another working folder. */
static void make_absolute(char *out, size_t size, const char *path)
{
    char folder[4096];
    trp__copy_string(out, size, path);
    if (path[0] == '/' || path[0] == '\0' || !getcwd(folder, sizeof folder))
        return;
    if ((size_t)snprintf(out, size, "%s/%s", folder, path) >= size)
        trp__copy_string(out, size, path);
}

static void find_worker(char *out, size_t size, const char *worker_path)
{
    char executable[4096];
    Dl_info library;
    const char *environment = secure_getenv("TROUPE_WORKER");
    out[0] = '\0';
    if (worker_path || environment) {
        make_absolute(out, size, worker_path ? worker_path : environment);
        return; /* unchecked: a wrong path fails when a device is opened */
    }
    ssize_t n = readlink("/proc/self/exe", executable, sizeof executable - 1);
    if (n > 0) {
        executable[n] = '\0';
        if (try_beside(out, size, executable))
            return;
    }
    if (dladdr((void *)(uintptr_t)&trp_system_create, &library) && library.dli_fname &&
        try_beside(out, size, library.dli_fname)) {
        char relative[4096];
        trp__copy_string(relative, sizeof relative, out);
        make_absolute(out, size, relative);
        return;
    }
#ifdef TROUPE_LIBEXECDIR
    try_path(out, size, TROUPE_LIBEXECDIR, strlen(TROUPE_LIBEXECDIR), "");
#endif
}

trp_status trp_system_worker_path(trp_system *system, char *out, size_t size)
{
    TRP__CALL(trp__call_refused());
    if (!system || !out)
        return trp__fail_null(system ? "out" : "system");
    if (system->worker_path[0] == '\0')
        return trp__fail(TRP_E_MISSING, TRP__NO_WORKER);
    if (strlen(system->worker_path) >= size)
        return trp__fail(TRP_E_ARGUMENT, "size: expected at least %zu, got %zu",
                         strlen(system->worker_path) + 1, size);
    trp__copy_string(out, size, system->worker_path);
    return TRP_OK;
}

trp_status trp__check_room(const uint64_t *reserved, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (reserved[i] != 0)
            return trp__fail(TRP_E_ARGUMENT,
                             "reserved[%zu]: expected 0, got %#llx; was the struct zeroed, and "
                             "is the program compiled for this version?",
                             i, (unsigned long long)reserved[i]);
    }
    return TRP_OK;
}

trp_status trp_system_create(const trp_system_options *options, trp_system **out)
{
    TRP__CALL(trp__call_refused());
    if (!out)
        return trp__fail_null("out");
    if (options && TRP__CHECK_ROOM(options) != TRP_OK)
        return TRP_E_ARGUMENT;
    const char *worker_path = options ? options->worker_path : NULL;
    if (worker_path && strlen(worker_path) >= sizeof((*out)->worker_path))
        return trp__fail(TRP_E_ARGUMENT, "worker_path: expected fewer than %zu bytes, got %zu",
                         sizeof((*out)->worker_path), strlen(worker_path));
    trp_system *system = calloc(1, sizeof *system);
    if (!system)
        return trp__fail(TRP_E_MEMORY, "no memory for a system");
    trp_error error;
    system->alive = alive_create(&error);
    if (!system->alive) {
        free(system);
        return trp__error_raise(&error);
    }
    if (options)
        system->log = (trp__log){.sink = options->log, .user_data = options->log_user_data};
    if (!getcwd(system->folder, sizeof system->folder))
        system->folder[0] = '\0';
    find_worker(system->worker_path, sizeof system->worker_path, worker_path);
    pthread_once(&forks_once, watch_forks);
    (void)trp__cpu_may_spin(); /* as things are now, whatever this thread is bound to later */
    trp__lock_init(&system->lock, TRP__RANK_SYSTEM);
    *out = system;
    return TRP_OK;
}

trp_status trp_system_destroy(trp_system *system)
{
    TRP__CALL(trp__call_refused());
    if (!system)
        return TRP_OK;
    trp_status status = trp__system_usable(system);
    if (status != TRP_OK)
        return status;
    trp__lock_take(&system->lock);
    uint32_t devices = system->devices, queues = 0;
    for (const trp_queue *queue = system->queues; queue; queue = queue->next)
        queues++;
    trp__lock_drop(&system->lock);
    if (devices || queues)
        return trp__fail(TRP_E_BUSY, "%u devices and %u queues of this system are open", devices,
                         queues);
    free_remnants(system);
    trp__lock_destroy(&system->lock);
    alive_destroy(system->alive);
    free(system);
    return TRP_OK;
}

/* Devices of this machine. */

const char *trp_backend_name(trp_backend backend)
{
    switch (backend) {
    case TRP_BACKEND_BEST:
        return "best";
    case TRP_BACKEND_CUDA:
        return "cuda";
    case TRP_BACKEND_HOST:
        return "host";
    }
    return "unknown";
}

static void processor_name(char *out, size_t size)
{
    char line[256];
    FILE *file = trp__file_apart("/proc/cpuinfo");
    trp__copy_string(out, size, "CPU");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            line[strcspn(line, "\n")] = '\0';
            trp__copy_string(out, size, colon + 2);
            break;
        }
    }
    if (file)
        fclose(file);
}

trp_status trp__describe_device(trp_backend backend, uint32_t ordinal, trp_device_info *out,
                                trp_error *error)
{
    memset(out, 0, sizeof *out);
    out->backend = backend;
    out->ordinal = ordinal;
    if (backend == TRP_BACKEND_HOST) {
        struct sysinfo info;
        if (ordinal != 0)
            return trp__error_set(error, TRP_E_MISSING,
                                  "ordinal: the host device is number 0, got %u", ordinal);
        if (sysinfo(&info) != 0)
            return trp__error_set_errno(error, "sysinfo");
        out->memory_total = (uint64_t)info.totalram * info.mem_unit;
        out->processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
        processor_name(out->name, sizeof out->name);
        return TRP_OK;
    }
    trp__cuda_device_info gpu;
    trp_status status = trp__cuda_device_describe(ordinal, &gpu, error);
    if (status != TRP_OK)
        return status;
    trp__copy_string(out->name, sizeof out->name, gpu.name);
    out->compute_major = gpu.compute_major;
    out->compute_minor = gpu.compute_minor;
    out->processors = gpu.processors;
    out->memory_total = gpu.memory_total;
    return TRP_OK;
}

trp_status trp_system_list_devices(trp_system *system, trp_device_info *out, size_t capacity,
                                   size_t *count)
{
    TRP__CALL(trp__call_refused());
    if (!system || !count || (!out && capacity > 0))
        return trp__fail_null(!system ? "system" : !count ? "count" : "out");
    uint32_t gpus = 0;
    trp_error error = {0};
    if (trp__cuda_device_count(&gpus, NULL) != TRP_OK)
        gpus = 0;
    *count = (size_t)gpus + 1;
    for (uint32_t i = 0; i <= gpus && i < capacity; i++) {
        trp_backend backend = i < gpus ? TRP_BACKEND_CUDA : TRP_BACKEND_HOST;
        trp_status status = trp__describe_device(backend, i < gpus ? i : 0, &out[i], &error);
        if (status != TRP_OK)
            return trp__error_raise(&error);
    }
    return TRP_OK;
}

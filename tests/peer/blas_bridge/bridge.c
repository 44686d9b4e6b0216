#include "bridge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static trp_system *troupe;
static trp_device *device;
trp_actor *bridge_blas;
static unsigned long calls;

bridge_slot bridge_slots[SLOTS];

static trp_completion pending[2 * SLOTS + 1];
static int pending_count;

static void check(trp_status status, const char *call)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "blas bridge: %s: %s: %s\n", call, trp_status_name(status),
            trp_error_message());
    abort();
}

/* The worker is a program of its own, and wants its BLAS as it is. */
__attribute__((constructor)) static void keep_from_worker(void)
{
    unsetenv("LD_PRELOAD");
}

static void close_all(void)
{
    const char *path = getenv("TROUPE_BLAS_CALLS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%lu\n", calls);
        fclose(file);
    }
    trp_device_close(device);
    check(trp_system_destroy(troupe), "trp_system_destroy");
}

static void open_all(void)
{
    const char *backend = getenv("TROUPE_TEST_BACKEND");
    const trp_device_options options = {
        .backend = backend && strcmp(backend, "cuda") == 0 ? TRP_BACKEND_CUDA : TRP_BACKEND_HOST};
    check(trp_system_create(NULL, &troupe), "trp_system_create");
    check(trp_device_open(troupe, &options, &device), "trp_device_open");
    check(trp_actor_create(device, &(trp_actor_options){.kind = "blas"}, &bridge_blas),
          "trp_actor_create");
    atexit(close_all);
}

trp_completion *bridge_next(void)
{
    pending[pending_count] = (trp_completion){0};
    return &pending[pending_count++];
}

static void place(int slot, const void *at, int64_t elements, trp_dtype type, int mode)
{
    const size_t bytes = elements > 0 ? (size_t)elements * trp_dtype_bits(type) / 8 : 0;
    if (!device)
        open_all();
    if (bytes > bridge_slots[slot].room || !bridge_slots[slot].room) {
        if (bridge_slots[slot].room)
            check(trp_buffer_free(device, bridge_slots[slot].buffer), "trp_buffer_free");
        bridge_slots[slot].room = bytes > 65536 ? 2 * bytes : 65536;
        check(trp_buffer_create(device, bridge_slots[slot].room, &bridge_slots[slot].buffer),
              "trp_buffer_create");
    }
    bridge_slots[slot].at = (void *)(uintptr_t)at;
    bridge_slots[slot].bytes = bytes;
    bridge_slots[slot].mode = mode;
    if (bytes > 0 && (mode & READ))
        check(trp_write(device, bridge_slots[slot].buffer, 0, at, bytes, bridge_next()),
              "trp_write");
}

void bridge_place_matrix(int slot, const void *at, int64_t rows, int64_t columns, int64_t ld,
                         trp_dtype type, int mode)
{
    place(slot, at, rows > 0 && columns > 0 ? (columns - 1) * ld + rows : 0, type, mode);
}

void bridge_place_vector(int slot, const void *at, int64_t n, int64_t inc, trp_dtype type, int mode)
{
    place(slot, at, n > 0 ? (n - 1) * (inc < 0 ? -inc : inc) + 1 : 0, type, mode);
}

void bridge_finish(trp_status sent, const char *name)
{
    check(sent, name);
    for (int i = 0; i < SLOTS; i++) {
        if (bridge_slots[i].bytes > 0 && (bridge_slots[i].mode & WRITE))
            check(trp_read(device, bridge_slots[i].buffer, 0, bridge_slots[i].at,
                           bridge_slots[i].bytes, bridge_next()),
                  "trp_read");
        bridge_slots[i].bytes = 0;
        bridge_slots[i].mode = 0;
    }
    for (int i = 0; i < pending_count; i++)
        check(trp_await(pending[i].future, INT64_C(60000000000), NULL), name);
    pending_count = 0;
    calls++;
}

/* Host memory that was freed stays with the device for the next one. */
#include "support/harness.h"

#include <signal.h>

TROUPE_TEST();
TROUPE_TEST_FAKE_GPU();

/* Regions of host memory that are mapped here. */
static int mapped_regions(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    H_CHECK(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "memfd:troupe-host") != NULL;
    fclose(maps);
    return count;
}

static void copy_there_and_back(trp_device *device, void *memory, uint64_t bytes)
{
    char *want = h_malloc(bytes);
    trp_buffer b = h_buffer(device, bytes);
    h_random_bytes(h_rng(), memory, bytes);
    memcpy(want, memory, bytes);
    h_write(device, b, 0, memory, bytes);
    memset(memory, 0, bytes);
    h_read(device, b, 0, memory, bytes);
    H_SAME((char *)memory, want, bytes);
    H_OK(trp_buffer_free(device, b));
    free(want);
}

/* What was freed is given again, zeroed, up to a bound, unless another worker has pinned it. */
static void freed_host_memory_is_kept(void)
{
    enum { REGIONS = 18, KEPT = 16 };
    const uint64_t bytes = 4 * H_MIB;
    const bool apart = h_isolation() == TRP_ISOLATION_PROCESS; /* else the worker maps them here */
    h_world w = h_open(NULL);
    void *memory[REGIONS], *again;
    char *zeros = h_malloc(bytes);
    memset(zeros, 0, bytes);
    for (int i = 0; i < REGIONS; i++) {
        H_OK(trp_host_alloc(w.device, bytes, &memory[i]));
        memset(memory[i], i + 1, bytes);
    }
    for (int i = 0; i < REGIONS; i++)
        H_OK(trp_host_free(w.device, memory[i]));
    H_CHECK(!apart || mapped_regions() == KEPT);
    H_IS(trp_host_free(w.device, memory[3]), TRP_E_STALE);
    H_OK(trp_host_alloc(w.device, bytes - 1, &again));
    H_CHECK(again == memory[0]);
    H_SAME((char *)again, zeros, bytes);
    copy_there_and_back(w.device, again, bytes);
    H_OK(trp_host_free(w.device, again));

    H_OK(trp_host_alloc(w.device, bytes / 2, &again)); /* another size */
    H_CHECK(!apart || mapped_regions() == KEPT + 1);
    H_OK(trp_host_free(w.device, again)); /* beyond the bound */
    H_CHECK(!apart || mapped_regions() == KEPT);
    H_OK(trp_device_trim(w.device));
    H_CHECK(!apart || mapped_regions() == 0);

    H_OK(trp_host_alloc(w.device, bytes, &memory[0]));
    H_OK(trp_host_free(w.device, memory[0]));
    if (apart) {
        const trp_device_info before = h_info(w.device);
        kill((pid_t)before.worker_pid, SIGKILL);
        while (h_info(w.device).incarnation == before.incarnation)
            h_sleep(H_MS);
    }
    H_OK(trp_host_alloc(w.device, bytes, &again));
    H_CHECK(!apart || mapped_regions() == 1); /* what the dead worker had pinned is gone */
    copy_there_and_back(w.device, again, bytes);
    H_OK(trp_host_free(w.device, again));
    free(zeros);
    h_close(&w);
}

H_CASES(H_CASE(freed_host_memory_is_kept))

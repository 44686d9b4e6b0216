#include "support/faults/killer.h"

#include <signal.h>

void h_kill_worker(trp_device *device)
{
    const trp_device_info info = h_info(device);
    if (info.state == TRP_DEVICE_READY && info.worker_pid > 0)
        kill((pid_t)info.worker_pid, SIGKILL);
}

static void *kill_later(void *argument)
{
    h_killer *k = argument;
    for (int i = 0; i < k->kills; i++) {
        h_sleep(k->after_ns[i]);
        h_kill_worker(k->device);
    }
    return NULL;
}

void h_killer_start(h_killer *k, trp_device *device, int kills, int64_t span)
{
    *k = (h_killer){.device = device, .kills = kills};
    H_CHECK(kills <= H_KILLS);
    for (int i = 0; i < kills; i++)
        k->after_ns[i] = (int64_t)ref_rng_below(h_rng(), (size_t)span);
    if (kills > 0)
        k->thread = h_start(kill_later, k);
}

void h_killer_end(h_killer *k)
{
    if (k->thread)
        h_join(k->thread);
    h_await_state(k->device, TRP_DEVICE_READY);
}

void h_check_deaths(const char *file, int line, trp_device *device, int64_t span)
{
    const trp_device_info info = h_info(device);
    h_check_equal(file, line, "requests_failed", info.requests_failed, 0);
    printf("  %u workers died, of what took %" PRId64 " us each\n", info.restarts, span / 1000);
    if (info.restarts == 0)
        h_fail(file, line, "no worker died");
}

/* Calls of other threads to the supervisor. */
#include "base/call.h"
#include "client/core/device.h"

#include <unistd.h>

/* The write can only fail because the counter is full, which wakes as well. */
void trp__supervisor_ring(const trp_device *device)
{
    uint64_t one = 1;
    trp__call_shield();
    ssize_t done = write(device->wake_fd, &one, sizeof one);
    (void)done;
}

void trp__supervisor_wake(trp_device *device)
{
    if (atomic_load(&device->supervisor_asleep)) /* after what left_to_end() counts was raised */
        trp__supervisor_ring(device);
}

void trp__supervisor_alarm(trp_device *device)
{
    if (!atomic_exchange(&device->alarm, true))
        trp__supervisor_ring(device);
}

bool trp__standby_give_up(trp_device *device)
{
    if (device->backend != TRP_BACKEND_CUDA || atomic_load(&device->standby_pid) == 0 ||
        atomic_exchange(&device->standby_unwanted, true))
        return false;
    trp__supervisor_ring(device);
    trp__lock_take(&device->lock);
    while (atomic_load(&device->standby_pid) != 0 && atomic_load(&device->state) != TRP_DEVICE_DOWN)
        trp__lock_wait(&device->lock, &device->changed);
    trp__lock_drop(&device->lock);
    return true;
}

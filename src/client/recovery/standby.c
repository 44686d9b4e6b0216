/* Starting the standby, and ending one that is dead or unwanted. */
#include "base/os/clock.h"
#include "base/error.h"
#include "client/core/points.h"
#include "client/recovery/recovery.h"

#define STANDBY_DELAY_MAX_NS (10 * TRP__SECOND) /* it is no hurry */

static bool wants_standby(const trp_device *device)
{
    return device->options.isolation == TRP_ISOLATION_PROCESS &&
           device->options.standby == TRP_STANDBY_ON && device->recovery.started &&
           atomic_load(&device->state) == TRP_DEVICE_READY &&
           !atomic_load(&device->standby_unwanted);
}

/* A standby died, or could not be started: the next one comes later. */
static void note_standby_failure(trp_device *device, uint32_t incarnation, const trp_error *cause)
{
    int64_t now = trp__now_ns();
    device->recovery.standby_failures++;
    device->recovery.standby_after =
        now + trp__start_delay(device->recovery.standby_failures, STANDBY_DELAY_MAX_NS);
    trp__device_line(device, TRP_NOTICE_STANDBY_LOST, TRP__LOG_WARNING,
                     "the standby worker is lost: %s", cause->message);
    trp__notice_post(device, TRP_NOTICE_STANDBY_LOST, incarnation, now, 0, cause);
}

/* Returns the time until a standby may be started; -1: none is wanted. */
int64_t trp__standby_delay(const trp_device *device)
{
    if (device->worker[1 - device->active].socket >= 0 || !wants_standby(device))
        return -1;
    int64_t left = device->recovery.standby_after - trp__now_ns();
    return left > 0 ? left : 0;
}

/* Ends a standby that is dead, useless or unwanted. */
void trp__standby_lose(trp_device *device, bool dead)
{
    trp_error cause = {0};
    uint32_t index = 1 - device->active;
    trp__suspicion suspicion = trp__actor_start_suspicion(device, index);
    const trp__process *p = &device->worker[index];
    uint32_t incarnation = p->incarnation;
    /* Failures in a row of standbys that did not get ready count. */
    trp__lock_take(&device->lock);
    if (p->ready && p->outbox.count == 0 && !p->breach)
        device->recovery.standby_failures = 0;
    trp__lock_drop(&device->lock);
    trp__process_end(device, index, true, &cause);
    if (dead)
        TRP__DEVICE_POINT(device, STANDBY_LOST);
    else
        TRP__DEVICE_POINT(device, STANDBY_GIVEN_UP);
    if (dead) {
        trp__actor_start_explain(device, &suspicion, &cause);
        trp__actor_start_blame(device, &suspicion, false, &cause);
    }
    trp__actor_start_end_trials(device);
    if (dead) {
        note_standby_failure(device, incarnation, &cause);
    } else {
        trp__error_set(&cause, TRP_E_MEMORY,
                       "the standby worker is given up: its memory is needed");
        trp__device_line(device, TRP_NOTICE_STANDBY_LOST, TRP__LOG_WARNING, "%s", cause.message);
        trp__notice_post(device, TRP_NOTICE_STANDBY_LOST, incarnation, trp__now_ns(), 0, &cause);
    }
    trp__lock_take(&device->lock);
    pthread_cond_broadcast(&device->changed);
    trp__lock_drop(&device->lock);
}

void trp__standby_look_after(trp_device *device)
{
    trp_error error;
    uint32_t index = 1 - device->active;
    bool due = trp__standby_delay(device) == 0;
    if (due)
        TRP__DEVICE_POINT(device, STANDBY_LAUNCH);
    if (device->worker[index].socket >= 0 && atomic_load(&device->standby_unwanted))
        trp__standby_lose(device, false);
    else if (due && trp__process_launch(device, index, &error) != TRP_OK)
        note_standby_failure(device, device->recovery.incarnations, &error);
}

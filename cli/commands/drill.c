#include "drill.h"

#include "ui/ui.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SCRATCH_BYTES   (UINT64_C(1) << 20)
#define READY_WITHIN_NS UINT64_C(60000000000)

/* Waits until another worker than drill->before's is ready, or the device is down. */
static bool wait_for_worker(struct run *run, struct drill *drill)
{
    const struct timespec pause = {.tv_nsec = 100000};
    uint64_t began = ui_now();
    for (;;) {
        if (!run_check(trp_device_get_info(run->device, &drill->after), "asking for the device"))
            return false;
        drill->ready_ns = ui_now() - began;
        if (drill->after.state == TRP_DEVICE_READY &&
            drill->after.incarnation != drill->before.incarnation)
            return true;
        if (drill->after.state == TRP_DEVICE_DOWN || drill->ready_ns > READY_WITHIN_NS) {
            ui_error("no new worker came after the fault; the device is %s",
                     drill->after.state == TRP_DEVICE_DOWN ? "down" : "not ready");
            return false;
        }
        nanosleep(&pause, NULL);
    }
}

static bool fault(struct run *run, trp_actor *probe, trp_buffer output, struct drill *drill)
{
    trp_probe_request request = {.action = drill->action, .outputs = {output}};
    trp_completion done = {0};
    uint64_t began = ui_now();
    if (!run_check(trp_probe(probe, &request, &done), "sending the fault"))
        return false;
    trp_await(done.future, TRP_FOREVER, &drill->error);
    drill->failed_ns = ui_now() - began;
    return wait_for_worker(run, drill);
}

static void look_at_output(struct run *run, trp_buffer output, struct drill *drill)
{
    char byte;
    trp_completion done = {0};
    trp_status status = trp_read(run->device, output, 0, &byte, sizeof byte, &done);
    if (status == TRP_OK)
        status = trp_await(done.future, TRP_FOREVER, NULL);
    drill->output_lost = status == TRP_E_LOST;
}

bool drill_run(struct run *run, struct drill *out)
{
    trp_actor *probe = NULL;
    trp_buffer output = {0};
    trp_actor_options options = {.kind = "probe"};
    trp_completion filled = {0};
    bool ok = false;

    memset(out, 0, sizeof *out);
    out->action =
        run->info.backend == TRP_BACKEND_CUDA ? TRP_PROBE_ILLEGAL_ADDRESS : TRP_PROBE_SEGV;
    if (!run_check(trp_device_get_info(run->device, &out->before), "asking for the device") ||
        !run_check(trp_actor_create(run->device, &options, &probe), "starting the probe actor") ||
        !run_check(trp_buffer_create(run->device, SCRATCH_BYTES, &output), "getting memory"))
        goto out;
    /* Fill the buffer first, to distinguish lost from never written. */
    if (!run_await(trp_fill(run->device, output, 0, SCRATCH_BYTES, 0, 1, &filled), &filled,
                   "filling a buffer"))
        goto out;
    ok = fault(run, probe, output, out);
    if (ok)
        look_at_output(run, output, out);
out:
    if (output.id)
        run_check(trp_buffer_free(run->device, output), "giving device memory back");
    trp_actor_destroy(probe);
    return ok;
}

run_text drill_cause(const struct drill *d)
{
    run_text text;
    const trp_error *e = &d->error;
    if (e->status != TRP_E_FAULT)
        snprintf(text.s, sizeof text.s, "%s", trp_status_name(e->status));
    else if (e->fault == TRP_FAULT_SIGNAL)
        snprintf(text.s, sizeof text.s, "signal %d, %s", e->code, strsignal(e->code));
    else
        snprintf(text.s, sizeof text.s, "%s error %d", e->domain, e->code);
    return text;
}

bool drill_good(const struct drill *d)
{
    return d->error.status == TRP_E_FAULT && d->after.incarnation > d->before.incarnation &&
           d->after.worker_pid != d->before.worker_pid && d->output_lost;
}

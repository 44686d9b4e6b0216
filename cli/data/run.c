#include "run.h"

#include "ui/ui.h"

#include <stdio.h>
#include <string.h>

const char *const run_backend_names[] = {
    [TRP_BACKEND_BEST] = "best",
    [TRP_BACKEND_CUDA] = "cuda",
    [TRP_BACKEND_HOST] = "host",
    NULL,
};

bool run_choice_resolve(const struct command *command, run_choice *choice)
{
    if (choice->gpu < 0) {
        choice->gpu = 0;
        return true;
    }
    if (choice->backend == TRP_BACKEND_HOST) {
        options_reject(command, "--gpu and --device host contradict each other");
        return false;
    }
    if (choice->gpu > UINT16_MAX) {
        options_reject(command, "--gpu: there is no GPU %lld", (long long)choice->gpu);
        return false;
    }
    choice->backend = TRP_BACKEND_CUDA; /* naming a GPU excludes the host */
    return true;
}

bool run_fits(const struct run *run, const char *what, double need, double files)
{
    if (run->info.backend == TRP_BACKEND_HOST)
        need = 2 * need + files;
    if (need <= (double)run->info.memory_total)
        return true;
    ui_error("the %s need %s of memory; %s has %s", what, ui_bytes((uint64_t)need).s,
             run_device_text(&run->info).s, ui_bytes(run->info.memory_total).s);
    return false;
}

bool run_check(trp_status status, const char *doing)
{
    if (status != TRP_OK)
        ui_error("%s: %s (%s)", doing, trp_error_message(), trp_status_name(status));
    return status == TRP_OK;
}

bool run_await(trp_status sent, const trp_completion *completion, const char *doing)
{
    return run_check(sent == TRP_OK ? trp_await(completion->future, TRP_FOREVER, NULL) : sent,
                     doing);
}

bool run_open(struct run *run, const run_choice *choice, const char *kind,
              const trp_system_options *options)
{
    const trp_device_options device = {
        .backend = (trp_backend)choice->backend,
        .ordinal = (uint32_t)choice->gpu,
        .isolation = TRP_ISOLATION_PROCESS,
        .standby = choice->standby ? TRP_STANDBY_ON : TRP_STANDBY_OFF,
    };
    const trp_actor_options actor = {.kind = kind};
    char starting[64];
    snprintf(starting, sizeof starting, "starting the %s actor", kind);
    memset(run, 0, sizeof *run);
    return run_check(trp_system_create(options, &run->system), "starting") &&
           run_check(trp_device_open(run->system, &device, &run->device), "opening the device") &&
           run_check(trp_device_get_info(run->device, &run->info), "opening the device") &&
           run_check(trp_actor_create(run->device, &actor, &run->actor), starting);
}

void run_close(struct run *run)
{
    trp_actor_destroy(run->actor);
    trp_device_close(run->device);
    run_check(trp_system_destroy(run->system), "ending");
    memset(run, 0, sizeof *run);
}

run_text run_device_text(const trp_device_info *info)
{
    run_text text;
    if (info->backend == TRP_BACKEND_HOST)
        snprintf(text.s, sizeof text.s, "%s (host)", info->name);
    else
        snprintf(text.s, sizeof text.s, "%s (%s %u)", info->name, trp_backend_name(info->backend),
                 info->ordinal);
    return text;
}

bool run_upload(const struct run *run, trp_buffer buffer, const void *data, uint64_t bytes,
                const char *what)
{
    trp_completion done = {0};
    char doing[64];
    snprintf(doing, sizeof doing, "sending %s to the device", what);
    return bytes == 0 ||
           run_await(trp_write(run->device, buffer, 0, data, bytes, &done), &done, doing);
}

bool run_download(const struct run *run, trp_buffer buffer, void *data, uint64_t bytes)
{
    trp_completion done = {0};
    return bytes == 0 || run_await(trp_read(run->device, buffer, 0, data, bytes, &done), &done,
                                   "reading the result from the device");
}

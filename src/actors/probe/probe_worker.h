/* The worker's part of the probe actor that both backends share. */
#ifndef TRP_ACTORS_PROBE_WORKER_H
#define TRP_ACTORS_PROBE_WORKER_H

#include <troupe/probe.h>
#include <troupe/worker.h>

enum {
    /* An address whose page is never mapped: not by a process (vm.mmap_min_addr), not by a GPU. */
    TRP__PROBE_UNMAPPED = 0x100,
    /* How far behind the arena TRP_PROBE_OUT_OF_BOUNDS writes: into the guard. */
    TRP__PROBE_PAST_THE_END = 64,
};

/* Overwrites the first half of each output with rubbish, as work that dies midway would. */
trp_status trp__probe_scribble(trp_instance *instance, const trp_job *job, trp_error *error);

/* The error of `action` in handle(), TRP_OK if it is no error action. TRP_PROBE_OUT_OF_MEMORY fails
 * until *trimmed, which it then resets. */
trp_status trp__probe_error(trp_probe_action action, bool *trimmed, trp_error *error);

/* Writes TRP__PROBE_STORE_BYTES bytes to any address, as code with a wild pointer would. */
void trp__probe_store(uintptr_t address);

/* Ends this process in the way that `action` stands for. `address`: where
 * TRP_PROBE_OUT_OF_BOUNDS writes. */
void trp__probe_crash(trp_probe_action action, void *address);

#endif

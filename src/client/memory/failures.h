/* Causes of failed requests, for the errors of their dependants. */
#ifndef TRP_CLIENT_MEMORY_FAILURES_H
#define TRP_CLIENT_MEMORY_FAILURES_H

#include "client/core/device.h"

bool trp__failures_create(trp_device *device);
void trp__failures_destroy(trp_device *device);

/* Notes that a request has failed with `error`, before its end is delivered. The error of a request
 * that could not run is completed with its root. Its causes are noted before, see
 * trp__end_causes(). */
void trp__failures_note(trp_device *device, const trp__slot *slot, trp_error *error);

/* Links the outputs of a failed request to its root; called before they are poisoned. */
void trp__failures_poison(trp_device *device, const trp__slot *slot);

/* Returns whether a failed request of that ticket was noted, not too long ago. */
bool trp__failures_known(trp_device *device, uint64_t ticket);

/* Fills cause_request, cause_status and cause_fault of an error with the root of the failure of
 * request `cause`, because of which a buffer can't be read, and writes a text that names the root
 * and says why it failed. */
void trp__failures_explain(trp_device *device, uint64_t cause, uint32_t buffer, trp_error *error,
                           char *text, size_t size);

#endif

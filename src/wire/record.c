#include "wire/record.h"

#include "base/error.h"

trp_status trp__refusal(trp_error *error, trp_status status, uint64_t cause)
{
    unsigned long long request = cause;
    uint64_t named = status == TRP_E_CANCELLED || cause == TRP__WHOLE_WORKER ? 0 : cause;
    if (status == TRP_E_LOST && cause == TRP__WHOLE_WORKER)
        trp__error_set(error, status,
                       "the worker that died may have written to an input of this request, "
                       "and fault_scope is all");
    else if (status == TRP_E_LOST)
        trp__error_set(error, status,
                       "a fault during request %llu left an input of this one half-written",
                       request);
    else if (status == TRP_E_DEPENDENCY)
        trp__error_set(error, status,
                       "request %llu should have written an input of this one and failed", request);
    else
        trp__error_set(error, TRP_E_CANCELLED,
                       "cancelled before it was given to the device; nothing was done");
    error->cause_request = named;
    return error->status;
}

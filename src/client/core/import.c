/* Validates errors and texts of a worker, see validate_reply.c. The worker may be writing them, so
 * each word is read once. */
#include "base/error.h"
#include "client/core/device.h"

#include <string.h>

/* One line of printable text. */
void trp__text_import(char *to, const volatile char *from, size_t size)
{
    size_t n = 0;
    for (; n + 1 < size; n++) {
        unsigned char c = (unsigned char)from[n];
        if (c == '\0')
            break;
        to[n] = (char)(c < 0x20 || c == 0x7f ? ' ' : c);
    }
    memset(to + n, 0, size - n);
}

/* Returns a status that a worker may report; others are the client's: a caller of trp_await() would
 * take a worker's TRP_E_TIMEOUT for its own. */
static trp_status import_status(int status, trp_fault fault)
{
    switch (status) {
    case TRP_E_BUSY:
    case TRP_E_TIMEOUT:
    case TRP_E_LOST:
    case TRP_E_DEPENDENCY:
    case TRP_E_DEVICE_DOWN:
    case TRP_E_FORKED:
    case TRP_E_CANCELLED:
        return TRP_E_INTERNAL;
    case TRP_E_FAULT:
        return fault == TRP_FAULT_NONE ? TRP_E_INTERNAL : TRP_E_FAULT;
    default:
        return status < TRP_OK || status >= TRP_STATUS_COUNT ? TRP_E_INTERNAL : status;
    }
}

/* Returns a fault that a worker may report of itself; the client determines the others. */
static trp_fault import_fault(int fault)
{
    switch (fault) {
    case TRP_FAULT_GPU:
    case TRP_FAULT_SIGNAL:
    case TRP_FAULT_EXIT:
    case TRP_FAULT_LIBRARY:
        return (trp_fault)fault;
    default:
        return TRP_FAULT_NONE;
    }
}

/* Copies an error that a worker wrote, from memory that it may be writing to. TRP_OK stays; an
 * invalid status becomes TRP_E_INTERNAL. Fields that only the client knows are left empty. */
void trp__error_import(trp_error *out, const trp_error *from)
{
    const volatile trp_error *e = from;
    out->fault = import_fault((int)e->fault);
    out->status = import_status(e->status, out->fault);
    out->code = e->code;
    out->incarnation = 0;
    out->request = 0;
    trp__text_import(out->domain, e->domain, sizeof out->domain);
    memset(out->actor, 0, sizeof out->actor);
    memset(out->operation, 0, sizeof out->operation);
    memset(out->label, 0, sizeof out->label);
    out->cause_request = 0;
    out->cause_status = TRP_OK;
    out->cause_fault = TRP_FAULT_NONE;
    trp__text_import(out->message, e->message, sizeof out->message);
    if (out->status != TRP_OK && out->message[0] == '\0')
        trp__copy_string(out->message, sizeof out->message, "the worker gave no reason");
}

/* Returns whether a worker may refuse a request with this status. */
static bool may_refuse(trp_status status, const trp__record *record)
{
    return status == TRP_E_DEPENDENCY ||
           (status == TRP_E_LOST && atomic_load(&record->refuse) == (uint32_t)TRP_E_LOST) ||
           (status == TRP_E_CANCELLED && atomic_load(&record->cancelled) == record->ticket);
}

/* Does the same for the worker's reply to a request, which is no success. */
void trp__reply_import(trp_error *out, const trp__reply_error *from, const trp__record *record)
{
    const volatile trp__reply_error *e = from;
    trp_error said = {.status = e->status, .code = e->code};
    uint64_t cause = e->cause;
    trp_status status = said.status;
    trp__text_import(said.domain, e->domain, sizeof said.domain);
    trp__text_import(said.message, e->message, sizeof e->message);
    trp__error_import(out, &said);
    if (out->status == TRP_OK)
        out->status = TRP_E_INTERNAL;
    if (may_refuse(status, record)) {
        out->status = status;
        out->cause_request = status != TRP_E_CANCELLED && cause < record->ticket ? cause : 0;
    }
}

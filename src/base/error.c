#include "base/error.h"

#include "base/call.h"
#include "base/os/limits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local trp_error last_error;

_Thread_local trp__call_state trp__call_here;

/* Error of a call that a signal handler made in the middle of another. */
static const trp_error refused = {
    .status = TRP_E_UNSUPPORTED,
    .message =
        "a signal handler called Troupe while it had interrupted another call of its thread; "
        "do it after the handler has returned, or in another thread",
};

trp_status trp__call_refused(void)
{
    return refused.status;
}

const trp_error *trp__error_last(void)
{
    return &last_error;
}

const trp_error *trp_error_last(void)
{
    return trp__call_here.inside ? &refused : &last_error;
}

const char *trp_error_message(void)
{
    return trp_error_last()->message;
}

const char *trp_status_name(trp_status status)
{
    switch (status) {
#define NAME_CASE(name, value, text)                                                               \
    case name:                                                                                     \
        return #name;
        TRP_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
    default:
        return "TRP_E_UNKNOWN";
    }
}

const char *trp_status_text(trp_status status)
{
    switch (status) {
#define TEXT_CASE(name, value, text)                                                               \
    case name:                                                                                     \
        return text;
        TRP_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
    default:
        return "not a status code";
    }
}

trp_status trp__fail_null(const char *name)
{
    return trp__fail(TRP_E_ARGUMENT, "%s: expected a pointer, got NULL", name);
}

void trp__copy_string(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

static trp_status set(trp_error *error, trp_status status, const char *domain, int code,
                      const char *format, va_list args)
{
    /* Out of host memory: not of a device's, nor past a bound that the program has set. */
    const bool no_memory = status == TRP_E_MEMORY && code == 0 && errno == ENOMEM;
    if (!error)
        return status;
    memset(error, 0, sizeof *error);
    error->status = status;
    error->code = code;
    trp__copy_string(error->domain, sizeof error->domain, domain);
    int length = vsnprintf(error->message, sizeof error->message, format, args);
    if (no_memory && length > 0 && (size_t)length < sizeof error->message)
        trp__limits_text(ENOMEM, error->message + length, sizeof error->message - (size_t)length);
    return status;
}

trp_status trp__error_set(trp_error *error, trp_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(error, status, "", 0, format, args);
    va_end(args);
    return status;
}

trp_status trp__error_set_code(trp_error *error, trp_status status, const char *domain, int code,
                               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(error, status, domain, code, format, args);
    va_end(args);
    return status;
}

trp_status trp__error_set_errno(trp_error *error, const char *what)
{
    int code = errno;
    char text[96], limits[96];
    trp_status status = code == ENOMEM ? TRP_E_MEMORY : TRP_E_SYSTEM;
    return trp__error_set_code(error, status, "errno", code, "%s: %s%s", what,
                               strerror_r(code, text, sizeof text),
                               trp__limits_text(code, limits, sizeof limits));
}

trp_status trp__error_raise(const trp_error *error)
{
    if (error != &last_error)
        last_error = *error;
    return error->status;
}

trp_status trp__fail(trp_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(&last_error, status, "", 0, format, args);
    va_end(args);
    return status;
}

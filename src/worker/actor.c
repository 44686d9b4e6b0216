/* Services of the worker for actors, and validation of the statuses that they return. */
#include "worker/actor.h"

#include "base/error.h"
#include "worker/worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* Services. The actor's trp_instance is the first member of trp__instance. */

static trp__instance *of(trp_instance *instance)
{
    return (trp__instance *)instance;
}

__attribute__((format(printf, 5, 6))) static trp_status
fail(trp_error *error, trp_status status, const char *domain, int32_t code, const char *format, ...)
{
    char message[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return trp__error_set_code(error, status, domain ? domain : "", code, "%s", message);
}

static trp_status enqueue(trp_instance *instance, void (*run)(void *arguments),
                          const void *arguments, size_t bytes, trp_error *error)
{
    const trp__instance *i = of(instance);
    if (!i->backend->stream_run)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "enqueue: streams of %s run no functions of the host",
                              i->backend->name);
    return i->backend->stream_run(i->stream, run, arguments, bytes, error);
}

static trp_status copy(trp_instance *instance, void *to, const void *from, uint64_t bytes,
                       trp_error *error)
{
    const trp__instance *i = of(instance);
    return i->backend->stream_copy(i->stream, to, from, bytes, error);
}

static trp_status fill(trp_instance *instance, void *to, uint32_t pattern, uint32_t width,
                       uint64_t count, trp_error *error)
{
    const trp__instance *i = of(instance);
    return i->backend->stream_fill(i->stream, to, pattern, width, count, error);
}

static bool idle(trp_instance *instance)
{
    const trp__instance *i = of(instance);
    return i->backend->stream_idle(i->stream);
}

static trp_status cuda_fail(trp_instance *instance, int result, const char *call, trp_error *error)
{
    const trp__instance *i = of(instance);
    return i->backend->fail(i->accel, result, call, error);
}

bool trp__instance_proof_off(const trp_instance *instance)
{
    const trp__instance *i = (const trp__instance *)instance;
    return i->worker && i->worker->control->proof == TRP_PROOF_OFF;
}

uint64_t trp__instance_owner(const trp_instance *instance)
{
    const trp__instance *i = (const trp__instance *)instance;
    const bool thread = !i->worker || i->worker->control->isolation == TRP_ISOLATION_THREAD;
    return (uint64_t)(thread ? getpid() : getppid());
}

static const trp_services services = {
    .fail = fail,
    .enqueue = enqueue,
    .copy = copy,
    .fill = fill,
    .idle = idle,
    .cuda_fail = cuda_fail,
};

void trp__instance_begin(trp__instance *instance, trp_backend kind, uint32_t ordinal,
                         uint32_t incarnation)
{
    instance->api.services = &services;
    instance->api.stream = instance->backend->stream_native(instance->stream);
    instance->api.name = instance->name;
    instance->api.config = instance->config;
    instance->api.backend = kind;
    instance->api.ordinal = ordinal;
    instance->api.incarnation = incarnation;
}

/* Refusals. */

static bool is_for_actors(trp_status status)
{
    switch (status) {
    case TRP_E_ARGUMENT:
    case TRP_E_MEMORY:
    case TRP_E_UNSUPPORTED:
    case TRP_E_LIBRARY:
    case TRP_E_MISSING:
    case TRP_E_VERSION:
    case TRP_E_SYSTEM:
    case TRP_E_INTERNAL:
        return true;
    default:
        return false;
    }
}

/* Makes TRP_E_INTERNAL of a status that only Troupe itself may give, since those have consequences
 * such as lost contents. A device fault that an actor reports counts only if the device's health
 * confirms it, which is asked next. */
trp_status trp__actor_verdict(trp_status status, trp_error *error)
{
    char given[sizeof error->message], domain[sizeof error->domain];
    bool said = error->status != TRP_OK;
    int code = said ? error->code : 0;
    if (error->status == status && is_for_actors(status))
        return status;
    trp__copy_string(given, sizeof given, said ? error->message : "");
    trp__copy_string(domain, sizeof domain, said ? error->domain : "");
    return trp__error_set_code(error, is_for_actors(status) ? status : TRP_E_INTERNAL, domain, code,
                               "%s (%d)%s%.160s", trp_status_name(status), status,
                               given[0] ? ": " : " without a message", given);
}

#include "worker/library.h"

#include "base/error.h"

#include <dlfcn.h>
#include <string.h>

/* Reads only the part of the head that no version changes. */
static trp_status check_head(const trp_actor_head *head, const char *path, trp_error *error)
{
    char version[sizeof head->troupe];
    if (head->abi == TRP_ACTOR_ABI && head->bytes == TRP_ACTOR_BYTES)
        return TRP_OK;
    trp__copy_string(version, sizeof version, head->troupe);
    return trp__error_set(
        error, TRP_E_VERSION,
        "library: compiled for Troupe %s (actor ABI %u, %u bytes), this worker is "
        "%s (actor ABI %u, %u bytes): %s",
        version, head->abi, head->bytes, TRP_VERSION_STRING, TRP_ACTOR_ABI, TRP_ACTOR_BYTES, path);
}

trp_status trp__impl_check(const trp_actor_impl *impl, const char *name, trp_error *error)
{
    if (impl->abi != TRP_ACTOR_ABI)
        return trp__error_set(error, TRP_E_VERSION,
                              "%s: its implementation has actor ABI %u, this worker %u", name,
                              impl->abi, TRP_ACTOR_ABI);
    if (!impl->handle)
        return trp__error_set(error, TRP_E_ARGUMENT, "%s: handle: expected a function, got NULL",
                              name);
    if (!impl->joins != !impl->handle_joined)
        return trp__error_set(
            error, TRP_E_ARGUMENT, "%s: %s: expected a function, as there is a %s(), got NULL",
            name, impl->joins ? "handle_joined" : "joins", impl->joins ? "joins" : "handle_joined");
    if (impl->state_bytes > TRP_ACTOR_STATE_MAX)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "%s: state_bytes: expected at most %zu, got %zu", name,
                              TRP_ACTOR_STATE_MAX, impl->state_bytes);
    return TRP_OK;
}

static const char *loader_message(void)
{
    const char *message = dlerror();
    return message ? message : "the loader does not say why";
}

static trp_status find_impl(const trp_actor_library *entry, const char *path, trp_backend backend,
                            const trp_actor_impl **out, trp_error *error)
{
    trp_status status = check_head(&entry->head, path, error);
    if (status != TRP_OK)
        return status;
    const char *name = entry->name ? entry->name : path;
    const trp_actor_impl *impl = backend == TRP_BACKEND_CUDA ? entry->cuda : entry->host;
    if (!impl)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "library: %s %s has no actor for %s", name,
                              entry->version ? entry->version : "", trp_backend_name(backend));
    *out = impl;
    return TRP_OK;
}

trp_status trp__library_open(trp__library *library, const char *path, trp_backend backend,
                             const trp_actor_impl **out, trp_error *error)
{
    trp_status status;
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library->handle)
        return trp__error_set(error, TRP_E_MISSING, "library: %s", loader_message());
    const trp_actor_library *entry = dlsym(library->handle, "trp_actor_entry");
    if (!entry)
        status = trp__error_set(error, TRP_E_MISSING, "library: %s", loader_message());
    else
        status = find_impl(entry, path, backend, out, error);
    if (status != TRP_OK)
        trp__library_close(library);
    return status;
}

void trp__library_close(trp__library *library)
{
    if (library->handle)
        dlclose(library->handle);
    library->handle = NULL;
}

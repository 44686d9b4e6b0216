/* Creating and destroying actors. */
#include "base/call.h"
#include "base/os/cpu.h"
#include "base/error.h"
#include "client/api/api.h"
#include "client/core/backoff.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the actor of a free number; device->lock is held (or no other thread has the device yet).
 * Actor structs live until the device closes, because any thread may be sweeping one. */
trp__client_actor *trp__actor_make(trp_device *device, uint32_t id, const trp__actor_class *class,
                                   const char *name)
{
    trp__client_actor *actor = atomic_load(&device->actor[id]);
    if (!actor) {
        actor = aligned_alloc(64, (sizeof *actor + 63) / 64 * 64);
        if (!actor)
            return NULL;
        memset(actor, 0, sizeof *actor);
        actor->device = device;
        actor->id = id;
        actor->capacity = device->options.mailbox_size;
        atomic_store(&actor->timed_every, 1);
        actor->tail = &device->observe.stats->actor[id].tail;
        actor->mailbox = calloc(actor->capacity, sizeof *actor->mailbox);
        if (!actor->mailbox) {
            free(actor);
            return NULL;
        }
        atomic_store(&device->actor[id], actor);
    }
    actor->class = class;
    actor->library[0] = actor->config[0] = '\0';
    actor->trial = actor->suspected = actor->quarantined = false;
    actor->crash_count = 0;
    actor->companions = 0;
    actor->sender = NULL;
    actor->handle = NULL;
    actor->made++;
    actor->answered = false;
    actor->state = TRP__NUMBER_LIVE;
    trp__copy_string(actor->name, sizeof actor->name, name);
    trp__stats_put_actor(actor);
    return actor;
}

/* Returns a free number, TRP__ACTORS if there is none; waits for numbers that the workers are about
 * to drop. device->lock is held. */
static uint32_t free_number(trp_device *device)
{
    for (;;) {
        bool dropping = false;
        for (uint32_t id = TRP__LANES; id < TRP__ACTORS; id++) {
            trp__client_actor *actor = atomic_load(&device->actor[id]);
            if (!actor || actor->state == TRP__NUMBER_FREE)
                return id;
            dropping = dropping || actor->state == TRP__NUMBER_DROPPING;
        }
        if (!dropping || atomic_load(&device->state) == TRP_DEVICE_DOWN)
            return TRP__ACTORS;
        trp__lock_wait(&device->lock, &device->changed);
    }
}

static trp_status no_such_kind(const char *kind)
{
    char kinds[128] = "";
    size_t used = 0;
    for (const trp__actor_class *const *c = trp__actor_classes; *c; c++) {
        if (!(*c)->internal && used < sizeof kinds)
            used += (size_t)snprintf(kinds + used, sizeof kinds - used, "%s\"%s\"",
                                     used ? ", " : "", (*c)->kind);
    }
    return trp__fail(TRP_E_ARGUMENT, "kind: expected one of %s, got %s%s%s", kinds,
                     kind ? "\"" : "", kind ? kind : "NULL", kind ? "\"" : "");
}

/* Makes the program's handle of an actor, which outlives the actor. */
static bool make_handle(trp__client_actor *actor)
{
    actor->handle = calloc(1, sizeof *actor->handle);
    if (actor->handle)
        atomic_init(&actor->handle->live, actor);
    else
        trp__fail(TRP_E_MEMORY, "no memory for an actor");
    return actor->handle != NULL;
}

void trp__actor_leave_handle(trp__client_actor *actor)
{
    trp_actor *handle = actor->handle;
    actor->handle = NULL;
    atomic_store(&handle->live, NULL);
    trp__system_retain(actor->device->system, &handle->remnant);
}

static void drop(trp_device *device, trp__client_actor *actor)
{
    trp__broadcast_drop(device, TRP__MSG_ACTOR_DROP, actor->id, &actor->state,
                        &actor->pending_acks);
    trp__stats_put_actor(actor);
}

/* An actor to create, whose options are checked. */
typedef struct actor_spec {
    const trp__actor_class *class;
    char name[sizeof(((trp__client_actor *)0)->name)];
    char library[sizeof(((trp__client_actor *)0)->library)];
    const char *config;
} actor_spec;

/* Makes the path absolute, since workers may have another working folder. */
static trp_status find_library(actor_spec *spec, const char *path)
{
    char resolved[PATH_MAX];
    trp_error error;
    if (!realpath(path, resolved)) {
        trp__error_set_code(&error, TRP_E_MISSING, "errno", errno, "library: %.150s: %s", path,
                            strerror(errno));
        return trp__error_raise(&error);
    }
    if (strlen(resolved) >= sizeof spec->library)
        return trp__fail(TRP_E_ARGUMENT, "library: expected a path of at most %zu bytes, got %zu",
                         sizeof spec->library - 1, strlen(resolved));
    trp__copy_string(spec->library, sizeof spec->library, resolved);
    return TRP_OK;
}

/* Names an actor after its library, without folder and extension. */
static void name_after_library(actor_spec *spec)
{
    const char *slash = strrchr(spec->library, '/');
    trp__copy_string(spec->name, sizeof spec->name, slash ? slash + 1 : spec->library);
    char *extension = strstr(spec->name, ".so");
    if (extension && extension > spec->name)
        *extension = '\0';
}

/* Returns the kind: by default "custom" if a library is given. */
static const char *kind_of(const trp_actor_options *o)
{
    const trp__actor_class *const *c = trp__actor_classes;
    if (o->kind || !o->library)
        return o->kind;
    while (*c && !(*c)->library)
        c++;
    return *c ? (*c)->kind : NULL;
}

static trp_status check_options(const trp_actor_options *o, actor_spec *spec)
{
    const char *kind = kind_of(o);
    trp_status status = TRP__CHECK_ROOM(o);
    if (status != TRP_OK)
        return status;
    spec->class = kind ? trp__actor_class_find(kind) : NULL;
    spec->config = o->config ? o->config : "";
    if (!spec->class || spec->class->internal)
        return no_such_kind(kind);
    if (spec->class->library && !o->library)
        return trp__fail(TRP_E_ARGUMENT, "library: expected the path of the actor's shared object, "
                                         "got NULL");
    if (!spec->class->library && (o->library || o->config))
        return trp__fail(TRP_E_ARGUMENT, "%s: actors of kind \"%s\" have none, got \"%.100s\"",
                         o->library ? "library" : "config", kind,
                         o->library ? o->library : o->config);
    if (strlen(spec->config) > TRP_ACTOR_CONFIG_MAX)
        return trp__fail(TRP_E_ARGUMENT, "config: expected at most %d bytes, got %zu",
                         TRP_ACTOR_CONFIG_MAX, strlen(spec->config));
    if (o->name && strlen(o->name) >= sizeof spec->name)
        return trp__fail(TRP_E_ARGUMENT, "name: expected at most %zu bytes, got %zu",
                         sizeof spec->name - 1, strlen(o->name));
    if (o->library)
        status = find_library(spec, o->library);
    if (o->name || !o->library)
        trp__copy_string(spec->name, sizeof spec->name, o->name ? o->name : kind);
    else
        name_after_library(spec);
    return status;
}

/* Creates one actor and waits until the worker has created it. */
static trp_status make_one(trp_device *device, const actor_spec *spec, bool cold,
                           trp__client_actor **out)
{
    trp_error error = {0};
    trp__client_actor *actor = NULL;
    trp_status status = TRP_OK;
    trp__lock_take(&device->lock);
    uint32_t id = free_number(device);
    if (id == TRP__ACTORS) {
        status = trp__error_set(&error, TRP_E_BUSY,
                                "expected at most %d actors of a device, all are in use",
                                TRP__ACTORS - TRP__LANES);
    } else if (!(actor = trp__actor_make(device, id, spec->class, spec->name))) {
        status = trp__error_set(&error, TRP_E_MEMORY, "no memory for an actor");
    } else {
        actor->cold = cold;
        trp__copy_string(actor->library, sizeof actor->library, spec->library);
        trp__copy_string(actor->config, sizeof actor->config, spec->config);
        trp__actor_start_begin(device, actor);
        while (!actor->answered && atomic_load(&device->state) != TRP_DEVICE_DOWN)
            trp__lock_wait(&device->lock, &device->changed);
        if (!actor->answered)
            trp__error_down(device, &actor->answer);
        error = actor->answer;
        status = error.status;
        trp__copy_string(error.actor, sizeof error.actor, spec->name);
        if (status != TRP_OK)
            drop(device, actor);
    }
    trp__lock_drop(&device->lock);
    if (status != TRP_OK)
        return trp__error_raise(&error);
    *out = actor;
    return TRP_OK;
}

/* Waits until the requests up to a place in an actor's mailbox have completed. */
static void await_head(trp__client_actor *actor, uint64_t place)
{
    trp__backoff backoff = trp__backoff_begin(TRP_FOREVER);
    while (atomic_load(&actor->head) < place) {
        int64_t nap = 0;
        trp__sweep(actor);
        trp__backoff_step(&backoff, &nap);
        if (nap > 0)
            trp__nap(nap);
    }
}

static void end_one(trp__client_actor *actor)
{
    trp_device *device = actor->device;
    await_head(actor, atomic_load(actor->tail));
    trp__lock_take(&device->lock);
    drop(device, actor);
    trp__lock_drop(&device->lock);
}

static bool is_helped(const trp_device *device, const trp__actor_class *class)
{
    return device->backend != TRP_BACKEND_HOST || !class->host_alone;
}

/* Makes the class's state for an actor, see sender_make(). */
static trp_status make_sender(trp__client_actor *actor)
{
    if (!actor->class->sender_make)
        return TRP_OK;
    actor->sender = actor->class->sender_make();
    return actor->sender ? TRP_OK : trp__fail(TRP_E_MEMORY, "no memory for an actor");
}

/* Makes the device's companions, one for each processor; fewer if the device has no room for more
 * actors, which is only slower. */
static trp_status make_companions(trp_device *device, const trp__actor_class *class, bool cold)
{
    trp__companions *all = &device->api.companions;
    unsigned int count = trp__cpu_count();
    trp_status status = TRP_OK;
    if (count > TRP__COMPANIONS)
        count = TRP__COMPANIONS;
    for (all->count = 0; all->count < count && status == TRP_OK;) {
        actor_spec one = {.class = class, .config = ""};
        trp__client_actor *made = NULL;
        snprintf(one.name, sizeof one.name, "%s.%u", class->name, all->count + 1);
        status = make_one(device, &one, cold, &made);
        if (status == TRP_OK)
            all->actor[all->count++] = made;
    }
    if (status == TRP_E_BUSY && all->count > 0)
        status = TRP_OK;
    return status;
}

/* Their lock is held. */
static void end_companions(trp__companions *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        end_one(all->actor[i]);
    all->count = 0;
}

/* Gives an actor the companions of its device, which are made with the first actor that has some.
 */
static trp_status join_companions(trp_device *device, trp__client_actor *actor, bool cold)
{
    trp__companions *all = &device->api.companions;
    const trp__actor_class *class = actor->class->companion;
    trp_status status = TRP_OK;
    if (!class || !is_helped(device, actor->class))
        return TRP_OK;
    trp__lock_take(&all->lock);
    if (all->users == 0)
        status = make_companions(device, class, cold);
    if (status == TRP_OK) {
        all->users++;
        memcpy(actor->companion, all->actor, sizeof all->actor);
        actor->companions = all->count;
    } else {
        trp_error error = *trp__error_last();
        end_companions(all);
        trp__error_raise(&error);
    }
    trp__lock_drop(&all->lock);
    return status;
}

/* Waits for an actor's requests to its companions, and leaves them; the last actor ends them. */
static void leave_companions(trp_device *device, trp__client_actor *actor)
{
    trp__companions *all = &device->api.companions;
    uint64_t sent[TRP__COMPANIONS];
    for (uint32_t i = 0; i < actor->companions; i++)
        sent[i] = atomic_load(actor->companion[i]->tail);
    for (uint32_t i = 0; i < actor->companions; i++)
        await_head(actor->companion[i], sent[i]);
    if (actor->companions == 0)
        return;
    actor->companions = 0;
    trp__lock_take(&all->lock);
    if (--all->users == 0)
        end_companions(all);
    trp__lock_drop(&all->lock);
}

/* Leaves the companions first: the actor's own requests may wait for them. */
static void end_all(trp__client_actor *actor)
{
    if (actor->handle)
        trp__actor_leave_handle(actor); /* before its number can be reused */
    leave_companions(actor->device, actor);
    if (actor->sender)
        actor->class->sender_end(actor->sender, actor->device);
    actor->sender = NULL;
    end_one(actor);
}

trp_status trp_actor_create(trp_device *device, const trp_actor_options *options, trp_actor **out)
{
    TRP__CALL(trp__call_refused());
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    if (!options || !out)
        return trp__fail_null(options ? "out" : "options");
    actor_spec spec = {0};
    trp__client_actor *actor = NULL;
    status = check_options(options, &spec);
    if (status == TRP_OK && spec.class && spec.class->objects && is_helped(device, spec.class))
        status = trp__objects_open(device, spec.class->objects);
    if (status == TRP_OK)
        status = make_one(device, &spec, options->cold, &actor);
    if (status != TRP_OK || !actor)
        return status;
    status = make_handle(actor) ? make_sender(actor) : TRP_E_MEMORY;
    if (status == TRP_OK)
        status = join_companions(device, actor, options->cold);
    if (status != TRP_OK) {
        trp_error error = *trp__error_last();
        end_all(actor);
        return trp__error_raise(&error);
    }
    *out = actor->handle;
    return TRP_OK;
}

void trp_actor_destroy(trp_actor *actor)
{
    TRP__CALL();
    trp__client_actor *live = actor ? atomic_load(&actor->live) : NULL;
    /* Only one of several threads destroys it. */
    if (live && *live->device->alive != 0 && (live = atomic_exchange(&actor->live, NULL)))
        end_all(live);
}

trp_device *trp_actor_device(const trp_actor *actor)
{
    const trp__client_actor *live = trp__actor_live(actor);
    return live ? live->device : NULL;
}

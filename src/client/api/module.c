/* Modules: handles, homes, and what is told of them. A module's handle is that of its token, a
 * buffer, with one bit more, so that neither kind is taken for the other. What the token brings:
 * generations, freeing while requests are on their way, order, and that a module that could not be
 * made is noticed by those that use it. */
#include "base/call.h"
#include "client/api/kept.h"
#include "client/api/module.h"
#include "client/memory/failures.h"

#include "base/checksum.h"
#include "base/error.h"
#include "wire/rank.h"

#include <stdlib.h>
#include <string.h>

#define MODULE_BIT (UINT64_C(1) << 63) /* of the generation, which never gets there */

/* One of the ranges of trp__home_head, as this side knows it: what stands there the worker can have
 * written over. */
typedef struct module_set {
    trp__extent *extent; /* name and bytes; NULL: the place is free */
    uint64_t offset;     /* of the extent */
    uint64_t at;         /* bytes, in the variable */
    uint32_t name_bytes, bytes;
    uint32_t slot;       /* the request that writes it, */
    uint64_t generation; /* by the slot's generation */
} module_set;

typedef struct trp__module {
    trp__object object; /* first: its token names it */
    trp__client_actor *actor;
    uint64_t actor_made;
    uint32_t name_count;
    char **names;
    trp__extent *extent; /* NULL: it belongs to `kept` */
    trp__kept *kept;     /* what it shares with others or may; NULL: nothing */
    trp__lock lock;      /* the rest */
    trp__home home;
    bool cut; /* the home is as small as it can be */
    module_set set[TRP__MODULE_SETS];
} trp__module;

_Static_assert(TRP_MODULE_SETS_MAX - TRP__MODULE_SETS == 0, "as the header says");

static trp_buffer token_of(trp_module module)
{
    return (trp_buffer){(module.id & MODULE_BIT) ? module.id & ~MODULE_BIT : 0};
}

/* Making. */

static void free_module(trp__module *m)
{
    for (uint32_t i = 0; m->names && i < m->name_count; i++)
        free(m->names[i]);
    free(m->names);
    trp__lock_destroy(&m->lock);
    free(m);
}

static void destroy(trp_device *device, trp__object *object, bool made)
{
    trp__module *m = (trp__module *)(void *)object;
    for (uint32_t i = 0; i < TRP__MODULE_SETS; i++) {
        if (m->set[i].extent)
            trp__heap_return(device, m->set[i].extent);
    }
    if (m->kept && !m->home.shared)
        trp__kept_settle(device, m->kept, made);
    if (m->extent && !(m->home.shared && trp__kept_return_head(device, m->extent, m->home.offset)))
        trp__heap_return(device, m->extent);
    if (m->kept)
        trp__kept_release(device, m->kept);
    free_module(m);
}

static trp__module *new_module(const trp__module_wish *wish, trp__client_actor *actor)
{
    trp__module *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    trp__lock_init(&m->lock, TRP__RANK_OBJECT);
    m->object.destroy = destroy;
    m->actor = actor;
    m->actor_made = actor->made;
    m->names = calloc(wish->name_count ? wish->name_count : 1, sizeof *m->names);
    for (uint32_t i = 0; m->names && i < wish->name_count; i++) {
        m->names[i] = strdup(wish->names[i]);
        m->name_count++;
        if (!m->names[i]) {
            free_module(m);
            return NULL;
        }
    }
    if (m->names)
        return m;
    free_module(m);
    return NULL;
}

/* The module of a buffer's slot, NULL if there is none. Any other object is another actor's. */
static trp__module *module_at(const trp_device *device, uint32_t slot)
{
    trp__object *object = device->memory.meta[slot].object;
    return object && object->destroy == destroy ? (trp__module *)(void *)object : NULL;
}

static trp_device *device_of(const trp__pack *pack)
{
    const trp__slot *request = pack->context;
    return trp__device_by_tag(request->item.device_tag);
}

static void cut_home(trp_device *device, trp__module *m);

/* Homes are made with room for what may come; those of modules that are made are cut to what has.
 */
static void cut_all(trp_device *device)
{
    uint32_t made;
    trp__sweep_device(device);
    trp__lock_take(&device->memory.lock);
    made = device->memory.buffers_made;
    for (uint32_t i = 0; i < made; i++) {
        trp__module *m = module_at(device, i);
        if (m && atomic_load(&device->memory.meta[i].contents.word[TRP__GOOD]) != 0) {
            if (m->kept && !m->home.shared)
                trp__kept_settle(device, m->kept, true);
            else
                cut_home(device, m);
        }
    }
    trp__lock_drop(&device->memory.lock);
}

static char *at_heap(trp_device *device, uint64_t offset)
{
    return device->memory.heap.base + offset;
}

static void cut_home(trp_device *device, trp__module *m)
{
    trp__home_output head;
    trp__lock_take(&m->lock);
    if (!m->cut && !m->kept) { /* what is shared is cut by kept.c */
        memcpy(&head, at_heap(device, trp__home_output_at(&m->home)), sizeof head);
        uint64_t size = trp__home_output_size(&head, m->home.output_bytes);
        if (head.magic == TRP__HOME_OUTPUT && size != UINT64_MAX) {
            m->home.output_bytes = (uint32_t)size;
            trp__heap_cut(device, m->extent, trp__home_bytes(&m->home));
            m->cut = true;
        }
    }
    trp__lock_drop(&m->lock);
}

static void describe_place(trp_device *device, trp__module *m, trp__module_place *place)
{
    trp__lock_take(&m->lock);
    place->home = m->home;
    trp__lock_drop(&m->lock);
    place->input = at_heap(device, trp__home_input_at(&place->home));
    place->output = at_heap(device, trp__home_output_at(&place->home));
    place->name_count = m->name_count;
    place->names = (const char *const *)m->names;
    place->module = m;
}

static trp_status make_home(trp_device *device, trp__module *m, const trp__module_wish *wish,
                            trp_error *error)
{
    uint64_t offset = 0;
    m->home.segment = device->memory.heap.segment;
    m->home.output_kind = wish->output_kind;
    uint64_t bytes = trp__home_bytes(&m->home);
    m->extent = m->home.shared ? trp__kept_take_head(device, &offset) : NULL;
    if (!m->extent)
        m->extent = trp__heap_take(device, bytes, &offset);
    if (!m->extent) {
        trp__kept_drop_all(device);
        cut_all(device);
        m->extent = trp__heap_take(device, bytes, &offset);
    }
    if (!m->extent)
        return trp__error_set(error, TRP_E_BUSY,
                              "the modules of this device, with room for those that are being "
                              "made, take all of %llu GiB: free some, or await some",
                              (unsigned long long)(TRP__HEAP_BYTES >> 30));
    m->home.offset = offset;
    /* A piece that was used before is zeroed by the kernel, where it can do that. */
    memset(at_heap(device, offset), 0, sizeof(trp__home_head));
    if (!m->home.shared)
        memset(at_heap(device, trp__home_output_at(&m->home)), 0, sizeof(uint64_t));
    return TRP_OK;
}

/* Gives a module its home and its token, and adds it to the record; takes it. */
static trp_status add_module(trp__pack *pack, trp__module *m, const trp__module_wish *wish,
                             trp_module *out, trp__module_place *place)
{
    trp__slot *request = pack->context;
    trp_device *device = device_of(pack);
    trp__record *record = pack->record;
    trp__access *access = &record->access[record->access_count];
    trp_buffer token = {0};
    uint64_t bytes;
    trp_status status = make_home(device, m, wish, pack->error);
    if (status == TRP_OK) {
        status =
            trp__buffer_create(device, &(trp_buffer_options){.bytes = TRP__MODULE_TOKEN}, &token);
        if (status != TRP_OK)
            *pack->error = *trp__error_last();
    }
    if (status != TRP_OK) {
        destroy(device, &m->object, false);
        return status;
    }
    trp__buffer_set_object(device, token, &m->object);
    request->token = token.id;
    request->handle = NULL;
    access->mode = TRP__WRITE | TRP__COVER;
    status = trp__buffer_acquire(pack, "module", token, access, &bytes);
    if (status != TRP_OK)
        return status;
    access->offset = 0;
    access->bytes = TRP__MODULE_TOKEN;
    access->whole = true;
    record->access_count++;
    describe_place(device, m, place);
    request->handle = &out->id;
    out->id = token.id | MODULE_BIT;
    return TRP_OK;
}

static trp_status no_memory(trp__pack *pack)
{
    return trp__error_set(pack->error, TRP_E_MEMORY, "no memory for a module");
}

static trp_status make(trp__pack *pack, const trp__module_wish *wish, trp_module *out,
                       trp__module_place *place)
{
    trp__module *m = new_module(wish, atomic_load(&pack->actor->live));
    if (!m)
        return no_memory(pack);
    m->home = (trp__home){.input_bytes = (uint32_t)wish->input_bytes,
                          .output_bytes = (uint32_t)wish->output_bytes};
    return add_module(pack, m, wish, out, place);
}

static trp_status make_again(trp__pack *pack, const trp__module_wish *wish, trp_module *out,
                             trp__module_place *place, bool *found)
{
    trp_device *device = device_of(pack);
    trp__home output;
    trp__kept *kept = trp__kept_find(device, wish, &output);
    *found = kept != NULL;
    if (!kept)
        return TRP_OK;
    trp__module *m = new_module(wish, atomic_load(&pack->actor->live));
    if (!m) {
        trp__kept_release(device, kept);
        return no_memory(pack);
    }
    m->kept = kept;
    m->home =
        (trp__home){.output_bytes = output.output_bytes, .shared = trp__home_output_at(&output)};
    return add_module(pack, m, wish, out, place);
}

static void keep(trp__pack *pack, const trp__module_wish *wish, const trp__module_place *place)
{
    const trp__slot *request = pack->context;
    trp__module *m = place->module;
    m->kept = trp__kept_add(device_of(pack), wish->sum, &m->home, (uint32_t)wish->output_bytes,
                            (trp_buffer){request->token}, m->extent);
    if (m->kept)
        m->extent = NULL;
}

trp_status trp__module_free(trp_device *device, trp_module module)
{
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    status = token_of(module).id == 0 ? TRP_E_STALE : trp__buffer_free(device, token_of(module));
    return status != TRP_E_STALE
               ? status
               : trp__fail(TRP_E_STALE,
                           "module: %#llx was freed, was never given out, or belongs to another "
                           "device",
                           (unsigned long long)module.id);
}

trp_status trp_module_free(trp_device *device, trp_module module)
{
    TRP__CALL(trp__call_refused());
    return trp__module_free(device, module);
}

/* Using. */

static trp_status stale(const char *name, trp_module module, trp_error *error)
{
    if (module.id == 0)
        return trp__error_set(error, TRP_E_STALE, "%s: no module given", name);
    return trp__error_set(error, TRP_E_STALE,
                          "%s: module %#llx was freed, was never given out, or belongs to another "
                          "device",
                          name, (unsigned long long)module.id);
}

static bool was_made(const trp__buffer_meta *meta)
{
    return atomic_load(&meta->contents.word[TRP__GOOD]) != 0;
}

/* Whether the module could not be made. That it was told does not make it readable. */
static bool has_failed(const trp__buffer_meta *meta)
{
    return !was_made(meta) && (atomic_load(&meta->contents.word[TRP__POISON]) != 0 ||
                               atomic_load(&meta->contents.word[TRP__LOST]) != 0);
}

/* Because of a request on it that failed. */
static trp_status unusable(trp_device *device, uint32_t slot, const char *name, const char *what,
                           trp_module module, trp_error *error)
{
    char why[180];
    trp_error root = {0};
    uint64_t cause = atomic_load(&device->memory.meta[slot].contents.word[TRP__POISON]);
    trp__failures_explain(device, cause, slot, &root, why, sizeof why);
    trp__error_set(error, TRP_E_DEPENDENCY, "%s: module %#llx %s: %s", name,
                   (unsigned long long)module.id, what, why);
    error->cause_request = root.cause_request;
    error->cause_status = root.cause_status;
    error->cause_fault = root.cause_fault;
    return TRP_E_DEPENDENCY;
}

static trp_status use(trp__pack *pack, const char *name, trp_module module, uint32_t mode,
                      trp__module_place *place)
{
    trp_device *device = device_of(pack);
    trp__record *record = pack->record;
    trp__access *access = &record->access[record->access_count];
    uint64_t bytes;
    access->mode = (uint8_t)mode;
    trp_status status = trp__buffer_acquire(pack, name, token_of(module), access, &bytes);
    if (status == TRP_E_STALE)
        return stale(name, module, pack->error);
    if (status != TRP_OK)
        return status;
    access->offset = 0;
    access->bytes = bytes;
    record->access_count++; /* from here on the record's owner releases it */
    status = trp__pack_look(pack, name, token_of(module), access, bytes);
    if (status == TRP_E_DEPENDENCY)
        return unusable(device, (uint32_t)module.id & (TRP__BUFFERS - 1), name, "can't be used",
                        module, pack->error);
    if (status == TRP_E_LOST)
        return trp__error_set(pack->error, status,
                              "%s: a fault interrupted a request on module %#llx that can't run "
                              "again; make it anew",
                              name, (unsigned long long)module.id);
    if (status != TRP_OK)
        return status;
    const trp__buffer_meta *meta = &device->memory.meta[access->slot];
    trp__module *m = module_at(device, access->slot);
    if (!m)
        return stale(name, module, pack->error);
    if (has_failed(meta))
        return unusable(device, access->slot, name, "was not made", module, pack->error);
    const trp__client_actor *actor = atomic_load(&pack->actor->live);
    if (m->actor != actor || m->actor_made != actor->made)
        return trp__error_set(
            pack->error, TRP_E_ARGUMENT, "%s: module %#llx was made by another actor%s%.31s", name,
            (unsigned long long)module.id, m->actor != actor ? ", " : " of the same name",
            m->actor != actor ? m->actor->name : "");
    describe_place(device, m, place);
    return TRP_OK;
}

/* What was written to variables. */

static bool has_ended(const trp_device *device, const module_set *s)
{
    uint64_t state = atomic_load(&device->slot[s->slot].state);
    trp__phase phase = trp__phase_of(state);
    return trp__generation_of(state) != s->generation ||
           (phase != TRP__FILLING && phase != TRP__PENDING && phase != TRP__RETIRING);
}

static bool covers(trp_device *device, const module_set *by, const module_set *one)
{
    return by->name_bytes == one->name_bytes && by->at <= one->at &&
           by->at + by->bytes >= one->at + one->bytes &&
           memcmp(at_heap(device, by->offset), at_heap(device, one->offset), one->name_bytes) == 0;
}

static void drop_set(trp_device *device, module_set *s, trp__home_set *shared)
{
    atomic_store(&shared->number, 0);
    trp__heap_return(device, s->extent);
    *s = (module_set){0};
}

/* Drops what will not be written again: what has failed, and what one that has ended covers. That
 * has waited for all launches before it, so nothing that runs again needs the older. */
static void tidy_sets(trp_device *device, trp__module *m, trp__home_head *head)
{
    for (uint32_t i = 0; i < TRP__MODULE_SETS; i++) {
        module_set *s = &m->set[i];
        trp__home_set *shared = &head->set[i];
        uint64_t number = atomic_load(&shared->number);
        if (!s->extent || !has_ended(device, s))
            continue;
        bool drop = number == 0;
        for (uint32_t k = 0; k < TRP__MODULE_SETS && !drop; k++)
            drop = k != i && m->set[k].extent && atomic_load(&head->set[k].number) > number &&
                   has_ended(device, &m->set[k]) && covers(device, &m->set[k], s);
        if (drop)
            drop_set(device, s, shared);
    }
}

static trp_status add_set(trp__pack *pack, const trp__module_place *place, const char *variable,
                          uint64_t at, const void *data, uint32_t bytes, uint32_t *set)
{
    trp_device *device = device_of(pack);
    const trp__slot *request = pack->context;
    trp__module *m = place->module;
    trp__home_head *head = (trp__home_head *)(void *)at_heap(device, place->home.offset);
    uint32_t name_bytes = (uint32_t)strlen(variable) + 1, i = 0;
    uint64_t offset = 0;
    trp_status status = TRP_OK;
    trp__sweep(atomic_load(&pack->actor->live));
    trp__lock_take(&m->lock);
    tidy_sets(device, m, head);
    while (i < TRP__MODULE_SETS && m->set[i].extent)
        i++;
    trp__extent *extent =
        i < TRP__MODULE_SETS ? trp__heap_take(device, (uint64_t)name_bytes + bytes, &offset) : NULL;
    if (extent) {
        trp__home_set *shared = &head->set[i];
        char *room = at_heap(device, offset);
        memcpy(room, variable, name_bytes);
        memcpy(room + name_bytes, data, bytes);
        shared->data = offset;
        shared->at = at;
        shared->name_bytes = name_bytes;
        shared->bytes = bytes;
        shared->checksum = trp__checksum(room, name_bytes + bytes);
        m->set[i] = (module_set){.extent = extent,
                                 .offset = offset,
                                 .at = at,
                                 .name_bytes = name_bytes,
                                 .bytes = bytes,
                                 .slot = request->index,
                                 .generation = trp__generation_of(atomic_load(&request->state))};
        *set = i;
    } else {
        status = i == TRP__MODULE_SETS
                     ? trp__error_set(pack->error, TRP_E_BUSY,
                                      "variable: %d ranges of variables of this module are set; "
                                      "await some that cover others, or set larger ranges",
                                      TRP__MODULE_SETS)
                     : trp__error_set(pack->error, TRP_E_BUSY, "data: the pool of modules is full");
    }
    trp__lock_drop(&m->lock);
    return status;
}

const trp__module_ops trp__modules = {
    .make = make, .again = make_again, .keep = keep, .use = use, .add_set = add_set};

/* Telling. */

static trp_status hold(trp_device *device, trp_module module, uint32_t *slot, trp__module **m)
{
    trp_status status = trp__device_known(device);
    trp_error error;
    if (status != TRP_OK)
        return status;
    if (token_of(module).id == 0 || trp__buffer_hold(device, token_of(module), slot) != TRP_OK) {
        stale("module", module, &error);
        return trp__error_raise(&error);
    }
    *m = module_at(device, *slot);
    if (*m)
        return TRP_OK;
    trp__buffer_release(device, *slot);
    stale("module", module, &error);
    return trp__error_raise(&error);
}

static trp_module_state state_of(trp_device *device, uint32_t slot)
{
    const trp__buffer_meta *meta = &device->memory.meta[slot];
    if (!was_made(meta) && !has_failed(meta))
        trp__sweep_device(device); /* ends what is over */
    return was_made(meta)     ? TRP_MODULE_READY
           : has_failed(meta) ? TRP_MODULE_FAILED
                              : TRP_MODULE_PENDING;
}

/* A copy of an output's head whose sizes can be true; false: there is none. */
static bool read_head(const trp__module_place *place, trp__home_output *head)
{
    if (place->home.output_bytes < sizeof *head)
        return false;
    memcpy(head, place->output, sizeof *head);
    return head->magic == TRP__HOME_OUTPUT &&
           trp__home_output_size(head, place->home.output_bytes) != UINT64_MAX;
}

trp_status trp__module_info(trp_device *device, trp_module module, trp_module_info *out)
{
    uint32_t slot = 0;
    trp__module *m = NULL;
    trp__module_place place;
    trp__home_output head;
    if (!out)
        return trp__fail(TRP_E_ARGUMENT, "out: expected a pointer, got NULL");
    trp_status status = hold(device, module, &slot, &m);
    if (status != TRP_OK || !m)
        return status;
    *out = (trp_module_info){.state = state_of(device, slot), .names = m->name_count};
    describe_place(device, m, &place);
    out->output = (trp_jit_output)place.home.output_kind;
    if (out->state != TRP_MODULE_PENDING && read_head(&place, &head)) {
        out->image_bytes = out->state == TRP_MODULE_READY ? head.image_bytes : 0;
        out->log_bytes = head.log_bytes;
        out->headers = head.headers;
    }
    trp__buffer_release(device, slot);
    return TRP_OK;
}

trp_status trp_module_get_info(trp_device *device, trp_module module, trp_module_info *out)
{
    TRP__CALL(trp__call_refused());
    return trp__module_info(device, module, out);
}

static trp_status read_part(const trp__module_place *place, trp_module_state state,
                            trp_module_part part, void *out, uint64_t size, uint64_t *bytes)
{
    trp__home_output head;
    *bytes = 0;
    if (state == TRP_MODULE_PENDING)
        return trp__fail(TRP_E_BUSY, "the request that makes the module has not ended");
    if (state == TRP_MODULE_FAILED && part == TRP_MODULE_IMAGE)
        return trp__fail(TRP_E_DEPENDENCY, "the request that should have made the module failed");
    bool present = read_head(place, &head);
    if (!present && state == TRP_MODULE_READY)
        return trp__fail(TRP_E_INTERNAL, "what the worker has left of the module can't be true");
    if (!present)
        return TRP_OK; /* it failed before there was anything to say */
    const uint64_t length[] = {head.image_bytes, head.log_bytes, head.names_bytes,
                               head.headers_bytes};
    const uint64_t before[] = {head.log_bytes + head.names_bytes + head.headers_bytes, 0,
                               head.log_bytes, head.log_bytes + head.names_bytes};
    const char *from = place->output + sizeof head + before[part];
    uint64_t count = length[part] < size ? length[part] : size;
    *bytes = length[part];
    if (out && count > 0)
        memcpy(out, from, count);
    if (out && part != TRP_MODULE_IMAGE && size > count)
        ((char *)out)[count] = '\0';
    return TRP_OK;
}

trp_status trp__module_read(trp_device *device, trp_module module, trp_module_part part, void *out,
                            uint64_t size, uint64_t *bytes)
{
    uint32_t slot = 0;
    trp__module *m = NULL;
    trp__module_place place;
    if ((uint32_t)part > TRP_MODULE_HEADERS)
        return trp__fail(TRP_E_ARGUMENT, "part: expected a trp_module_part, got %d", (int)part);
    if (!bytes || (!out && size > 0))
        return trp__fail(TRP_E_ARGUMENT, "%s: expected a pointer, got NULL",
                         bytes ? "out" : "bytes");
    trp_status status = hold(device, module, &slot, &m);
    if (status != TRP_OK || !m)
        return status;
    trp_module_state state = state_of(device, slot);
    describe_place(device, m, &place);
    status = read_part(&place, state, part, out, size, bytes);
    trp__buffer_release(device, slot);
    return status;
}

trp_status trp_module_read(trp_device *device, trp_module module, trp_module_part part, void *out,
                           uint64_t size, uint64_t *bytes)
{
    TRP__CALL(trp__call_refused());
    return trp__module_read(device, module, part, out, size, bytes);
}

/* Modules: objects with storage in the heap. */
#include "compile/modules/module.h"

#include "base/call.h"
#include "base/os/lock.h"
#include "compile/modules/cache.h"

#include "base/checksum.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A range of trp__storage_head in the application's own memory: a worker may have overwritten the
 * shared copy. */
typedef struct module_set {
    trp__extent *extent; /* name and bytes; NULL: the place is free */
    uint64_t offset;     /* of the extent */
    uint64_t at;         /* bytes, in the variable */
    uint32_t name_bytes, bytes;
    trp__request_id request; /* that writes it */
} module_set;

struct trp__module {
    trp__object object; /* first member */
    trp__heap *heap;
    trp__module_cache *cache; /* NULL: there is none */
    uint32_t name_count;
    char **names;
    trp__extent *extent;        /* NULL: it belongs to `cached` */
    trp__cached_module *cached; /* shared, or to be shared, with other modules; NULL: nothing */
    trp__lock lock;             /* guards what follows */
    trp__storage storage;
    bool cut; /* the storage was trimmed to its output */
    module_set set[TRP__MODULE_SETS];
};

_Static_assert(TRP_MODULE_SETS_MAX - TRP__MODULE_SETS == 0, "as the header says");

static trp__module *of(trp__object *object)
{
    return (trp__module *)(void *)object;
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

static void destroy(trp__object *object, bool made)
{
    trp__module *m = of(object);
    for (uint32_t i = 0; i < TRP__MODULE_SETS; i++) {
        if (m->set[i].extent)
            trp__heap_return(m->heap, m->set[i].extent);
    }
    if (m->cached && !m->storage.shared)
        trp__module_cache_settle(m->cache, m->cached, made);
    if (m->extent && !(m->storage.shared &&
                       trp__module_cache_return_head(m->cache, m->extent, m->storage.offset)))
        trp__heap_return(m->heap, m->extent);
    if (m->cached)
        trp__module_cache_release(m->cache, m->cached);
    free_module(m);
}

static trp__module *new_module(trp__encoder *encoder, const trp__module_spec *spec)
{
    trp__module *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    trp__lock_init(&m->lock, TRP__RANK_OBJECT);
    m->object.class = &trp__module_class;
    m->heap = encoder->heap;
    m->cache = trp__heap_cache(encoder->heap, &trp__module_class);
    m->names = calloc(spec->name_count ? spec->name_count : 1, sizeof *m->names);
    for (uint32_t i = 0; m->names && i < spec->name_count; i++) {
        m->names[i] = strdup(spec->names[i]);
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

static void cut_storage(trp__module *m)
{
    trp__storage_output head;
    trp__lock_take(&m->lock);
    if (!m->cut && !m->cached) { /* cache.c trims a shared one */
        memcpy(&head, trp__heap_at(m->heap, trp__storage_output_at(&m->storage)), sizeof head);
        uint64_t size = trp__storage_output_size(&head, m->storage.output_bytes);
        if (head.magic == TRP__STORAGE_OUTPUT && size != UINT64_MAX) {
            m->storage.output_bytes = (uint32_t)size;
            trp__heap_cut(m->heap, m->extent, trp__storage_bytes(&m->storage));
            m->cut = true;
        }
    }
    trp__lock_drop(&m->lock);
}

/* Trims the storage of a made module to its output: it was made with room for the largest. */
static void trim(trp__object *object)
{
    trp__module *m = of(object);
    if (m->cached && !m->storage.shared)
        trp__module_cache_settle(m->cache, m->cached, true);
    else
        cut_storage(m);
}

const trp__object_class trp__module_class = {.name = "module",
                                             .cache_make = trp__module_cache_make,
                                             .cache_end = trp__module_cache_end,
                                             .cache_drop = trp__module_cache_drop_all,
                                             .trim = trim,
                                             .destroy = destroy};

static void describe_layout(trp__module *m, trp__module_layout *layout)
{
    trp__lock_take(&m->lock);
    layout->storage = m->storage;
    trp__lock_drop(&m->lock);
    layout->input = trp__heap_at(m->heap, trp__storage_input_at(&layout->storage));
    layout->output = trp__heap_at(m->heap, trp__storage_output_at(&layout->storage));
    layout->head =
        (const trp__storage_head *)(const void *)trp__heap_at(m->heap, layout->storage.offset);
    layout->name_count = m->name_count;
    layout->names = (const char *const *)m->names;
    layout->module = m;
}

static trp_status make_storage(trp__encoder *encoder, trp__module *m, const trp__module_spec *spec)
{
    uint64_t offset = 0;
    m->storage.segment = trp__heap_segment(m->heap);
    m->storage.output_kind = spec->output_kind;
    uint64_t bytes = trp__storage_bytes(&m->storage);
    m->extent = m->storage.shared ? trp__module_cache_take_head(m->cache, &offset) : NULL;
    if (!m->extent)
        m->extent = trp__heap_take(m->heap, bytes, &offset);
    if (!m->extent) {
        encoder->objects->shed(encoder);
        m->extent = trp__heap_take(m->heap, bytes, &offset);
    }
    if (!m->extent)
        return trp__error_set(encoder->error, TRP_E_BUSY,
                              "the modules of this device, with room for those that are being "
                              "made, take all of %llu GiB: free some, or await some",
                              (unsigned long long)(TRP__HEAP_BYTES >> 30));
    m->storage.offset = offset;
    /* The kernel zeroes an extent that was used before, where it can. */
    memset(trp__heap_at(m->heap, offset), 0, sizeof(trp__storage_head));
    if (!m->storage.shared)
        memset(trp__heap_at(m->heap, trp__storage_output_at(&m->storage)), 0, sizeof(uint64_t));
    return TRP_OK;
}

/* Gives a module its storage and handle, and adds it to the record. Owns the module, also on
 * failure. */
static trp_status add_module(trp__encoder *encoder, trp__module *m, const trp__module_spec *spec,
                             trp_module *out, trp__module_layout *layout)
{
    trp_status status = make_storage(encoder, m, spec);
    if (status != TRP_OK) {
        destroy(&m->object, false);
        return status;
    }
    status = encoder->objects->make(encoder, &m->object, &out->id);
    if (status == TRP_OK)
        describe_layout(m, layout);
    return status;
}

static trp_status no_memory(trp__encoder *encoder)
{
    return trp__error_set(encoder->error, TRP_E_MEMORY, "no memory for a module");
}

trp_status trp__module_make(trp__encoder *encoder, const trp__module_spec *spec, trp_module *out,
                            trp__module_layout *layout)
{
    trp__module *m = new_module(encoder, spec);
    if (!m)
        return no_memory(encoder);
    m->storage = (trp__storage){.input_bytes = (uint32_t)spec->input_bytes,
                                .output_bytes = (uint32_t)spec->output_bytes};
    return add_module(encoder, m, spec, out, layout);
}

trp_status trp__module_make_again(trp__encoder *encoder, const trp__module_spec *spec,
                                  trp_module *out, trp__module_layout *layout, bool *found)
{
    trp__module_cache *cache = trp__heap_cache(encoder->heap, &trp__module_class);
    trp__storage output;
    trp__cached_module *cached = trp__module_cache_find(cache, spec, &output);
    *found = cached != NULL;
    if (!cached)
        return TRP_OK;
    trp__module *m = new_module(encoder, spec);
    if (!m) {
        trp__module_cache_release(cache, cached);
        return no_memory(encoder);
    }
    m->cached = cached;
    m->storage = (trp__storage){.output_bytes = output.output_bytes,
                                .shared = trp__storage_output_at(&output)};
    return add_module(encoder, m, spec, out, layout);
}

void trp__module_keep(const trp__module_spec *spec, const trp__module_layout *layout)
{
    trp__module *m = layout->module;
    m->cached = trp__module_cache_add(m->cache, spec->sum, &m->storage,
                                      (uint32_t)spec->output_bytes, m->object.handle, m->extent);
    if (m->cached)
        m->extent = NULL;
}

trp_status trp__module_free(trp_device *device, trp_module module)
{
    return trp__object_free(device, &trp__module_class, module.id);
}

trp_status trp_module_free(trp_device *device, trp_module module)
{
    TRP__CALL(trp__call_refused());
    return trp__module_free(device, module);
}

/* Using. */

trp_status trp__module_use(trp__encoder *encoder, const char *name, trp_module module,
                           uint32_t mode, trp__module_layout *layout)
{
    trp__object *object = NULL;
    trp_status status =
        encoder->objects->use(encoder, &trp__module_class, name, module.id, mode, &object);
    if (status == TRP_OK)
        describe_layout(of(object), layout);
    return status;
}

/* Writes to variables. */

static bool covers(const trp__module *m, const module_set *by, const module_set *one)
{
    return by->name_bytes == one->name_bytes && by->at <= one->at &&
           by->at + by->bytes >= one->at + one->bytes &&
           memcmp(trp__heap_at(m->heap, by->offset), trp__heap_at(m->heap, one->offset),
                  one->name_bytes) == 0;
}

static void drop_set(trp__module *m, module_set *s, trp__storage_set *shared)
{
    atomic_store(&shared->number, 0);
    trp__heap_return(m->heap, s->extent);
    *s = (module_set){0};
}

/* Drops writes that will not be repeated: failed ones, and those that a finished later one covers.
 * That one has waited for all launches before it, so no repeated request needs the older one. */
static void tidy_sets(trp__encoder *encoder, trp__module *m, trp__storage_head *head)
{
    for (uint32_t i = 0; i < TRP__MODULE_SETS; i++) {
        module_set *s = &m->set[i];
        trp__storage_set *shared = &head->set[i];
        uint64_t number = atomic_load(&shared->number);
        if (!s->extent || !encoder->objects->has_ended(encoder, s->request))
            continue;
        bool drop = number == 0;
        for (uint32_t k = 0; k < TRP__MODULE_SETS && !drop; k++)
            drop = k != i && m->set[k].extent && atomic_load(&head->set[k].number) > number &&
                   encoder->objects->has_ended(encoder, m->set[k].request) &&
                   covers(m, &m->set[k], s);
        if (drop)
            drop_set(m, s, shared);
    }
}

trp_status trp__module_add_set(trp__encoder *encoder, const trp__module_layout *layout,
                               const char *variable, uint64_t at, const void *data, uint32_t bytes,
                               uint32_t *set)
{
    trp__module *m = layout->module;
    trp__storage_head *head =
        (trp__storage_head *)(void *)trp__heap_at(m->heap, layout->storage.offset);
    uint32_t name_bytes = (uint32_t)strlen(variable) + 1, i = 0;
    uint64_t offset = 0;
    trp_status status = TRP_OK;
    const trp__request_id request = encoder->objects->request(encoder);
    trp__lock_take(&m->lock);
    tidy_sets(encoder, m, head);
    while (i < TRP__MODULE_SETS && m->set[i].extent)
        i++;
    trp__extent *extent = i < TRP__MODULE_SETS
                              ? trp__heap_take(m->heap, (uint64_t)name_bytes + bytes, &offset)
                              : NULL;
    if (extent) {
        trp__storage_set *shared = &head->set[i];
        char *room = trp__heap_at(m->heap, offset);
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
                                 .request = request};
        *set = i;
    } else {
        status =
            i == TRP__MODULE_SETS
                ? trp__error_set(encoder->error, TRP_E_BUSY,
                                 "variable: %d ranges of variables of this module are set; "
                                 "await some that cover others, or set larger ranges",
                                 TRP__MODULE_SETS)
                : trp__error_set(encoder->error, TRP_E_BUSY, "data: the pool of modules is full");
    }
    trp__lock_drop(&m->lock);
    return status;
}

/* Information. */

static trp_status hold(trp_device *device, trp_module module, trp__module **m)
{
    trp__object *object = NULL;
    trp_status status = trp__object_hold(device, &trp__module_class, module.id, &object);
    *m = of(object);
    return status;
}

static trp_module_state state_of(const trp__module *m)
{
    const trp__object_state state = trp__object_look(&m->object);
    return state == TRP__OBJECT_MADE     ? TRP_MODULE_READY
           : state == TRP__OBJECT_FAILED ? TRP_MODULE_FAILED
                                         : TRP_MODULE_PENDING;
}

/* Copies an output's head if its sizes are possible; false: there is none. */
static bool read_head(const trp__module_layout *layout, trp__storage_output *head)
{
    if (layout->storage.output_bytes < sizeof *head)
        return false;
    memcpy(head, layout->output, sizeof *head);
    return head->magic == TRP__STORAGE_OUTPUT &&
           trp__storage_output_size(head, layout->storage.output_bytes) != UINT64_MAX;
}

trp_status trp__module_info(trp_device *device, trp_module module, trp_module_info *out)
{
    trp__module *m = NULL;
    trp__module_layout layout;
    trp__storage_output head;
    if (!out)
        return trp__fail_null("out");
    trp_status status = hold(device, module, &m);
    if (status != TRP_OK || !m)
        return status;
    *out = (trp_module_info){.state = state_of(m), .names = m->name_count};
    describe_layout(m, &layout);
    out->output = (trp_jit_output)layout.storage.output_kind;
    if (out->state != TRP_MODULE_PENDING && read_head(&layout, &head)) {
        out->image_bytes = out->state == TRP_MODULE_READY ? head.image_bytes : 0;
        out->log_bytes = head.log_bytes;
        out->headers = head.headers;
    }
    trp__object_release(&m->object);
    return TRP_OK;
}

trp_status trp_module_get_info(trp_device *device, trp_module module, trp_module_info *out)
{
    TRP__CALL(trp__call_refused());
    return trp__module_info(device, module, out);
}

static trp_status read_part(const trp__module_layout *layout, trp_module_state state,
                            trp_module_part part, void *out, uint64_t size, uint64_t *bytes)
{
    trp__storage_output head;
    *bytes = 0;
    if (state == TRP_MODULE_PENDING)
        return trp__fail(TRP_E_BUSY, "the request that makes the module has not ended");
    if (state == TRP_MODULE_FAILED && part == TRP_MODULE_IMAGE)
        return trp__fail(TRP_E_DEPENDENCY, "the request that should have made the module failed");
    bool present = read_head(layout, &head);
    if (!present && state == TRP_MODULE_READY)
        return trp__fail(TRP_E_INTERNAL, "what the worker has left of the module can't be true");
    if (!present)
        return TRP_OK; /* it failed without a log */
    const uint64_t length[] = {head.image_bytes, head.log_bytes, head.names_bytes,
                               head.headers_bytes};
    const uint64_t before[] = {head.log_bytes + head.names_bytes + head.headers_bytes, 0,
                               head.log_bytes, head.log_bytes + head.names_bytes};
    const char *from = layout->output + sizeof head + before[part];
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
    trp__module *m = NULL;
    trp__module_layout layout;
    if ((uint32_t)part > TRP_MODULE_HEADERS)
        return trp__fail(TRP_E_ARGUMENT, "part: expected a trp_module_part, got %d", (int)part);
    if (!bytes || (!out && size > 0))
        return trp__fail_null(bytes ? "out" : "bytes");
    trp_status status = hold(device, module, &m);
    if (status != TRP_OK || !m)
        return status;
    trp_module_state state = state_of(m);
    describe_layout(m, &layout);
    status = read_part(&layout, state, part, out, size, bytes);
    trp__object_release(&m->object);
    return status;
}

trp_status trp_module_read(trp_device *device, trp_module module, trp_module_part part, void *out,
                           uint64_t size, uint64_t *bytes)
{
    TRP__CALL(trp__call_refused());
    return trp__module_read(device, module, part, out, size, bytes);
}

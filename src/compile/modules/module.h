/* Modules in the application: encode functions make, use and change them, and the program can query
 * them. Any thread. */
#ifndef TRP_COMPILE_MODULES_MODULE_H
#define TRP_COMPILE_MODULES_MODULE_H

#include "wire/actor_class.h"
#include "compile/modules/storage.h"

#include <troupe/jit.h>

extern const trp__object_class trp__module_class;

typedef struct trp__module trp__module;

/* A module that a request is to make. */
typedef struct trp__module_spec {
    uint64_t input_bytes;
    uint64_t output_bytes; /* room for it */
    uint32_t output_kind;  /* trp_jit_output */
    uint32_t name_count;
    const char *const *names; /* copied */
    /* For a cacheable module: a checksum of the request, and a test whether an input of
     * `input_bytes` describes the same request. 0 and NULL: not cacheable. */
    uint64_t sum;
    bool (*is_same)(const void *request, const char *input);
    const void *request;
} trp__module_spec;

/* A module that a request makes or uses; valid while the record is encoded. */
typedef struct trp__module_layout {
    trp__storage storage;
    char *input;  /* of the storage, in this process */
    char *output; /* likewise */
    const trp__storage_head *head;
    uint32_t name_count;
    const char *const *names;
    trp__module *module; /* the application's */
} trp__module_layout;

/* For encode functions. Makes a module, as the record's next access, which writes it whole: the
 * worker compiles it, or the caller fills it. The caller fills the input. */
trp_status trp__module_make(trp__encoder *encoder, const trp__module_spec *spec, trp_module *out,
                            trp__module_layout *layout);
/* Makes a module that shares the cached output of an equal request; the worker only reports the
 * end. *found false: there is none, and nothing was done. */
trp_status trp__module_make_again(trp__encoder *encoder, const trp__module_spec *spec,
                                  trp_module *out, trp__module_layout *layout, bool *found);
/* Adds a module to the cache; its input is complete. */
void trp__module_keep(const trp__module_spec *spec, const trp__module_layout *layout);
/* Adds a module of the same actor as an access, as acquire() does for a buffer. */
trp_status trp__module_use(trp__encoder *encoder, const char *name, trp_module module,
                           uint32_t mode, trp__module_layout *layout);
/* Notes a write to a variable in the module's storage; its index in *set. */
trp_status trp__module_add_set(trp__encoder *encoder, const trp__module_layout *layout,
                               const char *variable, uint64_t at, const void *data, uint32_t bytes,
                               uint32_t *set);

/* Bodies of trp_module_free(), trp_module_get_info() and trp_module_read(), inside a call of the
 * program. */
trp_status trp__module_free(trp_device *device, trp_module module);
trp_status trp__module_info(trp_device *device, trp_module module, trp_module_info *out);
trp_status trp__module_read(trp_device *device, trp_module module, trp_module_part part, void *out,
                            uint64_t size, uint64_t *bytes);

#endif

#include "actors/cutlass/plan/plans.h"

#include "actors/cutlass/plan/compile.h"
#include "actors/cutlass/plan/subject.h"
#include "base/checksum.h"
#include "base/error.h"
#include "cache/lru.h"

#include <troupe/jit.h>

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* All that the text of a kernel depends on. */
typedef struct plan_key {
    const trp__cutlass_row *row;
    uint32_t capability, auxiliary; /* its alignment */
    uint8_t a, b, c, d, accumulator, compute, a_row, b_row;
    uint32_t tree_bytes;
    uint8_t scale_a, scale_b, groups, zeros;
    uint8_t conv, conv_dims, conv_divided, reserved[5];
    uint8_t tree[(TRP__TREE_BYTES_MAX + 7) / 8 * 8];
} plan_key;

_Static_assert(sizeof(plan_key) % 8 == 0, "as a table of plans wants it");

_Static_assert(sizeof(trp__cutlass_choice_key) % 8 == 0 &&
                   offsetof(trp__cutlass_choice_key, named) + sizeof(void *) ==
                       sizeof(trp__cutlass_choice_key),
               "as a table of choices wants it");

typedef struct plan {
    trp_module module;
    const trp__storage_head *head; /* of the module's storage, once it was used; else NULL */
    uint64_t image;                /* checksum of the image; 0: not looked at */
    bool ready;                    /* it was seen to be */
} plan;

typedef struct sender {
    pthread_mutex_t lock;
    trp__lru *plans, *choices;
    trp_device *device; /* that plans are freed on; NULL: none yet, or it is closing */
    trp__tuning_site site;
    trp__verdicts verdicts; /* `site` NULL: not asked for yet */
} sender;

static void drop_plan(void *context, void *value)
{
    const sender *s = context;
    const plan *p = value;
    if (s->device && p->module.id)
        trp__module_free(s->device, p->module);
}

void *trp__cutlass_sender_make(void)
{
    trp_error ignored;
    sender *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    if (trp__lru_create(sizeof(plan_key), sizeof(plan), TRP__CUTLASS_PLANS_MOST, drop_plan, s,
                        &s->plans, &ignored) == TRP_OK &&
        trp__lru_create(sizeof(trp__cutlass_choice_key), sizeof(trp__cutlass_choice),
                        TRP__CUTLASS_CHOICES_MOST, NULL, NULL, &s->choices, &ignored) == TRP_OK)
        return s;
    trp__cutlass_sender_end(s, NULL);
    return NULL;
}

void trp__cutlass_sender_end(void *state, trp_device *device)
{
    sender *s = state;
    s->device = device;
    trp__lru_destroy(s->plans);
    trp__lru_destroy(s->choices);
    trp__verdicts_end(&s->verdicts);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static plan_key key_of(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    plan_key key;
    memset(&key, 0, sizeof key);
    key.row = row;
    key.capability = p->capability;
    key.auxiliary = p->align[4];
    key.a = p->a;
    key.b = p->b;
    key.c = p->c;
    key.d = p->d;
    key.accumulator = p->accumulator;
    key.compute = p->compute;
    key.a_row = p->a_row;
    key.b_row = p->b_row;
    key.scale_a = p->scale_a;
    key.scale_b = p->scale_b;
    key.groups = p->group > 0;
    key.zeros = p->zeros;
    key.conv = p->conv.operation;
    key.conv_dims = p->conv.dims;
    key.conv_divided = p->conv.divided;
    if (p->tree)
        key.tree_bytes = (uint32_t)trp__tree_encode(p->tree, key.tree);
    return key;
}

static trp_status compile(trp__encoder *encoder, const trp__cutlass_row *row,
                          const trp__cutlass_problem *p, trp_module *module)
{
    trp__cutlass_compile x;
    trp_status status = trp__cutlass_compile_begin(row, p, &x, encoder->error);
    if (status == TRP_OK) {
        x.request.module = module;
        status = encoder->submit(encoder, &x.request.header);
    }
    trp__cutlass_compile_end(&x);
    return status;
}

/* Why a kernel could not be compiled: the first lines of the log that report an error. */
static trp_status say_why(trp__encoder *encoder, const trp__cutlass_row *row, trp_module module)
{
    char log[4096] = "", *at;
    uint64_t bytes;
    trp__module_read(trp_actor_device(encoder->actor), module, TRP_MODULE_LOG, log, sizeof log - 1,
                     &bytes);
    at = strstr(log, "error");
    if (at)
        at[strcspn(at, "\n")] = '\0';
    return trp__error_set_code(encoder->error, TRP_E_LIBRARY, "nvrtc", 0,
                               "the kernel %.60s could not be compiled: %.300s", row->name,
                               at ? at : "its log does not say why");
}

/* A plan that is there: ready, on its way, or failed. */
static trp_status use_plan(trp__encoder *encoder, sender *s, const trp__cutlass_row *row, plan *p,
                           trp__cutlass_want want)
{
    trp_module_info info;
    if (p->ready)
        return TRP_OK;
    trp_status status = trp__module_info(trp_actor_device(encoder->actor), p->module, &info);
    if (status != TRP_OK) {
        *encoder->error = *trp__error_last();
        return status;
    }
    p->ready = info.state == TRP_MODULE_READY;
    if (info.state != TRP_MODULE_FAILED)
        return TRP_OK;
    status = say_why(encoder, row, p->module);
    if (want == TRP__CUTLASS_USE)
        trp__lru_remove(s->plans, p);
    return status;
}

/* Finds the plan of a row, or makes it unless it is wanted only if it is there; NULL: it is not.
 * The lock is held. */
static trp_status find_plan(trp__encoder *encoder, sender *s, const trp__cutlass_row *row,
                            const trp__cutlass_problem *problem, trp__cutlass_want want, plan **out)
{
    const plan_key key = key_of(row, problem);
    trp_module made = {0};
    s->device = trp_actor_device(encoder->actor);
    *out = trp__lru_find(s->plans, &key);
    if (*out)
        return use_plan(encoder, s, row, *out, want);
    if (want == TRP__CUTLASS_USE_IF_THERE)
        return TRP_OK;
    trp_status status = compile(encoder, row, problem, &made);
    if (status == TRP_OK) {
        *out = trp__lru_add(s->plans, &key);
        (*out)->module = made;
    }
    return status;
}

/* Once for a module. */
static bool know_image(trp__encoder *encoder, plan *p)
{
    trp_device *device = trp_actor_device(encoder->actor);
    uint64_t bytes = 0;
    if (p->image != 0)
        return true;
    if (trp__module_read(device, p->module, TRP_MODULE_IMAGE, NULL, 0, &bytes) != TRP_OK)
        return false;
    void *image = malloc(bytes ? bytes : 1);
    if (image &&
        trp__module_read(device, p->module, TRP_MODULE_IMAGE, image, bytes, &bytes) == TRP_OK)
        p->image = trp__checksum(image, bytes);
    free(image);
    return p->image != 0;
}

static bool know_site(trp__encoder *encoder, sender *s)
{
    if (s->verdicts.site)
        return true;
    if (!trp__cutlass_site_of(encoder, &s->site))
        return false;
    s->verdicts = (trp__verdicts){.store = trp__store_of_process(), .site = &s->site};
    return true;
}

/* Looks up the workers' verdicts if one of them has rejected the kernel for some problem. */
static bool is_rejected(trp__encoder *encoder, sender *s, plan *p,
                        trp__cutlass_may_serve *may_serve, void *context)
{
    return may_serve && p->head && atomic_load(&p->head->rejections) > 0 &&
           know_image(encoder, p) && know_site(encoder, s) &&
           !may_serve(context, &s->verdicts, p->image);
}

trp_status trp__cutlass_plan(trp__encoder *encoder, const trp__cutlass_row *row,
                             const trp__cutlass_problem *problem, trp__module_layout *layout,
                             trp__cutlass_want want, trp__cutlass_may_serve *may_serve,
                             void *context, bool *ready, bool *rejected)
{
    sender *s = encoder->sender;
    plan *p = NULL;
    pthread_mutex_lock(&s->lock);
    trp_status status = find_plan(encoder, s, row, problem, want, &p);
    *ready = status == TRP_OK && p && p->ready;
    *rejected = *ready && is_rejected(encoder, s, p, may_serve, context);
    if (status == TRP_OK && p && !*rejected && (*ready || want == TRP__CUTLASS_USE)) {
        status = trp__module_use(encoder, "kernel", p->module, TRP__READ, layout);
        if (status == TRP_OK)
            p->head = layout->head;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

trp_status trp__cutlass_plan_ahead(trp__encoder *encoder, const trp__cutlass_row *row,
                                   const trp__cutlass_problem *problem, trp_module *module,
                                   bool *ready)
{
    sender *s = encoder->sender;
    plan *p = NULL;
    pthread_mutex_lock(&s->lock);
    trp_status status = find_plan(encoder, s, row, problem, TRP__CUTLASS_USE_IF_READY, &p);
    *ready = status == TRP_OK && p->ready;
    if (status == TRP_OK)
        *module = p->module;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Choices. */

trp__cutlass_choice_key trp__cutlass_choice_key_of(const trp__cutlass_problem *p,
                                                   const trp__cutlass_row *named)
{
    trp__cutlass_choice_key key;
    memset(&key, 0, sizeof key);
    key.m = p->m;
    key.n = p->n;
    key.k = p->k;
    key.batch = p->batch;
    memcpy(key.align, p->align, sizeof key.align);
    memcpy(key.divides, p->divides, sizeof key.divides);
    key.compute = p->compute;
    key.operation = p->operation;
    key.a = p->a;
    key.b = p->b;
    key.c = p->c;
    key.d = p->d;
    key.accumulator = p->accumulator;
    key.a_row = p->a_row;
    key.b_row = p->b_row;
    key.scale_a = p->scale_a;
    key.scale_b = p->scale_b;
    key.align_scales = p->align_scales;
    key.fast = p->fast;
    key.group = p->group;
    key.zeros = p->zeros;
    key.conv_inner = p->conv.inner;
    key.conv = p->conv.operation;
    key.conv_dims = p->conv.dims;
    key.conv_divided = p->conv.divided;
    key.conv_tma = p->conv.tma;
    memcpy(key.conv_geometry, p->conv.geometry, sizeof key.conv_geometry);
    key.grouping = p->grouping;
    if (p->tree)
        trp__tree_encode(p->tree, key.tree_bytes);
    key.named = named;
    return key;
}

bool trp__cutlass_remembered(trp__encoder *encoder, const trp__cutlass_choice_key *key,
                             trp__cutlass_choice *out)
{
    sender *s = encoder->sender;
    pthread_mutex_lock(&s->lock);
    const trp__cutlass_choice *found = trp__lru_find(s->choices, key);
    if (found)
        *out = *found;
    pthread_mutex_unlock(&s->lock);
    return found != NULL;
}

void trp__cutlass_remember(trp__encoder *encoder, const trp__cutlass_choice_key *key,
                           const trp__cutlass_choice *choice)
{
    sender *s = encoder->sender;
    pthread_mutex_lock(&s->lock);
    trp__cutlass_choice *room = trp__lru_find(s->choices, key);
    if (!room)
        room = trp__lru_add(s->choices, key);
    *room = *choice;
    pthread_mutex_unlock(&s->lock);
}

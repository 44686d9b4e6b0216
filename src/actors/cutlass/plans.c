#include "actors/cutlass/plans.h"

#include "actors/cutlass/headers.h"
#include "base/error.h"
#include "cache/lru.h"

#include <troupe/jit.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All that the text of a kernel depends on. */
typedef struct plan_key {
    const trp__cutlass_row *row;
    uint32_t capability, auxiliary; /* its alignment */
    uint8_t a, b, c, d, accumulator, compute, a_row, b_row;
    uint32_t tree_bytes;
    uint32_t reserved;
    uint8_t tree[(TRP__TREE_BYTES_MAX + 7) / 8 * 8];
} plan_key;

_Static_assert(sizeof(plan_key) % 8 == 0, "as a table of plans wants it");

/* All that the choice of a row depends on, of one device. */
typedef struct choice_key {
    int64_t m, n, k, batch;
    uint32_t align[5];
    uint32_t compute;
    uint8_t a, b, c, d, accumulator, a_row, b_row;
    uint8_t tree_bytes[(TRP__TREE_BYTES_MAX + 8) / 8 * 8 + 1];
} choice_key;

_Static_assert(sizeof(choice_key) % 8 == 0, "as a table of choices wants it");

typedef struct plan {
    trp_module module;
    bool ready; /* it was seen to be */
} plan;

typedef struct sender {
    pthread_mutex_t lock;
    trp__lru *plans, *choices;
    trp_device *device; /* that plans are freed on; NULL: none yet, or it is closing */
} sender;

static void drop_plan(void *context, void *value)
{
    const sender *s = context;
    const plan *p = value;
    if (s->device && p->module.id)
        trp_module_free(s->device, p->module);
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
        trp__lru_create(sizeof(choice_key), sizeof(const trp__cutlass_row *),
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
    if (p->tree)
        key.tree_bytes = (uint32_t)trp__tree_encode(p->tree, key.tree);
    return key;
}

/* The text of a kernel; the caller frees it. */
static trp_status render(const trp__cutlass_row *row, const trp__cutlass_problem *p, char **out,
                         trp_error *error)
{
    trp__text text = {0};
    trp_status status = trp__cutlass_row_render(row, p, &text, error);
    if (status != TRP_OK)
        return status;
    size_t size = text.length + 1;
    char *room = malloc(size);
    if (!room)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the text of a kernel");
    text = (trp__text){.out = room, .size = size};
    status = trp__cutlass_row_render(row, p, &text, error);
    *out = room;
    return status;
}

static trp_status compile(trp__pack *pack, const trp__cutlass_row *row,
                          const trp__cutlass_problem *p, trp_module *module)
{
    static const char *const names[] = {"trp_cutlass_kernel", "trp_cutlass_build",
                                        "&trp_cutlass_info"};
    static const char *const options[] = {"-std=c++17", "--device-as-default-execution-space",
                                          "-DNDEBUG", "-w", "--device-int128"};
    char architecture[16], *text = NULL, name[64];
    trp_jit_compile_request r = {.names = names,
                                 .name_count = 3,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .name = name,
                                 .architecture = architecture,
                                 .output = TRP_JIT_CUBIN_LTO,
                                 .module = module};
    trp_status status = trp__cutlass_folders(&r.include_paths, &r.include_count, pack->error);
    if (status == TRP_OK)
        status = render(row, p, &text, pack->error);
    if (status == TRP_OK) {
        trp__cutlass_row_architecture(row, p, architecture);
        snprintf(name, sizeof name, "%.55s.cu", row->name);
        r.source = text;
        r.header.op = TRP_OP_JIT_COMPILE;
        r.header.size = (uint32_t)sizeof r;
        status = pack->submit(pack, &r.header);
    }
    free(text);
    return status;
}

/* Why a kernel could not be compiled: the first lines of the log that tell of an error. */
static trp_status say_why(trp__pack *pack, const trp__cutlass_row *row, trp_module module)
{
    char log[4096] = "", *at;
    uint64_t bytes;
    trp_module_read(trp_actor_device(pack->actor), module, TRP_MODULE_LOG, log, sizeof log - 1,
                    &bytes);
    at = strstr(log, "error");
    if (at)
        at[strcspn(at, "\n")] = '\0';
    return trp__error_set_code(pack->error, TRP_E_LIBRARY, "nvrtc", 0,
                               "the kernel %.60s could not be compiled: %.300s", row->name,
                               at ? at : "its log does not say why");
}

/* A plan that is there: ready, on its way, or failed. */
static trp_status use_plan(trp__pack *pack, sender *s, const trp__cutlass_row *row, plan *p)
{
    trp_module_info info;
    if (p->ready)
        return TRP_OK;
    trp_status status = trp_module_get_info(trp_actor_device(pack->actor), p->module, &info);
    if (status != TRP_OK) {
        *pack->error = *trp_error_last();
        return status;
    }
    p->ready = info.state == TRP_MODULE_READY;
    if (info.state != TRP_MODULE_FAILED)
        return TRP_OK;
    status = say_why(pack, row, p->module);
    trp__lru_remove(s->plans, p);
    return status;
}

trp_status trp__cutlass_plan(trp__pack *pack, const trp__cutlass_row *row,
                             const trp__cutlass_problem *problem, trp__module_place *place,
                             trp__cutlass_want want, bool *ready)
{
    sender *s = pack->sender;
    const plan_key key = key_of(row, problem);
    trp_module made = {0};
    trp_status status = TRP_OK;
    pthread_mutex_lock(&s->lock);
    s->device = trp_actor_device(pack->actor);
    plan *p = trp__lru_find(s->plans, &key);
    *ready = false;
    if (!p && want != TRP__CUTLASS_USE_IF_THERE) {
        status = compile(pack, row, problem, &made);
        if (status == TRP_OK) {
            p = trp__lru_add(s->plans, &key);
            p->module = made;
        }
    } else if (p) {
        status = use_plan(pack, s, row, p);
    }
    if (status == TRP_OK && p) {
        *ready = p->ready;
    }
    if (status == TRP_OK && p && (*ready || want == TRP__CUTLASS_USE)) {
        status = pack->module_use(pack, "kernel", p->module, TRP__READ, place);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Choices. */

static choice_key choice_of(const trp__cutlass_problem *p)
{
    choice_key key;
    memset(&key, 0, sizeof key);
    key.m = p->m;
    key.n = p->n;
    key.k = p->k;
    key.batch = p->batch;
    memcpy(key.align, p->align, sizeof key.align);
    key.compute = p->compute;
    key.a = p->a;
    key.b = p->b;
    key.c = p->c;
    key.d = p->d;
    key.accumulator = p->accumulator;
    key.a_row = p->a_row;
    key.b_row = p->b_row;
    if (p->tree)
        trp__tree_encode(p->tree, key.tree_bytes);
    return key;
}

const trp__cutlass_row *trp__cutlass_remembered(trp__pack *pack,
                                                const trp__cutlass_problem *problem)
{
    sender *s = pack->sender;
    const choice_key key = choice_of(problem);
    pthread_mutex_lock(&s->lock);
    const trp__cutlass_row *const *found = trp__lru_find(s->choices, &key);
    const trp__cutlass_row *row = found ? *found : NULL;
    pthread_mutex_unlock(&s->lock);
    return row;
}

void trp__cutlass_remember(trp__pack *pack, const trp__cutlass_problem *problem,
                           const trp__cutlass_row *row)
{
    sender *s = pack->sender;
    const choice_key key = choice_of(problem);
    pthread_mutex_lock(&s->lock);
    const trp__cutlass_row **room = trp__lru_find(s->choices, &key);
    if (!room)
        room = trp__lru_add(s->choices, &key);
    *room = row;
    pthread_mutex_unlock(&s->lock);
}

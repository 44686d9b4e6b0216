#include "actors/cutlass/run/tune.h"

#include "base/os/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 4 }; /* kernels of which all settings are tried */

static const trp__search_rules quick_search = {.finalists = 3,
                                               .rounds = 5,
                                               .kinds = 1,
                                               .most = 100,
                                               .length_us = 500,
                                               .final_us = 3000,
                                               .enough = 0.99f};
static const trp__search_rules full_search = {.finalists = 6,
                                              .rounds = 9,
                                              .kinds = 1,
                                              .most = 100,
                                              .length_us = 1000,
                                              .final_us = 10000,
                                              .enough = 0.99f,
                                              .lasting_us = 50,
                                              .heat_us = 200000,
                                              .lasting_final_us = 100000,
                                              .lasting_rounds = 3,
                                              .lasting_most = 800}; /* more: the driver waits */

/* Life. */

trp_status trp__cutlass_tuner_open(trp__cutlass_tuner *t, trp__jit_loader *loader, trp_error *error)
{
    const trp__cuda *cu = loader->cu;
    t->loader = loader;
    trp_status status =
        trp_cuda_check(loader->instance, cu->cuEventCreate(&t->begin, 0), "cuEventCreate", error);
    if (status == TRP_OK)
        status =
            trp_cuda_check(loader->instance, cu->cuEventCreate(&t->end, 0), "cuEventCreate", error);
    if (status == TRP_OK)
        status = trp__lru_create(sizeof(trp__hash), sizeof(trp__cutlass_record), TRP__TUNE_FOUND,
                                 NULL, NULL, &t->found, error);
    return status;
}

void trp__cutlass_tuner_close(trp__cutlass_tuner *t)
{
    if (!t->loader)
        return;
    if (t->begin)
        t->loader->cu->cuEventDestroy_v2(t->begin);
    if (t->end)
        t->loader->cu->cuEventDestroy_v2(t->end);
    trp__lru_destroy(t->found);
    memset(t, 0, sizeof *t);
}

/* Data that a request brings along. */

static trp_status damaged(trp_error *error)
{
    return trp__error_set(error, TRP_E_INTERNAL, "what a search needs is damaged");
}

static trp_status read_search(trp__cutlass_tuner *t, const char *from, uint32_t bytes,
                              trp_error *error)
{
    trp__run_search *head = &t->head;
    if (bytes < sizeof *head)
        return damaged(error);
    memcpy(head, from, sizeof *head);
    if (head->candidates == 0 || head->candidates > TRP__RUN_CANDIDATES_MAX ||
        head->settings > TRP__RUN_SETTINGS_MAX || head->key_bytes > bytes ||
        trp__search_bytes(head) > bytes)
        return damaged(error);
    memcpy(t->candidate, from + trp__search_candidates_at(),
           head->candidates * sizeof *t->candidate);
    memcpy(t->setting, from + trp__search_settings_at(head), head->settings * sizeof *t->setting);
    for (uint32_t i = 0; i < head->candidates; i++) {
        trp__run_candidate *c = &t->candidate[i];
        c->kernel[sizeof c->kernel - 1] = '\0';
        if (c->count == 0 || c->first >= head->settings || c->count > head->settings - c->first)
            return damaged(error);
    }
    t->key = trp__hash_of(from + trp__search_key_at(head), head->key_bytes);
    return TRP_OK;
}

/* NULL: it is not loaded. */
static trp__jit_loaded *module_of(const trp__cutlass_tuner *t, uint32_t candidate)
{
    const trp__run_candidate *c = &t->candidate[candidate];
    return trp__jit_loader_loaded(t->loader, c->slot, c->generation);
}

/* Entries of the search are kernels with settings. */

static void add_entry(trp__cutlass_tuner *t, uint32_t candidate, uint32_t setting)
{
    (void)trp__search_add(&t->search, candidate * TRP__RUN_SETTINGS_MAX + setting);
}

static uint32_t candidate_of(const trp__cutlass_tuner *t, uint32_t entry)
{
    return t->entry[entry].what / TRP__RUN_SETTINGS_MAX;
}

static const trp__cutlass_settings *settings_of(const trp__cutlass_tuner *t, uint32_t entry)
{
    return &t->setting[t->entry[entry].what % TRP__RUN_SETTINGS_MAX];
}

/* Beginning. */

static void use_found(trp__cutlass_tuner *t, const trp__cutlass_record *found)
{
    t->phase = TRP__TUNE_DONE;
    for (uint32_t i = 0; i < t->head.candidates; i++) {
        if (strcmp(t->candidate[i].kernel, found->kernel) == 0) {
            t->winner = i;
            t->record = *found;
        }
    }
}

static trp_status begin(trp__cutlass_tuner *t, uint64_t ticket, const char *search, uint32_t bytes,
                        trp_error *error)
{
    t->ticket = ticket;
    t->phase = TRP__TUNE_DONE;
    t->record.kernel[0] = '\0';
    trp_status status = read_search(t, search, bytes, error);
    if (status != TRP_OK)
        return status;
    const trp__cutlass_record *found = trp__lru_find(t->found, &t->key);
    if (found && found->result.level >= t->head.level) {
        use_found(t, found);
        return TRP_OK;
    }
    t->flying = t->keeping = false;
    trp__search_begin(&t->search, t->head.level == TRP_TUNE_FULL ? &full_search : &quick_search,
                      t->entry, TRP__RUN_SETTINGS_MAX);
    for (uint32_t i = 0; i < t->head.candidates; i++) {
        if (module_of(t, i))
            add_entry(t, i, t->candidate[i].first);
    }
    /* Without the request's own kernel there is nothing to compare with. */
    bool possible = t->search.entries > 0 && candidate_of(t, 0) == 0 &&
                    (t->search.entries > 1 || t->candidate[0].count > 1);
    t->phase = possible ? TRP__TUNE_ROWS : TRP__TUNE_DONE;
    t->until = trp__deadline(t->head.budget_ns);
    return TRP_OK;
}

/* Measuring. */

static trp_status launch(trp__cutlass_tuner *t, uint32_t runs, const trp__tune_ways *ways,
                         trp_error *error)
{
    const trp__cuda *cu = t->loader->cu;
    trp_instance *instance = t->loader->instance;
    trp_status status = trp_cuda_check(instance, cu->cuEventRecord(t->begin, instance->stream),
                                       "cuEventRecord", error);
    for (uint32_t i = 0; i < runs && status == TRP_OK; i++)
        status = ways->enqueue(ways->context, error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, cu->cuEventRecord(t->end, instance->stream),
                                "cuEventRecord", error);
    return status;
}

/* Microseconds of a run. TRP_AGAIN: not known yet. */
static trp_status measure(trp__cutlass_tuner *t, const trp__search_step *step,
                          const trp__tune_ways *ways, float *us, trp_error *error)
{
    const trp__cuda *cu = t->loader->cu;
    float ms = 0;
    if (!t->flying) {
        const uint32_t candidate = candidate_of(t, step->entry);
        trp__jit_loaded *module = module_of(t, candidate);
        if (!module)
            return trp__error_set(error, TRP_E_STALE, "a kernel that was freed meanwhile");
        trp_status status = ways->prepare(ways->context, module, t->candidate[candidate].kernel,
                                          settings_of(t, step->entry), error);
        if (status == TRP_OK)
            status = launch(t, step->runs, ways, error);
        t->flying = status == TRP_OK;
        return status == TRP_OK ? TRP_AGAIN : status;
    }
    trp__cu_result result = cu->cuEventQuery(t->end);
    if (result == TRP__CU_NOT_READY)
        return TRP_AGAIN;
    t->flying = false;
    if (result == TRP__CU_SUCCESS)
        result = cu->cuEventElapsedTime(&ms, t->begin, t->end);
    *us = ms * 1000 / (float)step->runs;
    return trp_cuda_check(t->loader->instance, result, "cuEventElapsedTime", error);
}

/* From one measurement to the next. */

/* The other settings of the fastest kernels. */
static void add_settings(trp__cutlass_tuner *t)
{
    const uint32_t kernels = t->search.entries;
    uint32_t seeds = 0;
    bool first_is_seed = false;
    trp__search_sort(&t->search);
    for (uint32_t i = 1; i < kernels && i <= SEEDS; i++)
        first_is_seed = first_is_seed || t->entry[0].us <= t->entry[i].us;
    for (uint32_t i = first_is_seed || kernels == 1 ? 0 : 1; i < kernels && seeds < SEEDS; i++) {
        const trp__run_candidate *c = &t->candidate[candidate_of(t, i)];
        seeds++;
        for (uint32_t k = 1; k < c->count; k++)
            add_entry(t, candidate_of(t, i), c->first + k);
    }
}

/* Stores the winner. */
static void decide(trp__cutlass_tuner *t)
{
    const uint32_t best = trp__search_winner(&t->search);
    t->winner = candidate_of(t, best);
    t->record = (trp__cutlass_record){.result = {.level = t->head.level,
                                                 .candidates = t->search.entries,
                                                 .default_us = trp__search_median(&t->search, 0),
                                                 .best_us = trp__search_median(&t->search, best)},
                                      .settings = *settings_of(t, best)};
    memcpy(t->record.kernel, t->candidate[t->winner].kernel, sizeof t->record.kernel);
    t->phase = TRP__TUNE_KEEP;
}

/* All that is to be measured is known. */
static void next_phase(trp__cutlass_tuner *t)
{
    if (t->search.failed) {
        t->phase = TRP__TUNE_DONE;
    } else if (t->search.phase == TRP__SEARCH_OVER) {
        decide(t);
    } else if (t->phase == TRP__TUNE_ROWS && t->head.level == TRP_TUNE_FULL) {
        t->phase = TRP__TUNE_SETTINGS;
        add_settings(t);
    } else {
        trp__search_final(&t->search);
    }
}

/* Keeping. */

typedef struct keeping {
    trp__cutlass_record record;
    size_t key_bytes;
    unsigned char key[];
} keeping;

static void keep(void *argument)
{
    keeping *k = argument;
    trp__cutlass_record_keep(trp__store_of_process(), k->key, k->key_bytes, &k->record);
    free(k);
}

/* In the side thread, for it writes a file. TRP_AGAIN until it is done. */
static trp_status keep_record(trp__cutlass_tuner *t, const char *search)
{
    if (trp__side_busy(t->loader->side))
        return TRP_AGAIN;
    keeping *k = t->keeping ? NULL : malloc(sizeof *k + t->head.key_bytes);
    if (!k) {
        t->phase = TRP__TUNE_DONE;
        return TRP_OK;
    }
    trp__cutlass_record *known = trp__lru_find(t->found, &t->key);
    known = known ? known : trp__lru_add(t->found, &t->key);
    *known = k->record = t->record;
    k->key_bytes = t->head.key_bytes;
    memcpy(k->key, search + trp__search_key_at(&t->head), k->key_bytes);
    t->keeping = true;
    trp__side_run(t->loader->side, keep, k);
    return TRP_AGAIN;
}

/* All of it. */

static trp_status step(trp__cutlass_tuner *t, const trp__tune_ways *ways, trp_error *error)
{
    trp__search_step next;
    trp_error of_one;
    float us = 0;
    if (!trp__search_next(&t->search, &next)) {
        next_phase(t);
        return TRP_OK;
    }
    trp_status status = measure(t, &next, ways, &us, &of_one);
    if (status == TRP_AGAIN)
        return status;
    if (status != TRP_OK && t->loader->cu->cuEventQuery(t->end) != TRP__CU_SUCCESS) {
        *error = of_one; /* the device's end, not the kernel's */
        return status;
    }
    trp__search_add_time(&t->search,
                         status == TRP_OK ? us : -1); /* what can't be run is left out */
    if (trp__now_ns() > t->until)
        trp__search_hurry(&t->search);
    return TRP_OK;
}

trp_status trp__cutlass_tune(trp__cutlass_tuner *t, uint64_t ticket, const void *search,
                             uint32_t bytes, const trp__tune_ways *ways, trp__jit_loaded **module,
                             trp__cutlass_settings *settings, trp_error *error)
{
    trp_status status = ticket == t->ticket ? TRP_OK : begin(t, ticket, search, bytes, error);
    while (status == TRP_OK && t->phase != TRP__TUNE_DONE)
        status = t->phase == TRP__TUNE_KEEP ? keep_record(t, search) : step(t, ways, error);
    if (status != TRP_OK || !t->record.kernel[0])
        return status;
    trp__jit_loaded *found = module_of(t, t->winner);
    if (found) {
        *module = found;
        *settings = t->record.settings;
    }
    return TRP_OK;
}

#include "actors/cutlass/run/tune.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_QUICK = 5,
    FINALISTS_QUICK = 3, /* besides the first */
    FINALISTS_FULL = 6,
    SEEDS = 4, /* kernels of which all settings are tried */
    REPETITIONS = 100,
    ROUNDS_LASTING = 3,
    REPETITIONS_LASTING = 800, /* more would make the driver wait */
};

_Static_assert(ROUNDS_QUICK <= (int)TRP__TUNE_ROUNDS, "rounds are kept");

/* How long one measurement shall take. */
#define LENGTH_QUICK_US 500.0f
#define LENGTH_FULL_US  1000.0f
#define FINAL_QUICK_US  3000.0f
#define FINAL_FULL_US   10000.0f

/* Kernels that take so long heat the device until it lowers its clock, by as much as each of them
 * makes it: a full search begins once it has come down, and the last measurements are so long that
 * each kernel comes to a clock of its own. */
#define LASTING_US       50.0f
#define HEAT_US          200000.0f
#define FINAL_LASTING_US 100000.0f

/* What takes the place of the first is this much faster. */
#define ENOUGH 0.99f

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

/* What a request has taken along. */

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

static void add_entry(trp__cutlass_tuner *t, uint32_t candidate, uint32_t setting)
{
    t->entry[t->entries++] = (trp__tune_entry){.candidate = candidate, .setting = setting};
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
    if (found && found->level >= t->head.level) {
        use_found(t, found);
        return TRP_OK;
    }
    t->entries = t->at = t->round = 0;
    t->warm = t->hot = t->lasting = t->flying = t->keeping = false;
    for (uint32_t i = 0; i < t->head.candidates; i++) {
        if (module_of(t, i))
            add_entry(t, i, t->candidate[i].first);
    }
    /* Without the request's own kernel there is nothing to compare with. */
    bool possible = t->entries > 0 && t->entry[0].candidate == 0 &&
                    (t->entries > 1 || t->candidate[0].count > 1);
    t->phase = possible ? TRP__TUNE_ROWS : TRP__TUNE_DONE;
    t->until = trp__deadline(t->head.budget_ns);
    return TRP_OK;
}

/* Measuring. */

static bool is_lasting(const trp__cutlass_tuner *t)
{
    return t->head.level == TRP_TUNE_FULL && t->entry[0].us[0] >= LASTING_US;
}

/* Whether the measurement is only for the device to get hot. */
static bool is_heat(const trp__cutlass_tuner *t)
{
    return t->phase == TRP__TUNE_ROWS && t->at == 0 && t->warm && !t->hot && is_lasting(t);
}

static float length_of(const trp__cutlass_tuner *t)
{
    bool full = t->head.level == TRP_TUNE_FULL;
    if (t->phase == TRP__TUNE_FINAL)
        return t->lasting ? FINAL_LASTING_US : full ? FINAL_FULL_US : FINAL_QUICK_US;
    return is_heat(t) ? HEAT_US : full ? LENGTH_FULL_US : LENGTH_QUICK_US;
}

static uint32_t repetitions(const trp__cutlass_tuner *t, float us)
{
    const float most = t->lasting || is_heat(t) ? REPETITIONS_LASTING : REPETITIONS;
    float count = us > 0 ? length_of(t) / us : most;
    return count < 2 ? 2 : count > most ? (uint32_t)most : (uint32_t)count;
}

static trp_status launch(trp__cutlass_tuner *t, const trp__tune_ways *ways, trp_error *error)
{
    const trp__cuda *cu = t->loader->cu;
    trp_instance *instance = t->loader->instance;
    trp_status status = trp_cuda_check(instance, cu->cuEventRecord(t->begin, instance->stream),
                                       "cuEventRecord", error);
    for (uint32_t i = 0; i < t->launches && status == TRP_OK; i++)
        status = ways->enqueue(ways->context, error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, cu->cuEventRecord(t->end, instance->stream),
                                "cuEventRecord", error);
    return status;
}

/* Microseconds of a run of an entry, over t->launches of them. TRP_AGAIN: not known yet. */
static trp_status measure(trp__cutlass_tuner *t, const trp__tune_ways *ways, float *us,
                          trp_error *error)
{
    const trp__cuda *cu = t->loader->cu;
    const trp__tune_entry *e = &t->entry[t->at];
    float ms = 0;
    if (!t->flying) {
        trp__jit_loaded *module = module_of(t, e->candidate);
        if (!module)
            return trp__error_set(error, TRP_E_STALE, "a kernel that was freed meanwhile");
        trp_status status = ways->prepare(ways->context, module, &t->setting[e->setting], error);
        if (status == TRP_OK)
            status = launch(t, ways, error);
        t->flying = status == TRP_OK;
        return status == TRP_OK ? TRP_AGAIN : status;
    }
    trp__cu_result result = cu->cuEventQuery(t->end);
    if (result == TRP__CU_NOT_READY)
        return TRP_AGAIN;
    t->flying = false;
    if (result == TRP__CU_SUCCESS)
        result = cu->cuEventElapsedTime(&ms, t->begin, t->end);
    *us = ms * 1000 / (float)t->launches;
    return trp_cuda_check(t->loader->instance, result, "cuEventElapsedTime", error);
}

/* From one measurement to the next. */

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int compare_entries(const void *a, const void *b)
{
    return compare_floats(((const trp__tune_entry *)a)->us, ((const trp__tune_entry *)b)->us);
}

static void leave_out(trp__cutlass_tuner *t)
{
    t->entries--;
    memmove(&t->entry[t->at], &t->entry[t->at + 1], (t->entries - t->at) * sizeof *t->entry);
}

/* The first stays first. */
static void sort(trp__cutlass_tuner *t)
{
    if (t->entries > 2)
        qsort(t->entry + 1, t->entries - 1, sizeof *t->entry, compare_entries);
}

/* The other settings of the fastest kernels. */
static void add_settings(trp__cutlass_tuner *t)
{
    uint32_t kernels = t->entries, seeds = 0;
    bool first_is_seed = false;
    for (uint32_t i = 1; i < kernels && i <= SEEDS; i++)
        first_is_seed = first_is_seed || t->entry[0].us[0] <= t->entry[i].us[0];
    for (uint32_t i = first_is_seed || kernels == 1 ? 0 : 1; i < kernels && seeds < SEEDS; i++) {
        const trp__run_candidate *c = &t->candidate[t->entry[i].candidate];
        seeds++;
        for (uint32_t k = 1; k < c->count; k++)
            add_entry(t, t->entry[i].candidate, c->first + k);
    }
}

static void begin_final(trp__cutlass_tuner *t)
{
    uint32_t most = 1 + (t->head.level == TRP_TUNE_FULL ? FINALISTS_FULL : FINALISTS_QUICK);
    t->lasting = is_lasting(t);
    sort(t);
    t->finalists = t->entries < most ? t->entries : most;
    t->at = t->round = 0;
    t->phase = TRP__TUNE_FINAL;
}

static uint32_t rounds_of(const trp__cutlass_tuner *t)
{
    return t->lasting                       ? ROUNDS_LASTING
           : t->head.level == TRP_TUNE_FULL ? TRP__TUNE_ROUNDS
                                            : ROUNDS_QUICK;
}

/* The one with the least median, if it beats the first one by enough. */
static void decide(trp__cutlass_tuner *t)
{
    uint32_t best = 0, middle = t->round / 2;
    for (uint32_t i = 0; i < t->finalists; i++)
        qsort(t->entry[i].us, t->round, sizeof t->entry[i].us[0], compare_floats);
    for (uint32_t i = 1; i < t->finalists; i++) {
        if (t->entry[i].us[middle] < t->entry[best].us[middle])
            best = i;
    }
    if (t->entry[best].us[middle] > ENOUGH * t->entry[0].us[middle] ||
        t->entry[best].us[middle] >= t->entry[0].us[t->round / 4])
        best = 0;
    const trp__tune_entry *e = &t->entry[best];
    t->winner = e->candidate;
    t->record = (trp__cutlass_record){.level = t->head.level,
                                      .candidates = t->entries,
                                      .default_us = t->entry[0].us[middle],
                                      .best_us = e->us[middle],
                                      .settings = t->setting[e->setting]};
    memcpy(t->record.kernel, t->candidate[e->candidate].kernel, sizeof t->record.kernel);
    t->phase = TRP__TUNE_KEEP;
}

/* All of a phase are measured, or there is no time left. */
static void end_phase(trp__cutlass_tuner *t, bool late)
{
    if (t->phase == TRP__TUNE_ROWS && t->head.level == TRP_TUNE_FULL && !late) {
        uint32_t kernels = t->entries;
        sort(t);
        add_settings(t);
        t->at = kernels;
        t->phase = TRP__TUNE_SETTINGS;
        if (t->at < t->entries)
            return;
    }
    if (late) /* what was not measured has no part in the rest */
        t->entries = t->at > 0 ? t->at : 1;
    begin_final(t);
}

static void next_of_qualifying(trp__cutlass_tuner *t, float us)
{
    bool late = trp__now_ns() > t->until;
    if (is_heat(t)) {
        t->hot = true;
        return;
    }
    t->entry[t->at].us[0] = us;
    t->warm = !t->warm;
    if (t->warm) /* once more, and longer */
        return;
    t->at++;
    if (t->at == t->entries || late)
        end_phase(t, late);
}

static void next_of_final(trp__cutlass_tuner *t, float us)
{
    t->entry[t->at].us[t->round] = us;
    if (++t->at < t->finalists)
        return;
    t->at = 0;
    t->round++;
    if (t->round == rounds_of(t) || trp__now_ns() > t->until)
        decide(t);
}

/* One that can't be run is left out; without the first there is no search. */
static void next_without(trp__cutlass_tuner *t)
{
    t->flying = t->warm = false;
    if (t->at == 0 || t->phase == TRP__TUNE_FINAL) {
        t->phase = TRP__TUNE_DONE;
        return;
    }
    leave_out(t);
    if (t->at == t->entries)
        end_phase(t, false);
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
    trp_error of_one;
    float us = 0;
    bool final = t->phase == TRP__TUNE_FINAL;
    t->launches = final || t->warm ? repetitions(t, t->entry[final ? 0 : t->at].us[0]) : 1;
    trp_status status = measure(t, ways, &us, &of_one);
    if (status == TRP_AGAIN)
        return status;
    if (status != TRP_OK && t->loader->cu->cuEventQuery(t->end) != TRP__CU_SUCCESS) {
        *error = of_one; /* the device's end, not the kernel's */
        return status;
    }
    if (status != TRP_OK)
        next_without(t);
    else if (final)
        next_of_final(t, us);
    else
        next_of_qualifying(t, us);
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

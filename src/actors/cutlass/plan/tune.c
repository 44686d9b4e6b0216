#include "actors/cutlass/plan/tune.h"

#include "actors/cutlass/plan/record.h"
#include "actors/cutlass/plan/subject.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_QUICK = 4, ROWS_FULL = TRP__RUN_CANDIDATES_MAX };

/* Rows whose estimate is more than this much above the best one's are not tried. */
#define HOPELESS 2.0

/* Most time of a search, unless one kernel takes longer. */
#define BUDGET_QUICK (1 * TRP__SECOND)
#define BUDGET_FULL  (8 * TRP__SECOND)

/* How many times as long it may take, by the environment: on a slow machine that emulates a GPU
 * hardly a kernel would be timed. */
enum { PATIENCE_MAX = 1000 };

static int64_t patience = 1;
static pthread_once_t patience_once = PTHREAD_ONCE_INIT;

static void read_patience(void)
{
    const char *text = secure_getenv("TROUPE_SEARCH_PATIENCE");
    char *end = NULL;
    if (!text || !*text)
        return;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*end == '\0' && errno == 0 && number >= 1 && number <= PATIENCE_MAX)
        patience = number;
    else
        trp__log_line(NULL, TRP__LOG_WARNING,
                      "TROUPE_SEARCH_PATIENCE: expected a number from 1 to %d, got '%.40s'; 1 is "
                      "taken",
                      PATIENCE_MAX, text);
}

/* Records. */

static bool make_key(const trp__cutlass_running *w, trp__key *key)
{
    trp__tuning_site site;
    const trp__cutlass_choice_key problem = trp__cutlass_choice_key_of(&w->problem, w->named);
    if (!trp__cutlass_site_of(w->encoder, &site))
        return false;
    trp__cutlass_record_key(&site, &problem, key);
    if (key->status != TRP_OK)
        trp__key_end(key);
    return key->status == TRP_OK && key->bytes;
}

/* Whether a record is of a kernel that there is, that applies, and that can have such settings. */
static bool take_record(const trp__cutlass_running *w, const trp__cutlass_record *record,
                        trp__cutlass_choice *out)
{
    trp__cutlass_settings all[TRP__CUTLASS_VARIANTS_MAX];
    const trp__cutlass_row *row = trp__cutlass_row_find(record->kernel);
    if (!row || (w->named ? row != w->named : row->fast && !w->problem.fast) ||
        trp__cutlass_row_applies(row, &w->problem, NULL) != TRP_OK)
        return false;
    uint32_t count = trp__cutlass_row_variants(row, &w->problem, all);
    for (uint32_t i = 0; i < count; i++) {
        if (memcmp(&all[i], &record->settings, sizeof all[i]) != 0)
            continue;
        out->row = row;
        out->settings = all[i];
        out->tuned = (uint8_t)record->result.level;
        return true;
    }
    return false;
}

bool trp__tune_known(trp__cutlass_running *w, trp__cutlass_choice *out)
{
    const trp__cutlass_choice_key problem = trp__cutlass_choice_key_of(&w->problem, w->named);
    trp__cutlass_record record;
    trp__key key = {0};
    memset(out, 0, sizeof *out);
    bool known = trp__cutlass_remembered(w->encoder, &problem, out);
    uint8_t wanted = out->asked > w->tune ? out->asked : (uint8_t)w->tune;
    if (known && wanted <= out->tuned)
        return true;
    trp__store *store = trp__store_of_process();
    if (!store || !make_key(w, &key))
        return known;
    if (trp__cutlass_record_find(store, &key, &record) && record.result.level > out->tuned &&
        take_record(w, &record, out)) {
        known = true;
        trp__cutlass_remember(w->encoder, &problem, out);
    }
    trp__key_end(&key);
    return known;
}

/* Beginning. */

trp_status trp__cutlass_encode_load(trp__encoder *encoder, const trp_request *request)
{
    const trp__cutlass_load_request *r = (const trp__cutlass_load_request *)request;
    trp__cutlass_run run = {0};
    trp__module_layout layout;
    if (encoder->backend != TRP_BACKEND_CUDA)
        return trp__error_set(encoder->error, TRP_E_UNSUPPORTED, "modules on the host");
    trp_status status = trp__module_use(encoder, "module", r->module, TRP__READ, &layout);
    if (status != TRP_OK)
        return status;
    run.storage = layout.storage;
    memcpy(encoder->record->payload, &run, sizeof run);
    if (r->token) {
        r->token[0] = encoder->record->access[0].slot;
        r->token[1] = encoder->record->access[0].generation;
    }
    return TRP_OK;
}

/* Has a module loaded; false: it can't be sent for now. */
static bool load_ahead(const trp__cutlass_running *w, trp_module module, uint32_t token[2])
{
    const trp__cutlass_load_request r = {
        .header = {.op = TRP__OP_CUTLASS_LOAD, .size = sizeof r}, .module = module, .token = token};
    return w->encoder->submit(w->encoder, &r.header) == TRP_OK;
}

/* Whether one does the same as the other but for accessing less at once. */
static bool is_lesser(const trp__cutlass_row *x, const trp__cutlass_row *than)
{
    return x->family == than->family && x->inputs == than->inputs && x->fast == than->fast &&
           x->stream_k == than->stream_k && x->pingpong == than->pingpong &&
           memcmp(x->tile, than->tile, sizeof x->tile) == 0 &&
           memcmp(x->cluster, than->cluster, sizeof x->cluster) == 0 && x->align <= than->align &&
           x->lines <= than->lines;
}

/* The rows to try: those of the list, but what is known to be good comes first. */
static uint32_t list_rows(const trp__cutlass_running *w, const trp__cutlass_row *const *rows,
                          uint32_t count, const trp__cutlass_choice *known,
                          const trp__cutlass_row *out[ROWS_FULL])
{
    uint32_t most = w->tune == TRP_TUNE_FULL ? ROWS_FULL : ROWS_QUICK, n = 0;
    double limit = HOPELESS * trp__cutlass_row_cost(rows[0], &w->problem);
    if (known->tuned)
        out[n++] = known->row;
    for (uint32_t i = 0; i < count && n < most; i++) {
        bool wanted = trp__cutlass_row_cost(rows[i], &w->problem) <= limit;
        for (uint32_t k = 0; k < n && wanted; k++)
            wanted = rows[i] != out[k] && !is_lesser(rows[i], out[k]);
        if (wanted)
            out[n++] = rows[i];
    }
    return n;
}

/* Has all of them compiled. One that fails is left out; if all fail: the last one's error. */
static trp_status compile_all(trp__cutlass_running *w, const trp__cutlass_row **rows,
                              trp_module *module, uint32_t *count, bool *ready)
{
    trp_status status = TRP_OK;
    uint32_t good = 0;
    *ready = true;
    for (uint32_t i = 0; i < *count; i++) {
        bool one;
        status = trp__cutlass_plan_ahead(w->encoder, rows[i], &w->problem, &module[good], &one);
        if (status != TRP_OK)
            continue;
        *ready = *ready && one;
        rows[good++] = rows[i];
    }
    *count = good;
    return good > 0 ? TRP_OK : status;
}

trp_status trp__tune_begin(trp__cutlass_running *w, const trp__cutlass_row *const *rows,
                           uint32_t count, const trp__cutlass_choice *known,
                           const trp__cutlass_row **main)
{
    const trp__cutlass_row *row[ROWS_FULL] = {0};
    trp_module module[ROWS_FULL];
    trp__run_search_ahead *s = &w->search;
    uint32_t n = list_rows(w, rows, count, known, row);
    bool ready;
    *main = NULL;
    memset(s, 0, sizeof *s);
    trp_status status = compile_all(w, row, module, &n, &ready);
    if (status != TRP_OK || (w->first == TRP_CUTLASS_FIRST_FALLBACK && !ready))
        return status;
    for (uint32_t i = 0; i < n; i++) {
        s->row[s->count] = row[i];
        /* The first of them is the request's own, which says its token later. */
        if (i == 0 || load_ahead(w, module[i], s->token[s->count]))
            s->count++;
    }
    *main = row[0];
    return TRP_OK;
}

/* Writing. */

/* The settings that are tried of a row: a quick search takes those that it would have. */
static uint32_t list_settings(const trp__cutlass_running *w, const trp__cutlass_row *row,
                              trp__cutlass_settings out[TRP__CUTLASS_VARIANTS_MAX])
{
    uint32_t count = trp__cutlass_row_variants(row, &w->problem, out);
    return w->tune == TRP_TUNE_FULL ? count : 1;
}

static trp__run_search head_of(const trp__cutlass_running *w, const trp__key *key)
{
    trp__cutlass_settings ignored[TRP__CUTLASS_VARIANTS_MAX];
    trp__run_search head = {.level = w->tune,
                            .candidates = w->search.count,
                            .key_bytes = (uint32_t)key->length,
                            .budget_ns = w->tune == TRP_TUNE_FULL ? BUDGET_FULL : BUDGET_QUICK};
    pthread_once(&patience_once, read_patience);
    head.budget_ns *= patience;
    int64_t quarter = w->encoder->deadline_ns / 4 < INT64_MAX
                          ? (int64_t)(w->encoder->deadline_ns / 4)
                          : INT64_MAX;
    if (quarter > 0 && quarter < head.budget_ns)
        head.budget_ns = quarter;
    for (uint32_t i = 0; i < w->search.count; i++)
        head.settings += list_settings(w, w->search.row[i], ignored);
    for (uint32_t i = 0; i < w->run.addresses && w->in_place; i++) {
        if (w->address[i].at == offsetof(trp_cutlass_args, d))
            head.in_place = w->address[i].access + 1u;
    }
    return head;
}

uint32_t trp__tune_measure(trp__cutlass_running *w, trp__key *key)
{
    if (w->search.count == 0 || !make_key(w, key))
        return 0;
    const trp__run_search head = head_of(w, key);
    return (trp__search_bytes(&head) + 7) / 8 * 8;
}

void trp__tune_write(const trp__cutlass_running *w, const trp__key *key, void *to)
{
    const trp__run_search head = head_of(w, key);
    char *room = to;
    uint32_t settings = 0;
    memcpy(room, &head, sizeof head);
    for (uint32_t i = 0; i < head.candidates; i++) {
        trp__cutlass_settings all[TRP__CUTLASS_VARIANTS_MAX];
        trp__run_candidate c = {.slot = w->search.token[i][0],
                                .generation = w->search.token[i][1],
                                .first = settings,
                                .count = list_settings(w, w->search.row[i], all)};
        if (i == 0) { /* the request's own */
            c.slot = w->encoder->record->access[0].slot;
            c.generation = w->encoder->record->access[0].generation;
        }
        trp__copy_string(c.kernel, sizeof c.kernel, w->search.row[i]->name);
        memcpy(room + trp__search_candidates_at() + i * sizeof c, &c, sizeof c);
        memcpy(room + trp__search_settings_at(&head) + settings * sizeof *all, all,
               c.count * sizeof *all);
        settings += c.count;
    }
    memcpy(room + trp__search_key_at(&head), key->bytes, key->length);
}

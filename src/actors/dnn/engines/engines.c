#include "actors/dnn/engines/engines.h"

#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof.h"
#include "base/error.h"
#include "base/text.h"

#include <troupe/dnn.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONFIGS = 64, /* configurations of one heuristic mode */
    NOTES = 32,
    KNOBS = 32,
    REJECTIONS = 8, /* rejections per part: its other engines are most likely no better */
};

/* The fate of the proposed engines, for the message if none is left. */
typedef struct search {
    const trp__dnn_planner *planner;
    const trp__dnn_part *part;
    const trp__dnn_head *head;
    trp__cudnn_descriptor graph;
    const char *only;                 /* name of the requested engine; NULL: any */
    bool rounds_inputs_only_if_asked; /* without tf32 no engine for f32 may use tensor cores */
    trp__dnn_engine *out;
    uint32_t room, count;
    uint32_t proposed, random, rounding, large, rejected;
    bool broken;    /* a proof has broken the context */
    trp_error last; /* the library's reason for its last refusal */
} search;

static trp_status get(const trp__cudnn *lib, trp__cudnn_descriptor from, trp__cudnn_attribute name,
                      trp__cudnn_attribute_type type, int64_t room, int64_t *count, void *values,
                      trp_error *error)
{
    *count = 0;
    return trp__cudnn_check(lib,
                            lib->cudnnBackendGetAttribute(from, name, type, room, count, values),
                            "cudnnBackendGetAttribute", error);
}

static trp_status finish_plan(const trp__cudnn *lib, trp__cudnn_builder *m, trp__dnn_engine *out,
                              trp_error *error)
{
    int64_t bytes = 0, count;
    trp_status status = trp__cudnn_finish(m, &out->plan);
    if (status == TRP_OK)
        status = get(lib, out->plan, TRP__CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                     TRP__CUDNN_TYPE_INT64, 1, &count, &bytes, error);
    out->workspace = bytes > 0 ? (uint64_t)bytes : 0;
    if (status != TRP_OK)
        trp__dnn_engine_drop(lib, out);
    return status;
}

static trp__cudnn_builder begin_plan(const trp__dnn_planner *planner, trp_error *error)
{
    trp__cudnn_builder m =
        trp__cudnn_begin(planner->lib, TRP__CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, error);
    if (planner->device)
        trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, planner->device);
    else
        trp__cudnn_set(&m, TRP__CUDNN_ATTR_EXECUTION_PLAN_HANDLE, TRP__CUDNN_TYPE_HANDLE, 1,
                       &planner->handle);
    return m;
}

void trp__dnn_engine_drop(const trp__cudnn *lib, trp__dnn_engine *engine)
{
    trp__cudnn_drop(lib, &engine->plan);
    trp__dnn_product_drop(engine);
}

trp_status trp__dnn_engine_write(const trp__cudnn *lib, const trp__dnn_engine *engine, char **out,
                                 size_t *bytes, trp_error *error)
{
    int64_t count;
    trp_status status = get(lib, engine->plan, TRP__CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                            TRP__CUDNN_TYPE_CHAR, 0, &count, NULL, error);
    *out = NULL;
    if (status != TRP_OK)
        return status;
    *bytes = count > 0 ? (size_t)count : 0;
    *out = calloc(1, *bytes + 1);
    if (!*out)
        return trp__error_set(error, TRP_E_MEMORY, "a plan of %zu bytes as text", *bytes);
    status = get(lib, engine->plan, TRP__CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                 TRP__CUDNN_TYPE_CHAR, count, &count, *out, error);
    if (status != TRP_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

trp_status trp__dnn_engine_read(const trp__dnn_planner *planner, const char *text, size_t bytes,
                                trp__dnn_engine *out, trp_error *error)
{
    trp__cudnn_builder m = begin_plan(planner, error);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, TRP__CUDNN_TYPE_CHAR,
                   (int64_t)bytes, text);
    return finish_plan(planner->lib, &m, out, error);
}

static bool has_note(const int notes[], int64_t count, int note)
{
    for (int64_t i = 0; i < count; i++) {
        if (notes[i] == note)
            return true;
    }
    return false;
}

/* Tells whether an engine may be used and counts the reasons against it. An engine whose notes
 * cannot be read has none. */
static bool is_allowed(search *s, trp__cudnn_descriptor engine)
{
    const trp__cudnn *lib = s->planner->lib;
    int notes[NOTES] = {0};
    int64_t count;
    trp_error ignored;
    if (get(lib, engine, TRP__CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, TRP__CUDNN_TYPE_NUMERICAL_NOTE,
            NOTES, &count, notes, &ignored) != TRP_OK)
        count = 0;
    count = count < NOTES ? count : NOTES;
    bool random = s->head->deterministic &&
                  has_note(notes, count, TRP__CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    bool rounding = has_note(notes, count, TRP__CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
                    (s->rounds_inputs_only_if_asked &&
                     has_note(notes, count, TRP__CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    s->random += random;
    s->rounding += !random && rounding;
    return !random && !rounding;
}

static void add_knobs(const trp__cudnn *lib, trp__cudnn_descriptor config, trp__text *name)
{
    trp__cudnn_descriptor knobs[KNOBS] = {0};
    trp_error ignored;
    int64_t count;
    for (int i = 0; i < KNOBS; i++) {
        if (lib->cudnnBackendCreateDescriptor(TRP__CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                                              &knobs[i]) != TRP__CUDNN_STATUS_SUCCESS)
            knobs[i] = NULL;
    }
    if (!knobs[KNOBS - 1] ||
        get(lib, config, TRP__CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR,
            KNOBS, &count, knobs, &ignored) != TRP_OK)
        count = 0;
    for (int64_t i = 0; i < count && i < KNOBS; i++) {
        int type = 0;
        int64_t value = 0, one;
        if (get(lib, knobs[i], TRP__CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, TRP__CUDNN_TYPE_KNOB_TYPE, 1,
                &one, &type, &ignored) == TRP_OK &&
            get(lib, knobs[i], TRP__CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, TRP__CUDNN_TYPE_INT64, 1,
                &one, &value, &ignored) == TRP_OK)
            trp__text_add(name, "_k%d=%" PRId64, type, value);
    }
    for (int i = 0; i < KNOBS; i++)
        trp__cudnn_drop(lib, &knobs[i]);
}

static void name_engine(const trp__cudnn *lib, trp__cudnn_descriptor engine,
                        trp__cudnn_descriptor config, trp__dnn_engine *out)
{
    trp__text name = {.out = out->name, .size = sizeof out->name};
    trp_error ignored;
    int64_t index = -1, count;
    (void)get(lib, engine, TRP__CUDNN_ATTR_ENGINE_GLOBAL_INDEX, TRP__CUDNN_TYPE_INT64, 1, &count,
              &index, &ignored);
    trp__text_add(&name, "eng%" PRId64, index);
    add_knobs(lib, config, &name);
}

/* Accepts or drops the plan created last. */
static void judge_engine(search *s, trp__dnn_engine *made)
{
    if (trp__dnn_proof_accepts(s->planner, s->part, made)) {
        s->count++;
        return;
    }
    trp__dnn_engine_drop(s->planner->lib, made);
    s->rejected++;
    s->broken = s->planner->prover->proofs.broken;
    if (s->broken)
        s->last = s->planner->prover->proofs.error;
}

/* Tells, before anything is compiled, whether the engine is requested. */
static bool is_wanted(search *s, const trp__dnn_engine *named)
{
    if (s->only)
        return strcmp(s->only, named->name) == 0;
    const bool rejected = trp__dnn_proof_rejects(s->planner, s->part, named->name);
    s->rejected += rejected;
    return !rejected;
}

/* Tries a configuration. Returns TRP_OK even if it yields no plan. */
static trp_status try_config(search *s, trp__cudnn_descriptor config)
{
    const trp__cudnn *lib = s->planner->lib;
    trp__cudnn_descriptor engine = NULL;
    trp__dnn_engine *made = &s->out[s->count];
    int64_t count;
    s->proposed++;
    memset(made, 0, sizeof *made);
    if (lib->cudnnBackendCreateDescriptor(TRP__CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
        TRP__CUDNN_STATUS_SUCCESS)
        return trp__error_set(&s->last, TRP_E_MEMORY, "no memory for cuDNN's engines");
    trp_status status = get(lib, config, TRP__CUDNN_ATTR_ENGINECFG_ENGINE,
                            TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine, &s->last);
    if (status == TRP_OK)
        name_engine(lib, engine, config, made);
    if (status == TRP_OK && is_wanted(s, made) && is_allowed(s, engine)) {
        trp__cudnn_builder m = begin_plan(s->planner, &s->last);
        trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        status = finish_plan(lib, &m, made, &s->last);
        if (status == TRP_OK && made->workspace > s->head->workspace) {
            s->large++;
            trp__dnn_engine_drop(lib, made);
        } else if (status == TRP_OK) {
            judge_engine(s, made);
        }
    }
    trp__cudnn_drop(lib, &engine);
    return s->broken ? TRP_E_LIBRARY : status == TRP_E_MEMORY ? status : TRP_OK;
}

static trp_status ask(search *s, int mode, trp__cudnn_descriptor *heuristics)
{
    const trp__dnn_planner *planner = s->planner;
    trp__cudnn_builder m =
        trp__cudnn_begin(planner->lib, TRP__CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &s->last);
    trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, s->graph);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_ENGINEHEUR_MODE, TRP__CUDNN_TYPE_HEUR_MODE, mode);
    if (planner->device)
        trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, planner->device);
    return trp__cudnn_finish(&m, heuristics);
}

/* Adds the proposals of one heuristic mode. Only a lack of memory and a proof that has broken the
 * context are errors. */
static trp_status search_mode(search *s, int mode)
{
    const trp__cudnn *lib = s->planner->lib;
    trp__cudnn_descriptor heuristics = NULL, config[CONFIGS] = {0};
    int64_t count = 0;
    trp_status status = ask(s, mode, &heuristics);
    if (status != TRP_OK)
        return status == TRP_E_MEMORY ? status : TRP_OK;
    for (int i = 0; i < CONFIGS && status == TRP_OK; i++)
        status = trp__cudnn_check(
            lib,
            lib->cudnnBackendCreateDescriptor(TRP__CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]),
            "cudnnBackendCreateDescriptor", &s->last);
    if (status == TRP_OK)
        status = get(lib, heuristics, TRP__CUDNN_ATTR_ENGINEHEUR_RESULTS,
                     TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &count, config, &s->last);
    for (int64_t i = 0; i < count && i < CONFIGS && s->count < s->room &&
                        s->rejected < REJECTIONS && status == TRP_OK;
         i++)
        status = try_config(s, config[i]);
    for (int i = 0; i < CONFIGS; i++)
        trp__cudnn_drop(lib, &config[i]);
    trp__cudnn_drop(lib, &heuristics);
    return s->broken || status == TRP_E_MEMORY ? status : TRP_OK;
}

static bool reads_f32(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    for (uint32_t i = 0; i < TRP__DNN_PORTS; i++) {
        if (kind->port[i].name && !kind->port[i].written && node->port[i] != TRP__DNN_NO_PORT &&
            g->tensor[node->port[i]].type == TRP_F32)
            return true;
    }
    return false;
}

/* Tells whether a part multiplies f32, which tensor cores do as tf32. Products of narrower types
 * are exact there. */
static bool multiplies_f32(const trp__dnn_part *part)
{
    for (uint32_t n = 0; n < part->count; n++) {
        const trp__dnn_node *node = &part->graph->node[part->first + n];
        if (node->kind <= TRP_DNN_MATMUL && reads_f32(part->graph, node))
            return true;
    }
    return false;
}

static trp_status none_left(const search *s, const trp__dnn_part *part, trp_error *error)
{
    const trp__dnn_node *node = &part->graph->node[part->first];
    char text[128];
    trp__text t = {.out = text, .size = sizeof text};
    text[0] = '\0';
    if (s->random)
        trp__text_add(&t, ", %" PRIu32 " not deterministic", s->random);
    if (s->rounding)
        trp__text_add(&t, ", %" PRIu32 " round f32 (tf32 is not set)", s->rounding);
    if (s->large)
        trp__text_add(&t, ", %" PRIu32 " need more workspace", s->large);
    if (s->rejected)
        trp__text_add(&t, ", %" PRIu32 " not right here", s->rejected);
    trp_status status = trp__cudnn_broke(s->last.code) ? TRP_E_LIBRARY : TRP_E_UNSUPPORTED;
    return trp__error_set_code(error, status, "cudnn", s->last.code,
                               "cuDNN has no engine for %s%s: %" PRIu32 " proposed%s%s%s",
                               trp__dnn_kind_of(node->kind)->name, part->count > 1 ? ", ..." : "",
                               s->proposed, text, s->last.message[0] ? "; " : "", s->last.message);
}

static trp_status find_engines(const trp__dnn_planner *planner, const trp__dnn_part *part,
                               const char *only, uint32_t room, trp__dnn_engine out[],
                               uint32_t *count, trp_error *error)
{
    static const int modes[] = {
        [TRP_DNN_HEURISTIC_A] = TRP__CUDNN_HEUR_MODE_A,
        [TRP_DNN_HEURISTIC_B] = TRP__CUDNN_HEUR_MODE_B,
        [TRP_DNN_HEURISTIC_FALLBACK] = TRP__CUDNN_HEUR_MODE_FALLBACK,
    };
    const trp__dnn_head *head = part->graph->head;
    search s = {.planner = planner,
                .part = part,
                .head = head,
                .only = only,
                .rounds_inputs_only_if_asked = !head->tf32 && multiplies_f32(part),
                .out = out,
                .room = room};
    *count = 0;
    trp_status status = trp__dnn_operation_graph(planner, part, &s.graph, error);
    if (status != TRP_OK)
        return status;
    status = search_mode(&s, modes[head->heuristic]);
    if (status == TRP_OK && s.count == 0 && head->heuristic != TRP_DNN_HEURISTIC_FALLBACK)
        status = search_mode(&s, TRP__CUDNN_HEUR_MODE_FALLBACK);
    trp__cudnn_drop(planner->lib, &s.graph);
    *count = s.count;
    if (status != TRP_OK) { /* the created plans are of no use */
        while (*count > 0)
            trp__dnn_engine_drop(planner->lib, &out[--*count]);
        *error = s.last;
        return status;
    }
    return s.count > 0 ? TRP_OK : none_left(&s, part, error);
}

trp_status trp__dnn_engines(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            uint32_t room, trp__dnn_engine out[], uint32_t *count, trp_error *error)
{
    return find_engines(planner, part, NULL, room, out, count, error);
}

trp_status trp__dnn_engine_named(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                 const char *name, trp__dnn_engine *out, trp_error *error)
{
    trp__dnn_planner unproven = *planner;
    uint32_t count;
    unproven.prover = NULL;
    return find_engines(&unproven, part, name, 1, out, &count, error);
}

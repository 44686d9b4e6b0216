#include "actors/dnn/plans/record.h"

#include "actors/dnn/engines/product_cublaslt.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/numbers/half.h"

#include <troupe/dnn.h>

#include <stdlib.h>
#include <string.h>

/* Version of the payload, of the meaning of a graph's bytes, of its description to the library and
 * of the requests to it. Also part of the key: versions of Troupe that differ in it do not replace
 * each other's records. */
#define VERSION 22u

/* Keys. */

void trp__dnn_record_key(const trp__tuning_site *site, const trp__dnn_graph *graph, trp__key *key)
{
    char text[256];
    trp__dnn_head head = *graph->head;
    head.tune = TRP_TUNE_OFF;
    trp__dnn_graph_text(graph, text, sizeof text);
    trp__tuning_key_begin(key, TRP__KIND_DNN_PLAN, site, text, "plan", "record", VERSION);
    trp__key_add(key, TRP__KEY_INPUT, &head, sizeof head);
    trp__key_add(key, TRP__KEY_INPUT, graph->head + 1, trp__dnn_key_bytes(&head) - sizeof head);
}

/* Records: a head, then each step, then the texts of the steps in the same order. */

enum { HEAD_TUNE = 4, HEAD_STEPS = 8, HEAD_LOWERING = 12, HEAD_PROVEN = 16, HEAD_BYTES = 24 };
enum {
    STEP_COUNT = 4,
    STEP_TEXT = 8, /* bytes */
    STEP_CANDIDATES = 16,
    STEP_DEFAULT = 20,
    STEP_BEST = 24,
    STEP_WAY = 28,
    STEP_NAME = 32,
    STEP_BYTES = STEP_NAME + TRP_DNN_ENGINE_SIZE,
};

static void put_step(unsigned char *at, const trp__dnn_step *step, size_t text)
{
    trp__put32(at, step->first);
    trp__put32(at + STEP_COUNT, step->count);
    trp__put64(at + STEP_TEXT, text);
    trp__put32(at + STEP_CANDIDATES, step->candidates);
    trp__put32(at + STEP_DEFAULT, trp__f32_bits(step->default_us));
    trp__put32(at + STEP_BEST, trp__f32_bits(step->best_us));
    trp__put32(at + STEP_WAY, step->way);
    memcpy(at + STEP_NAME, step->engine.name, sizeof step->engine.name);
}

static trp_status write_product(const trp__dnn_engine *engine, char **out, size_t *bytes,
                                trp_error *error)
{
    *bytes = TRP__DNN_PRODUCT_BYTES;
    *out = malloc(*bytes);
    if (!*out)
        return trp__error_set(error, TRP_E_MEMORY, "a product of %zu bytes", *bytes);
    trp__dnn_product_write(engine, (unsigned char *)*out);
    return TRP_OK;
}

trp_status trp__dnn_record_write(const trp__dnn_plan *plan, unsigned char **out, size_t *bytes,
                                 trp_error *error)
{
    size_t size = HEAD_BYTES + plan->steps * (size_t)STEP_BYTES;
    unsigned char *record = calloc(1, size);
    trp_status status = TRP_OK;
    *out = NULL;
    if (!record)
        return trp__error_set(error, TRP_E_MEMORY, "a record of %zu bytes", size);
    for (uint32_t i = 0; i < plan->steps && status == TRP_OK; i++) {
        char *text = NULL;
        size_t length = 0;
        if (plan->step[i].engine.plan)
            status = trp__dnn_engine_write(plan->lib, &plan->step[i].engine, &text, &length, error);
        else if (plan->step[i].engine.product)
            status = write_product(&plan->step[i].engine, &text, &length, error);
        unsigned char *more = status == TRP_OK ? realloc(record, size + length) : NULL;
        if (more) {
            record = more;
            put_step(record + HEAD_BYTES + i * (size_t)STEP_BYTES, &plan->step[i], length);
            if (length)
                memcpy(record + size, text, length);
            size += length;
        } else if (status == TRP_OK) {
            status = trp__error_set(error, TRP_E_MEMORY, "a record of %zu bytes", size + length);
        }
        free(text);
    }
    if (status == TRP_OK) {
        trp__put32(record, VERSION);
        trp__put32(record + HEAD_TUNE, plan->tune);
        trp__put32(record + HEAD_STEPS, plan->steps);
        trp__put32(record + HEAD_LOWERING, plan->lowered.lowering);
        trp__put32(record + HEAD_PROVEN, plan->proven);
        *bytes = size;
    } else {
        free(record);
        record = NULL;
    }
    *out = record;
    return status;
}

static trp_status damaged(trp_error *error)
{
    return trp__error_set(error, TRP_E_MISSING, "a record that is none, or of another version");
}

/* Reads the step at `at` if it continues the previous one; its text has `*text` bytes. */
static bool get_step(const unsigned char *at, uint32_t nodes, uint32_t after, trp__dnn_step *out,
                     uint64_t *text)
{
    *out = (trp__dnn_step){.first = trp__get32(at),
                           .count = trp__get32(at + STEP_COUNT),
                           .way = (trp__dnn_way)trp__get32(at + STEP_WAY),
                           .candidates = trp__get32(at + STEP_CANDIDATES),
                           .default_us = trp__f32_from_bits(trp__get32(at + STEP_DEFAULT)),
                           .best_us = trp__f32_from_bits(trp__get32(at + STEP_BEST))};
    *text = trp__get64(at + STEP_TEXT);
    memcpy(out->engine.name, at + STEP_NAME, sizeof out->engine.name);
    out->engine.name[sizeof out->engine.name - 1] = '\0';
    bool by_library = out->way == TRP__DNN_WAY_ENGINE || out->way == TRP__DNN_WAY_PRODUCT;
    return out->first >= after && out->count > 0 && out->first < nodes &&
           out->count <= nodes - out->first && out->way < TRP__DNN_WAYS &&
           (*text > 0) == by_library &&
           (out->count == 1 || by_library || out->way == TRP__DNN_WAY_KERNEL);
}

static trp_status read_product(const trp__dnn_planner *planner, const trp__dnn_plan *plan,
                               const void *text, size_t bytes, trp__dnn_step *step,
                               trp_error *error)
{
    const trp__dnn_part part = {&plan->lowered.graph, step->first, step->count};
    return trp__dnn_product_read(planner, &part, text, bytes, &step->engine, error);
}

trp_status trp__dnn_record_read(const void *bytes, size_t size, const trp__dnn_planner *planner,
                                const trp__dnn_graph *graph, trp__dnn_plan **out, trp_error *error)
{
    const unsigned char *b = bytes;
    *out = NULL;
    if (size < HEAD_BYTES || trp__get32(b) != VERSION ||
        trp__get32(b + HEAD_TUNE) > TRP_TUNE_FULL ||
        trp__get32(b + HEAD_LOWERING) >= TRP__DNN_LOWERINGS)
        return damaged(error);
    uint32_t steps = trp__get32(b + HEAD_STEPS), after = 0;
    size_t at = HEAD_BYTES + steps * (size_t)STEP_BYTES;
    trp__dnn_plan *plan;
    trp_status status = trp__dnn_plan_begin(
        planner->lib, graph, (trp__dnn_lowering)trp__get32(b + HEAD_LOWERING), &plan, error);
    if (status != TRP_OK)
        return status;
    uint32_t nodes = plan->lowered.graph.head->nodes;
    if (steps > nodes || at > size)
        status = damaged(error);
    for (uint32_t i = 0; i < steps && status == TRP_OK; i++) {
        trp__dnn_step *step = &plan->step[i];
        uint64_t text;
        if (!get_step(b + HEAD_BYTES + i * (size_t)STEP_BYTES, nodes, after, step, &text) ||
            text > size - at) {
            status = damaged(error);
            break;
        }
        if (step->way == TRP__DNN_WAY_ENGINE)
            status =
                trp__dnn_engine_read(planner, (const char *)b + at, text, &step->engine, error);
        else if (step->way == TRP__DNN_WAY_PRODUCT)
            status = read_product(planner, plan, b + at, text, step, error);
        else if (step->way == TRP__DNN_WAY_DIRECT)
            status = trp__dnn_have_direct(planner, &plan->lowered.graph.node[step->first], error);
        else if (step->way == TRP__DNN_WAY_KERNEL)
            status = trp__dnn_have_kernel(planner, &plan->lowered.graph, step, error);
        if (status == TRP_OK && step->engine.workspace > graph->head->workspace)
            status = damaged(error);
        plan->steps++;
        after = step->first + step->count;
        at += text;
    }
    if (status == TRP_OK) {
        plan->tune = (uint8_t)trp__get32(b + HEAD_TUNE);
        plan->proven = trp__get32(b + HEAD_PROVEN) == 1;
        plan->found = true;
        trp__dnn_plan_end(plan);
        *out = plan;
    } else {
        trp__dnn_plan_drop(plan);
    }
    return status;
}

bool trp__dnn_record_find(trp__store *store, const trp__key *key, const trp__dnn_planner *planner,
                          const trp__dnn_graph *graph, trp__dnn_plan **out)
{
    trp__store_hit hit = {0};
    trp_error ignored;
    bool found =
        store && trp__store_find(store, &(trp__store_request){.key = key}, &hit) == TRP_OK &&
        trp__dnn_record_read(hit.payload, hit.bytes, planner, graph, out, &ignored) == TRP_OK;
    trp__store_hit_end(&hit);
    return found;
}

void trp__dnn_record_keep(trp__store *store, const trp__key *key, const trp__dnn_plan *plan)
{
    unsigned char *bytes = NULL;
    size_t size;
    trp_error ignored;
    if (store && !plan->makeshift && trp__dnn_record_write(plan, &bytes, &size, &ignored) == TRP_OK)
        (void)trp__store_put(store, &(trp__store_request){.key = key},
                             &(trp__store_entry){.payload = bytes, .bytes = size}, &ignored);
    free(bytes);
}

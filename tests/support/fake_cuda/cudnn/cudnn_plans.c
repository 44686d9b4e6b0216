/* Operation graphs, heuristics, engines and execution plans of the fake cuDNN. */
#include "support/fake_cuda/cudnn/cudnn.h"
#include "support/fake_cuda/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTR(name) TRP__CUDNN_ATTR_##name

/* Graphs. */

/* Returns the number of a tensor; -1: another tensor has its unique id, or there are too many. */
static int add_tensor(fake_cudnn_graph *g, const fake_descriptor *d)
{
    int64_t uid = fake_attribute_int(d, ATTR(TENSOR_UNIQUE_ID), 0);
    for (uint32_t i = 0; i < g->tensors; i++) {
        if (g->uid[i] != uid)
            continue;
        trp__dnn_tensor t = d->tensor;
        t.written = g->tensor[i].written;
        return memcmp(&t, &g->tensor[i], sizeof t) == 0 ? (int)i : -1;
    }
    if (g->tensors == TRP__DNN_LOWERED_TENSORS)
        return -1;
    g->uid[g->tensors] = uid;
    g->tensor[g->tensors] = d->tensor;
    return (int)g->tensors++;
}

/* Adds a node. Each tensor is written once, before it is read; virtual tensors must be written. */
static int add_node(fake_cudnn_graph *g, const fake_descriptor *operation)
{
    trp__dnn_node *n = &g->node[g->nodes++];
    *n = operation->node;
    memset(n->port, TRP__DNN_NO_PORT, sizeof n->port);
    const trp__dnn_kind *kind = trp__dnn_kind_of(n->kind);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < operation->attributes; i++) {
            const fake_attribute *a = &operation->attribute[i];
            int port = fake_attribute_port(operation, a);
            if (port < 0 || kind->port[port].written != (pass == 1))
                continue;
            int number = add_tensor(g, *(fake_descriptor *const *)a->values);
            if (number < 0)
                return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "%s: the unique id of %s", kind->name,
                                      kind->port[port].name);
            trp__dnn_tensor *t = &g->tensor[number];
            if (pass == 0 ? t->role == TRP__DNN_VIRTUAL && !t->written
                          : t->written || t->role == TRP__DNN_VALUE)
                return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "%s: %s is written twice or too late",
                                      kind->name, kind->port[port].name);
            t->written = t->written || pass == 1;
            n->port[port] = (uint8_t)number;
        }
    }
    return FAKE_CUDNN_SUCCESS;
}

int fake_finalize_graph(fake_descriptor *d)
{
    const fake_attribute *ops = fake_attribute_of(d, ATTR(OPERATIONGRAPH_OPS));
    d->graph = calloc(1, sizeof *d->graph);
    if (!d->graph)
        return FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    for (int64_t i = 0; i < ops->count; i++) {
        const fake_descriptor *operation = ((fake_descriptor **)ops->values)[i];
        int status = operation->node.kind == TRP_DNN_NONE
                         ? fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "what is no operation")
                         : add_node(d->graph, operation);
        if (status)
            return status;
    }
    return FAKE_CUDNN_SUCCESS;
}

/* Heuristics. */

typedef struct engine_row {
    uint64_t workspace;
    int notes, note[2];
} engine_row;

static const engine_row engines[FAKE_CUDNN_ENGINES] = {
    {.workspace = 4096, .notes = 1, .note = {TRP__CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
    {.workspace = 1000},
    {.workspace = 0},
    {.workspace = 64, .notes = 1, .note = {TRP__CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
    {.workspace = 512,
     .notes = 2,
     .note = {TRP__CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
              TRP__CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}},
};

uint64_t fake_engine_workspace(int engine)
{
    return engines[engine].workspace;
}

static bool lists(const char *list, const char *what)
{
    const size_t length = strlen(what);
    for (const char *at = list; *at;) {
        const size_t word = strcspn(at, ",\n");
        if (word == length && memcmp(at, what, length) == 0)
            return true;
        at += word + (at[word] != '\0');
    }
    return false;
}

/* Returns whether a product has the same padding on both sides, and one type for all tensors. */
static bool is_alike(const fake_cudnn_graph *g, const trp__dnn_node *n)
{
    bool alike = true;
    for (int i = 0; i < n->spatial; i++)
        alike = alike && n->pre_pad[i] == n->post_pad[i];
    for (int i = TRP__DNN_CONV_W; i <= TRP__DNN_CONV_Y; i++)
        alike = alike && g->tensor[n->port[i]].type == g->tensor[n->port[0]].type;
    return alike;
}

/* Returns whether the list of a test has the graph: "conv,pool" or "all"; with "alike", only
 * products for which is_alike() holds. */
static bool takes(const char *list, const fake_cudnn_graph *g, const trp__dnn_node *n)
{
    static const char *const names[] = {
        [TRP_DNN_CONV_FORWARD] = "conv",         [TRP_DNN_CONV_BACKWARD_DATA] = "conv",
        [TRP_DNN_CONV_BACKWARD_FILTER] = "conv", [TRP_DNN_MATMUL] = "matmul",
        [TRP_DNN_POINTWISE] = "pointwise",       [TRP_DNN_POINTWISE_BACKWARD] = "pointwise",
        [TRP_DNN_REDUCTION] = "reduction",       [TRP_DNN_RESAMPLE_FORWARD] = "pool",
        [TRP_DNN_RESAMPLE_BACKWARD] = "pool",    [TRP_DNN_NORM_TRAINING] = "norm",
        [TRP_DNN_NORM_INFERENCE] = "norm",       [TRP_DNN_NORM_BACKWARD] = "norm",
        [TRP_DNN_STATISTICS] = "statistics",
    };
    if (n->kind <= TRP_DNN_MATMUL && lists(list, "alike") && !is_alike(g, n))
        return false;
    return lists(list, names[n->kind]) || lists(list, "all");
}

int fake_finalize_heuristics(fake_descriptor *d)
{
    const fake_descriptor *of = fake_attribute_descriptor(d, ATTR(ENGINEHEUR_OPERATION_GRAPH));
    const char *preset = getenv("FAKE_CUDNN_TAKES");
    char list[256];
    if (!fake_setting("cudnn_takes", list, sizeof list))
        snprintf(list, sizeof list, "%s", preset ? preset : "");
    if (of->type != TRP__CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "heuristics of what is no graph");
    if (!fake_attribute_of(d, ATTR(ENGINEHEUR_DEVICEPROP)) &&
        !fake_attribute_of(of, ATTR(OPERATIONGRAPH_HANDLE)))
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "heuristics for no device");
    const unsigned long most = fake_setting_number("cudnn_nodes");
    if (most && of->graph->nodes > most)
        return fake_cudnn_say(FAKE_CUDNN_NOT_SUPPORTED, "more than %lu operations", most);
    for (uint32_t i = 0; i < of->graph->nodes; i++) {
        const trp__dnn_node *n = &of->graph->node[i];
        if (!takes(list, of->graph, n))
            return fake_cudnn_say(FAKE_CUDNN_NOT_SUPPORTED, "the fake cuDNN has no engine for %s",
                                  trp__dnn_kind_of(n->kind)->name);
    }
    d->mode = fake_attribute_enum(d, ATTR(ENGINEHEUR_MODE), -1);
    return fake_descriptor_take(d, of->graph) ? FAKE_CUDNN_SUCCESS
                                              : FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

/* Returns the engine at a place in the list of a heuristic mode. A: in the order of their numbers;
 * B: reversed; the fallback is engine 2. */
static int engine_at(int mode, int64_t i)
{
    return mode == TRP__CUDNN_HEUR_MODE_A   ? (int)i
           : mode == TRP__CUDNN_HEUR_MODE_B ? FAKE_CUDNN_ENGINES - 1 - (int)i
                                            : 2;
}

/* Plans, and their texts. */

typedef struct text_head {
    uint32_t engine, tensors, nodes, sum;
} text_head;

static uint32_t sum_of(const unsigned char *bytes, size_t count)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 16777619u;
    return sum;
}

static size_t graph_bytes(const text_head *h)
{
    const fake_cudnn_graph *g = NULL;
    return h->tensors * (sizeof *g->uid + sizeof *g->tensor) + h->nodes * sizeof *g->node;
}

/* Copies a graph to bytes, or back. */
static void move(fake_cudnn_graph *g, unsigned char *bytes, bool back)
{
    const struct {
        void *at;
        size_t bytes;
    } part[] = {{g->uid, g->tensors * sizeof *g->uid},
                {g->tensor, g->tensors * sizeof *g->tensor},
                {g->node, g->nodes * sizeof *g->node}};
    for (int i = 0; i < 3; i++) {
        memcpy(back ? part[i].at : bytes, back ? bytes : part[i].at, part[i].bytes);
        bytes += part[i].bytes;
    }
}

static const char begins[] = "{\"fake cuDNN\": 91900, \"plan\": \"";

static char *text_of(const fake_descriptor *plan)
{
    text_head h = {(uint32_t)plan->engine, plan->graph->tensors, plan->graph->nodes, 0};
    size_t bytes = sizeof h + graph_bytes(&h);
    unsigned char *raw = malloc(bytes);
    char *text = malloc(sizeof begins + 2 * bytes + 3);
    if (raw && text) {
        move(plan->graph, raw + sizeof h, false);
        h.sum = sum_of(raw + sizeof h, bytes - sizeof h);
        memcpy(raw, &h, sizeof h);
        char *at = stpcpy(text, begins);
        for (size_t i = 0; i < bytes; i++)
            at += sprintf(at, "%02x", raw[i]);
        strcpy(at, "\"}");
    }
    free(raw);
    return text;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_bytes(const char **text, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++, *text += 2) {
        if (digit((*text)[0]) < 0 || digit((*text)[1]) < 0)
            return false;
        ((unsigned char *)out)[i] = (unsigned char)(16 * digit((*text)[0]) + digit((*text)[1]));
    }
    return true;
}

static bool read_text(fake_descriptor *plan, const char *text)
{
    text_head h;
    if (strncmp(text, begins, sizeof begins - 1) != 0)
        return false;
    text += sizeof begins - 1;
    plan->graph = calloc(1, sizeof *plan->graph);
    if (!plan->graph || !read_bytes(&text, &h, sizeof h) || h.engine >= FAKE_CUDNN_ENGINES ||
        h.tensors > TRP__DNN_LOWERED_TENSORS || h.nodes > TRP__DNN_LOWERED_NODES)
        return false;
    size_t bytes = graph_bytes(&h);
    unsigned char *raw = malloc(bytes + 1);
    bool good = raw && read_bytes(&text, raw, bytes) && strcmp(text, "\"}") == 0 &&
                sum_of(raw, bytes) == h.sum;
    plan->engine = (int)h.engine;
    plan->graph->tensors = h.tensors;
    plan->graph->nodes = h.nodes;
    if (good)
        move(plan->graph, raw, true);
    free(raw);
    return good;
}

int fake_finalize_plan(fake_descriptor *d)
{
    const fake_attribute *text = fake_attribute_of(d, ATTR(EXECUTION_PLAN_JSON_REPRESENTATION));
    const fake_descriptor *config =
        fake_attribute_descriptor(d, ATTR(EXECUTION_PLAN_ENGINE_CONFIG));
    if (!fake_attribute_of(d, ATTR(EXECUTION_PLAN_DEVICEPROP)) &&
        !fake_attribute_of(d, ATTR(EXECUTION_PLAN_HANDLE)))
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "a plan for no device");
    if (!text == !config)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "a plan of a text or of an engine");
    if (text) {
        fake_report("cudnn_reads", "plan");
        fake_report_mine("cudnn_plans", "read");
        if (fake_setting_number("cudnn_reads_fail"))
            return fake_cudnn_say(FAKE_CUDNN_NOT_SUPPORTED, "a plan of another version");
        return read_text(d, text->values) ? FAKE_CUDNN_SUCCESS
                                          : fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "no plan's text");
    }
    if (config->type != TRP__CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "no engine's configuration");
    fake_report("cudnn_plans", "plan");
    fake_report_mine("cudnn_plans", "made");
    d->engine = config->engine;
    return fake_descriptor_take(d, config->graph)
               ? FAKE_CUDNN_SUCCESS
               : FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

/* Attributes that can be queried. */

/* Fills in a descriptor that the caller has created for the result. */
static int give(const fake_descriptor *from, trp__cudnn_descriptor to, int type, int engine)
{
    fake_descriptor *d = fake_descriptor_at(to, type);
    if (!d)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "no descriptor of type %d to fill in", type);
    d->engine = engine;
    d->final = true;
    return fake_descriptor_take(d, from->graph) ? FAKE_CUDNN_SUCCESS
                                                : FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

static int give_results(const fake_descriptor *d, int64_t room, int64_t *count, void *values)
{
    int64_t all = d->mode == TRP__CUDNN_HEUR_MODE_FALLBACK ? 1 : FAKE_CUDNN_ENGINES;
    *count = all;
    for (int64_t i = 0; i < all && i < room && values; i++) {
        int status = give(d, ((trp__cudnn_descriptor *)values)[i],
                          TRP__CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, engine_at(d->mode, i));
        if (status)
            return status;
    }
    return FAKE_CUDNN_SUCCESS;
}

static int give_text(const fake_descriptor *d, int64_t room, int64_t *count, void *values)
{
    char *text = text_of(d);
    if (!text)
        return FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    *count = (int64_t)strlen(text) + 1;
    if (values)
        memcpy(values, text, (size_t)(*count < room ? *count : room));
    free(text);
    return FAKE_CUDNN_SUCCESS;
}

static int give_int(int64_t value, int64_t *count, void *values)
{
    *count = 1;
    memcpy(values, &value, sizeof value);
    return FAKE_CUDNN_SUCCESS;
}

static int answer(const fake_descriptor *d, int name, int64_t room, int64_t *count, void *values)
{
    const engine_row *e = &engines[d->engine];
    switch (name) {
    case ATTR(ENGINEHEUR_RESULTS):
        return give_results(d, room, count, values);
    case ATTR(ENGINECFG_ENGINE):
        *count = 1;
        return give(d, *(trp__cudnn_descriptor *)values, TRP__CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                    d->engine);
    case ATTR(ENGINECFG_KNOB_CHOICES):
        *count = 1;
        return give(d, *(trp__cudnn_descriptor *)values, TRP__CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                    d->engine);
    case ATTR(KNOB_CHOICE_KNOB_TYPE):
        *count = 1;
        *(int *)values = FAKE_CUDNN_KNOB;
        return FAKE_CUDNN_SUCCESS;
    case ATTR(ENGINE_GLOBAL_INDEX):
    case ATTR(KNOB_CHOICE_KNOB_VALUE):
        return give_int(d->engine, count, values);
    case ATTR(ENGINE_NUMERICAL_NOTE):
        *count = e->notes;
        memcpy(values, e->note, (size_t)(e->notes < room ? e->notes : room) * sizeof *e->note);
        return FAKE_CUDNN_SUCCESS;
    case ATTR(EXECUTION_PLAN_WORKSPACE_SIZE):
        return give_int((int64_t)e->workspace, count, values);
    default:
        return give_text(d, room, count, values);
    }
}

trp__cudnn_status cudnnBackendGetAttribute(trp__cudnn_descriptor descriptor,
                                           trp__cudnn_attribute name,
                                           trp__cudnn_attribute_type type, int64_t room,
                                           int64_t *count, void *values)
{
    static const struct {
        int name, descriptor, type;
    } known[] = {
#define KNOWN(d, a, type) {ATTR(a), TRP__CUDNN_BACKEND_##d##_DESCRIPTOR, TRP__CUDNN_TYPE_##type}
        KNOWN(ENGINEHEUR, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR),
        KNOWN(ENGINECFG, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR),
        KNOWN(ENGINECFG, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR),
        KNOWN(KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE),
        KNOWN(KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64),
        KNOWN(ENGINE, ENGINE_GLOBAL_INDEX, INT64),
        KNOWN(ENGINE, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE),
        KNOWN(EXECUTION_PLAN, EXECUTION_PLAN_WORKSPACE_SIZE, INT64),
        KNOWN(EXECUTION_PLAN, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR),
    };
    int status = fake_cudnn_called();
    const fake_descriptor *d = fake_descriptor_at(descriptor, -1);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof known / sizeof *known && d; i++) {
        if (known[i].name != name || known[i].descriptor != d->type || known[i].type != type)
            continue;
        if (!d->final || !count || (room > 0 && !values))
            return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM_NOT_FINALIZED, "attribute %d", name);
        bool text = name == ATTR(EXECUTION_PLAN_JSON_REPRESENTATION);
        return text || room > 0
                   ? answer(d, name, room, count, values)
                   : fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "attribute %d: no room", name);
    }
    return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "attribute %d can't be asked for", name);
}

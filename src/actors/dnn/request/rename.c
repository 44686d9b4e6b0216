/* Rewrites errors in the terms of the call that built a graph: its caller knows neither tensor nor
 * node numbers. */
#include "actors/dnn/request/making.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef trp__dnn_making making;

static const char TENSOR[] = "tensors[", NODE[] = "nodes[";

/* Parses the number in "word[7]" and returns the text after it; NULL for other text. */
static const char *number_in(const char *text, const char *word, unsigned long *number)
{
    const size_t length = strlen(word);
    char *end;
    if (strncmp(text, word, length) != 0 || text[length] < '0' || text[length] > '9')
        return NULL;
    *number = strtoul(text + length, &end, 10);
    return *end == ']' ? end + 1 : NULL;
}

/* Returns the name of the tensor at the port of a field, or NULL. */
static const char *name_at(const making *m, unsigned long node, const char *field, size_t length)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(m->node[node].kind);
    for (int at = 0; kind && at < TRP__DNN_PORTS; at++) {
        const trp__dnn_port *port = &kind->port[at];
        if (!port->name || strlen(port->name) != length || strncmp(port->name, field, length) != 0)
            continue;
        const uint8_t number = m->node[node].port[at];
        return number < m->head.tensors ? m->names[m->name[number]] : NULL;
    }
    return NULL;
}

/* Returns the layer's field of a node's parameter. */
static const char *parameter_name(const making *m, unsigned long node, const char *field)
{
    static const char *const attention[] = {"scale", "dropout", "parameter[2]"};
    static const char *const activation[] = {"activation.parameter[0]", "activation.parameter[1]",
                                             "activation.parameter[2]"};
    const uint8_t kind = m->node[node].kind;
    const bool scores = kind == TRP_DNN_ATTENTION || kind == TRP_DNN_ATTENTION_BACKWARD;
    unsigned long which = 0;
    if (!number_in(field, "parameter[", &which) || which >= TRP_DNN_PARAMETERS)
        return NULL;
    return (scores ? attention : activation)[which];
}

/* Adds the field of "nodes[1].field (kind)", with `at` after the bracket; returns the text after
 * it. */
static const char *add_field(const making *m, trp__text *to, unsigned long node, const char *at)
{
    const char *field = at + (*at == '.'), *end = field + strcspn(field, " :");
    const char *name = name_at(m, node, field, (size_t)(end - field));
    name = name ? name : parameter_name(m, node, field);
    if (name)
        trp__text_add(to, "%s", name);
    else
        trp__text_add(to, "%.*s", (int)(end - field), field);
    if (strncmp(end, " (", 2) == 0 && strchr(end, ')'))
        end = strchr(end, ')') + 1;
    return end;
}

void trp__dnn_rename(const making *m)
{
    char text[sizeof m->error->message];
    trp__text to = {.out = text, .size = sizeof text};
    const char *at = m->error->message;
    if (!m->names)
        return;
    text[0] = '\0';
    while (*at) {
        unsigned long number = 0;
        const char *behind = number_in(at, TENSOR, &number);
        if (behind && number < TRP_DNN_TENSORS_MAX && m->names[number]) {
            trp__text_add(&to, "%s", m->names[number]);
            at = behind;
            continue;
        }
        behind = number_in(at, NODE, &number);
        if (behind && *behind == '.' && number < TRP_DNN_NODES_MAX)
            at = add_field(m, &to, number, behind);
        else
            trp__text_add(&to, "%c", *at++);
    }
    memcpy(m->error->message, text, sizeof text);
}

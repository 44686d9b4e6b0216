/* Builds the key of a verdict about an engine. */
#include "actors/dnn/engines/proof_parts.h"

#include <string.h>

/* Adds the part. Tensors are numbered in the order in which nodes of the part name them, so that
 * the key does not depend on the rest of the graph. */
static void add_part(trp__key *key, const trp__dnn_part *part)
{
    uint8_t place[TRP__DNN_LOWERED_TENSORS], number[TRP__DNN_LOWERED_TENSORS];
    uint8_t next = 0;
    trp__dnn_places(part, place);
    memset(number, TRP__DNN_NO_PORT, sizeof number);
    for (uint32_t n = 0; n < part->count; n++) {
        trp__dnn_node node = part->graph->node[part->first + n];
        for (int i = 0; i < TRP__DNN_PORTS; i++) {
            const uint8_t t = node.port[i];
            if (t == TRP__DNN_NO_PORT)
                continue;
            if (number[t] == TRP__DNN_NO_PORT) {
                number[t] = next++;
                trp__key_add(key, TRP__KEY_INPUT, &part->graph->tensor[t],
                             sizeof part->graph->tensor[t]);
                trp__key_add(key, TRP__KEY_INPUT, &place[t], 1);
            }
            node.port[i] = number[t];
        }
        trp__key_add(key, TRP__KEY_INPUT, &node, sizeof node);
    }
}

void trp__dnn_verdict_key(const trp__verdicts *v, const trp__dnn_part *part, const char *engine,
                          trp__key *key)
{
    char text[256];
    const uint8_t tf32 = part->graph->head->tf32;
    trp__dnn_part_text(part, text, sizeof text);
    trp__verdict_key_begin(v, TRP__KIND_DNN_ENGINE, text, engine, key);
    trp__key_add(key, TRP__KEY_INPUT, &tf32, sizeof tf32);
    add_part(key, part);
}

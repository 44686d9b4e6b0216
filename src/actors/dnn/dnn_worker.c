/* Handling of requests shared by both backends. */
#include "actors/dnn/dnn.h"
#include "base/error.h"

#include <string.h>

trp_status trp__dnn_job_graph(const trp_job *job, trp__dnn_graph *graph, trp_dnn_ran **ran,
                              trp_error *error)
{
    trp__dnn g;
    memcpy(&g, job->payload, sizeof g);
    const trp_job_access *piece = job->access_count ? &job->access[job->access_count - 1] : NULL;
    if (!piece || piece->bytes < sizeof **ran + g.bytes || g.bytes < sizeof *graph->head ||
        (g.data > 0 && piece->bytes < TRP__DNN_DATA_AT(g.bytes) + g.data))
        return trp__error_set(error, TRP_E_INTERNAL, "a graph of %u bytes in a piece of %llu",
                              g.bytes, (unsigned long long)(piece ? piece->bytes : 0));
    *ran = piece->address;
    *graph = trp__dnn_graph_at(*ran + 1);
    if (trp__dnn_bytes(graph->head) != g.bytes)
        return trp__error_set(error, TRP_E_INTERNAL, "a graph of %u bytes, expected %zu", g.bytes,
                              trp__dnn_bytes(graph->head));
    for (int i = 0; i < graph->head->tensors; i++) { /* the piece is no tensor */
        if (graph->tensor[i].role == TRP__DNN_BUFFER && graph->access[i] + 1U >= job->access_count)
            return trp__error_set(error, TRP_E_INTERNAL, "access %u of %u for a tensor",
                                  graph->access[i], job->access_count - 1);
    }
    uint64_t data = 0;
    for (int i = 0; i < graph->head->tensors; i++)
        data += graph->tensor[i].role == TRP__DNN_DATA ? trp__dnn_data_bytes(&graph->tensor[i]) : 0;
    if (data != g.data)
        return trp__error_set(error, TRP_E_INTERNAL, "arrays of %llu bytes, expected %u",
                              (unsigned long long)data, g.data);
    return TRP_OK;
}

void trp__dnn_job_places(const trp_job *job, const trp__dnn_graph *graph, void *address[],
                         uint64_t bytes[])
{
    const trp_job_access *piece = &job->access[job->access_count - 1];
    char *data = (char *)piece->address + TRP__DNN_DATA_AT(trp__dnn_bytes(graph->head));
    for (int i = 0; i < graph->head->tensors; i++) {
        const trp__dnn_tensor *t = &graph->tensor[i];
        uint64_t size = 0;
        if (t->role == TRP__DNN_DATA) {
            size = trp__dnn_data_bytes(t);
            address[i] = data;
            data += size;
        } else if (graph->access[i] < job->access_count) {
            address[i] = job->access[graph->access[i]].address;
            size = job->access[graph->access[i]].bytes;
        }
        if (bytes && size > 0)
            bytes[i] = size;
    }
}

/* Properties of recurrent networks for both sides. */
#include "actors/dnn/rnn/rnn.h"

#include "base/error.h"

/* Returns the weights of one layer and direction. */
static uint64_t of_layer(const trp__rnn *n, int32_t layer)
{
    const uint64_t rows = (uint64_t)trp__rnn_gates(n) * (uint64_t)n->hidden;
    const uint64_t columns = (uint64_t)trp__rnn_inputs(n, layer) + (uint64_t)n->width;
    const uint64_t projection =
        n->width != n->hidden ? (uint64_t)n->width * (uint64_t)n->hidden : 0;
    return rows * (columns + (n->bias ? 2 : 0)) + projection;
}

uint64_t trp__rnn_weights(const trp__rnn *n)
{
    uint64_t later = n->layers > 1 ? (uint64_t)(n->layers - 1) * of_layer(n, 1) : 0;
    return n->directions * (of_layer(n, 0) + later);
}

void trp__rnn_parts(const trp__rnn *n, int32_t layer, int direction,
                    trp__rnn_part part[TRP__RNN_WEIGHT_PARTS])
{
    const int64_t rows = (int64_t)trp__rnn_gates(n) * n->hidden;
    const int64_t inputs = trp__rnn_inputs(n, layer);
    uint64_t first = 0;
    if (layer > 0)
        first = n->directions * (of_layer(n, 0) + (uint64_t)(layer - 1) * of_layer(n, 1));
    first += (uint64_t)direction * of_layer(n, layer);
    part[TRP__RNN_W_IH] = (trp__rnn_part){.rows = rows, .columns = inputs};
    part[TRP__RNN_W_HH] = (trp__rnn_part){.rows = rows, .columns = n->width};
    part[TRP__RNN_B_IH] = (trp__rnn_part){.rows = n->bias ? rows : 0, .columns = 1};
    part[TRP__RNN_B_HH] = part[TRP__RNN_B_IH];
    part[TRP__RNN_W_HR] =
        (trp__rnn_part){.rows = n->width != n->hidden ? n->width : 0, .columns = n->hidden};
    for (int i = 0; i < TRP__RNN_WEIGHT_PARTS; i++) {
        part[i].first = first;
        first += (uint64_t)(part[i].rows * part[i].columns);
    }
}

uint64_t trp__rnn_place_elements(const trp__rnn *n, int place)
{
    const uint64_t vectors = (uint64_t)n->steps * (uint64_t)n->batch;
    const uint64_t states = (uint64_t)n->layers * n->directions * (uint64_t)n->batch;
    switch (place) {
    case TRP__RNN_x:
    case TRP__RNN_dx:
        return vectors * (uint64_t)n->input;
    case TRP__RNN_y:
    case TRP__RNN_dy:
        return vectors * n->directions * (uint64_t)n->width;
    case TRP__RNN_w:
    case TRP__RNN_dw:
        return trp__rnn_weights(n);
    case TRP__RNN_reserve:
        return 0;
    case TRP__RNN_c0:
    case TRP__RNN_c1:
    case TRP__RNN_dc0:
    case TRP__RNN_dc1:
        return states * (uint64_t)n->hidden;
    default:
        return states * (uint64_t)n->width;
    }
}

trp_status trp__rnn_place(const trp__rnn *n, const trp_job *job, int place, void **at,
                          uint64_t *bytes, trp_error *error)
{
    const uint64_t size = trp_dtype_bits((trp_dtype)n->type) / 8;
    *at = NULL;
    *bytes = 0;
    if (n->access[place] == TRP__RNN_NO_ACCESS)
        return TRP_OK;
    if (n->access[place] >= job->access_count ||
        job->access[n->access[place]].bytes < trp__rnn_place_elements(n, place) * size)
        return trp__error_set(error, TRP_E_INTERNAL, "place %d of a recurrent network", place);
    *at = job->access[n->access[place]].address;
    *bytes = job->access[n->access[place]].bytes;
    return TRP_OK;
}

trp_status trp__rnn_piece(const trp_job *job, uint64_t bytes, void **at, trp_error *error)
{
    const trp_job_access *piece = job->access_count ? &job->access[job->access_count - 1] : NULL;
    if (!piece || piece->bytes < bytes)
        return trp__error_set(error, TRP_E_INTERNAL, "%llu bytes in a piece of %llu",
                              (unsigned long long)bytes,
                              (unsigned long long)(piece ? piece->bytes : 0));
    *at = piece->address;
    return TRP_OK;
}

/* The sender's side of recurrent networks. */
#include "actors/dnn/rnn/rnn.h"
#include "base/error.h"
#include "wire/layout.h"

#include <string.h>

#define FAIL(error, ...) trp__error_set(error, TRP_E_ARGUMENT, __VA_ARGS__)

/* Largest number of elements of any array: sums of a few such numbers do not overflow. */
#define ELEMENTS_MAX 0x1p40

enum { OFFSET_ALIGNMENT = 16, RESERVE_ALIGNMENT = 256, LENGTHS_MAX = TRP__SMALL_BYTES / 4 };

static const struct {
    const char *name;
    size_t offset; /* offset in the request */
    char forward, backward;
} places[] = {
#define ROW(name, forward, backward) {#name, offsetof(trp_rnn_request, name), forward, backward},
    TRP__RNN_PLACES(ROW)
#undef ROW
};

static trp_status check_size(const char *name, int64_t value, int64_t least, trp_error *error)
{
    if (value < least || value > INT32_MAX)
        return FAIL(error, "%s: expected %lld to %d, got %lld", name, (long long)least, INT32_MAX,
                    (long long)value);
    return TRP_OK;
}

static trp_status check_net(const trp_rnn *net, trp_error *error)
{
    if (net->mode > TRP_RNN_GRU)
        return FAIL(error, "net.mode: expected a trp_rnn_mode, 0 to %d, got %d", TRP_RNN_GRU,
                    (int)net->mode);
    if (net->type != TRP_F64 && net->type != TRP_F32 && net->type != TRP_F16 &&
        net->type != TRP_BF16)
        return FAIL(error, "net.type: expected f64, f32, f16 or bf16, got %s (%d)",
                    trp_dtype_name(net->type), (int)net->type);
    trp_status status = check_size("net.input", net->input, 1, error);
    if (status == TRP_OK)
        status = check_size("net.hidden", net->hidden, 1, error);
    if (status == TRP_OK)
        status = check_size("net.layers", net->layers, 0, error);
    if (status != TRP_OK)
        return status;
    if (net->projection != 0 && net->mode != TRP_RNN_LSTM)
        return FAIL(error, "net.projection: expected 0, for only an LSTM has one, got %lld",
                    (long long)net->projection);
    if (net->projection < 0 || net->projection >= net->hidden)
        return FAIL(error, "net.projection: expected 0 to %lld, less than hidden, got %lld",
                    (long long)net->hidden - 1, (long long)net->projection);
    if (!(net->dropout >= 0 && net->dropout < 1))
        return FAIL(error, "net.dropout: expected 0 to less than 1, got %g", net->dropout);
    return TRP_OK;
}

static trp__rnn take_net(const trp_rnn *net)
{
    trp__rnn n = {.mode = (uint8_t)net->mode,
                  .type = (uint8_t)net->type,
                  .directions = net->bidirectional ? 2 : 1,
                  .bias = !net->no_bias,
                  .input = (int32_t)net->input,
                  .hidden = (int32_t)net->hidden,
                  .width = (int32_t)(net->projection ? net->projection : net->hidden),
                  .layers = net->layers ? (int32_t)net->layers : 1,
                  .seed = net->seed};
    if (n.layers > 1) /* dropout applies between layers */
        n.dropout = net->dropout;
    return n;
}

/* Checks the sizes of arrays in floating point before they are computed as integers. */
static trp_status check_reach(const trp__rnn *n, trp_error *error)
{
    const double hidden = n->hidden, vectors = (double)n->steps * n->batch;
    const double widest = n->input > 2.0 * hidden ? n->input : 2.0 * hidden;
    const double cells = (double)n->layers * n->directions * hidden;
    if (cells * 4 * (widest + hidden + 3) >= ELEMENTS_MAX)
        return FAIL(error, "net: expected less than 2^40 weights, got sizes of about %.3g",
                    cells * 4 * (widest + hidden + 3));
    if (vectors * widest >= ELEMENTS_MAX || vectors * cells * 8 >= ELEMENTS_MAX)
        return FAIL(error,
                    "steps: expected less than 2^40 elements in all steps of all layers, got sizes "
                    "of about %.3g",
                    vectors * (widest > cells * 8 ? widest : cells * 8));
    return TRP_OK;
}

static trp_status take_sizes(const trp_rnn_request *r, trp__rnn *n, trp_error *error)
{
    trp_status status = check_net(&r->net, error);
    if (status == TRP_OK)
        status = check_size("steps", r->steps, 1, error);
    if (status == TRP_OK)
        status = check_size("batch", r->batch, 1, error);
    if (status != TRP_OK)
        return status;
    *n = take_net(&r->net);
    n->steps = (int32_t)r->steps;
    n->batch = (int32_t)r->batch;
    n->batch_first = r->batch_first;
    n->tf32 = r->tf32;
    n->training = r->training;
    memset(n->access, TRP__RNN_NO_ACCESS, sizeof n->access);
    status = check_reach(n, error);
    if (status == TRP_OK && r->lengths && r->batch > LENGTHS_MAX)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "lengths: expected at most %d of them, got a batch of %lld",
                              LENGTHS_MAX, (long long)r->batch);
    for (int64_t i = 0; i < r->batch && r->lengths && status == TRP_OK; i++) {
        if (r->lengths[i] < 1 || r->lengths[i] > r->steps)
            status = FAIL(error, "lengths[%lld]: expected 1 to %lld, got %d", (long long)i,
                          (long long)r->steps, r->lengths[i]);
    }
    return status;
}

trp_status trp_rnn_weight_count(const trp_rnn *net, uint64_t *count)
{
    trp_error error;
    trp_status status = check_net(net, &error);
    trp__rnn n = {0};
    if (status == TRP_OK) {
        n = take_net(net);
        n.steps = n.batch = 1;
        status = check_reach(&n, &error);
    }
    *count = status == TRP_OK ? trp__rnn_weights(&n) : 0;
    return status == TRP_OK ? status : trp__fail(status, "%s", error.message);
}

static const trp_rnn_place *place_of(const trp_rnn_request *r, int which)
{
    return (const trp_rnn_place *)((const char *)r + places[which].offset);
}

static bool is_cell_state(int which)
{
    return which == TRP__RNN_c0 || which == TRP__RNN_c1 || which == TRP__RNN_dc0 ||
           which == TRP__RNN_dc1;
}

/* Returns the use of a place: a letter of its row; that of the reserve depends on training. */
static char use_of(const trp_rnn_request *r, int which, bool backward)
{
    char use = backward ? places[which].backward : places[which].forward;
    if (which == TRP__RNN_reserve && !backward)
        use = r->training ? 'W' : 'n';
    return use;
}

static trp_status check_place(const trp_rnn_request *r, int which, bool backward, trp_error *error)
{
    const trp_rnn_place *place = place_of(r, which);
    const char *name = places[which].name, use = use_of(r, which, backward);
    if (place->buffer.id == 0) {
        if (use == 'R' || use == 'W')
            return FAIL(error, "%s: expected a buffer", name);
        if (place->offset != 0)
            return FAIL(error, "%s.offset: expected 0, for it has no buffer, got %llu", name,
                        (unsigned long long)place->offset);
        return TRP_OK;
    }
    if (use == 'n')
        return FAIL(error, "%s: expected none in %s", name,
                    backward                    ? "a backward pass"
                    : which == TRP__RNN_reserve ? "a forward pass without training"
                                                : "a forward pass");
    if (is_cell_state(which) && r->net.mode != TRP_RNN_LSTM)
        return FAIL(error, "%s: expected none, for only an LSTM has such a state", name);
    return TRP_OK;
}

static bool is_written(const trp_rnn_request *r, int which, bool backward)
{
    const char use = use_of(r, which, backward);
    return place_of(r, which)->buffer.id != 0 && (use == 'w' || use == 'W');
}

/* Checks that outputs overlap nothing. The size of the reserve is unknown here, so it extends to
 * the end of its buffer. */
static trp_status check_overlaps(const trp_rnn_request *r, const trp__rnn *n, bool backward,
                                 trp_error *error)
{
    const uint64_t size = trp_dtype_bits(r->net.type) / 8;
    for (int i = 0; i < TRP__RNN_PLACE_COUNT; i++) {
        const trp_rnn_place *a = place_of(r, i);
        const uint64_t of_a =
            i == TRP__RNN_reserve ? UINT64_MAX / 2 : trp__rnn_place_elements(n, i) * size;
        for (int k = 0; k < TRP__RNN_PLACE_COUNT && is_written(r, i, backward); k++) {
            const trp_rnn_place *b = place_of(r, k);
            const uint64_t of_b =
                k == TRP__RNN_reserve ? UINT64_MAX / 2 : trp__rnn_place_elements(n, k) * size;
            if (i != k && a->buffer.id == b->buffer.id && a->offset < b->offset + of_b &&
                b->offset < a->offset + of_a)
                return FAIL(error, "%s: it overlaps %s, and is written", places[i].name,
                            places[k].name);
        }
    }
    return TRP_OK;
}

static trp_status add_place(trp__encoder *encoder, const trp_rnn_request *r, int which,
                            bool backward, trp__rnn *n)
{
    const trp_rnn_place *place = place_of(r, which);
    const char *name = places[which].name;
    const uint32_t mode = is_written(r, which, backward) ? TRP__WRITE | TRP__COVER : TRP__READ;
    if (place->buffer.id == 0)
        return TRP_OK;
    n->access[which] = (uint8_t)encoder->record->access_count;
    if (which == TRP__RNN_reserve)
        return trp__encode_access_rest(encoder, name, place->buffer, place->offset,
                                       RESERVE_ALIGNMENT, mode);
    return trp__encode_access(encoder, name, place->buffer, place->offset,
                              trp__rnn_place_elements(n, which) * (trp_dtype_bits(r->net.type) / 8),
                              OFFSET_ALIGNMENT, mode);
}

static trp_status add_lengths(trp__encoder *encoder, const trp_rnn_request *r, trp__rnn *n)
{
    const uint32_t bytes = (uint32_t)r->batch * (uint32_t)sizeof *r->lengths;
    void *room = NULL;
    if (!r->lengths)
        return TRP_OK;
    trp_status status = encoder->input(encoder, bytes, &room);
    if (status == TRP_OK)
        memcpy(room, r->lengths, bytes);
    n->lengths = true;
    return status;
}

trp_status trp__rnn_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_rnn_request *r = (const trp_rnn_request *)request;
    const bool backward = request->op == TRP_OP_RNN_BACKWARD;
    trp__rnn n = {0};
    bool any = !backward;
    trp_status status = take_sizes(r, &n, encoder->error);
    for (int i = 0; i < TRP__RNN_PLACE_COUNT && status == TRP_OK; i++) {
        status = check_place(r, i, backward, encoder->error);
        any = any || is_written(r, i, backward);
    }
    if (status == TRP_OK && !any)
        return FAIL(encoder->error, "dx: expected a buffer, or one of dh0, dc0 and dw");
    if (status == TRP_OK && r->reserve_bytes)
        return FAIL(encoder->error, "reserve_bytes: expected NULL, for trp_rnn_reserve() fills it");
    if (status == TRP_OK)
        status = check_overlaps(r, &n, backward, encoder->error);
    n.training = n.training || backward;
    if (!n.training)
        n.dropout = 0;
    for (int i = 0; i < TRP__RNN_PLACE_COUNT && status == TRP_OK; i++)
        status = add_place(encoder, r, i, backward, &n);
    if (status == TRP_OK)
        status = add_lengths(encoder, r, &n);
    memcpy(encoder->record->payload, &n, sizeof n);
    return status;
}

/* Only sizes matter: lengths are checked and otherwise ignored. */
trp_status trp__rnn_encode_reserve(trp__encoder *encoder, const trp_request *request)
{
    const trp_rnn_request *r = (const trp_rnn_request *)request;
    trp__rnn n = {0};
    trp_status status = take_sizes(r, &n, encoder->error);
    if (status == TRP_OK && !r->reserve_bytes)
        return FAIL(encoder->error, "reserve_bytes: expected where to put the answer, got NULL");
    if (status != TRP_OK)
        return status;
    n.training = true;
    status = encoder->result(encoder, r->reserve_bytes, sizeof *r->reserve_bytes);
    memcpy(encoder->record->payload, &n, sizeof n);
    return status;
}

_Static_assert(sizeof(trp__rnn) <= TRP__PAYLOAD_BYTES, "it fits into a record");

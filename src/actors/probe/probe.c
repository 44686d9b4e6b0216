/* The sender's side of the probe actor. */
#include "actors/probe/probe.h"

#include "actors/probe/probe_wire.h"
#include "base/error.h"

#include <troupe/probe.h>

#include <stdio.h>
#include <string.h>

static const char *const action_names[TRP_PROBE_ACTION_COUNT] = {
    [TRP_PROBE_NOP] = "nop",
    [TRP_PROBE_SPIN] = "spin",
    [TRP_PROBE_ILLEGAL_ADDRESS] = "illegal-address",
    [TRP_PROBE_OUT_OF_BOUNDS] = "out-of-bounds",
    [TRP_PROBE_MISALIGNED] = "misaligned",
    [TRP_PROBE_TRAP] = "trap",
    [TRP_PROBE_SEGV] = "segv",
    [TRP_PROBE_ABORT] = "abort",
    [TRP_PROBE_KILL] = "kill",
    [TRP_PROBE_EXIT] = "exit",
    [TRP_PROBE_LIBRARY_ERROR] = "library-error",
    [TRP_PROBE_ACTOR_ERROR] = "actor-error",
    [TRP_PROBE_OUT_OF_MEMORY] = "out-of-memory",
    [TRP_PROBE_DEVICE_GONE] = "device-gone",
    [TRP_PROBE_WRITE_SEALED] = "write-input",
};

const char *trp_probe_action_name(trp_probe_action action)
{
    return (unsigned)action < TRP_PROBE_ACTION_COUNT ? action_names[action] : NULL;
}

/* Adds a whole buffer to the record; an unused one is left out. */
static trp_status add_buffer(trp__encoder *encoder, const char *list, int index, trp_buffer buffer,
                             uint32_t mode)
{
    char name[24];
    if (buffer.id == 0)
        return TRP_OK;
    snprintf(name, sizeof name, "%s[%d]", list, index);
    return trp__encode_access_rest(encoder, name, buffer, 0, 1, mode);
}

_Static_assert(2 * TRP_PROBE_BUFFERS <= TRP__ACCESS_MAX, "a record has room for all buffers");

/* An empty action leaves its outputs unchanged, so it counts as reading and writing them. A fault
 * only writes. */
static uint32_t output_mode(trp_probe_action action)
{
    bool harmless =
        action == TRP_PROBE_NOP || action == TRP_PROBE_SPIN || action == TRP_PROBE_OUT_OF_MEMORY;
    return harmless ? TRP__READ | TRP__WRITE : TRP__WRITE;
}

/* write-input writes to the first access, which must be the first input. */
static trp_status check_target(trp__encoder *encoder, trp_buffer target)
{
    uint64_t bytes = target.id ? encoder->record->access[0].bytes : 0;
    if (bytes >= TRP__PROBE_STORE_BYTES)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "inputs[0]: write-input needs a buffer of at least %d bytes, got %s%llu",
                          TRP__PROBE_STORE_BYTES,
                          target.id ? "" : "none: ", (unsigned long long)bytes);
}

static trp_status encode_probe(trp__encoder *encoder, const trp_request *request)
{
    const trp_probe_request *r = (const trp_probe_request *)request;
    trp_status status = TRP_OK;
    if ((unsigned)r->action >= TRP_PROBE_ACTION_COUNT)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "action: expected a trp_probe_action below %d, got %d",
                              TRP_PROBE_ACTION_COUNT, (int)r->action);
    trp__probe p = {.action = r->action, .duration_ns = r->duration_ns};
    memcpy(encoder->record->payload, &p, sizeof p);

    for (int i = 0; i < TRP_PROBE_BUFFERS && status == TRP_OK; i++)
        status = add_buffer(encoder, "inputs", i, r->inputs[i], TRP__READ);
    for (int i = 0; i < TRP_PROBE_BUFFERS && status == TRP_OK; i++)
        status = add_buffer(encoder, "outputs", i, r->outputs[i], output_mode(r->action));
    if (status == TRP_OK && r->action == TRP_PROBE_OUT_OF_BOUNDS &&
        encoder->record->access_count == 0)
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                "inputs, outputs: out-of-bounds needs a buffer, got none");
    if (status == TRP_OK && r->action == TRP_PROBE_WRITE_SEALED)
        status = check_target(encoder, r->inputs[0]);
    return status;
}

static const trp__op_class ops[] = {
    {.op = TRP_OP_PROBE,
     .request_bytes = sizeof(trp_probe_request),
     .name = "probe",
     .encode = encode_probe},
};

const trp__actor_class trp__probe_class = {
    .kind = "probe",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__probe_cuda,
    .host = &trp__probe_host,
};

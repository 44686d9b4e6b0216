/* The sender's side of custom actors: all checks that need no knowledge of the actor. */
#include "actors/custom/custom.h"

#include "base/error.h"

#include <troupe/custom.h>

#include <stdio.h>
#include <string.h>

_Static_assert((int)TRP__READ == (int)TRP_ACCESS_READ && (int)TRP__WRITE == (int)TRP_ACCESS_WRITE &&
                   (TRP__READ | TRP__WRITE) == (int)TRP_ACCESS_READ_WRITE &&
                   (TRP__WRITE | TRP__COVER) == (int)TRP_ACCESS_COVER,
               "the public modes are those of a record");
_Static_assert(TRP_CUSTOM_PAYLOAD_MAX <= TRP__PAYLOAD_BYTES &&
                   TRP_CUSTOM_ACCESSES_MAX == TRP__ACCESS_MAX,
               "a custom request fits into a record");

static trp_status encode_custom(trp__encoder *encoder, const trp_request *request)
{
    const trp_custom_request *r = (const trp_custom_request *)request;
    trp__record *record = encoder->record;
    trp_status status = TRP_OK;
    if (r->payload_bytes > TRP_CUSTOM_PAYLOAD_MAX)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "payload_bytes: expected at most %d, got %u", TRP_CUSTOM_PAYLOAD_MAX,
                              r->payload_bytes);
    if (r->payload_bytes > 0 && !r->payload)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "payload: expected a pointer to %u bytes, got NULL",
                              r->payload_bytes);
    if (r->access_count > TRP_CUSTOM_ACCESSES_MAX)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "access_count: expected at most %d, got %u", TRP_CUSTOM_ACCESSES_MAX,
                              r->access_count);
    record->code = r->code;
    record->payload_bytes = r->payload_bytes;
    if (r->payload_bytes > 0)
        memcpy(record->payload, r->payload, r->payload_bytes);
    for (uint32_t i = 0; i < r->access_count && status == TRP_OK; i++) {
        const trp_custom_access *x = &r->access[i];
        char name[24];
        snprintf(name, sizeof name, "access[%u]", i);
        status = trp__encode_access_described(encoder, name, x->buffer, x->mode, x->offset, "bytes",
                                              x->bytes);
    }
    return status;
}

static const trp__op_class ops[] = {
    {.op = TRP_OP_CUSTOM,
     .request_bytes = sizeof(trp_custom_request),
     .name = "custom",
     .encode = encode_custom},
};

const trp__actor_class trp__custom_class = {
    .kind = "custom",
    .library = true,
    .deep = true,
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
};

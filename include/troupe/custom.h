/* Requests to actors of your own, whose implementation is loaded from a shared object, see
 * trp_actor_options.library. <troupe/worker.h> is for the authors of such an implementation.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_CUSTOM_H
#define TROUPE_CUSTOM_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_CUSTOM UINT32_C(0x0301)

#define TRP_CUSTOM_PAYLOAD_MAX  160 /* bytes */
#define TRP_CUSTOM_ACCESSES_MAX 16

/* How a request uses a range of a buffer. Order between requests, contents lost in a fault, and
 * whether a request may run again after one follow from this alone, so it must be true. */
typedef enum trp_access_mode {
    TRP_ACCESS_DEFAULT = 0,    /* READ_WRITE, which is always safe */
    TRP_ACCESS_READ = 1,       /* reads it */
    TRP_ACCESS_WRITE = 2,      /* writes some of it; what it writes depends on nothing in it */
    TRP_ACCESS_READ_WRITE = 3, /* what it writes depends on what was there: such a request can't
                                * run again after a fault, and fails with it */
    TRP_ACCESS_COVER = 6,      /* writes every byte of it and reads none */
} trp_access_mode;

typedef struct trp_custom_access {
    trp_buffer buffer;
    uint64_t offset; /* bytes */
    uint64_t bytes;  /* 0: all from the offset to the buffer's end */
    trp_access_mode mode;
} trp_custom_access;

/* One request to an actor of your own. Sender and handle() agree on the meaning of code, payload
 * and accesses; handle() gets the payload as bytes and, for each access, the address and the size
 * of the range. The payload is copied; it must hold no pointers, for it is read in another process.
 * All buffers that the work touches are listed as accesses; the same buffer may be there more than
 * once. */
typedef struct trp_custom_request {
    trp_request header;
    uint32_t code;
    uint32_t payload_bytes; /* at most TRP_CUSTOM_PAYLOAD_MAX */
    const void *payload;    /* may be NULL if payload_bytes is 0 */
    uint32_t access_count;  /* how many of `access` are used */
    trp_custom_access access[TRP_CUSTOM_ACCESSES_MAX];
} trp_custom_request;

/* Sends a request to an actor that was made from a library; see trp_submit() for completion and
 * errors. TRP_E_ARGUMENT: payload, access_count, or the mode or range of an access. An error of
 * handle() arrives by the completion, with the status, domain, code and message that handle()
 * gave. */
TRP__REQUEST(custom, TRP_OP_CUSTOM, trp_custom_request)

#ifdef __cplusplus
}
#endif
#endif

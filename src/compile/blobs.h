/* Reads blobs (input.h) without trusting them: nothing outside of the buffer is read. */
#ifndef TRP_COMPILE_BLOBS_H
#define TRP_COMPILE_BLOBS_H

#include "base/error.h"
#include "compile/input.h"

#include <string.h>

typedef struct trp__jit_blobs {
    const char *at;
    uint64_t left;
    bool bad; /* a length did not fit */
} trp__jit_blobs;

static inline trp__jit_blobs trp__jit_blobs_begin(const char *at, uint64_t bytes)
{
    return (trp__jit_blobs){.at = at, .left = bytes};
}

/* Takes the bytes of a head, which is no blob. */
static inline const void *trp__jit_blobs_head(trp__jit_blobs *b, uint64_t bytes)
{
    const char *at = b->at;
    b->bad = b->bad || bytes > b->left;
    if (b->bad)
        return NULL;
    b->at += bytes;
    b->left -= bytes;
    return at;
}

/* Returns the next blob; NULL if there is none. */
static inline const char *trp__jit_blob(trp__jit_blobs *b, uint64_t *bytes)
{
    const char *length = trp__jit_blobs_head(b, 8);
    *bytes = 0;
    if (!length)
        return NULL;
    memcpy(bytes, length, 8);
    if (*bytes > b->left || trp__jit_padded(*bytes) > b->left) {
        b->bad = true;
        return NULL;
    }
    return trp__jit_blobs_head(b, trp__jit_padded(*bytes));
}

/* Returns the next blob, which must be a terminated string. */
static inline const char *trp__jit_blob_text(trp__jit_blobs *b)
{
    uint64_t bytes;
    const char *text = trp__jit_blob(b, &bytes);
    if (text && bytes > 0 && text[bytes - 1] == '\0')
        return text;
    b->bad = true;
    return NULL;
}

static inline void trp__jit_blob_texts(trp__jit_blobs *b, const char **out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = trp__jit_blob_text(b);
}

static inline trp_status trp__jit_blobs_damaged(trp_error *error)
{
    return trp__error_set(error, TRP_E_INTERNAL, "the input of a module is damaged");
}

#endif

#include "filled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 1 << 20 };

void filled_piece(trp_dtype type, unsigned char *piece, uint64_t seed)
{
    for (size_t i = 0; i < FILLED_PIECE; i++) {
        uint64_t random = suite_random(seed, i);
        if (type == TRP_BF16 && i % 2 == 0) /* the lower byte: random fraction */
            piece[i] = (unsigned char)random;
        else if (type == TRP_BF16) /* random sign, exponents below that of 2 */
            piece[i] = (unsigned char)((random & 0x80) | 0x3f);
        else
            piece[i] = (unsigned char)((random & 0x80) | (random >> 8) % 0x3f);
    }
}

bool filled_buffer(suite *s, const void *piece, uint64_t bytes, trp_buffer *out)
{
    trp_completion done = {0};
    uint64_t at = bytes < FILLED_PIECE ? bytes : FILLED_PIECE;
    if (!piece)
        return suite_upload(s, NULL, bytes, out);
    bool good = suite_check(s, trp_buffer_create(s->device, bytes, out), "trp_buffer_create") &&
                suite_await(s, trp_write(s->device, *out, 0, piece, at, &done), &done, "trp_write");
    while (good && at < bytes) {
        uint64_t some = bytes - at < at ? bytes - at : at;
        done = (trp_completion){0};
        good =
            suite_await(s, trp_copy(s->device, *out, 0, *out, at, some, &done), &done, "trp_copy");
        at += some;
    }
    return good;
}

bool filled_compare_with(suite *s, bool (*read)(void *context, void *out, size_t bytes),
                         void *context, trp_buffer d, uint64_t bytes, char note[40])
{
    trp_completion done = {0};
    bytes = bytes < SAMPLE ? bytes : SAMPLE;
    uint16_t *ours = malloc(bytes), *theirs = malloc(bytes);
    double norm = 0, distance = 0;
    bool good = ours && theirs && read(context, theirs, bytes) &&
                suite_await(s, trp_read(s->device, d, 0, ours, bytes, &done), &done, "trp_read");
    for (size_t i = 0; good && i < bytes / 2; i++) {
        uint32_t x = (uint32_t)ours[i] << 16, y = (uint32_t)theirs[i] << 16;
        float a, b;
        memcpy(&a, &x, sizeof a);
        memcpy(&b, &y, sizeof b);
        norm += (double)b * b;
        distance += ((double)a - b) * ((double)a - b);
    }
    double relative = sqrt(distance / norm);
    if (good)
        snprintf(note, 40, distance == 0 ? "same bits" : "differ by %.1e", relative);
    if (good && !(relative <= 1e-2)) {
        snprintf(s->error, sizeof s->error, "the two sides differ by %.2e of their norm", relative);
        good = false;
    }
    free(ours);
    free(theirs);
    return good;
}

static bool read_product(void *context, void *out, size_t bytes)
{
    raw *r = context;
    return r->api->matmul_result(r, out, bytes);
}

bool filled_compare(suite *s, trp_buffer d, uint64_t bytes, char note[40])
{
    return filled_compare_with(s, read_product, s->raw, d, bytes, note);
}

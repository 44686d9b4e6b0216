#include "actors/cutlass/run/refit.h"

#include <stddef.h>
#include <string.h>

#define WORD(member) (offsetof(trp_cutlass_args, member) / 8)

static uint64_t word_of(const trp_cutlass_args *args, uint32_t word)
{
    uint64_t value;
    memcpy(&value, (const char *)args + (size_t)word * 8, sizeof value);
    return value;
}

static void set_word(trp_cutlass_args *args, uint32_t word, uint64_t value)
{
    memcpy((char *)args + (size_t)word * 8, &value, sizeof value);
}

void trp__refit_add_numbers(const trp_cutlass_args *args, trp__refit_set *words)
{
    const trp__refit_set addresses = *words;
    trp__refit_add(words, WORD(alpha));
    trp__refit_add(words, WORD(beta));
    /* A tree's number is behind the address that is not there, a distance behind one that is. */
    for (uint32_t i = 1; i < TRP_CUTLASS_SLOTS; i++) {
        const uint32_t word = WORD(slot) + i;
        if (args->slot[i] != 0 && args->slot[i - 1] == 0 && !trp__refit_has(&addresses, word))
            trp__refit_add(words, word);
    }
}

trp_cutlass_args trp__refit_shape(const trp_cutlass_args *args, const trp__refit_set *words)
{
    trp_cutlass_args out = *args;
    for (uint32_t i = 0; i < TRP__REFIT_WORDS; i++) {
        if (trp__refit_has(words, i))
            set_word(&out, i, word_of(args, i) != 0);
    }
    return out;
}

/* Each unlike all others in either half, and rounded as a number; as an address a multiple of 256.
 */
static uint64_t mark_of(uint32_t word, uint32_t kind)
{
    const double number = (kind ? 0x1p+70 : 0x1p+90) * (1 + word / 1024.0);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits | (kind ? UINT64_C(0x5a0000) : UINT64_C(0xa50000)) | word << 8;
}

trp_cutlass_args trp__refit_marked(const trp_cutlass_args *args, const trp__refit_set *words,
                                   uint32_t kind)
{
    trp_cutlass_args out = *args;
    for (uint32_t i = 0; i < TRP__REFIT_WORDS; i++) {
        if (trp__refit_has(words, i) && word_of(args, i) != 0)
            set_word(&out, i, mark_of(i, kind));
    }
    return out;
}

static uint32_t rounded(uint64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    const float f = (float)number;
    uint32_t out;
    memcpy(&out, &f, sizeof out);
    return out;
}

static bool is_at(const void *data, uint32_t at, uint64_t value, uint32_t width)
{
    const uint32_t half = (uint32_t)value;
    return memcmp((const char *)data + at, width == 8 ? (const void *)&value : &half, width) == 0;
}

/* Finds the word that both kinds of marks show at a place, whole or (4 bytes) rounded. */
static bool find_word(const trp__refit_set *words, const void *const built[TRP__REFIT_BUILDS],
                      uint32_t at, uint32_t width, trp__refit *out)
{
    for (uint32_t i = 0; i < TRP__REFIT_WORDS && out->count < TRP__REFIT_PLACES; i++) {
        uint64_t mark[2] = {mark_of(i, 0), mark_of(i, 1)};
        if (width == 4) {
            mark[0] = rounded(mark[0]);
            mark[1] = rounded(mark[1]);
        }
        if (trp__refit_has(words, i) && is_at(built[1], at, mark[0], width) &&
            is_at(built[2], at, mark[1], width)) {
            out->place[out->count++] =
                (trp__refit_place){.at = (uint16_t)at, .word = (uint8_t)i, .rounded = width == 4};
            return true;
        }
    }
    return false;
}

static bool are_alike(const void *const built[TRP__REFIT_BUILDS], uint32_t at, uint32_t width)
{
    return memcmp((const char *)built[1] + at, (const char *)built[2] + at, width) == 0;
}

bool trp__refit_learn(const trp_cutlass_args *args, const trp__refit_set *words,
                      const void *const built[TRP__REFIT_BUILDS], uint32_t bytes, trp__refit *out)
{
    unsigned char again[TRP_CUTLASS_PARAMS_MAX];
    if (bytes > sizeof again || bytes % 8 != 0)
        return false;
    *out = (trp__refit){.bytes = bytes};
    memcpy(out->data, built[0], bytes);
    for (uint32_t at = 0; at < bytes; at += 8) {
        if (are_alike(built, at, 8) || find_word(words, built, at, 8, out))
            continue;
        for (uint32_t half = at; half < at + 8; half += 4) {
            if (!are_alike(built, half, 4) && !find_word(words, built, half, 4, out))
                return false;
        }
    }
    /* Marks and arguments must agree. */
    trp__refit_apply(out, args, again);
    if (memcmp(again, built[0], bytes) != 0)
        return false;
    const trp_cutlass_args marked = trp__refit_marked(args, words, 0);
    trp__refit_apply(out, &marked, again);
    return memcmp(again, built[1], bytes) == 0;
}

void trp__refit_apply(const trp__refit *r, const trp_cutlass_args *args, unsigned char *data)
{
    memcpy(data, r->data, r->bytes);
    for (uint32_t i = 0; i < r->count; i++) {
        const trp__refit_place *p = &r->place[i];
        const uint64_t word = word_of(args, p->word);
        const uint32_t half = rounded(word);
        if (p->rounded)
            memcpy(data + p->at, &half, sizeof half);
        else
            memcpy(data + p->at, &word, sizeof word);
    }
}

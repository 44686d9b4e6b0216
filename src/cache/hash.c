#include "cache/hash.h"

#include "base/bytes.h"

#include <string.h>

/* BLAKE2b: RFC 7693, sections 2 and 3. */

static const uint64_t iv[8] = {
    UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b),
    UINT64_C(0xa54ff53a5f1d36f1), UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179),
};

static const uint8_t sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

enum { BLOCK = 128 };

static inline uint64_t turn_right(uint64_t word, int bits)
{
    return word >> bits | word << (64 - bits);
}

#define MIX(a, b, c, d, x, y)                                                                      \
    (v[a] += v[b] + (x), v[d] = turn_right(v[d] ^ v[a], 32), v[c] += v[d],                         \
     v[b] = turn_right(v[b] ^ v[c], 24), v[a] += v[b] + (y), v[d] = turn_right(v[d] ^ v[a], 16),   \
     v[c] += v[d], v[b] = turn_right(v[b] ^ v[c], 63))

/* One of the 12 rounds; the last two are as the first two. */
#define ROUND(r)                                                                                   \
    (MIX(0, 4, 8, 12, m[sigma[r][0]], m[sigma[r][1]]),                                             \
     MIX(1, 5, 9, 13, m[sigma[r][2]], m[sigma[r][3]]),                                             \
     MIX(2, 6, 10, 14, m[sigma[r][4]], m[sigma[r][5]]),                                            \
     MIX(3, 7, 11, 15, m[sigma[r][6]], m[sigma[r][7]]),                                            \
     MIX(0, 5, 10, 15, m[sigma[r][8]], m[sigma[r][9]]),                                            \
     MIX(1, 6, 11, 12, m[sigma[r][10]], m[sigma[r][11]]),                                          \
     MIX(2, 7, 8, 13, m[sigma[r][12]], m[sigma[r][13]]),                                           \
     MIX(3, 4, 9, 14, m[sigma[r][14]], m[sigma[r][15]]))

/* Section 3.2. `count` includes this block; no message here comes near 2^64 bytes. */
static void compress(uint64_t *h, const unsigned char *block, uint64_t count, bool last)
{
    uint64_t v[16], m[16];
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = iv[i];
    }
    for (size_t i = 0; i < 16; i++)
        m[i] = trp__get64(block + 8 * i);
    v[12] ^= count;
    if (last)
        v[14] = ~v[14];
    /* Written out, so that every index is known and v stays in registers: twice as fast. */
    ROUND(0), ROUND(1), ROUND(2), ROUND(3), ROUND(4), ROUND(5);
    ROUND(6), ROUND(7), ROUND(8), ROUND(9), ROUND(0), ROUND(1);
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

void trp__hasher_begin(trp__hasher *hasher)
{
    memset(hasher, 0, sizeof *hasher);
    memcpy(hasher->h, iv, sizeof iv);
    /* The parameter block of section 2.5: length of the hash, no key, fanout 1, depth 1. */
    hasher->h[0] ^= UINT64_C(0x01010000) ^ TRP__HASH_BYTES;
}

void trp__hasher_add(trp__hasher *hasher, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        /* A full block waits for more data: the last block is compressed differently. */
        if (hasher->held == BLOCK) {
            hasher->count += BLOCK;
            compress(hasher->h, hasher->block, hasher->count, false);
            hasher->held = 0;
        }
        if (hasher->held == 0 && bytes > BLOCK) { /* without a copy */
            hasher->count += BLOCK;
            compress(hasher->h, from, hasher->count, false);
            from += BLOCK;
            bytes -= BLOCK;
            continue;
        }
        size_t some = BLOCK - hasher->held < bytes ? BLOCK - hasher->held : bytes;
        memcpy(hasher->block + hasher->held, from, some);
        hasher->held += some;
        from += some;
        bytes -= some;
    }
}

trp__hash trp__hasher_value(const trp__hasher *hasher)
{
    uint64_t h[8];
    unsigned char block[BLOCK] = {0};
    trp__hash out;
    memcpy(h, hasher->h, sizeof h);
    memcpy(block, hasher->block, hasher->held);
    compress(h, block, hasher->count + hasher->held, true);
    memcpy(out.byte, h, sizeof out.byte);
    return out;
}

trp__hash trp__hash_of(const void *data, size_t bytes)
{
    trp__hasher hasher;
    trp__hasher_begin(&hasher);
    trp__hasher_add(&hasher, data, bytes);
    return trp__hasher_value(&hasher);
}

bool trp__hash_equal(const trp__hash *a, const trp__hash *b)
{
    return memcmp(a->byte, b->byte, sizeof a->byte) == 0;
}

static const char digits[] = "0123456789abcdef";

void trp__hash_text(const trp__hash *hash, char text[TRP__HASH_TEXT])
{
    for (size_t i = 0; i < TRP__HASH_BYTES; i++) {
        text[2 * i] = digits[hash->byte[i] >> 4];
        text[2 * i + 1] = digits[hash->byte[i] & 15];
    }
    text[2 * TRP__HASH_BYTES] = '\0';
}

bool trp__hash_parse(const char *text, size_t length, trp__hash *out)
{
    if (length != 2 * TRP__HASH_BYTES)
        return false;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < length; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return false;
        out->byte[i / 2] = (unsigned char)(out->byte[i / 2] << 4 | (digit - digits));
    }
    return true;
}

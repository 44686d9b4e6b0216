#include "base/checksum.h"

#include "base/bytes.h"

/* XXH64: the specification of xxHash, sections "XXH64 Algorithm Description", steps 1 to 7. */

#define PRIME1 UINT64_C(0x9e3779b185ebca87)
#define PRIME2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define PRIME3 UINT64_C(0x165667b19e3779f9)
#define PRIME4 UINT64_C(0x85ebca77c2b2ae63)
#define PRIME5 UINT64_C(0x27d4eb2f165667c5)

static inline uint64_t turn_left(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline uint64_t round64(uint64_t lane, uint64_t word)
{
    return turn_left(lane + word * PRIME2, 31) * PRIME1;
}

uint64_t trp__checksum(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    size_t left = bytes;
    uint64_t sum = PRIME5;
    if (left >= 32) {
        uint64_t lane[4] = {PRIME1 + PRIME2, PRIME2, 0, 0 - PRIME1};
        for (; left >= 32; at += 32, left -= 32) {
            for (size_t i = 0; i < 4; i++)
                lane[i] = round64(lane[i], trp__get64(at + 8 * i));
        }
        sum = turn_left(lane[0], 1) + turn_left(lane[1], 7) + turn_left(lane[2], 12) +
              turn_left(lane[3], 18);
        for (size_t i = 0; i < 4; i++)
            sum = (sum ^ round64(0, lane[i])) * PRIME1 + PRIME4;
    }
    sum += bytes;
    for (; left >= 8; at += 8, left -= 8)
        sum = turn_left(sum ^ round64(0, trp__get64(at)), 27) * PRIME1 + PRIME4;
    for (; left >= 4; at += 4, left -= 4)
        sum = turn_left(sum ^ trp__get32(at) * PRIME1, 23) * PRIME2 + PRIME3;
    for (; left > 0; at++, left--)
        sum = turn_left(sum ^ *at * PRIME5, 11) * PRIME1;
    sum = (sum ^ sum >> 33) * PRIME2;
    sum = (sum ^ sum >> 29) * PRIME3;
    return sum ^ sum >> 32;
}

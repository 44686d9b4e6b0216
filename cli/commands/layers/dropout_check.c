/* Random numbers of dropout in attention, by definition: Philox4x32-10 (Salmon and others, SC
 * 2011). */
#include "attention.h"

enum { ROUNDS = 10 };

static uint32_t low(uint64_t x)
{
    return (uint32_t)(x & UINT32_MAX);
}

static uint32_t high(uint64_t x)
{
    return (uint32_t)(x >> 32);
}

/* Returns number n of the sequence of a seed and offset. */
static uint32_t draw(uint64_t seed, uint64_t offset, uint64_t n)
{
    uint32_t c[] = {low(n / 4), high(n / 4), low(offset), high(offset)};
    uint32_t key[] = {low(seed), high(seed)};
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t first = UINT64_C(0xd2511f53) * c[0], third = UINT64_C(0xcd9e8d57) * c[2];
        c[0] = high(third) ^ c[1] ^ key[0];
        c[2] = high(first) ^ c[3] ^ key[1];
        c[1] = low(third);
        c[3] = low(first);
        key[0] = low(key[0] + UINT64_C(0x9e3779b9));
        key[1] = low(key[1] + UINT64_C(0xbb67ae85));
    }
    return c[n % 4];
}

double attention_kept(const attention *job, int64_t batch, int64_t head, int64_t row,
                      int64_t column)
{
    const int64_t at = ((batch * job->heads + head) * job->rows + row) * job->columns + column;
    if (job->dropout == 0)
        return 1;
    const uint32_t word = draw((uint64_t)job->seed, (uint64_t)job->offset, (uint64_t)at);
    return (double)(word >> 8) * 0x1p-24 < job->dropout ? 0 : 1 / (1 - job->dropout);
}

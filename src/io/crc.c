/* The CRC-32 of ZIP, computed from eight bytes at a time ("slicing by 8": Kounavis and Berry,
 * 2005). */
#include "base/bytes.h"

#include "io/file.h"

#include <pthread.h>

#define POLYNOMIAL UINT32_C(0xedb88320)

static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
    }
}

uint32_t trp__io_crc(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint32_t c = ~crc;
    pthread_once(&once, fill_table);
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint32_t low = trp__get32(at) ^ c, high = trp__get32(at + 4);
        c = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
            table[4][low >> 24] ^ table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
            table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
    }
    for (; bytes > 0; bytes--, at++)
        c = c >> 8 ^ table[0][(c ^ *at) & 0xff];
    return ~c;
}

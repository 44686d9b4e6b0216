#include "compile/input.h"

#include <string.h>

char *trp__jit_put(char *at, const void *data, uint64_t bytes)
{
    memcpy(at, &bytes, sizeof bytes);
    if (bytes > 0)
        memcpy(at + 8, data, bytes);
    return at + trp__jit_blob_bytes(bytes);
}

char *trp__jit_put_string(char *at, const char *text)
{
    return trp__jit_put(at, text, strlen(text) + 1);
}

char *trp__jit_put_strings(char *at, const trp__jit_strings *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        at = trp__jit_put_string(at, list->item[i]);
    return at;
}

#include "actors/cutlass/catalogue/rows.h"

#include <string.h>

enum { TABLES = 3 };

static const trp__cutlass_rows *const tables[TABLES] = {
    &trp__cutlass_gemm_rows, &trp__cutlass_grouped_rows, &trp__cutlass_conv_rows};

uint32_t trp__cutlass_row_count(void)
{
    uint32_t count = 0;
    for (size_t t = 0; t < TABLES; t++)
        count += tables[t]->count;
    return count;
}

const trp__cutlass_row *trp__cutlass_row_at(uint32_t i)
{
    size_t t = 0;
    for (; i >= tables[t]->count; t++)
        i -= tables[t]->count;
    return &tables[t]->row[i];
}

const trp__cutlass_row *trp__cutlass_row_find(const char *name)
{
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++) {
        if (strcmp(trp__cutlass_row_at(i)->name, name) == 0)
            return trp__cutlass_row_at(i);
    }
    return NULL;
}

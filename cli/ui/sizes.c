#include "sizes.h"

#include "options.h"
#include "ui.h"

#include <stdio.h>
#include <string.h>

const char *sizes_next(const char *text, int64_t *out)
{
    char number[24];
    size_t length = strcspn(text, ",");
    bool more = text[length] == ',';
    snprintf(number, sizeof number, "%.*s", (int)(length < 23 ? length : 23), text);
    bool ok = length < sizeof number && options_number(number, out) && *out <= INT32_MAX;
    return ok && (!more || text[length + 1]) ? text + length + more : NULL;
}

uint32_t sizes_read(const char *name, const char *text, int64_t out[SIZES_MAX])
{
    const char *at = text;
    uint32_t count = 0;
    while (at && count < SIZES_MAX && (count == 0 || *at))
        at = sizes_next(at, &out[count++]);
    if (at && !*at)
        return count;
    ui_wrong("--%s: expected up to four numbers like 8,3,3 below 2^31, got '%s'", name, text);
    return 0;
}

bool sizes_each(const char *name, const char *text, uint32_t dims, int64_t *out)
{
    int64_t all[SIZES_MAX];
    uint32_t count = text ? sizes_read(name, text, all) : dims;
    if (!text || count == 0)
        return count > 0;
    if (count != 1 && count != dims) {
        ui_wrong("--%s: expected %u numbers, one for each size of the images, got '%s'", name, dims,
                 text);
        return false;
    }
    for (uint32_t i = 0; i < dims; i++)
        out[i] = all[count == 1 ? 0 : i];
    return true;
}

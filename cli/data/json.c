#include "json.h"

#include "ui/ui.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int line_of(const char *text, const char *at)
{
    int line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

enum { BYTES_MOST = 64 << 20 };

cJSON *json_read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    const char *wrong = NULL;
    size_t length = 0, room = 0;
    cJSON *value = NULL;
    bool memory = true, zero = false;
    while (file && memory && !zero && length <= BYTES_MOST && !feof(file) && !ferror(file)) {
        if (room - length < 65537) {
            char *more = realloc(text, room = 2 * room + 131072);
            memory = more != NULL;
            if (!more)
                break;
            text = more;
        }
        size_t some = fread(text + length, 1, 65536, file);
        zero = memchr(text + length, '\0', some) != NULL;
        length += some;
        text[length] = '\0';
    }
    if (!file || ferror(file))
        ui_error("%s: %s", path, strerror(errno));
    else if (!memory || !text)
        ui_error("%s: out of memory", path);
    else if (zero)
        ui_error("%s: expected JSON, got a zero byte in it", path);
    else if (length > BYTES_MOST)
        ui_error("%s: expected a file of at most 64 MiB", path);
    else if (!(value = cJSON_ParseWithOpts(text, &wrong, true)))
        ui_error("%s:%d: no JSON: '%.*s'", path, line_of(text, wrong), (int)strcspn(wrong, "\n"),
                 wrong);
    if (file)
        fclose(file);
    free(text);
    return value;
}

const char *json_kind_name(const cJSON *value)
{
    return cJSON_IsNull(value)     ? "null"
           : cJSON_IsBool(value)   ? "true or false"
           : cJSON_IsNumber(value) ? "a number"
           : cJSON_IsString(value) ? "a text"
           : cJSON_IsArray(value)  ? "an array"
                                   : "an object";
}

double json_number(const cJSON *object, const char *key)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(member) ? member->valuedouble : -1;
}

const char *json_string(const cJSON *object, const char *key)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(member) ? member->valuestring : "";
}

/* JSON (RFC 8259), read by cJSON. */
#ifndef TRP_CLI_DATA_JSON_H
#define TRP_CLI_DATA_JSON_H

#include <cjson/cJSON.h>

/* Reads a whole file of at most 64 MiB and parses it. NULL: it can't be read, or is no JSON; says
 * so on standard error. cJSON_Delete() frees it. */
cJSON *json_read_file(const char *path);

/* "an array", for messages. */
const char *json_kind_name(const cJSON *value);

/* Return a member of an object; -1 or "": it has none of that kind. */
double json_number(const cJSON *object, const char *key);
const char *json_string(const cJSON *object, const char *key);

#endif

/* A strict reader of JSON (RFC 8259). */
#ifndef TRP_CLI_DATA_JSON_H
#define TRP_CLI_DATA_JSON_H

#include <stdbool.h>
#include <stddef.h>

typedef enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
} json_kind;

typedef struct json {
    json_kind kind;
    double number; /* of a bool: 0 or 1 */
    char *string;
    char *key; /* in an object */
    int line;  /* where it begins, from 1 */
    struct json *first, *next;
} json;

/* NULL: it is no JSON; *where is then the offset of what is wrong. The text must be terminated. */
json *json_parse(const char *text, size_t *where);
void json_free(json *value);

/* "an array", for messages. */
const char *json_kind_name(json_kind kind);

/* Reads a whole file and parses it. NULL: it can't be read, or is no JSON; says so on standard
 * error. */
json *json_read_file(const char *path);

/* A member of an object; NULL if there is none, or if it is no object. */
const json *json_get(const json *object, const char *key);
/* Of a member; -1, and "", where there is none of that kind. */
double json_number(const json *object, const char *key);
const char *json_string(const json *object, const char *key);

#endif

/* A strict reader of JSON (RFC 8259). */
#ifndef TRP_CLI_DATA_JSON_H
#define TRP_CLI_DATA_JSON_H

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
    int line;  /* first line, from 1 */
    struct json *first, *next;
} json;

/* Parses terminated text. NULL: no JSON; *where is the offset of the mistake. */
json *json_parse(const char *text, size_t *where);
void json_free(json *value);

/* Names a kind for messages: "an array". */
const char *json_kind_name(json_kind kind);

/* Reads and parses a file. NULL: unreadable or no JSON; reports the error. */
json *json_read_file(const char *path);

/* Returns a member of an object; NULL if there is none, or if it is no object. */
const json *json_get(const json *object, const char *key);
/* Return a member's value; -1, and "", for a missing member or another kind. */
double json_number(const json *object, const char *key);
const char *json_string(const json *object, const char *key);

#endif

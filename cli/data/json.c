#include "json.h"

#include "ui/ui.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct reader {
    const char *text, *at;
    const char *counted; /* line counts up to here */
    int line;
} reader;

static json *parse_value(reader *r, int depth);

static void skip_space(reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static bool take(reader *r, char c)
{
    skip_space(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

/* Returns the line of the next token. */
static int line_of(reader *r)
{
    skip_space(r);
    for (; r->counted < r->at; r->counted++)
        r->line += *r->counted == '\n';
    return r->line;
}

/* Returns the bytes of a well-formed UTF-8 character at p; 0 if malformed. */
static size_t utf8_length(const unsigned char *p)
{
    size_t more = p[0] < 0x80                    ? 0
                  : p[0] >= 0xc2 && p[0] < 0xe0  ? 1
                  : (p[0] & 0xf0) == 0xe0        ? 2
                  : p[0] >= 0xf0 && p[0] <= 0xf4 ? 3
                                                 : 99;
    if (more == 99)
        return 0;
    for (size_t i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    return more + 1;
}

/* Parses four hexadecimal digits. */
static bool parse_hex(const char *p, unsigned *out)
{
    *out = 0;
    if (strspn(p, "0123456789abcdefABCDEF") < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)p[i];
        *out = *out * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return true;
}

/* Parses the digits behind "\u" into UTF-8; rejects a lone surrogate and zero. */
static bool parse_unicode(reader *r, char **to)
{
    unsigned c, low;
    char *out = *to;
    if (!parse_hex(r->at, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000))
        return false;
    r->at += 4;
    if (c >= 0xd800 && c < 0xdc00) {
        if (r->at[0] != '\\' || r->at[1] != 'u' || !parse_hex(r->at + 2, &low) || low < 0xdc00 ||
            low >= 0xe000)
            return false;
        r->at += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned first[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(first[more] | c >> (6 * more));
    while (more-- > 0)
        *out++ = (char)(0x80 | ((c >> (6 * more)) & 0x3f));
    *to = out;
    return true;
}

/* Parses a string after its first quote. */
static char *parse_string(reader *r)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char *out = malloc(strlen(r->at) + 1), *to = out;
    while (out && *r->at != '"') {
        size_t length = utf8_length((const unsigned char *)r->at);
        const char *escape;
        if ((unsigned char)*r->at < 0x20 || length == 0)
            goto bad;
        if (*r->at != '\\') {
            memcpy(to, r->at, length);
            to += length;
            r->at += length;
            continue;
        }
        r->at++;
        if (*r->at && (escape = strchr(escapes, *r->at))) {
            *to++ = meant[escape - escapes];
            r->at++;
        } else {
            if (*r->at++ != 'u' || !parse_unicode(r, &to))
                goto bad;
        }
    }
    if (out) {
        *to = '\0';
        r->at++;
    }
    return out;
bad:
    free(out);
    return NULL;
}

static bool parse_number(reader *r, double *out)
{
    const char *p = r->at;
    p += *p == '-';
    size_t digits = strspn(p, "0123456789");
    if (digits == 0 || (digits > 1 && *p == '0'))
        return false;
    p += digits;
    if (*p == '.') {
        digits = strspn(++p, "0123456789");
        if (digits == 0)
            return false;
        p += digits;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        digits = strspn(p, "0123456789");
        if (digits == 0)
            return false;
        p += digits;
    }
    *out = strtod(r->at, NULL);
    r->at = p;
    return true;
}

static bool parse_members(reader *r, json *value, char end, int depth)
{
    json **link = &value->first;
    if (take(r, end))
        return true;
    do {
        char *key = NULL;
        if (value->kind == JSON_OBJECT) {
            if (!take(r, '"') || !(key = parse_string(r)) || !take(r, ':')) {
                free(key);
                return false;
            }
        }
        *link = parse_value(r, depth + 1);
        if (!*link) {
            free(key);
            return false;
        }
        (*link)->key = key;
        link = &(*link)->next;
    } while (take(r, ','));
    return take(r, end);
}

static bool parse_word(reader *r, const char *word)
{
    if (strncmp(r->at, word, strlen(word)) != 0)
        return false;
    r->at += strlen(word);
    return true;
}

static json *parse_value(reader *r, int depth)
{
    json *value = calloc(1, sizeof *value);
    bool ok = false;
    if (!value)
        return NULL;
    value->line = line_of(r);
    if (depth > MAX_DEPTH) {
        ok = false;
    } else if (take(r, '{')) {
        value->kind = JSON_OBJECT;
        ok = parse_members(r, value, '}', depth);
    } else if (take(r, '[')) {
        value->kind = JSON_ARRAY;
        ok = parse_members(r, value, ']', depth);
    } else if (take(r, '"')) {
        value->kind = JSON_STRING;
        ok = (value->string = parse_string(r)) != NULL;
    } else if (parse_word(r, "true")) {
        value->kind = JSON_BOOL;
        value->number = 1;
        ok = true;
    } else if (parse_word(r, "false")) {
        value->kind = JSON_BOOL;
        ok = true;
    } else if (parse_word(r, "null")) {
        ok = true;
    } else {
        value->kind = JSON_NUMBER;
        ok = parse_number(r, &value->number);
    }
    if (!ok) {
        json_free(value);
        return NULL;
    }
    return value;
}

json *json_parse(const char *text, size_t *where)
{
    reader r = {text, text, text, 1};
    json *value = parse_value(&r, 0);
    skip_space(&r);
    if (value && *r.at) {
        json_free(value);
        value = NULL;
    }
    *where = (size_t)(r.at - text);
    return value;
}

void json_free(json *value)
{
    while (value) {
        json *next = value->next;
        json_free(value->first);
        free(value->string);
        free(value->key);
        free(value);
        value = next;
    }
}

const char *json_kind_name(json_kind kind)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",     [JSON_BOOL] = "true or false", [JSON_NUMBER] = "a number",
        [JSON_STRING] = "a text", [JSON_ARRAY] = "an array",     [JSON_OBJECT] = "an object"};
    return names[kind];
}

static int line_at(const char *text, size_t where)
{
    int line = 1;
    for (size_t i = 0; i < where; i++)
        line += text[i] == '\n';
    return line;
}

enum { BYTES_MOST = 64 << 20 };

json *json_read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t length = 0, room = 0, where = 0;
    json *value = NULL;
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
        ui_error("%s: expected JSON, and it has a zero byte", path);
    else if (length > BYTES_MOST)
        ui_error("%s: expected a file of at most 64 MiB", path);
    else if (!(value = json_parse(text, &where)))
        ui_error("%s:%d: no JSON: '%.*s'", path, line_at(text, where),
                 (int)strcspn(text + where, "\n"), text + where);
    if (file)
        fclose(file);
    free(text);
    return value;
}

const json *json_get(const json *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    for (const json *member = object->first; member; member = member->next) {
        if (strcmp(member->key, key) == 0)
            return member;
    }
    return NULL;
}

double json_number(const json *object, const char *key)
{
    const json *member = json_get(object, key);
    return member && member->kind == JSON_NUMBER ? member->number : -1;
}

const char *json_string(const json *object, const char *key)
{
    const json *member = json_get(object, key);
    return member && member->kind == JSON_STRING ? member->string : "";
}

/* Parser of the dict literal in the header of an .npy file. */
#include "io/npy.h"

#include <string.h>

/* Tokens. */

typedef enum token_kind {
    TOKEN_PUNCTUATION, /* one of {}()[]:, */
    TOKEN_STRING,      /* text: without the quotes */
    TOKEN_INTEGER,     /* text: with a sign, without the L of Python 2 */
    TOKEN_NAME,
    TOKEN_END,
} token_kind;

typedef struct token {
    token_kind kind;
    const unsigned char *text;
    size_t len;
} token;

enum { KEY_DESCR, KEY_FORTRAN_ORDER, KEY_SHAPE, KEY_COUNT };

/* `next` is the next token, which has been read but not used yet. */
typedef struct parser {
    const unsigned char *begin, *at, *end;
    token next;
    bool seen[KEY_COUNT];
    trp_error *error;
} parser;

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static size_t offset_of(const parser *p, const unsigned char *at)
{
    return (size_t)(at - p->begin);
}

static bool read_string(parser *p)
{
    const unsigned char *text = p->at + 1, *at = text;
    while (at < p->end && *at != *p->at && *at != '\n' && *at != '\\')
        at++;
    if (at < p->end && *at == '\\')
        return refuse(p->error, "bad header: backslash in the string at byte %zu, none is expected",
                      offset_of(p, p->at));
    if (at == p->end || *at == '\n')
        return refuse(p->error, "bad header: unterminated string at byte %zu: %s",
                      offset_of(p, p->at), trp__io_quote(p->at, (size_t)(at - p->at)).text);
    p->next = (token){TOKEN_STRING, text, (size_t)(at - text)};
    p->at = at + 1;
    return true;
}

/* A decimal integer of Python has no leading zeros. Python 2 wrote some with an L at the end. */
static bool read_integer(parser *p)
{
    const unsigned char *text = p->at, *at = text;
    at += *at == '-' || *at == '+';
    const unsigned char *digits = at;
    while (at < p->end && is_digit(*at))
        at++;
    size_t len = (size_t)(at - text);
    bool good = at > digits && (*digits != '0' || at == digits + 1);
    if (at < p->end && *at == 'L')
        at++;
    if (!good || (at < p->end && (is_name(*at) || *at == '.'))) {
        while (at < p->end && (is_name(*at) || *at == '.'))
            at++;
        return refuse(p->error, "bad header: expected a decimal integer at byte %zu, got %s",
                      offset_of(p, text), trp__io_quote(text, (size_t)(at - text)).text);
    }
    p->next = (token){TOKEN_INTEGER, text, len};
    p->at = at;
    return true;
}

/* Reads the next token to p->next. */
static bool advance(parser *p)
{
    while (p->at < p->end && memchr(" \t\r\n", *p->at, 4) != NULL)
        p->at++;
    if (p->at == p->end) {
        p->next = (token){TOKEN_END, p->at, 0};
        return true;
    }
    unsigned char c = *p->at;
    if (c == '\'' || c == '"')
        return read_string(p);
    if (is_digit(c) || c == '-' || c == '+')
        return read_integer(p);
    if (memchr("{}()[]:,", c, 8) != NULL) {
        p->next = (token){TOKEN_PUNCTUATION, p->at, 1};
        p->at++;
        return true;
    }
    if (is_name(c)) {
        const unsigned char *text = p->at;
        while (p->at < p->end && is_name(*p->at))
            p->at++;
        p->next = (token){TOKEN_NAME, text, (size_t)(p->at - text)};
        return true;
    }
    return refuse(p->error, "bad header: unexpected character %s at byte %zu",
                  trp__io_quote(p->at, 1).text, offset_of(p, p->at));
}

static bool next_is(const parser *p, char punctuation)
{
    return p->next.kind == TOKEN_PUNCTUATION && *p->next.text == (unsigned char)punctuation;
}

static bool text_is(const token *t, const char *text)
{
    return t->len == strlen(text) && memcmp(t->text, text, t->len) == 0;
}

static bool unexpected(const parser *p, const char *expected)
{
    if (p->next.kind == TOKEN_END)
        return refuse(p->error, "bad header: expected %s, got the end of the header", expected);
    return refuse(p->error, "bad header: expected %s at byte %zu, got %s", expected,
                  offset_of(p, p->next.text), trp__io_quote(p->next.text, p->next.len).text);
}

static bool expect(parser *p, char punctuation)
{
    if (!next_is(p, punctuation))
        return unexpected(p, (char[]){'\'', punctuation, '\'', '\0'});
    return advance(p);
}

/* The three entries. */

static const char *const key_names[KEY_COUNT] = {"descr", "fortran_order", "shape"};

static bool parse_descr(parser *p, trp__npy_dict *d)
{
    if (next_is(p, '['))
        return unsupported(p->error, "structured dtype: expected elements of one type");
    if (p->next.kind != TOKEN_STRING)
        return unexpected(p, "a string for 'descr'");
    d->descr = (trp__npy_piece){p->next.text, p->next.len};
    return advance(p);
}

static bool parse_fortran_order(parser *p, trp__npy_dict *d)
{
    bool yes = p->next.kind == TOKEN_NAME && text_is(&p->next, "True");
    bool no = p->next.kind == TOKEN_NAME && text_is(&p->next, "False");
    if (!yes && !no)
        return unexpected(p, "True or False for 'fortran_order'");
    d->fortran_order = yes;
    return advance(p);
}

static bool parse_dimension(parser *p, int64_t *out)
{
    const token t = p->next;
    if (t.kind != TOKEN_INTEGER)
        return unexpected(p, "an integer in 'shape'");
    if (*t.text == '-')
        return refuse(p->error, "bad shape: dimension %s is negative",
                      trp__io_quote(t.text, t.len).text);
    uint64_t value = 0;
    for (size_t i = *t.text == '+'; i < t.len; i++) {
        unsigned digit = (unsigned)t.text[i] - '0';
        if (value > ((uint64_t)INT64_MAX - digit) / 10u)
            return refuse(p->error, "bad shape: dimension %s is larger than 2^63 - 1",
                          trp__io_quote(t.text, t.len).text);
        value = value * 10u + digit;
    }
    *out = (int64_t)value;
    return advance(p);
}

/* A tuple: (), (1,), (1, 2), (1, 2,) and so on; (1) is not one. */
static bool parse_shape(parser *p, trp__npy_dict *d)
{
    const unsigned char *text = p->next.text;
    if (!next_is(p, '(')) {
        return unexpected(p, "a tuple for 'shape'");
    }
    if (!advance(p))
        return false;
    d->rank = 0;
    while (!next_is(p, ')')) {
        int64_t dim = 0;
        if (!parse_dimension(p, &dim))
            return false;
        if (d->rank < TRP_IO_RANK_MAX)
            d->dim[d->rank] = dim;
        d->rank++;
        if (next_is(p, ')') && d->rank > 1) {
            break;
        }
        if (!expect(p, ','))
            return false;
    }
    d->shape = (trp__npy_piece){text, (size_t)(p->next.text + 1 - text)};
    return advance(p);
}

static bool (*const value_parsers[KEY_COUNT])(parser *, trp__npy_dict *) = {
    parse_descr, parse_fortran_order, parse_shape};

static bool parse_entry(parser *p, trp__npy_dict *d)
{
    static const char expected[] = "a key 'descr', 'fortran_order' or 'shape'";
    if (p->next.kind != TOKEN_STRING)
        return unexpected(p, expected);
    for (int key = 0; key < KEY_COUNT; key++) {
        if (!text_is(&p->next, key_names[key]))
            continue;
        if (p->seen[key])
            return refuse(p->error, "bad header: key '%s' comes twice", key_names[key]);
        p->seen[key] = true;
        return advance(p) && expect(p, ':') && value_parsers[key](p, d);
    }
    return unexpected(p, expected);
}

bool trp__npy_parse_dict(const unsigned char *text, size_t len, trp__npy_dict *d, trp_error *error)
{
    parser p = {.begin = text, .at = text, .end = text + len, .error = error};
    *d = (trp__npy_dict){0};
    if (!advance(&p) || !expect(&p, '{'))
        return false;
    while (!next_is(&p, '}')) {
        if (!parse_entry(&p, d))
            return false;
        if (next_is(&p, '}'))
            break;
        if (!next_is(&p, ','))
            return unexpected(&p, "',' or '}'");
        if (!advance(&p))
            return false;
    }
    if (!advance(&p))
        return false;
    if (p.next.kind != TOKEN_END)
        return unexpected(&p, "nothing after the '}'");
    for (int key = 0; key < KEY_COUNT; key++) {
        if (!p.seen[key])
            return refuse(error, "bad header: key '%s' is missing", key_names[key]);
    }
    return true;
}

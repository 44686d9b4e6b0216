#include "epilogue.h"
#include "epilogue_words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef struct value_name {
    char text[EPILOGUE_NAME_MAX];
    uint32_t node;
    size_t at; /* position in the text */
    bool used;
} value_name;

typedef struct parser {
    const char *text;
    size_t at, depth;
    epilogue *out;
    value_name value[TRP_EPILOGUE_NODES_MAX]; /* values named by statements */
    uint32_t values;
    bool failed;
    char *error;
    size_t error_size;
} parser;

enum { WINDOW = 60 };

/* Records the first failure, at byte `at` of the text. Returns 0, no node. */
static uint32_t fail_at(parser *p, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static uint32_t fail_at(parser *p, size_t at, const char *format, ...)
{
    char what[160], around[WINDOW + 1];
    size_t begin = at > WINDOW / 2 ? at - WINDOW / 2 : 0, n = 0;
    va_list arguments;
    if (p->failed)
        return 0;
    p->failed = true;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    for (; n < WINDOW && p->text[begin + n]; n++) {
        char c = p->text[begin + n];
        around[n] = (char)(c >= ' ' && c < 0x7f ? c : c == '\n' || c == '\t' ? ' ' : '?');
    }
    around[n] = '\0';
    if (p->error_size > 0)
        snprintf(p->error, p->error_size, "column %zu: %s\n  %s\n  %*s^", at + 1, what, around,
                 (int)(at - begin), "");
    return 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char peek(parser *p)
{
    while (p->text[p->at] == ' ' || p->text[p->at] == '\t' || p->text[p->at] == '\n')
        p->at++;
    return p->text[p->at];
}

static bool take(parser *p, char c)
{
    if (peek(p) != c)
        return false;
    p->at++;
    return true;
}

/* Describes the text at the current position, for messages. */
typedef struct shown {
    char text[EPILOGUE_NAME_MAX + 4];
} shown;

static shown here(parser *p)
{
    shown s;
    char c = peek(p);
    int n = 1;
    while (is_letter(c) && n < EPILOGUE_NAME_MAX &&
           (is_letter(p->text[p->at + (size_t)n]) || is_digit(p->text[p->at + (size_t)n])))
        n++;
    if (c == '\0')
        snprintf(s.text, sizeof s.text, "the end");
    else if (c < ' ' || c >= 0x7f)
        snprintf(s.text, sizeof s.text, "byte 0x%02x", (unsigned char)c);
    else
        snprintf(s.text, sizeof s.text, "'%.*s'", n, p->text + p->at);
    return s;
}

static bool expect(parser *p, char c)
{
    if (take(p, c))
        return true;
    fail_at(p, p->at, "expected '%c', got %s", c, here(p).text);
    return false;
}

static bool read_name(parser *p, char name[EPILOGUE_NAME_MAX])
{
    size_t n = 0, begin;
    if (!is_letter(peek(p)))
        return false;
    begin = p->at;
    while (is_letter(p->text[p->at]) || is_digit(p->text[p->at])) {
        if (n == EPILOGUE_NAME_MAX - 1) {
            fail_at(p, begin, "expected a name of at most %d letters", EPILOGUE_NAME_MAX - 1);
            return false;
        }
        name[n++] = p->text[p->at++];
    }
    name[n] = '\0';
    return true;
}

/* Reads a number without a sign; false: there is none, or it is wrong and was reported. */
static bool read_number(parser *p, double *out)
{
    char digits[64], word[4] = "";
    size_t n = 0, begin, at;
    peek(p);
    begin = at = p->at;
    memcpy(word, p->text + at, strnlen(p->text + at, 3));
    if ((strcmp(word, "inf") == 0 || strcmp(word, "nan") == 0) && !is_letter(p->text[at + 3]) &&
        !is_digit(p->text[at + 3])) {
        *out = word[0] == 'i' ? (double)INFINITY : (double)NAN;
        p->at += 3;
        return true;
    }
    if (!is_digit(p->text[at]) && p->text[at] != '.')
        return false;
    for (;; at++) {
        char c = p->text[at];
        bool sign = (c == '+' || c == '-') && at > begin &&
                    (p->text[at - 1] == 'e' || p->text[at - 1] == 'E');
        if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !sign)
            break;
        if (n == sizeof digits - 1) {
            fail_at(p, begin, "expected a number of at most %d digits", (int)sizeof digits - 1);
            return false;
        }
        digits[n++] = c;
    }
    digits[n] = '\0';
    char *end;
    *out = strtod(digits, &end);
    if (*end || n == 0 || !isfinite(*out)) {
        fail_at(p, begin, "expected a number, got '%s'", digits);
        return false;
    }
    p->at = at;
    return true;
}

static uint32_t add(parser *p, size_t at, trp_epilogue_node node)
{
    epilogue *e = p->out;
    if (p->failed)
        return 0;
    if (e->count == TRP_EPILOGUE_NODES_MAX)
        return fail_at(p, at, "expected at most %d operands and operations",
                       TRP_EPILOGUE_NODES_MAX - 1);
    e->node[e->count] = node;
    return e->count++;
}

/* Returns the one node of acc or c. */
static uint32_t plain_node(parser *p, size_t at, trp_epilogue_kind kind)
{
    for (uint32_t i = 1; i < p->out->count; i++) {
        if (p->out->node[i].kind == kind)
            return i;
    }
    return add(p, at, (trp_epilogue_node){.kind = kind});
}

/* Reads "[row]", "[col]", "[row,col]" or "[]" as the kind of what is read; NONE: wrong and
 * reported. "[]" and no index give SCALAR. */
static trp_epilogue_kind read_index(parser *p, bool *empty)
{
    char first[EPILOGUE_NAME_MAX] = "", second[EPILOGUE_NAME_MAX] = "";
    *empty = false;
    if (!take(p, '['))
        return TRP_EPILOGUE_SCALAR;
    size_t at = p->at;
    *empty = take(p, ']');
    if (*empty)
        return TRP_EPILOGUE_SCALAR;
    if (read_name(p, first) && take(p, ','))
        read_name(p, second);
    bool row = strcmp(first, "row") == 0, column = strcmp(first, "col") == 0;
    bool both = row && strcmp(second, "col") == 0;
    if (!both && ((!row && !column) || second[0])) {
        fail_at(p, at, "expected row, col or row,col in brackets");
        return TRP_EPILOGUE_NONE;
    }
    if (!expect(p, ']'))
        return TRP_EPILOGUE_NONE;
    return both ? TRP_EPILOGUE_AUX_LOAD : row ? TRP_EPILOGUE_PER_ROW : TRP_EPILOGUE_PER_COLUMN;
}

static bool read_suffixes(parser *p, bool matrix, trp_dtype *type, trp_order *order)
{
    char word[EPILOGUE_NAME_MAX];
    *type = TRP_DTYPE_NONE;
    *order = TRP_COL_MAJOR;
    while (take(p, ':')) {
        peek(p);
        size_t at = p->at;
        if (!read_name(p, word)) {
            fail_at(p, at, "expected a type or rowmajor, got %s", here(p).text);
            return false;
        }
        trp_dtype named = epilogue_type(word);
        if (strcmp(word, "rowmajor") == 0 && matrix)
            *order = TRP_ROW_MAJOR;
        else if (named != TRP_DTYPE_NONE && *type == TRP_DTYPE_NONE)
            *type = named;
        else {
            fail_at(p, at, "expected a type%s, got '%s'", matrix ? " or rowmajor" : "", word);
            return false;
        }
    }
    return !p->failed;
}

static uint32_t operand_named(const epilogue *e, const char *name)
{
    for (uint32_t i = 1; i < e->count; i++) {
        if (strcmp(e->name[i], name) == 0)
            return i;
    }
    return 0;
}

static value_name *value_named(parser *p, const char *name)
{
    for (uint32_t i = 0; i < p->values; i++) {
        if (strcmp(p->value[i].text, name) == 0)
            return &p->value[i];
    }
    return NULL;
}

static const char *kind_text(trp_epilogue_kind kind)
{
    switch (kind) {
    case TRP_EPILOGUE_SCALAR:
        return "a number";
    case TRP_EPILOGUE_PER_ROW:
        return "a vector [row]";
    case TRP_EPILOGUE_PER_COLUMN:
        return "a vector [col]";
    case TRP_EPILOGUE_AUX_LOAD:
        return "a matrix [row,col]";
    default:
        return "taken";
    }
}

/* Reads an operand or a named value behind its name. */
static uint32_t read_operand(parser *p, size_t at, const char *name)
{
    bool empty;
    trp_dtype type;
    trp_order order;
    value_name *value = value_named(p, name);
    trp_epilogue_kind kind = read_index(p, &empty);
    if (kind == TRP_EPILOGUE_NONE)
        return 0;
    if (empty)
        return fail_at(p, at, "expected %s without brackets: [] is for outputs", name);
    if (!read_suffixes(p, kind == TRP_EPILOGUE_AUX_LOAD, &type, &order))
        return 0;
    if (value) {
        if (kind != TRP_EPILOGUE_SCALAR || type != TRP_DTYPE_NONE)
            return fail_at(p, at, "expected %s without brackets and type: it is a value", name);
        value->used = true;
        return value->node;
    }
    uint32_t known = operand_named(p->out, name);
    if (known == 0) {
        known = add(p, at, (trp_epilogue_node){.kind = kind, .type = type, .order = order});
        if (known)
            memcpy(p->out->name[known], name, strlen(name) + 1);
        return known;
    }
    trp_epilogue_node *x = &p->out->node[known];
    if (x->kind != kind)
        return fail_at(p, at, "expected another name: %s is %s already", name, kind_text(x->kind));
    if ((type != TRP_DTYPE_NONE && type != x->type) || (order && order != x->order))
        return fail_at(p, at, "expected %s as it is written first, or without a suffix", name);
    return known;
}

static uint32_t read_sum(parser *p);
static uint32_t read_factor(parser *p);

/* Reads scale_rows(x, s[row]): the vector belongs to the node. */
static uint32_t read_scale(parser *p, size_t at, const function_row *f)
{
    char name[EPILOGUE_NAME_MAX];
    bool empty;
    bool rows = f->kind == TRP_EPILOGUE_SCALE_ROWS;
    trp_epilogue_kind wanted = rows ? TRP_EPILOGUE_PER_ROW : TRP_EPILOGUE_PER_COLUMN;
    trp_epilogue_node x = {.kind = f->kind, .input = {read_sum(p)}};
    if (p->failed || !expect(p, ','))
        return 0;
    peek(p);
    size_t vector_at = p->at;
    if (!read_name(p, name) || epilogue_reserved(name) || value_named(p, name) ||
        operand_named(p->out, name))
        return fail_at(p, vector_at, "expected a vector of a name of its own");
    trp_epilogue_kind kind = read_index(p, &empty);
    if (kind != wanted)
        return fail_at(p, vector_at, "expected a vector [%s]", rows ? "row" : "col");
    if (!read_suffixes(p, false, &x.type, &x.order) || !expect(p, ')'))
        return 0;
    uint32_t node = add(p, at, x);
    if (node)
        memcpy(p->out->name[node], name, strlen(name) + 1);
    return node;
}

static bool read_parameter(parser *p, trp_scalar *out)
{
    double value;
    peek(p);
    size_t at = p->at;
    bool negative = take(p, '-');
    peek(p);
    if (!read_number(p, &value)) {
        fail_at(p, at, "expected a number, got %s", here(p).text);
        return false;
    }
    *out = trp_real(negative ? -value : value);
    return true;
}

static uint32_t read_call(parser *p, size_t at, const char *name)
{
    const function_row *f = epilogue_function(name);
    trp_dtype type = epilogue_type(name);
    const function_row convert = {name, TRP_EPILOGUE_CONVERT, (int)type, 1, 0};
    if (!f && type != TRP_DTYPE_NONE)
        f = &convert;
    if (!f)
        return fail_at(p, at, "expected a function, got '%s'%s", name,
                       epilogue_function_hint(name).s);
    if (f->kind == TRP_EPILOGUE_SCALE_ROWS || f->kind == TRP_EPILOGUE_SCALE_COLUMNS)
        return read_scale(p, at, f);
    trp_epilogue_node x = {.kind = f->kind};
    for (uint32_t i = 0; i < f->inputs && !p->failed; i++) {
        if (i == 0 || expect(p, ','))
            x.input[i] = read_sum(p);
    }
    for (uint32_t i = 0; i < f->parameters && !p->failed && take(p, ','); i++)
        read_parameter(p, &x.parameter[i]);
    if (p->failed || !expect(p, ')'))
        return 0;
    if (f->kind == TRP_EPILOGUE_ACTIVATION)
        x.activation = (trp_activation)f->which;
    else if (f->kind == TRP_EPILOGUE_UNARY)
        x.unary = (trp_unary)f->which;
    else if (f->kind == TRP_EPILOGUE_BINARY)
        x.binary = (trp_binary)f->which;
    else if (f->kind == TRP_EPILOGUE_CONVERT)
        x.type = (trp_dtype)f->which;
    return add(p, at, x);
}

static uint32_t constant(parser *p, size_t at, double value)
{
    return add(p, at, (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .value = trp_real(value)});
}

static uint32_t read_plain(parser *p)
{
    char name[EPILOGUE_NAME_MAX];
    double number;
    char c = peek(p);
    size_t at = p->at;
    if (c == '-') {
        p->at++;
        peek(p);
        if (read_number(p, &number))
            return constant(p, at, -number);
        if (p->failed)
            return 0;
        return add(p, at,
                   (trp_epilogue_node){.kind = TRP_EPILOGUE_UNARY, .input = {read_factor(p)}});
    }
    if (c == '(') {
        p->at++;
        uint32_t inner = read_sum(p);
        return !p->failed && expect(p, ')') ? inner : 0;
    }
    if (read_number(p, &number))
        return constant(p, at, number);
    if (p->failed || !read_name(p, name))
        return fail_at(p, at, "expected a value, got %s", here(p).text);
    if (peek(p) == '(') {
        p->at++;
        return read_call(p, at, name);
    }
    if (strcmp(name, "acc") == 0)
        return plain_node(p, at, TRP_EPILOGUE_ACCUMULATOR);
    if (strcmp(name, "c") == 0)
        return plain_node(p, at, TRP_EPILOGUE_C);
    if (epilogue_reserved(name))
        return fail_at(p, at, "expected a value, got the word '%s'", name);
    return read_operand(p, at, name);
}

/* Reads a factor; nested parentheses and signs make it recursive. */
static uint32_t read_factor(parser *p)
{
    if (p->failed)
        return 0;
    if (p->depth == EPILOGUE_DEPTH_MAX)
        return fail_at(p, p->at, "expected at most %d nested parentheses and signs",
                       EPILOGUE_DEPTH_MAX);
    p->depth++;
    uint32_t node = read_plain(p);
    p->depth--;
    return node;
}

static uint32_t add_binary(parser *p, size_t at, trp_binary which, uint32_t left, uint32_t right)
{
    return add(
        p, at,
        (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .binary = which, .input = {left, right}});
}

static uint32_t read_product(parser *p)
{
    uint32_t left = read_factor(p);
    for (char c = peek(p); !p->failed && (c == '*' || c == '/'); c = peek(p)) {
        size_t at = p->at++;
        left = add_binary(p, at, c == '*' ? TRP_BINARY_MUL : TRP_BINARY_DIV, left, read_factor(p));
    }
    return left;
}

static uint32_t read_sum(parser *p)
{
    uint32_t left = read_product(p);
    for (char c = peek(p); !p->failed && (c == '+' || c == '-'); c = peek(p)) {
        size_t at = p->at++;
        left = add_binary(p, at, c == '+' ? TRP_BINARY_ADD : TRP_BINARY_SUB, left, read_product(p));
    }
    return left;
}

/* Statements. */

/* Reads name[...] = ...: a store or a reduction. */
static void read_output(parser *p, size_t at, const char *name, trp_epilogue_kind index)
{
    trp_epilogue_node x = {.kind = TRP_EPILOGUE_AUX_STORE};
    char word[EPILOGUE_NAME_MAX];
    bool matrix = index == TRP_EPILOGUE_AUX_LOAD;
    if (!read_suffixes(p, matrix, &x.type, &x.order) || !expect(p, '='))
        return;
    if (operand_named(p->out, name) || value_named(p, name) || epilogue_reserved(name)) {
        fail_at(p, at, "expected another name: %s is taken", name);
        return;
    }
    if (matrix) {
        x.input[0] = read_sum(p);
    } else {
        peek(p);
        size_t word_at = p->at;
        size_t which = 0;
        if (!read_name(p, word))
            word[0] = '\0';
        while (which < EPILOGUE_REDUCTIONS && strcmp(epilogue_reductions[which], word) != 0)
            which++;
        if (which == EPILOGUE_REDUCTIONS || !take(p, '(')) {
            fail_at(p, word_at, "expected sum, max, min or amax of a value");
            return;
        }
        x.kind = index == TRP_EPILOGUE_PER_ROW      ? TRP_EPILOGUE_REDUCE_ROWS
                 : index == TRP_EPILOGUE_PER_COLUMN ? TRP_EPILOGUE_REDUCE_COLUMNS
                                                    : TRP_EPILOGUE_REDUCE_ALL;
        x.reduction = (trp_reduction)which;
        x.input[0] = read_sum(p);
        if (p->failed || !expect(p, ')'))
            return;
    }
    uint32_t node = add(p, at, x);
    if (node)
        memcpy(p->out->name[node], name, strlen(name) + 1);
}

static void read_value(parser *p, size_t at, const char *name)
{
    if (epilogue_reserved(name) || operand_named(p->out, name) || value_named(p, name)) {
        fail_at(p, at, "expected another name: %s is taken", name);
        return;
    }
    uint32_t node = read_sum(p);
    if (p->failed)
        return;
    if (p->values == COUNT_OF(p->value)) {
        fail_at(p, at, "expected at most %d named values", (int)COUNT_OF(p->value));
        return;
    }
    value_name *v = &p->value[p->values++];
    memcpy(v->text, name, strlen(name) + 1);
    v->node = node;
    v->at = at;
}

/* Tells whether a statement follows, rather than the sum that is D; does not advance. */
static bool is_statement(parser *p, char name[EPILOGUE_NAME_MAX], trp_epilogue_kind *index,
                         bool *has_index, size_t *behind)
{
    parser ahead = *p;
    trp_dtype type;
    trp_order order;
    bool empty;
    ahead.error_size = 0;
    if (!read_name(&ahead, name))
        return false;
    *has_index = peek(&ahead) == '[';
    *index = read_index(&ahead, &empty);
    *behind = ahead.at;
    if (*index == TRP_EPILOGUE_NONE ||
        !read_suffixes(&ahead, *index == TRP_EPILOGUE_AUX_LOAD, &type, &order))
        return false;
    return peek(&ahead) == '=';
}

static void read_statements(parser *p, uint32_t *root)
{
    char name[EPILOGUE_NAME_MAX];
    trp_epilogue_kind index;
    bool has_index;
    size_t behind;
    while (!p->failed) {
        peek(p);
        size_t at = p->at;
        if (!is_statement(p, name, &index, &has_index, &behind)) {
            *root = read_sum(p);
            take(p, ';');
            if (!p->failed && peek(p) != '\0')
                fail_at(p, p->at, "expected an operator or the end, got %s", here(p).text);
            return;
        }
        p->at = behind;
        if (has_index)
            read_output(p, at, name, index);
        else if (expect(p, '='))
            read_value(p, at, name);
        if (!p->failed)
            expect(p, ';');
    }
}

bool epilogue_parse(const char *text, epilogue *out, char *error, size_t error_size)
{
    parser p = {.text = text, .out = out, .error = error, .error_size = error_size};
    uint32_t root = 0;
    memset(out, 0, sizeof *out);
    out->count = 1;
    if (strnlen(text, EPILOGUE_TEXT_MAX + 1) > EPILOGUE_TEXT_MAX) {
        fail_at(&p, EPILOGUE_TEXT_MAX, "expected at most %d characters", EPILOGUE_TEXT_MAX);
        return false;
    }
    read_statements(&p, &root);
    for (uint32_t i = 0; i < p.values && !p.failed; i++) {
        if (!p.value[i].used)
            fail_at(&p, p.value[i].at, "expected %s to be used, or left out", p.value[i].text);
    }
    if (!p.failed && root != out->count - 1)
        add(&p, p.at, (trp_epilogue_node){.kind = TRP_EPILOGUE_D, .input = {root}});
    return !p.failed;
}

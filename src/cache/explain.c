/* Explains a cache miss: how a key differs from the most similar one in the store. */
#include "base/text.h"
#include "cache/inspect.h"
#include "cache/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes shown of a field, and lines shown of fields that are new or gone. */
enum { SHOWN = 100, LINES = 8 };

/* How fields with a tag are compared, and the weight of one difference. */
typedef enum manner { ONE, TEXT, LIST, NAMED } manner;

static const struct {
    uint32_t tag;
    manner manner;
    uint64_t weight;
} rules[] = {
    {TRP__KEY_FORMAT, ONE, 10},   {TRP__KEY_KIND, ONE, 1000},     {TRP__KEY_NAME, ONE, 1000},
    {TRP__KEY_COMPILER, ONE, 10}, {TRP__KEY_TARGET, ONE, 10},     {TRP__KEY_OUTPUT, ONE, 10},
    {TRP__KEY_OPTION, LIST, 4},   {TRP__KEY_EXPRESSION, LIST, 4}, {TRP__KEY_INPUT, LIST, 4},
    {TRP__KEY_SETTING, LIST, 4},  {TRP__KEY_SOURCE, TEXT, 50},    {TRP__KEY_HEADER, NAMED, 1},
};

enum { RULES = sizeof rules / sizeof *rules };

typedef struct fields {
    trp__key_field *field;
    size_t count;
} fields;

static fields collect(const void *key, size_t bytes, uint32_t tag)
{
    fields f = {0};
    size_t room = 0;
    trp__key_field one;
    for (size_t at = 0; trp__key_next(key, bytes, &at, &one);)
        room += one.tag == tag;
    f.field = calloc(room + 1, sizeof *f.field);
    for (size_t at = 0; f.field && trp__key_next(key, bytes, &at, &one);) {
        if (one.tag == tag)
            f.field[f.count++] = one;
    }
    return f;
}

static int by_content(const void *left, const void *right)
{
    const trp__key_field *a = left, *b = right;
    size_t bytes = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = bytes ? memcmp(a->content, b->content, bytes) : 0;
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static bool equal(const trp__key_field *a, const trp__key_field *b)
{
    return a->bytes == b->bytes && by_content(a, b) == 0;
}

static bool same_order(const fields *a, const fields *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = equal(&a->field[i], &b->field[i]);
    return same;
}

/* A field's content as printable text, truncated. */
typedef struct shown {
    char s[SHOWN + 8];
} shown;

static shown show_bytes(const unsigned char *content, size_t bytes)
{
    shown text;
    size_t some = bytes < SHOWN ? bytes : SHOWN;
    memcpy(text.s, content, some);
    for (size_t i = 0; i < some; i++)
        text.s[i] = text.s[i] ? text.s[i] : '?';
    text.s[some] = '\0';
    trp__text_clean(text.s);
    if (some < bytes) {
        size_t end = strlen(text.s);
        snprintf(text.s + end, sizeof text.s - end, "...");
    }
    return text;
}

/* Shows text as it is, and other content by its hash. */
static shown show_content(const trp__key_field *f)
{
    shown text;
    bool is_text = true;
    for (size_t i = 0; is_text && i < f->bytes; i++)
        is_text = f->content[i] >= 0x20 || f->content[i] == '\n' || f->content[i] == '\t';
    if (is_text)
        return show_bytes(f->content, f->bytes);
    char hash[TRP__HASH_TEXT];
    trp__hash whole = trp__hash_of(f->content, f->bytes);
    trp__hash_text(&whole, hash);
    snprintf(text.s, sizeof text.s, "%zu bytes, %.12s", f->bytes, hash);
    return text;
}

/* Shows a header by its name and a format by its number. */
static shown show(const trp__key_field *f)
{
    shown text;
    if (f->tag == TRP__KEY_HEADER && f->bytes > TRP__HASH_BYTES)
        return show_bytes(f->content, f->bytes - TRP__HASH_BYTES - 1);
    if (f->tag != TRP__KEY_FORMAT)
        return show_content(f);
    snprintf(text.s, sizeof text.s, "%u", f->bytes ? f->content[0] : 0);
    return text;
}

/* Fields of one key that the other lacks, found by merging both in sorted order. */
typedef struct difference {
    trp__key_field *only[2]; /* of the first, of the second */
    size_t count[2];
} difference;

static void subtract(fields *a, fields *b, difference *d)
{
    size_t i = 0, j = 0;
    *d = (difference){.only = {a->field, b->field}}; /* in place: the remaining fields move down */
    qsort(a->field, a->count, sizeof *a->field, by_content);
    qsort(b->field, b->count, sizeof *b->field, by_content);
    while (i < a->count || j < b->count) {
        int order = i == a->count ? 1 : j == b->count ? -1 : by_content(&a->field[i], &b->field[j]);
        if (order == 0)
            i++, j++;
        else if (order < 0)
            d->only[0][d->count[0]++] = a->field[i++];
        else
            d->only[1][d->count[1]++] = b->field[j++];
    }
}

static void write_one(trp__text *out, const char *name, const fields *a, const fields *b)
{
    trp__text_add(out, "%s: %s, not %s\n", name, a->count ? show(a->field).s : "none",
                  b->count ? show(b->field).s : "none");
}

/* Shows the first line in which two texts differ. */
static void write_text(trp__text *out, const char *name, const fields *a, const fields *b)
{
    if (a->count == 0 || b->count == 0) {
        trp__text_add(out, "%s: %s\n", name, a->count ? "there was none" : "there is none");
        return;
    }
    const trp__key_field *x = a->field, *y = b->field;
    size_t line = 1, begin = 0, at = 0;
    for (; at < x->bytes && at < y->bytes && x->content[at] == y->content[at]; at++) {
        if (x->content[at] == '\n') {
            line++;
            begin = at + 1;
        }
    }
    size_t ends[2] = {begin, begin};
    while (ends[0] < x->bytes && x->content[ends[0]] != '\n')
        ends[0]++;
    while (ends[1] < y->bytes && y->content[ends[1]] != '\n')
        ends[1]++;
    trp__text_add(out, "%s: another text from line %zu on: '%s', not '%s'\n", name, line,
                  show_bytes(x->content + begin, ends[0] - begin).s,
                  show_bytes(y->content + begin, ends[1] - begin).s);
}

static void write_list(trp__text *out, const char *name, const difference *d)
{
    static const char *const what[] = {"is new", "is gone"};
    if (d->count[0] == 0 && d->count[1] == 0) {
        trp__text_add(out, "%ss: the same in another order\n", name);
        return;
    }
    if (d->count[0] == 1 && d->count[1] == 1) {
        trp__text_add(out, "%s: %s, not %s\n", name, show(d->only[0]).s, show(d->only[1]).s);
        return;
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < d->count[side] && i < LINES; i++)
            trp__text_add(out, "%s: %s %s\n", name, show(&d->only[side][i]).s, what[side]);
        if (d->count[side] > LINES)
            trp__text_add(out, "%s: %zu more: %s\n", name, d->count[side] - LINES, what[side]);
    }
}

static bool same_name(const trp__key_field *a, const trp__key_field *b)
{
    return a->bytes == b->bytes && a->bytes > TRP__HASH_BYTES &&
           memcmp(a->content, b->content, a->bytes - TRP__HASH_BYTES) == 0;
}

/* Compares headers. Both sides are sorted, so a merge meets equal names together. */
static void write_headers(trp__text *out, const char *name, const difference *d)
{
    size_t i = 0, j = 0, lines = 0, more = 0;
    if (d->count[0] == 0 && d->count[1] == 0)
        trp__text_add(out, "%ss: the same in another order\n", name);
    while (i < d->count[0] || j < d->count[1]) {
        const trp__key_field *a = d->only[0] + i, *b = d->only[1] + j;
        int order = 0;
        if (i == d->count[0] || j == d->count[1])
            order = i < d->count[0] ? -1 : 1;
        else if (!same_name(a, b))
            order = by_content(a, b);
        const char *what = order == 0  ? "another content"
                           : order < 0 ? "read now only"
                                       : "not read now";
        if (lines++ < LINES)
            trp__text_add(out, "%s: %s: %s\n", name, show(order <= 0 ? a : b).s, what);
        else
            more++;
        i += order <= 0;
        j += order >= 0;
    }
    if (more > 0)
        trp__text_add(out, "%ss: %zu more differ\n", name, more);
}

/* Compares the fields of one rule: writes the differences to `out`, which may be NULL, and returns
 * their weight. */
static uint64_t compare(size_t rule, const void *key, size_t key_bytes, const void *other,
                        size_t other_bytes, trp__text *out)
{
    const char *name = trp__key_tag_text(rules[rule].tag);
    fields a = collect(key, key_bytes, rules[rule].tag);
    fields b = collect(other, other_bytes, rules[rule].tag);
    uint64_t weight = 0;
    if (a.field && b.field && !same_order(&a, &b)) {
        difference d;
        trp__text nowhere = {0};
        trp__text *to = out ? out : &nowhere;
        weight = rules[rule].weight;
        if (rules[rule].manner == ONE) {
            write_one(to, name, &a, &b);
        } else if (rules[rule].manner == TEXT) {
            write_text(to, name, &a, &b);
        } else {
            subtract(&a, &b, &d);
            weight *= 1 + d.count[0] + d.count[1];
            if (rules[rule].manner == LIST)
                write_list(to, name, &d);
            else
                write_headers(to, name, &d);
        }
    }
    free(a.field);
    free(b.field);
    return weight;
}

uint64_t trp__key_distance(const void *key, size_t key_bytes, const void *other, size_t other_bytes,
                           bool headers)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < RULES; i++) {
        if (headers || rules[i].tag != TRP__KEY_HEADER)
            sum += compare(i, key, key_bytes, other, other_bytes, NULL);
    }
    return sum;
}

size_t trp__key_differences(const void *key, size_t key_bytes, const void *other,
                            size_t other_bytes, bool headers, char *text, size_t size)
{
    trp__text out = {.out = text, .size = size};
    if (size > 0)
        text[0] = '\0';
    for (size_t i = 0; i < RULES; i++) {
        if (headers || rules[i].tag != TRP__KEY_HEADER)
            compare(i, key, key_bytes, other, other_bytes, &out);
    }
    return out.length;
}

/* The entry most similar to a key, with a copy of that entry's key. */
typedef struct nearest {
    const trp__key *key;
    uint64_t subject;
    bool headers;
    uint64_t distance; /* UINT64_MAX: none yet */
    unsigned char *other;
    size_t other_bytes;
} nearest;

static bool see(void *context, const trp__inspected *one)
{
    nearest *n = context;
    const trp__entry *e = &one->entry;
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD || e->subject != n->subject)
        return true;
    uint64_t distance =
        trp__key_distance(n->key->bytes, n->key->length, e->key, e->key_bytes, n->headers);
    if (distance >= n->distance)
        return true;
    unsigned char *copy = malloc(e->key_bytes);
    if (copy) {
        memcpy(copy, e->key, e->key_bytes);
        free(n->other);
        n->other = copy;
        n->other_bytes = e->key_bytes;
        n->distance = distance;
    }
    return distance > 0;
}

size_t trp__store_explain(trp__store *store, const trp__key *key, const trp__store_header *headers,
                          size_t header_count, char *text, size_t size)
{
    trp__key full;
    trp__text out = {.out = text, .size = size};
    trp__key_copy(key, &full);
    for (size_t i = 0; headers && i < header_count; i++)
        trp__key_add_header(&full, headers[i].name, &headers[i].content);
    nearest n = {.key = &full,
                 .subject = trp__key_subject(full.bytes, full.length),
                 .headers = headers != NULL,
                 .distance = UINT64_MAX};
    if (size > 0)
        text[0] = '\0';
    if (full.status == TRP_OK)
        trp__inspect_all(store, false, see, &n, NULL);
    size_t length = 0;
    if (!n.other)
        trp__text_add(&out, "there is no entry of this kind and name\n");
    else if (n.distance == 0 && !headers)
        trp__text_add(&out, "only headers can differ from an entry that is there\n");
    else if (n.distance == 0)
        trp__text_add(&out, "there is such an entry\n");
    else
        length = trp__key_differences(full.bytes, full.length, n.other, n.other_bytes, n.headers,
                                      text, size);
    free(n.other);
    trp__key_end(&full);
    return length ? length : out.length;
}

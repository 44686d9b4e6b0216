#include "base/text.h"

#include <stdint.h>
#include <stdio.h>

/* Returns the length of the character at p if it is well-formed UTF-8 (RFC 3629), else 0. */
static size_t character_length(const unsigned char *p, uint32_t *code)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; more < sizeof forms / sizeof *forms; more++) {
        if ((p[0] & forms[more].mask) != forms[more].lead)
            continue;
        *code = p[0] & (unsigned char)~forms[more].mask;
        for (size_t i = 1; i <= more; i++) {
            if ((p[i] & 0xc0) != 0x80)
                return 0; /* also the end of the string */
            *code = *code << 6 | (p[i] & 0x3f);
        }
        if (*code < forms[more].least || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
            return 0;
        return more + 1;
    }
    return 0;
}

void trp__text_clean(char *text)
{
    unsigned char *to = (unsigned char *)text;
    const unsigned char *from = to;
    while (*from) {
        uint32_t code = 0;
        size_t length = character_length(from, &code);
        if (length == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0)) {
            from += length ? length : 1;
            *to++ = '?';
            continue;
        }
        while (length-- > 0)
            *to++ = *from++;
    }
    *to = '\0';
}

void trp__text_add_list(trp__text *text, const char *format, va_list args)
{
    size_t room = text->length < text->size ? text->size - text->length : 0;
    int length = vsnprintf(room ? text->out + text->length : NULL, room, format, args);
    text->length += length > 0 ? (size_t)length : 0;
}

void trp__text_add(trp__text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    trp__text_add_list(text, format, args);
    va_end(args);
}

void trp__text_add_quoted(trp__text *text, const char *string)
{
    for (const char *p = string; *p; p++)
        trp__text_add(text, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
}

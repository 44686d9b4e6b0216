/* Text of messages about files and their content. */
#include "base/text.h"

#include "base/os/limits.h"
#include "io/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SHOWN = 96 }; /* bytes of a path in a message, taken from its end */

trp__io_quoted trp__io_quote(const void *bytes, size_t length)
{
    static const char ellipsis[] = "...", digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    trp__io_quoted q;
    size_t at = 0;
    for (size_t i = 0; i < length; i++) {
        if (at + 4 + sizeof ellipsis > sizeof q.text) {
            memcpy(q.text + at, ellipsis, sizeof ellipsis - 1);
            at += sizeof ellipsis - 1;
            break;
        }
        if (from[i] >= 0x20 && from[i] < 0x7f) {
            q.text[at++] = (char)from[i];
        } else {
            q.text[at++] = '\\';
            q.text[at++] = 'x';
            q.text[at++] = digits[from[i] >> 4];
            q.text[at++] = digits[from[i] & 15];
        }
    }
    q.text[at] = '\0';
    return q;
}

trp__io_quoted trp__io_quote_name(const char *name)
{
    return trp__io_quote(name, strlen(name));
}

size_t trp__io_utf8_length(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    const size_t length = c[0] < 0x80                   ? 1
                          : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                          : (c[0] & 0xf0) == 0xe0       ? 3
                          : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                                        : 0;
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    }
    const bool wrong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) ||
                       (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90);
    return wrong ? 0 : length;
}

bool trp__io_is_utf8(const char *text)
{
    while (*text) {
        const size_t length = trp__io_utf8_length(text);
        if (length == 0)
            return false;
        text += length;
    }
    return true;
}

trp_status trp__io_prefix(trp_error *error, const char *path)
{
    char message[sizeof error->message];
    trp__text text = {.out = message, .size = sizeof message};
    const size_t length = strlen(path);
    const bool cut = length > PATH_SHOWN;
    trp__text_add(&text, "%s%s: %s", cut ? "..." : "", path + (cut ? length - PATH_SHOWN : 0),
                  error->message);
    trp__text_clean(message);
    memcpy(error->message, message, sizeof message);
    return error->status;
}

trp_status trp__io_errno(trp_error *error, const char *doing)
{
    const int code = errno;
    char limits[96];
    const trp_status status = code == ENOENT   ? TRP_E_MISSING
                              : code == ENOMEM ? TRP_E_MEMORY
                                               : TRP_E_SYSTEM;
    return trp__error_set_code(error, status, "errno", code, "%s%s%s%s", doing ? doing : "",
                               doing ? ": " : "", strerror(code),
                               trp__limits_text(code, limits, sizeof limits));
}

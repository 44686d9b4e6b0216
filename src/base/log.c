#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void trp__log_line(const trp__log *log, int level, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (log && log->sink) {
        log->sink(log->user_data, level, line);
        return;
    }
    const char *wish = secure_getenv("TROUPE_LOG");
    if (wish && strcmp(wish, "off") == 0)
        return;
    if (level == TRP__LOG_INFO && !(wish && strcmp(wish, "info") == 0))
        return;
    fprintf(stderr, "troupe: %s\n", line);
}

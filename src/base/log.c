#include "base/log.h"

#include "base/call.h"
#include "base/os/limits.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trp__log diverted;

void trp__log_divert(void (*sink)(void *user_data, int level, const char *line), void *user_data)
{
    pthread_mutex_lock(&lock);
    if (!diverted.sink)
        diverted = (trp__log){.sink = sink, .user_data = user_data};
    pthread_mutex_unlock(&lock);
}

void trp__log_divert_end(const void *user_data)
{
    pthread_mutex_lock(&lock);
    if (diverted.user_data == user_data)
        diverted = (trp__log){0};
    pthread_mutex_unlock(&lock);
}

/* Calls the sink under the lock, so never after the end of the diversion. */
static bool divert(int level, const char *line)
{
    pthread_mutex_lock(&lock);
    const bool done = diverted.sink != NULL;
    if (done)
        diverted.sink(diverted.user_data, level, line);
    pthread_mutex_unlock(&lock);
    return done;
}

bool trp__log_shows(int level)
{
    const char *setting = secure_getenv("TROUPE_LOG");
    if (setting && strcmp(setting, "off") == 0)
        return false;
    return level != TRP__LOG_INFO || (setting && strcmp(setting, "info") == 0);
}

void trp__log_line(const trp__log *log, int level, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    trp__call_shield();
    if (log && log->sink) {
        log->sink(log->user_data, level, line);
        return;
    }
    if ((!log && divert(level, line)) || !trp__log_shows(level))
        return;
    trp__writing writing = trp__writing_begin();
    int written = fprintf(stderr, "troupe: %s\n", line);
    trp__writing_end(&writing, written < 0 ? errno : 0);
}

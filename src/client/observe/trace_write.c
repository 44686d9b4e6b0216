/* Writes a trace as JSON for Perfetto and Chrome ("Trace Event Format"). Times in it are
 * microseconds of CLOCK_MONOTONIC. */
#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/os/limits.h"
#include "base/os/poll.h"
#include "base/text.h"
#include "client/observe/trace.h"

#include <troupe/version.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_stream(const void *a, const void *b)
{
    const trp__trace_event *x = a, *y = b;
    if (x->incarnation != y->incarnation)
        return x->incarnation < y->incarnation ? -1 : 1;
    if (x->actor != y->actor)
        return x->actor < y->actor ? -1 : 1;
    return x->ticket < y->ticket ? -1 : x->ticket > y->ticket;
}

static bool same_stream(const trp__trace_event *a, const trp__trace_event *b)
{
    return a->incarnation == b->incarnation && a->actor == b->actor;
}

static int64_t within(int64_t time, int64_t from, int64_t to)
{
    return time < from ? from : time > to ? to : time;
}

/* Bounds the worker's times: each lies between the one before and now. */
static void bound_times(trp__trace_event *e, int64_t now)
{
    if (e->issued)
        e->issued = within(e->issued, e->sent, now);
    e->done = within(e->done, e->issued ? e->issued : e->sent, now);
}

/* Work of one stream ends in order: a request can't end after its successor was seen to end. */
static void mend_ends(trp__trace_event *event, uint64_t count)
{
    for (uint64_t i = count; i-- > 1;) {
        const trp__trace_event *after = &event[i];
        trp__trace_event *e = &event[i - 1];
        int64_t earliest = e->issued ? e->issued : e->sent;
        if (same_stream(e, after) && after->by_timeline && e->by_timeline && e->done > after->done)
            e->done = after->done > earliest ? after->done : earliest;
    }
}

static void put_time(FILE *file, const char *key, int64_t ns)
{
    fprintf(file, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* A string with its quotes. `size` is that of the array. */
static void put_string(FILE *file, const char *string, size_t size)
{
    char clean[256];
    char quoted[2 * sizeof clean];
    trp__text text = {.out = quoted, .size = sizeof quoted};
    trp__copy_string(clean, size < sizeof clean ? size : sizeof clean, string);
    trp__text_clean(clean);
    quoted[0] = '\0';
    trp__text_add_quoted(&text, clean);
    fprintf(file, "\"%s\"", quoted);
}

static void put_head(FILE *file, const trp__trace_content *c)
{
    const trp_device *d = c->device;
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"troupe\":\"" TRP_VERSION_STRING
          "\",\"clock\":\"CLOCK_MONOTONIC\",\"device\":",
          file);
    put_string(file, d->identity.name, sizeof d->identity.name);
    fprintf(file, ",\"requests\":%" PRIu64 ",\"dropped\":%" PRIu64 "},\n\"traceEvents\":[",
            c->count, c->dropped);
    /* A first event, so that all others begin with a comma. */
    fprintf(file,
            "\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":"
            "\"application, device %s %u\"}}",
            trp_backend_name(d->backend), d->options.ordinal);
}

static void put_process(FILE *file, const trp__trace_content *c, uint32_t incarnation)
{
    fprintf(file,
            ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":"
            "\"worker %u of %s %u\"}}",
            incarnation, incarnation, trp_backend_name(c->device->backend),
            c->device->options.ordinal);
}

static void put_thread(FILE *file, const trp__trace_event *e)
{
    fprintf(file,
            ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":",
            e->incarnation, e->actor + 1U);
    put_string(file, e->name, sizeof e->name);
    fputs("}}", file);
}

static void put_begin(FILE *file, const trp__trace_event *e, const char *phase,
                      const char *category)
{
    fprintf(file, ",\n{\"ph\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"name\":", phase,
            category, e->incarnation, e->actor + 1U);
    put_string(file, e->op, sizeof e->op);
}

static void put_arguments(FILE *file, const trp__trace_event *e)
{
    fprintf(file, ",\"args\":{\"ticket\":%" PRIu64 ",\"actor\":", e->ticket);
    put_string(file, e->name, sizeof e->name);
    if (e->label) {
        fputs(",\"label\":", file);
        put_string(file, e->label, TRP_LABEL_MAX + 1);
    }
    fprintf(file, ",\"stream\":%u,\"incarnation\":%u,\"attempt\":%u,\"status\":\"%s\"}", e->actor,
            e->incarnation, e->attempt,
            e->interrupted ? "interrupted" : trp_status_name(e->status));
}

/* Many requests of an actor are queued at a time, so these are pairs of asynchronous events, each
 * shown on a line of its own. */
static void put_queued(FILE *file, const trp__trace_event *e)
{
    uint64_t id = e->ticket << 2 | (e->attempt & 3);
    put_begin(file, e, "b", "queued");
    fprintf(file, ",\"id\":\"0x%" PRIx64 "\"", id);
    put_time(file, "ts", e->sent);
    put_arguments(file, e);
    fputs("}", file);
    put_begin(file, e, "e", "queued");
    fprintf(file, ",\"id\":\"0x%" PRIx64 "\"", id);
    put_time(file, "ts", e->issued ? e->issued : e->done);
    fputs("}", file);
}

static void put_running(FILE *file, const trp__trace_event *e, int64_t start)
{
    put_begin(file, e, "X", "running");
    put_time(file, "ts", start);
    put_time(file, "dur", e->done - start);
    put_arguments(file, e);
    fputs("}", file);
}

static void put_mark(FILE *file, const trp__trace_mark *m)
{
    fprintf(file, ",\n{\"ph\":\"i\",\"s\":\"g\",\"cat\":\"device\",\"pid\":%u,\"tid\":0,\"name\":",
            m->incarnation);
    put_string(file, m->name, sizeof m->name);
    put_time(file, "ts", m->time);
    fputs(",\"args\":{\"text\":", file);
    put_string(file, m->text, sizeof m->text);
    fputs("}}", file);
}

/* State of a stream's events. Requests that share a timeline write end together and begin after the
 * last earlier end: they are nested. */
typedef struct stream_state {
    int64_t end, before; /* the last end, and the last one before that time */
} stream_state;

static int64_t running_since(stream_state *s, const trp__trace_event *e)
{
    if (e->done > s->end) {
        s->before = s->end;
        s->end = e->done;
    }
    int64_t start = e->issued > s->before ? e->issued : s->before;
    return start < e->done ? start : e->done;
}

static void put_events(FILE *file, const trp__trace_content *c)
{
    stream_state stream = {0};
    for (uint64_t i = 0; i < c->count; i++) {
        const trp__trace_event *e = &c->event[i];
        if (i == 0 || e->incarnation != c->event[i - 1].incarnation)
            put_process(file, c, e->incarnation);
        if (i == 0 || !same_stream(e, &c->event[i - 1])) {
            stream = (stream_state){0};
            put_thread(file, e);
        }
        if (e->sent)
            put_queued(file, e);
        if (e->issued)
            put_running(file, e, running_since(&stream, e));
    }
}

/* Drops places without an event, which have no ticket. */
static uint64_t pack(trp__trace_event *event, uint64_t count, int64_t now)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (event[i].ticket == 0)
            continue;
        bound_times(&event[i], now);
        event[kept++] = event[i];
    }
    return kept;
}

/* The file is opened non-blocking: a FIFO without a reader is an error, and one that is not read
 * from for so long. */
#define UNREAD_NS (10 * TRP__SECOND)

typedef struct output {
    int fd;
    int code; /* errno of the first error; nothing is written after it */
} output;

static ssize_t put_bytes(void *cookie, const char *bytes, size_t count)
{
    output *o = cookie;
    for (size_t done = 0; done < count && o->code == 0;) {
        trp__writing writing = trp__writing_begin();
        ssize_t some = write(o->fd, bytes + done, count - done);
        int code = some < 0 ? errno : 0;
        trp__writing_end(&writing, code);
        struct pollfd room = {.fd = o->fd, .events = POLLOUT};
        if (code == EAGAIN && trp__poll(&room, 1, UNREAD_NS) == 0)
            o->code = ETIMEDOUT;
        else if (code != 0 && code != EAGAIN && code != EINTR)
            o->code = code;
        done += some > 0 ? (size_t)some : 0;
    }
    return o->code == 0 ? (ssize_t)count : 0;
}

static int close_bytes(void *cookie)
{
    output *o = cookie;
    if (close(o->fd) != 0 && o->code == 0)
        o->code = errno;
    return o->code == 0 ? 0 : -1;
}

static FILE *open_file(const char *path, output *o)
{
    o->fd = trp__descriptor_apart(
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
    if (o->fd < 0)
        return NULL;
    FILE *file =
        fopencookie(o, "w", (cookie_io_functions_t){.write = put_bytes, .close = close_bytes});
    if (!file)
        close(o->fd);
    return file;
}

static trp_status not_written(const char *path, int code, trp_error *error)
{
    char limits[96];
    return trp__error_set_code(error, TRP_E_SYSTEM, "errno", code, "path: %s: %s%s", path,
                               code == ENXIO ? "nobody reads this FIFO" : strerror(code),
                               trp__limits_text(code, limits, sizeof limits));
}

trp_status trp__trace_write_file(const trp__trace_content *content, const char *path,
                                 trp_error *error)
{
    trp__trace_content c = *content;
    output o = {0};
    FILE *file = open_file(path, &o);
    if (!file)
        return not_written(path, errno, error);
    c.count = pack(c.event, c.count, c.time);
    qsort(c.event, c.count, sizeof *c.event, by_stream);
    mend_ends(c.event, c.count);
    put_head(file, &c);
    put_events(file, &c);
    for (uint64_t i = 0; i < c.marks; i++)
        put_mark(file, &c.mark[i]);
    fputs("\n]}\n", file);
    (void)fclose(file); /* o.code has its error, too */
    return o.code == 0 ? TRP_OK : not_written(path, o.code, error);
}

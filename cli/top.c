/* troupe top: what the devices of another process are doing. */
#include "commands.h"

#include "options.h"
#include "run.h"
#include "ui.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MAX_DEVICES  64
#define REFRESH_MS   500
#define SCREEN_BYTES 65536

/* One look at the process. */
typedef struct sample {
    uint64_t time;
    size_t count;
    trp_device_stats device[MAX_DEVICES];
} sample;

/* A screenful of text; lines are cut to the width of the terminal when it is shown. */
typedef struct screen {
    char text[SCREEN_BYTES];
    size_t length;
} screen;

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static void __attribute__((format(printf, 2, 3))) put(screen *s, const char *format, ...)
{
    va_list args;
    size_t room = sizeof s->text - s->length;
    va_start(args, format);
    int length = vsnprintf(s->text + s->length, room, format, args);
    va_end(args);
    if (length > 0)
        s->length += (size_t)length < room ? (size_t)length : room - 1;
}

/* The text. */

static const char *state_name(trp_device_state state)
{
    switch (state) {
    case TRP_DEVICE_READY:
        return "ready";
    case TRP_DEVICE_RECOVERING:
        return "recovering";
    case TRP_DEVICE_DOWN:
        return "down";
    }
    return "unknown";
}

/* "1234", "12.3 k", "4.56 M": a rate in six columns. */
static ui_text short_number(double value)
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    size_t unit = 0;
    ui_text text;
    while (unit + 1 < sizeof units / sizeof *units && value >= 9999.5) {
        value /= 1000;
        unit++;
    }
    snprintf(text.s, sizeof text.s, "%.*f%s", unit > 0 && value < 99.95, value, units[unit]);
    return text;
}

static const trp_device_stats *earlier_device(const sample *earlier, const trp_device_stats *d)
{
    for (size_t i = 0; earlier && i < earlier->count; i++) {
        if (earlier->device[i].number == d->number)
            return &earlier->device[i];
    }
    return NULL;
}

/* Requests of an actor that were done since the last look, a second; negative if not known. */
static double rate(const sample *earlier, const sample *now, const trp_device_stats *d,
                   const trp_actor_stats *a)
{
    const trp_device_stats *before = earlier_device(earlier, d);
    for (uint32_t i = 0; before && i < before->actor_count; i++) {
        const trp_actor_stats *b = &before->actor[i];
        if (b->id == a->id && !strcmp(b->name, a->name) && a->done >= b->done &&
            now->time > earlier->time)
            return (double)(a->done - b->done) * 1e9 / (double)(now->time - earlier->time);
    }
    return -1;
}

static void put_actor(screen *s, const trp_actor_stats *a, double per_second)
{
    char running[64] = "";
    if (*a->running)
        snprintf(running, sizeof running, "%s #%" PRIu64, a->running, a->running_request);
    put(s, "  %-14s %-8s %7u %9u %8s %11" PRIu64 " %7" PRIu64 "  %s\n", a->name, a->kind, a->queued,
        a->in_flight, per_second < 0 ? "-" : short_number(per_second).s, a->done, a->failed,
        running);
}

static void put_worker(screen *s, const trp_device_info *info)
{
    put(s, "  worker %u", info->incarnation);
    if (info->worker_pid)
        put(s, " (pid %" PRId64 ")", info->worker_pid);
    else
        put(s, " (%s)",
            info->isolation == TRP_ISOLATION_THREAD ? "in a thread of the process" : "none");
    if (info->standby_pid)
        put(s, ", standby ready (pid %" PRId64 ")\n", info->standby_pid);
    else
        put(s, ", no standby\n");
}

static void put_device(screen *s, const sample *earlier, const sample *now,
                       const trp_device_stats *d)
{
    const trp_device_info *info = &d->info;
    put(s, "%s: %s\n", run_device_text(info).s, state_name(info->state));
    put_worker(s, info);
    put(s, "  requests: %" PRIu64 " sent, %" PRIu64 " failed; %s, %s, %s\n",
        info->requests_submitted, info->requests_failed, ui_plural(d->faults, "fault").s,
        ui_plural(info->restarts, "restart").s, ui_plural(d->promotions, "promotion").s);
    put(s, "  memory: %s in %s, %s reserved of %s\n\n", ui_bytes(info->memory_used).s,
        ui_plural(info->buffers, "buffer").s, ui_bytes(info->memory_reserved).s,
        ui_bytes(info->memory_total).s);
    put(s, "  %-14s %-8s %7s %9s %8s %11s %7s  %s\n", "ACTOR", "KIND", "QUEUED", "IN FLIGHT",
        "DONE/S", "DONE", "FAILED", "RUNNING");
    for (uint32_t i = 0; i < d->actor_count; i++)
        put_actor(s, &d->actor[i], rate(earlier, now, d, &d->actor[i]));
}

/* The process's name, without what a terminal might obey. */
static void read_name(int64_t pid, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/comm", pid);
    FILE *file = fopen(path, "re");
    out[0] = '\0';
    if (!file)
        return;
    if (!fgets(out, (int)size, file))
        out[0] = '\0';
    fclose(file);
    out[strcspn(out, "\n")] = '\0';
    for (char *p = out; *p; p++) {
        if (*p < ' ' || *p > '~')
            *p = '?';
    }
}

static void put_sample(screen *s, int64_t pid, const sample *earlier, const sample *now)
{
    char name[32];
    read_name(pid, name, sizeof name);
    s->length = 0;
    s->text[0] = '\0';
    put(s, "troupe top: process %" PRId64 " (%s), %s\n", pid, name,
        ui_plural(now->count, "device").s);
    for (size_t i = 0; i < now->count; i++) {
        put(s, "\n");
        put_device(s, earlier, now, &now->device[i]);
    }
}

/* Showing. */

/* Bytes of a line that fill `columns` columns; names hold UTF-8, whose further bytes take none. */
static size_t cut(const char *line, size_t length, size_t columns)
{
    size_t i = 0, used = 0;
    for (; i < length; i++) {
        used += ((unsigned char)line[i] & 0xc0) != 0x80;
        if (used > columns)
            break;
    }
    return i;
}

/* Over what is there, from the upper left corner, as much as the terminal holds right now. */
static void show_in_place(const screen *s)
{
    struct winsize size = {0};
    size_t rows = 24, columns = 80, row = 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        rows = size.ws_row;
        columns = size.ws_col;
    }
    fputs("\033[H", stdout);
    for (const char *line = s->text; *line && row + 1 < rows; row++) {
        size_t length = strcspn(line, "\n");
        fwrite(line, 1, cut(line, length, columns), stdout);
        fputs("\033[K\n", stdout);
        line += length + (line[length] == '\n');
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

/* JSON. */

/* A text of a record: what may not stand in JSON was replaced when it was read. */
static void print_string(const char *key, const char *value)
{
    printf("\"%s\":\"", key);
    for (const char *p = value; *p; p++) {
        if (*p == '"' || *p == '\\')
            putchar('\\');
        putchar(*p);
    }
    printf("\"");
}

static void print_actor(const trp_actor_stats *a)
{
    printf("{\"id\":%u,", a->id);
    print_string("name", a->name);
    printf(",");
    print_string("kind", a->kind);
    printf(",\"capacity\":%u,\"queued\":%u,\"in_flight\":%u,\"sent\":%" PRIu64 ",\"done\":%" PRIu64
           ",\"failed\":%" PRIu64 ",",
           a->capacity, a->queued, a->in_flight, a->sent, a->done, a->failed);
    print_string("running", a->running);
    printf(",\"running_request\":%" PRIu64 "}", a->running_request);
}

static void print_device(const trp_device_stats *d)
{
    const trp_device_info *i = &d->info;
    printf("{\"number\":%u,\"backend\":\"%s\",\"ordinal\":%u,", d->number,
           trp_backend_name(i->backend), i->ordinal);
    print_string("name", i->name);
    printf(",\"isolation\":\"%s\",\"state\":\"%s\",\"incarnation\":%u,\"worker_pid\":%" PRId64
           ",\"standby_pid\":%" PRId64 ",\"restarts\":%u,\"faults\":%" PRIu64
           ",\"promotions\":%" PRIu64,
           i->isolation == TRP_ISOLATION_THREAD ? "thread" : "process", state_name(i->state),
           i->incarnation, i->worker_pid, i->standby_pid, i->restarts, d->faults, d->promotions);
    printf(",\"memory_total\":%" PRIu64 ",\"memory_reserved\":%" PRIu64 ",\"memory_used\":%" PRIu64
           ",\"buffers\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"actors\":[",
           i->memory_total, i->memory_reserved, i->memory_used, i->buffers, i->requests_submitted,
           i->requests_failed);
    for (uint32_t k = 0; k < d->actor_count; k++) {
        printf("%s", k ? "," : "");
        print_actor(&d->actor[k]);
    }
    printf("]}");
}

static void print_json(int64_t pid, const sample *s)
{
    printf("{\"pid\":%" PRId64 ",\"devices\":[", pid);
    for (size_t i = 0; i < s->count; i++) {
        printf("%s", i ? "," : "");
        print_device(&s->device[i]);
    }
    printf("]}\n");
}

static bool print_metrics(const sample *s)
{
    size_t needed = 0;
    trp_stats_metrics(s->device, s->count, NULL, 0, &needed);
    char *text = malloc(needed);
    bool ok = text && run_check(trp_stats_metrics(s->device, s->count, text, needed, NULL),
                                "writing the metrics");
    if (ok)
        fputs(text, stdout);
    free(text);
    return ok;
}

/* The command. */

typedef struct top_choice {
    int64_t pid;
    bool once, json, prometheus;
} top_choice;

static trp_status take(trp_observer *observer, sample *s)
{
    trp_status status = trp_observer_read(observer, s->device, MAX_DEVICES, &s->count);
    s->time = ui_now();
    if (s->count > MAX_DEVICES)
        s->count = MAX_DEVICES;
    return status;
}

static int show_once(const top_choice *c, trp_observer *observer, sample *s, screen *page)
{
    if (!run_check(take(observer, s), "top"))
        return EXIT_FAILED;
    if (s->count == 0) {
        ui_error("top: process %" PRId64 " has no open Troupe device", c->pid);
        return EXIT_FAILED;
    }
    if (c->json) {
        print_json(c->pid, s);
    } else if (c->prometheus) {
        return print_metrics(s) ? EXIT_DONE : EXIT_FAILED;
    } else {
        put_sample(page, c->pid, NULL, s);
        fputs(page->text, stdout);
    }
    return EXIT_DONE;
}

/* Until the process ends, or somebody presses Ctrl-C. */
static int show_live(const top_choice *c, trp_observer *observer, sample samples[2], screen *page)
{
    const sample *earlier = NULL;
    /* What is being written then is written whole; the pause between two pictures ends all the
     * same.
     */
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    fputs("\033[2J", stdout);
    for (int i = 0; !interrupted; i = 1 - i) {
        sample *now = &samples[i];
        trp_status status = take(observer, now);
        if (status == TRP_E_MISSING) {
            printf("troupe: %s\n", trp_error_message());
            return EXIT_DONE;
        }
        if (!run_check(status, "top"))
            return EXIT_FAILED;
        put_sample(page, c->pid, earlier, now);
        show_in_place(page);
        earlier = now;
        poll(NULL, 0, REFRESH_MS);
    }
    printf("\n");
    return EXIT_DONE;
}

static int look(const top_choice *c)
{
    trp_observer *observer = NULL;
    sample *samples = calloc(2, sizeof *samples);
    screen *page = malloc(sizeof *page);
    int status = EXIT_FAILED;
    bool live = !c->once && !c->json && !c->prometheus && ui_is_terminal();
    if (!samples || !page)
        ui_error("top: no memory");
    else if (run_check(trp_observer_open(c->pid, &observer), "top"))
        status =
            live ? show_live(c, observer, samples, page) : show_once(c, observer, samples, page);
    trp_observer_close(observer);
    free(samples);
    free(page);
    return status;
}

int command_top(int argc, char **argv)
{
    top_choice c = {0};
    const option options[] = {
        {0, "once", NULL, "show it once, as plain text", OPTION_FLAG, &c.once, NULL},
        {0, "json", NULL, "the same as JSON", OPTION_FLAG, &c.json, NULL},
        {0, "prometheus", NULL, "the same as metrics in Prometheus's text format", OPTION_FLAG,
         &c.prometheus, NULL},
    };
    const struct command command = {
        .name = "top",
        .operands = "PID",
        .about =
            "Shows what the devices of a process are doing: actors, queues, what runs, memory,\n"
            "faults. It reads the process's shared memory; the process is not disturbed. On a\n"
            "terminal it is refreshed twice a second, until the process ends or Ctrl-C.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .operand_count = 1,
    };
    int exit_status;
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (!options_number(argv[1], &c.pid) || c.pid == 0 || c.pid > INT32_MAX)
        return options_reject(&command, "expected the number of a process, got '%s'", argv[1]);
    if (c.json && c.prometheus)
        return options_reject(&command, "--json and --prometheus contradict each other");
    return look(&c);
}

#include "top.h"

#include "data/run.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void __attribute__((format(printf, 2, 3))) put(top_screen *s, const char *format, ...)
{
    va_list args;
    size_t room = sizeof s->text - s->length;
    va_start(args, format);
    int length = vsnprintf(s->text + s->length, room, format, args);
    va_end(args);
    if (length > 0)
        s->length += (size_t)length < room ? (size_t)length : room - 1;
}

const char *top_state_name(trp_device_state state)
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

/* Figures. */

/* Formats a number in six columns: "1234", "12.3 k", "4.56 M". */
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

/* Returns requests per second; "-" if unknown. */
static ui_text rate(uint64_t before, uint64_t now, bool known, const top_sample *earlier,
                    const top_sample *sample)
{
    if (!known || sample->time <= earlier->time)
        return (ui_text){"-"};
    return short_number((double)(now - before) * 1e9 / (double)(sample->time - earlier->time));
}

static ui_text quantile(const trp_latency *now, const trp_latency *before, double q)
{
    const uint64_t ns = trp_latency_quantile(now, before, q);
    ui_text text = {"-"};
    if (ns >= UINT64_C(60000000000))
        snprintf(text.s, sizeof text.s, "%.0f s", (double)ns / 1e9);
    else if (ns)
        text = ui_duration(ns);
    return text;
}

/* Columns. */

enum { COLUMNS_MOST = 16, RUNNING_LEAST = 14, NAME_LEAST = 8 };

typedef struct column {
    const char *title;
    int width;    /* right-aligned; negative: left-aligned, 0: the rest of the line */
    int priority; /* a narrow terminal shows the lowest numbers first */
} column;

/* Chooses the columns that fit; column 0 is `first` wide. */
static void choose(const column *all, size_t count, size_t first, size_t columns,
                   bool shown[COLUMNS_MOST])
{
    size_t used = 2 + first;
    memset(shown, 0, COLUMNS_MOST * sizeof *shown);
    shown[0] = true;
    for (int priority = 1; priority < COLUMNS_MOST; priority++) {
        for (size_t i = 1; i < count; i++) {
            const size_t width = (size_t)(all[i].width < 0    ? -all[i].width
                                          : all[i].width == 0 ? RUNNING_LEAST
                                                              : all[i].width);
            const size_t gap = all[i].width == 0 ? 2 : 1;
            if (all[i].priority != priority || used + gap + width > columns)
                continue;
            shown[i] = true;
            used += gap + width;
        }
    }
}

/* Prints a line of cells. Names may contain UTF-8, so padding counts columns, not bytes. */
static void put_cells(top_screen *s, const column *all, size_t count, size_t first,
                      const bool *shown, const char *const *cell)
{
    put(s, " ");
    for (size_t i = 0; i < count; i++) {
        const int width = i == 0 ? -(int)first : all[i].width;
        if (!shown[i])
            continue;
        const size_t bytes = strlen(cell[i]);
        const size_t most = width < 0 ? (size_t)-width : width ? (size_t)width : TOP_ANY_WIDTH;
        const size_t cut = ui_cut(cell[i], bytes, most);
        size_t used = 0;
        for (size_t k = 0; k < cut; k++)
            used += ((unsigned char)cell[i][k] & 0xc0) != 0x80;
        const int pad = width ? (int)(most - used) : 0;
        put(s, "%s%*s%.*s%*s", width ? " " : "  ", width > 0 ? pad : 0, "", (int)cut, cell[i],
            width < 0 ? pad : 0, "");
    }
    put(s, "\n");
}

static void put_titles(top_screen *s, const column *all, size_t count, size_t first,
                       const bool *shown)
{
    const char *title[COLUMNS_MOST];
    for (size_t i = 0; i < count; i++)
        title[i] = all[i].title;
    put_cells(s, all, count, first, shown, title);
}

/* Returns the larger of a width and a name's width in columns. */
static size_t name_width(size_t width, const char *name)
{
    size_t used = 0;
    for (; *name; name++)
        used += ((unsigned char)*name & 0xc0) != 0x80;
    return used > width ? used : width;
}

/* One process. */

enum {
    A_NAME,
    A_KIND,
    A_QUEUED,
    A_FLIGHT,
    A_RATE,
    A_WAIT50,
    A_WAIT99,
    A_RUN50,
    A_RUN99,
    A_DONE,
    A_FAILED,
    A_RUNNING,
    A_COLUMNS
};

static const column actor_columns[A_COLUMNS] = {
    [A_NAME] = {"ACTOR", -1, 0},     [A_KIND] = {"KIND", -8, 11},
    [A_QUEUED] = {"QUEUED", 6, 4},   [A_FLIGHT] = {"IN FLIGHT", 9, 5},
    [A_RATE] = {"DONE/S", 7, 1},     [A_WAIT50] = {"WAIT p50", 8, 8},
    [A_WAIT99] = {"WAIT p99", 8, 3}, [A_RUN50] = {"RUN p50", 8, 7},
    [A_RUN99] = {"RUN p99", 8, 2},   [A_DONE] = {"DONE", 10, 10},
    [A_FAILED] = {"FAILED", 6, 6},   [A_RUNNING] = {"RUNNING", 0, 9},
};

typedef struct ordered {
    const trp_actor_stats *now, *before;
    double activity;
} ordered;

/* Orders actors by activity: running and waiting requests, then requests done since the last
 * sample. */
static uint32_t order(const trp_device_stats *d, const trp_device_stats *before, ordered *out)
{
    for (uint32_t i = 0; i < d->actor_count; i++) {
        const trp_actor_stats *a = &d->actor[i];
        ordered o = {.now = a, .before = top_actor_before(before, a)};
        const double done = (double)(a->done - (o.before ? o.before->done : 0));
        o.activity = (double)a->in_flight + (double)a->queued + done;
        uint32_t k = i;
        for (; k > 0 && out[k - 1].activity < o.activity; k--)
            out[k] = out[k - 1];
        out[k] = o;
    }
    return d->actor_count;
}

static void put_actor(top_screen *s, const ordered *o, const top_sample *earlier,
                      const top_sample *now, size_t first, const bool *shown)
{
    const trp_actor_stats *a = o->now, *b = o->before;
    const trp_latency *waited = b ? &b->waiting_time : NULL, *ran = b ? &b->running_time : NULL;
    char queued[16], flight[16], done[24], failed[24], running[160] = "";
    snprintf(queued, sizeof queued, "%u", a->queued);
    snprintf(flight, sizeof flight, "%u", a->in_flight);
    snprintf(done, sizeof done, "%" PRIu64, a->done);
    snprintf(failed, sizeof failed, "%" PRIu64, a->failed);
    if (*a->running)
        snprintf(running, sizeof running, "%s #%" PRIu64 "%s%s", a->running, a->running_request,
                 *a->running_label ? " " : "", a->running_label);
    const ui_text per_second = rate(b ? b->done : 0, a->done, b != NULL, earlier, now);
    const ui_text w50 = quantile(&a->waiting_time, waited, 0.5),
                  w99 = quantile(&a->waiting_time, waited, 0.99),
                  r50 = quantile(&a->running_time, ran, 0.5),
                  r99 = quantile(&a->running_time, ran, 0.99);
    const char *const cell[A_COLUMNS] = {
        [A_NAME] = a->name,      [A_KIND] = a->kind, [A_QUEUED] = queued, [A_FLIGHT] = flight,
        [A_RATE] = per_second.s, [A_WAIT50] = w50.s, [A_WAIT99] = w99.s,  [A_RUN50] = r50.s,
        [A_RUN99] = r99.s,       [A_DONE] = done,    [A_FAILED] = failed, [A_RUNNING] = running,
    };
    put_cells(s, actor_columns, A_COLUMNS, first, shown, cell);
}

static void put_worker(top_screen *s, const trp_device_info *info)
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

static void put_device(top_screen *s, const top_sample *earlier, const top_sample *now,
                       const trp_device_stats *d, size_t columns)
{
    const trp_device_info *info = &d->info;
    ordered actors[TRP_STATS_ACTORS];
    bool shown[COLUMNS_MOST];
    size_t first = NAME_LEAST;
    const uint32_t count = order(d, top_device_before(earlier, d), actors);
    for (uint32_t i = 0; i < count; i++)
        first = name_width(first, actors[i].now->name);
    if (columns < 100 && first > 14)
        first = 14;
    put(s, "%s: %s\n", run_device_text(info).s, top_state_name(info->state));
    put_worker(s, info);
    put(s, "  requests: %" PRIu64 " sent, %" PRIu64 " failed; %s, %s, %s\n",
        info->requests_submitted, info->requests_failed, ui_plural(d->faults, "fault").s,
        ui_plural(info->restarts, "restart").s, ui_plural(d->promotions, "promotion").s);
    put(s, "  memory: %s in %s, %s reserved of %s\n\n", ui_bytes(info->memory_used).s,
        ui_plural(info->buffers, "buffer").s, ui_bytes(info->memory_reserved).s,
        ui_bytes(info->memory_total).s);
    choose(actor_columns, A_COLUMNS, first, columns, shown);
    put_titles(s, actor_columns, A_COLUMNS, first, shown);
    for (uint32_t i = 0; i < count; i++)
        put_actor(s, &actors[i], earlier, now, first, shown);
}

/* Reads the process's name, without control characters. */
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

static void begin(top_screen *s)
{
    s->length = 0;
    s->text[0] = '\0';
}

void top_show_process(top_screen *s, int64_t pid, const top_sample *earlier, const top_sample *now,
                      size_t columns)
{
    char name[32];
    read_name(pid, name, sizeof name);
    begin(s);
    put(s, "troupe top: process %" PRId64 " (%s), %s\n", pid, name,
        ui_plural(now->count, "device").s);
    for (size_t i = 0; i < now->count; i++) {
        put(s, "\n");
        put_device(s, earlier, now, &now->device[i], columns);
    }
}

/* All processes: a line for each device. */

enum {
    P_PROGRAM,
    P_PID,
    P_STATE,
    P_RATE,
    P_QUEUED,
    P_FLIGHT,
    P_RUN99,
    P_MEMORY,
    P_FAILED,
    P_FAULTS,
    P_DEVICE,
    P_COLUMNS
};

static const column process_columns[P_COLUMNS] = {
    [P_PROGRAM] = {"PROGRAM", -1, 0}, [P_PID] = {"PID", 7, 1},
    [P_STATE] = {"STATE", -10, 3},    [P_RATE] = {"DONE/S", 7, 2},
    [P_QUEUED] = {"QUEUED", 6, 5},    [P_FLIGHT] = {"IN FLIGHT", 9, 7},
    [P_RUN99] = {"RUN p99", 8, 8},    [P_MEMORY] = {"MEMORY", 9, 4},
    [P_FAILED] = {"FAILED", 6, 9},    [P_FAULTS] = {"FAULTS", 6, 6},
    [P_DEVICE] = {"DEVICE", 0, 10},
};

static void sum_up(const trp_device_stats *d, trp_actor_stats *sum)
{
    *sum = (trp_actor_stats){0};
    for (uint32_t i = 0; i < d->actor_count; i++) {
        const trp_actor_stats *a = &d->actor[i];
        sum->queued += a->queued;
        sum->in_flight += a->in_flight;
        sum->done += a->done;
        for (uint32_t k = 0; k < TRP_LATENCY_BUCKETS; k++)
            sum->running_time.bucket[k] += a->running_time.bucket[k];
    }
}

static void put_process(top_screen *s, const trp_device_stats *d, const top_sample *earlier,
                        const top_sample *now, size_t first, const bool *shown)
{
    const trp_device_stats *b = top_device_before(earlier, d);
    trp_actor_stats is, was = {0};
    char pid[24], queued[16], flight[16], failed[24], faults[24];
    sum_up(d, &is);
    if (b)
        sum_up(b, &was);
    const bool known = b && is.done >= was.done;
    snprintf(pid, sizeof pid, "%" PRId64, d->pid);
    snprintf(queued, sizeof queued, "%u", is.queued);
    snprintf(flight, sizeof flight, "%u", is.in_flight);
    snprintf(failed, sizeof failed, "%" PRIu64, d->info.requests_failed);
    snprintf(faults, sizeof faults, "%" PRIu64, d->faults);
    const ui_text per_second = rate(was.done, is.done, known, earlier, now),
                  r99 = quantile(&is.running_time, b ? &was.running_time : NULL, 0.99),
                  memory = ui_bytes(d->info.memory_used);
    const run_text device = run_device_text(&d->info);
    const char *const cell[P_COLUMNS] = {
        [P_PROGRAM] = d->program, [P_PID] = pid,         [P_STATE] = top_state_name(d->info.state),
        [P_RATE] = per_second.s,  [P_QUEUED] = queued,   [P_FLIGHT] = flight,
        [P_RUN99] = r99.s,        [P_MEMORY] = memory.s, [P_FAILED] = failed,
        [P_FAULTS] = faults,      [P_DEVICE] = device.s,
    };
    put_cells(s, process_columns, P_COLUMNS, first, shown, cell);
}

void top_show_list(top_screen *s, const top_sample *earlier, const top_sample *now, size_t columns)
{
    bool shown[COLUMNS_MOST];
    size_t processes = 0, first = NAME_LEAST;
    for (size_t i = 0; i < now->count; i++) {
        processes += i == 0 || now->device[i].pid != now->device[i - 1].pid;
        first = name_width(first, now->device[i].program);
    }
    if (columns < 100 && first > 16)
        first = 16;
    begin(s);
    if (processes == 0) {
        put(s, "troupe top: no process that you may look at has a device open\n");
        return;
    }
    put(s, "troupe top: %zu process%s with %s; 'troupe top PID' shows one\n\n", processes,
        processes == 1 ? "" : "es", ui_plural(now->count, "device").s);
    choose(process_columns, P_COLUMNS, first, columns, shown);
    put_titles(s, process_columns, P_COLUMNS, first, shown);
    for (size_t i = 0; i < now->count; i++)
        put_process(s, &now->device[i], earlier, now, first, shown);
}

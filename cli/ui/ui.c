#include "ui.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define SGR_RED    "\033[31m"
#define SGR_GREEN  "\033[32m"
#define SGR_YELLOW "\033[33m"
#define SGR_BOLD   "\033[1m"
#define SGR_OFF    "\033[0m"

enum { PROGRESS_TEXT = 160, TICK_MS = 250, NS_PER_SECOND = 1000000000 };

static struct {
    bool terminal, colour, utf8, quiet, wrong;
    bool to_stderr; /* the report, since results take standard output */

    /* The progress line, on standard error. */
    pthread_mutex_t lock;
    pthread_cond_t change;
    pthread_t ticker;
    bool progress_wanted;         /* standard error is a terminal */
    bool ticking, ending;         /* the ticker runs; it shall end */
    bool standing;                /* a progress line is on the terminal */
    char progress[PROGRESS_TEXT]; /* empty: nothing to show */
    uint64_t began, done, total;  /* of the shown activity; total 0: unknown */
} ui = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

/* Tells whether the locale's character set is UTF-8, by the variables in POSIX order. The locale
 * itself stays "C": commands print numbers as programs read them. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = secure_getenv(names[i]);
        if (!value || !*value)
            continue;
        const char *set = strrchr(value, '.');
        return set && (!strncasecmp(set, ".utf-8", 6) || !strncasecmp(set, ".utf8", 5));
    }
    return false;
}

void ui_init(void)
{
    const char *no_colour = secure_getenv("NO_COLOR");
    const char *term = secure_getenv("TERM");
    bool obeys = term && strcmp(term, "dumb") != 0;
    ui.terminal = isatty(STDOUT_FILENO) && obeys;
    ui.progress_wanted = isatty(STDERR_FILENO) && obeys;
    ui.colour = ui.terminal && !(no_colour && *no_colour);
    ui.utf8 = locale_is_utf8();
    if (!ui.terminal)
        setvbuf(stdout, NULL, _IOLBF, 0); /* to interleave correctly with standard error */
}

bool ui_is_terminal(void)
{
    return ui.terminal;
}

void ui_set_quiet(bool quiet)
{
    ui.quiet = quiet;
}

void ui_report_to_stderr(void)
{
    ui.to_stderr = true;
    ui.colour = ui.colour && ui.progress_wanted;
}

bool ui_was_wrong(void)
{
    return ui.wrong;
}

uint64_t ui_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Formats three significant digits of a value in the largest unit it reaches. */
static ui_text scaled(double value, double step, const char *const *units, size_t count)
{
    size_t i = 0;
    /* 999.5 would print as 1000: use the next unit. */
    while (i + 1 < count && value >= step * 0.9995) {
        value /= step;
        i++;
    }
    int digits = i == 0 && value == (double)(int64_t)value ? 0 : value < 9.995 ? 2 : value < 99.95;
    ui_text text;
    snprintf(text.s, sizeof text.s, "%.*f %s", digits, value, units[i]);
    return text;
}

#define SCALED(value, step, ...)                                                                   \
    scaled(value, step, (const char *const[]){__VA_ARGS__},                                        \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

ui_text ui_bytes(uint64_t bytes)
{
    return SCALED((double)bytes, 1024, "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB");
}

ui_text ui_duration(uint64_t ns)
{
    if (ns < UINT64_C(60000000000))
        return SCALED((double)ns, 1000, "ns", "us", "ms", "s");
    uint64_t seconds = ns / 1000000000;
    ui_text text;
    snprintf(text.s, sizeof text.s, "%" PRIu64 " min %02" PRIu64 " s", seconds / 60, seconds % 60);
    return text;
}

ui_text ui_byte_rate(uint64_t bytes, uint64_t ns)
{
    return SCALED((double)bytes * 1e9 / (double)(ns ? ns : 1), 1000, "B/s", "kB/s", "MB/s", "GB/s",
                  "TB/s");
}

ui_text ui_flop_rate(double flops, uint64_t ns)
{
    return SCALED(flops * 1e9 / (double)(ns ? ns : 1), 1000, "FLOP/s", "kFLOP/s", "MFLOP/s",
                  "GFLOP/s", "TFLOP/s", "PFLOP/s");
}

ui_text ui_plural(uint64_t n, const char *noun)
{
    ui_text text;
    snprintf(text.s, sizeof text.s, "%" PRIu64 " %s%s", n, noun, n == 1 ? "" : "s");
    return text;
}

const char *ui_mark_text(ui_mark mark)
{
    static const struct {
        const char *ascii, *utf8, *coloured;
    } marks[] = {
        [UI_NONE] = {"    ", " ", " "},
        [UI_GOOD] = {"ok  ", "✓", SGR_GREEN "✓" SGR_OFF},
        [UI_BAD] = {"FAIL", "✗", SGR_RED "✗" SGR_OFF},
        [UI_ABSENT] = {"--  ", "–", SGR_YELLOW "–" SGR_OFF},
    };
    if (!ui.utf8)
        return marks[mark].ascii;
    return ui.colour ? marks[mark].coloured : marks[mark].utf8;
}

/* The progress line. */

uint32_t ui_columns(int fd)
{
    struct winsize size = {0};
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t ui_cut(const char *text, size_t length, size_t columns)
{
    size_t i = 0, used = 0;
    for (; i < length; i++) {
        used += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (used > columns)
            break;
    }
    return i;
}

/* Draws the line, cut to the terminal: a wrapped line could not be cleared. ui.lock is held. */
static void draw_progress(void)
{
    char line[PROGRESS_TEXT + 64];
    const uint64_t took = ui_now() - ui.began;
    size_t length = (size_t)snprintf(line, sizeof line, "%s ...", ui.progress);
    if (ui.total > 0)
        length += (size_t)snprintf(line + length, sizeof line - length, " %.0f %%",
                                   100 * (double)ui.done / (double)ui.total);
    if (took >= NS_PER_SECOND)
        length += (size_t)snprintf(line + length, sizeof line - length, " %" PRIu64 " s",
                                   took / NS_PER_SECOND);
    const size_t columns = ui_columns(STDERR_FILENO);
    fprintf(stderr, "\r\033[K%.*s", (int)ui_cut(line, length, columns > 1 ? columns - 1 : 1), line);
    fflush(stderr);
    ui.standing = true;
}

/* ui.lock is held. */
static void clear_progress(void)
{
    if (ui.standing)
        fputs("\r\033[K", stderr);
    ui.standing = false;
    ui.progress[0] = '\0';
}

/* Updates the seconds of the line while the command waits. */
static void *tick(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&ui.lock);
    while (!ui.ending) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / NS_PER_SECOND;
        until.tv_nsec %= NS_PER_SECOND;
        pthread_cond_timedwait(&ui.change, &ui.lock, &until);
        if (!ui.ending && ui.progress[0] && ui_now() - ui.began >= NS_PER_SECOND)
            draw_progress();
    }
    pthread_mutex_unlock(&ui.lock);
    return NULL;
}

void ui_progress(const char *format, ...)
{
    if (ui.quiet || !ui.progress_wanted)
        return;
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&ui.lock);
    vsnprintf(ui.progress, sizeof ui.progress, format, args);
    ui.began = ui_now();
    ui.done = ui.total = 0;
    if (!ui.ticking)
        ui.ticking = pthread_create(&ui.ticker, NULL, tick, NULL) == 0;
    draw_progress();
    pthread_mutex_unlock(&ui.lock);
    va_end(args);
}

void ui_progress_part(uint64_t done, uint64_t total)
{
    if (ui.quiet || !ui.progress_wanted)
        return;
    pthread_mutex_lock(&ui.lock);
    ui.done = done < total ? done : total;
    ui.total = total;
    pthread_mutex_unlock(&ui.lock);
}

void ui_end(void)
{
    pthread_mutex_lock(&ui.lock);
    clear_progress();
    fflush(stderr);
    bool ticking = ui.ticking;
    ui.ticking = false;
    ui.ending = true;
    pthread_cond_signal(&ui.change);
    pthread_mutex_unlock(&ui.lock);
    if (ticking)
        pthread_join(ui.ticker, NULL);
}

/* Lines. */

static FILE *report(void)
{
    return ui.to_stderr ? stderr : stdout;
}

/* Begin and end a line of the report, which replaces the progress line. */
static void begin_line(void)
{
    pthread_mutex_lock(&ui.lock);
    clear_progress();
    if (!ui.to_stderr)
        fflush(stderr);
}

static void end_line(void)
{
    putc('\n', report());
    pthread_mutex_unlock(&ui.lock);
}

void ui_heading(const char *format, ...)
{
    if (ui.quiet)
        return;
    va_list args;
    va_start(args, format);
    begin_line();
    fputs(ui.colour ? SGR_BOLD : "", report());
    vfprintf(report(), format, args);
    fputs(ui.colour ? SGR_OFF : "", report());
    end_line();
    va_end(args);
}

void ui_step(ui_mark mark, const char *label, uint64_t ns, const char *format, ...)
{
    if (ui.quiet)
        return;
    va_list args;
    va_start(args, format);
    begin_line();
    fprintf(report(), "%s %-14s %9s   ", ui_mark_text(mark), label, ns ? ui_duration(ns).s : "");
    vfprintf(report(), format, args);
    end_line();
    va_end(args);
}

void ui_note(const char *label, const char *format, ...)
{
    if (ui.quiet)
        return;
    va_list args;
    va_start(args, format);
    begin_line();
    fprintf(report(), "%s   %-12s %9s   ", ui_mark_text(UI_NONE), label, "");
    vfprintf(report(), format, args);
    end_line();
    va_end(args);
}

void ui_line(const char *format, ...)
{
    if (ui.quiet)
        return;
    va_list args;
    va_start(args, format);
    begin_line();
    vfprintf(report(), format, args);
    end_line();
    va_end(args);
}

static void complain(const char *format, va_list args)
{
    pthread_mutex_lock(&ui.lock);
    clear_progress();
    fflush(stdout);
    fputs("troupe: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    pthread_mutex_unlock(&ui.lock);
}

void ui_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
}

void ui_wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
    ui.wrong = true;
}

void ui_json_string(const char *text)
{
    putchar('"');
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            putchar('\\');
        putchar((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p);
    }
    putchar('"');
}

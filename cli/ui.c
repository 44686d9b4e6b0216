#include "ui.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define SGR_RED    "\033[31m"
#define SGR_GREEN  "\033[32m"
#define SGR_YELLOW "\033[33m"
#define SGR_BOLD   "\033[1m"
#define SGR_OFF    "\033[0m"

static struct {
    bool terminal, colour, utf8, quiet;
    bool progress; /* a progress line stands on the terminal */
} ui;

/* Whether the locale's character set is UTF-8, by the variables in the order POSIX gives them. The
 * locale itself stays "C": the commands print numbers as programs read them. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (!value || !*value)
            continue;
        const char *set = strrchr(value, '.');
        return set && (!strncasecmp(set, ".utf-8", 6) || !strncasecmp(set, ".utf8", 5));
    }
    return false;
}

void ui_init(void)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    ui.terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
    ui.colour = ui.terminal && !(no_colour && *no_colour);
    ui.utf8 = locale_is_utf8();
    if (!ui.terminal)
        setvbuf(stdout, NULL, _IOLBF, 0); /* so that it interleaves rightly with standard error */
}

bool ui_is_terminal(void)
{
    return ui.terminal;
}

void ui_set_quiet(bool quiet)
{
    ui.quiet = quiet;
}

uint64_t ui_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Three significant digits of value, scaled by the step to the largest unit it reaches. */
static ui_text scaled(double value, double step, const char *const *units, size_t count)
{
    size_t i = 0;
    /* 999.5 would print as 1000: it belongs to the next unit already. */
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

static void clear_progress(void)
{
    if (ui.progress)
        fputs("\r\033[K", stdout);
    ui.progress = false;
}

void ui_heading(const char *format, ...)
{
    if (ui.quiet)
        return;
    va_list args;
    va_start(args, format);
    clear_progress();
    fputs(ui.colour ? SGR_BOLD : "", stdout);
    vprintf(format, args);
    puts(ui.colour ? SGR_OFF : "");
    va_end(args);
}

void ui_step(ui_mark mark, const char *label, uint64_t ns, const char *format, ...)
{
    if (ui.quiet)
        return;
    va_list args;
    va_start(args, format);
    clear_progress();
    printf("%s %-14s %9s   ", ui_mark_text(mark), label, ns ? ui_duration(ns).s : "");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

void ui_note(const char *label, const char *format, ...)
{
    if (ui.quiet)
        return;
    va_list args;
    va_start(args, format);
    clear_progress();
    printf("%s   %-12s %9s   ", ui_mark_text(UI_NONE), label, "");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

void ui_line(const char *format, ...)
{
    if (ui.quiet)
        return;
    va_list args;
    va_start(args, format);
    clear_progress();
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

void ui_progress(const char *format, ...)
{
    if (ui.quiet || !ui.terminal)
        return;
    char text[72]; /* a line that wraps could not be cleared */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clear_progress();
    printf("%s ...", text);
    fflush(stdout);
    ui.progress = true;
}

void ui_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    clear_progress();
    fflush(stdout);
    fputs("troupe: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* What the commands show: human units, marks, step lines, errors. The report goes to standard
 * output, or to standard error where results take that; errors and the progress line go to standard
 * error. Colour and the progress line only appear on a terminal, and colour not where NO_COLOR is
 * set. */
#ifndef TRP_CLI_UI_UI_H
#define TRP_CLI_UI_UI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A short text by value: ui_bytes(n).s lives to the end of the expression it stands in. */
typedef struct ui_text {
    char s[48];
} ui_text;

typedef enum ui_mark {
    UI_NONE, /* blank */
    UI_GOOD,
    UI_BAD,
    UI_ABSENT, /* not there, and that need not matter */
} ui_mark;

/* Looks at the terminals and the environment; call it first. */
void ui_init(void);

/* Takes the progress line away; call it last. */
void ui_end(void);

/* From here on the report goes to standard error: standard output takes an array. */
void ui_report_to_stderr(void);

/* Whether standard output is a terminal that obeys cursor commands. */
bool ui_is_terminal(void);

/* With quiet, ui_step(), ui_note(), ui_line() and ui_progress() print nothing. */
void ui_set_quiet(bool quiet);

/* Nanoseconds of a clock that never goes back. */
uint64_t ui_now(void);

ui_text ui_bytes(uint64_t bytes);                  /* "8.24 MiB" */
ui_text ui_duration(uint64_t ns);                  /* "3.21 ms" */
ui_text ui_byte_rate(uint64_t bytes, uint64_t ns); /* "12.1 GB/s" */
ui_text ui_flop_rate(double flops, uint64_t ns);   /* "48.2 TFLOP/s" */
ui_text ui_plural(uint64_t n, const char *noun);   /* "1 core", "2 cores" */

/* The mark with its colour, always one column wide ("ok" and the like: four, without UTF-8). */
const char *ui_mark_text(ui_mark mark);

/* A heading. */
void ui_heading(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line of a report: mark, label, time (0: left blank), detail. */
void ui_step(ui_mark mark, const char *label, uint64_t ns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A line that belongs to the step above it. */
void ui_note(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A plain line. */
void ui_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What is being done right now, on standard error if that is a terminal, with the seconds that it
 * has taken; the next line that is printed takes its place. */
void ui_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How far that is. Any thread. */
void ui_progress_part(uint64_t done, uint64_t total);

/* "troupe: ..." on standard error, also when quiet. */
void ui_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for a wrong value on the command line, which may be found only once files are open: a
 * command that fails then ends with EXIT_USAGE. */
void ui_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool ui_was_wrong(void);

/* Columns of a terminal; 80 for what is none. */
uint32_t ui_columns(int fd);

/* Bytes of a text that fill at most `columns` columns; names hold UTF-8, whose further bytes take
 * none. */
size_t ui_cut(const char *text, size_t length, size_t columns);

#endif

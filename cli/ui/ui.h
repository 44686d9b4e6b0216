/* Output of the commands: human units, marks, step lines, errors. The report goes to standard
 * output, or to standard error where results take standard output; errors and the progress line go
 * to standard error. Colour and the progress line need a terminal; NO_COLOR disables colour. */
#ifndef TRP_CLI_UI_UI_H
#define TRP_CLI_UI_UI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A short text by value: ui_bytes(n).s lives to the end of the full expression. */
typedef struct ui_text {
    char s[48];
} ui_text;

typedef enum ui_mark {
    UI_NONE, /* blank */
    UI_GOOD,
    UI_BAD,
    UI_ABSENT, /* absent, which may be fine */
} ui_mark;

/* Inspects terminals and environment; call it first. */
void ui_init(void);

/* Removes the progress line; call it last. */
void ui_end(void);

/* Sends the report to standard error from here on: standard output takes an array. */
void ui_report_to_stderr(void);

/* Tells whether standard output is a terminal that obeys cursor commands. */
bool ui_is_terminal(void);

/* With quiet, ui_step(), ui_note(), ui_line() and ui_progress() print nothing. */
void ui_set_quiet(bool quiet);

/* Returns nanoseconds of a monotonic clock. */
uint64_t ui_now(void);

ui_text ui_bytes(uint64_t bytes);                  /* "8.24 MiB" */
ui_text ui_duration(uint64_t ns);                  /* "3.21 ms" */
ui_text ui_byte_rate(uint64_t bytes, uint64_t ns); /* "12.1 GB/s" */
ui_text ui_flop_rate(double flops, uint64_t ns);   /* "48.2 TFLOP/s" */
ui_text ui_plural(uint64_t n, const char *noun);   /* "1 core", "2 cores" */

/* Returns a mark with its colour, one column wide ("ok" and the like: four, without UTF-8). */
const char *ui_mark_text(ui_mark mark);

/* Prints a heading. */
void ui_heading(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line of a report: mark, label, time (0: blank), detail. */
void ui_step(ui_mark mark, const char *label, uint64_t ns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Prints a line that belongs to the step above. */
void ui_note(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a plain line. */
void ui_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shows the present activity with its seconds on standard error, if that is a terminal; the next
 * printed line replaces it. */
void ui_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shows the progress of the activity. Any thread. */
void ui_progress_part(uint64_t done, uint64_t total);

/* Prints "troupe: ..." on standard error, also when quiet. */
void ui_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports a wrong value on the command line that was found late: a command that fails then ends
 * with EXIT_USAGE. */
void ui_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool ui_was_wrong(void);

/* Prints a text on standard output as a JSON string, with control characters as '?'. It must be
 * UTF-8. */
void ui_json_string(const char *text);

/* Returns the columns of a terminal; 80 for other files. */
uint32_t ui_columns(int fd);

/* Returns the bytes of a text that fill at most `columns` columns; continuation bytes of UTF-8 take
 * none. */
size_t ui_cut(const char *text, size_t length, size_t columns);

#endif

/* Collects the results of a run: prints a table during the run and writes JSON at its end. */
#ifndef TRP_BENCH_SUITE_REPORT_H
#define TRP_BENCH_SUITE_REPORT_H

#include "bench/measure/stats.h"

#include <stddef.h>

typedef struct report report;

/* A bound that the figure must meet. */
typedef enum report_bound {
    REPORT_NO_BOUND = 0,
    REPORT_RATIO_AT_MOST,
    REPORT_RATIO_AT_LEAST,
    REPORT_VALUE_AT_MOST, /* compares the figure of Troupe's side */
} report_bound;

/* One comparison. The table shows medians and the ratio of Troupe to raw. */
typedef struct report_row {
    const char *section; /* name for --only; set by report_add() */
    const char *raw;     /* the raw side's name in the JSON; NULL: no raw side */
    const char *type;    /* element type or NULL */
    const char *unit;
    char name[56];
    uint64_t size; /* n of a product, bytes of a copy or buffer, or 0 */
    bool rate;     /* the figure is scale / ns and more is better; otherwise ns * scale and less is
                    * better */
    bool tail;     /* also show p90 and p99 */
    double scale;
    stats_summary raw_ns, troupe_ns;
    report_bound bound;
    double limit;
    char note[40]; /* remark after the row */
} report_row;

/* Returns NULL if memory is missing. */
report *report_create(void);
void report_destroy(report *r);

/* Adds a line of the header with a condition of the measurement. `key` is for the JSON. */
void report_text(report *r, const char *key, const char *label, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void report_number(report *r, const char *key, const char *label, double value);

/* Names the section that following rows and failures belong to. */
void report_begin(report *r, const char *section);

/* Begins a part of the table; `explanation` describes what each side does. */
void report_section(report *r, const char *title, const char *explanation);

/* Prints a row and stores it. Its strings must outlive the report. */
void report_add(report *r, const report_row *row);

/* Writes to standard error why the section could not be measured, and stores the message. */
void report_failure(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
size_t report_failures(const report *r);

/* Prints the last lines: the number of met bounds and the duration. */
void report_finish(report *r);

/* Writes all results. Returns false if the file cannot be written. */
bool report_write_json(const report *r, const char *path);

#endif

/* What a run has found: shown as a table while it goes on, and written as JSON at its end. */
#ifndef TRP_BENCH_SUITE_REPORT_H
#define TRP_BENCH_SUITE_REPORT_H

#include "bench/measure/stats.h"

#include <stddef.h>

typedef struct report report;

/* A bound that the figure must keep. */
typedef enum report_bound {
    REPORT_NO_BOUND = 0,
    REPORT_RATIO_AT_MOST,
    REPORT_RATIO_AT_LEAST,
    REPORT_VALUE_AT_MOST, /* of Troupe's side */
} report_bound;

/* One comparison. The figures shown are the medians; the ratio is Troupe to raw. */
typedef struct report_row {
    const char *section; /* as --only names it */
    const char *raw;     /* what the raw side is, for the JSON; NULL: there is none */
    const char *type;    /* element type; NULL: none */
    const char *unit;
    char name[56];
    uint64_t size; /* n of a product, bytes of a copy or a buffer; 0: none */
    bool rate;     /* figure: scale / ns, more is better; else ns * scale, less is better */
    bool tail;     /* show p90 and p99 too */
    double scale;
    stats_summary raw_ns, troupe_ns;
    report_bound bound;
    double limit;
    char note[40]; /* a few words behind the row */
} report_row;

/* NULL: no memory. */
report *report_create(void);
void report_destroy(report *r);

/* A line of the header: what the figures were measured with. `key` is for the JSON. */
void report_text(report *r, const char *key, const char *label, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void report_number(report *r, const char *key, const char *label, double value);

/* Begins a part of the table; `explanation` says what each side does. */
void report_section(report *r, const char *title, const char *explanation);

/* Shows a row and keeps it. The strings that it points to must outlive the report. */
void report_add(report *r, const report_row *row);

/* Says on standard error that a section could not be measured, and why, and keeps that. */
void report_failure(report *r, const char *section, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t report_failures(const report *r);

/* The last lines: how many bounds are kept, how long it took. */
void report_finish(report *r);

/* Writes everything. False: the file could not be written. */
bool report_write_json(const report *r, const char *path);

#endif

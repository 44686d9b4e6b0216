#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FACTS = 24, MAX_ROWS = 384, MAX_FAILURES = 32 };

typedef struct fact {
    const char *key;
    bool is_number;
    double number;
    char text[256];
} fact;

typedef struct failure {
    const char *section;
    char text[320];
} failure;

struct report {
    int64_t started;
    const char *section; /* the current one */
    double seconds;
    size_t fact_count, row_count, failure_count;
    fact facts[MAX_FACTS];
    report_row rows[MAX_ROWS];
    failure failures[MAX_FAILURES];
};

report *report_create(void)
{
    report *r = calloc(1, sizeof *r);
    if (r)
        r->started = stats_now();
    return r;
}

void report_destroy(report *r)
{
    free(r);
}

void report_text(report *r, const char *key, const char *label, const char *format, ...)
{
    fact *f = &r->facts[r->fact_count];
    if (r->fact_count == MAX_FACTS)
        return;
    r->fact_count++;
    f->key = key;
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    if (label)
        printf("%-10s %s\n", label, f->text);
}

void report_number(report *r, const char *key, const char *label, double value)
{
    if (r->fact_count == MAX_FACTS)
        return;
    r->facts[r->fact_count++] = (fact){.key = key, .is_number = true, .number = value};
    if (label)
        printf("%-10s %.10g\n", label, value);
}

/* A number with four significant digits and no exponent. */
typedef struct figure_text {
    char s[24];
} figure_text;

static figure_text figure(double value)
{
    figure_text text;
    int digits = value >= 1000  ? 0
                 : value >= 100 ? 1
                 : value >= 10  ? 2
                 : value >= 1   ? 3
                 : value >= 0.1 ? 4
                                : 5;
    if (isfinite(value))
        snprintf(text.s, sizeof text.s, "%.*f", digits, value);
    else
        snprintf(text.s, sizeof text.s, "-");
    return text;
}

/* Returns the figure of `ns`, or NaN if it was not measured. */
static double value_of(const report_row *row, const stats_summary *side, double ns)
{
    if (side->samples == 0)
        return NAN;
    return row->rate ? row->scale / ns : row->scale * ns;
}

static double ratio_of(const report_row *row, double raw_ns, double troupe_ns)
{
    if (row->raw_ns.samples == 0 || row->troupe_ns.samples == 0)
        return NAN;
    return row->rate ? raw_ns / troupe_ns : troupe_ns / raw_ns;
}

/* Tells whether the bound is met; an unmeasured row does not meet it. */
static bool bound_kept(const report_row *row)
{
    double ratio = ratio_of(row, row->raw_ns.p50, row->troupe_ns.p50);
    switch (row->bound) {
    case REPORT_RATIO_AT_MOST:
        return ratio <= row->limit;
    case REPORT_RATIO_AT_LEAST:
        return ratio >= row->limit;
    case REPORT_VALUE_AT_MOST:
        return value_of(row, &row->troupe_ns, row->troupe_ns.p50) <= row->limit;
    default:
        return true;
    }
}

static figure_text bound_text(const report_row *row)
{
    figure_text text = {""};
    if (row->bound == REPORT_VALUE_AT_MOST)
        snprintf(text.s, sizeof text.s, "<= %g %s", row->limit, row->unit);
    else if (row->bound != REPORT_NO_BOUND)
        snprintf(text.s, sizeof text.s, "%s %g x",
                 row->bound == REPORT_RATIO_AT_MOST ? "<=" : ">=", row->limit);
    return text;
}

void report_begin(report *r, const char *section)
{
    r->section = section;
}

void report_section(report *r, const char *title, const char *explanation)
{
    (void)r;
    printf("\n%s\n%s\n  %-32s %10s %10s %-8s %7s  %s\n", title, explanation, "", "raw", "Troupe",
           "", "ratio", "target");
    fflush(stdout);
}

static void print_line(const report_row *row, const char *quantile, double raw_ns, double troupe_ns,
                       bool first)
{
    char name[64];
    char ratio[16] = "-";
    double ratio_value = ratio_of(row, raw_ns, troupe_ns);
    snprintf(name, sizeof name, "%s%s%s", row->name, *quantile ? " " : "", quantile);
    if (isfinite(ratio_value))
        snprintf(ratio, sizeof ratio, "%.3f", ratio_value);
    const figure_text bound = first ? bound_text(row) : (figure_text){""};
    const char *verdict = !first || row->bound == REPORT_NO_BOUND ? ""
                          : bound_kept(row)                       ? "met"
                                                                  : "MISSED";
    const char *note = first ? row->note : "";
    char line[256];
    snprintf(line, sizeof line, "  %-32s %10s %10s %-8s %7s  %-10s %-6s  %s", name,
             figure(value_of(row, &row->raw_ns, raw_ns)).s,
             figure(value_of(row, &row->troupe_ns, troupe_ns)).s, row->unit, ratio, bound.s,
             verdict, note);
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == ' ')
        line[--length] = '\0';
    puts(line);
}

void report_add(report *r, const report_row *row)
{
    if (row->tail) {
        print_line(row, "p50", row->raw_ns.p50, row->troupe_ns.p50, true);
        print_line(row, "p90", row->raw_ns.p90, row->troupe_ns.p90, false);
        print_line(row, "p99", row->raw_ns.p99, row->troupe_ns.p99, false);
    } else {
        print_line(row, "", row->raw_ns.p50, row->troupe_ns.p50, true);
    }
    fflush(stdout);
    if (r->row_count == MAX_ROWS)
        return;
    r->rows[r->row_count] = *row;
    r->rows[r->row_count++].section = r->section;
}

void report_failure(report *r, const char *format, ...)
{
    failure ignored;
    failure *f = r->failure_count < MAX_FAILURES ? &r->failures[r->failure_count++] : &ignored;
    f->section = r->section;
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "troupe: bench: %s: %s\n", r->section, f->text);
}

size_t report_failures(const report *r)
{
    return r->failure_count;
}

static void count_bounds(const report *r, size_t *kept, size_t *missed)
{
    *kept = *missed = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        if (r->rows[i].bound != REPORT_NO_BOUND)
            ++*(bound_kept(&r->rows[i]) ? kept : missed);
    }
}

void report_finish(report *r)
{
    size_t kept;
    size_t missed;
    count_bounds(r, &kept, &missed);
    r->seconds = (double)(stats_now() - r->started) / 1e9;
    putchar('\n');
    if (kept + missed > 0)
        printf("targets: %zu met, %zu missed; ", kept, missed);
    if (r->failure_count > 0)
        printf("%zu failed to run; ", r->failure_count);
    printf("%.0f s in all\n", r->seconds);
}

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f) /* bytes that may not be UTF-8 are written as Latin-1 */
            fprintf(file, "\\u%04x", *c);
        else
            fputc(*c, file);
    }
    fputc('"', file);
}

/* Writes null for NaN and infinities. */
static void write_number(FILE *file, double value)
{
    if (isfinite(value))
        fprintf(file, "%.10g", value);
    else
        fputs("null", file);
}

static void write_named(FILE *file, const char *name, double value)
{
    fprintf(file, "\"%s\": ", name);
    write_number(file, value);
}

static void write_side(FILE *file, const char *name, const report_row *row,
                       const stats_summary *side)
{
    fprintf(file, ",\n     \"%s\": ", name);
    if (side->samples == 0) {
        fputs("null", file);
        return;
    }
    const struct {
        const char *name;
        double value;
    } quantiles[] = {{"min", side->min}, {"p50", side->p50}, {"p90", side->p90},
                     {"p99", side->p99}, {"max", side->max}, {"mean", side->mean}};
    fputc('{', file);
    write_named(file, "value", value_of(row, side, side->p50));
    fprintf(file, ", \"samples\": %" PRIu64 ", \"operations\": %" PRIu64 ", \"ns\": {",
            side->samples, side->operations);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        fputs(i > 0 ? ", " : "", file);
        write_named(file, quantiles[i].name, quantiles[i].value);
    }
    fputs("}}", file);
}

static void write_bound(FILE *file, const report_row *row)
{
    static const char *const names[] = {
        [REPORT_NO_BOUND] = "",
        [REPORT_RATIO_AT_MOST] = "\"figure\": \"ratio\", \"at_most\": ",
        [REPORT_RATIO_AT_LEAST] = "\"figure\": \"ratio\", \"at_least\": ",
        [REPORT_VALUE_AT_MOST] = "\"figure\": \"troupe\", \"at_most\": ",
    };
    fputs(",\n     \"target\": ", file);
    if (row->bound == REPORT_NO_BOUND) {
        fputs("null", file);
        return;
    }
    fprintf(file, "{%s", names[row->bound]);
    write_number(file, row->limit);
    fprintf(file, ", \"met\": %s}", bound_kept(row) ? "true" : "false");
}

static void write_optional(FILE *file, const char *name, const char *text)
{
    if (text) {
        fprintf(file, ", \"%s\": ", name);
        write_string(file, text);
    }
}

static void write_row(FILE *file, const report_row *row)
{
    double ratio = ratio_of(row, row->raw_ns.p50, row->troupe_ns.p50);
    fputs("    {\"section\": ", file);
    write_string(file, row->section);
    write_optional(file, "name", row->name);
    write_optional(file, "type", row->type);
    if (row->size > 0)
        fprintf(file, ", \"size\": %" PRIu64, row->size);
    write_optional(file, "unit", row->unit);
    write_optional(file, "better", row->rate ? "more" : "less");
    write_optional(file, "raw_call", row->raw);
    write_optional(file, "note", *row->note ? row->note : NULL);
    write_side(file, "raw", row, &row->raw_ns);
    write_side(file, "troupe", row, &row->troupe_ns);
    fputs(",\n     ", file);
    write_named(file, "ratio", ratio);
    fputs(", ", file);
    write_named(file, "ratio_p90", ratio_of(row, row->raw_ns.p90, row->troupe_ns.p90));
    fputs(", ", file);
    write_named(file, "ratio_p99", ratio_of(row, row->raw_ns.p99, row->troupe_ns.p99));
    write_bound(file, row);
    fputc('}', file);
}

static void write_report(FILE *file, const report *r)
{
    fputs("{\n  \"environment\": {", file);
    for (size_t i = 0; i < r->fact_count; i++) {
        const fact *f = &r->facts[i];
        fprintf(file, "%s\n    \"%s\": ", i > 0 ? "," : "", f->key);
        if (f->is_number)
            write_number(file, f->number);
        else
            write_string(file, f->text);
    }
    fputs("\n  },\n  ", file);
    write_named(file, "seconds", r->seconds);
    fputs(",\n  \"results\": [", file);
    for (size_t i = 0; i < r->row_count; i++) {
        fputs(i > 0 ? ",\n" : "\n", file);
        write_row(file, &r->rows[i]);
    }
    fputs("\n  ],\n  \"failures\": [", file);
    for (size_t i = 0; i < r->failure_count; i++) {
        fprintf(file, "%s\n    {\"section\": ", i > 0 ? "," : "");
        write_string(file, r->failures[i].section);
        write_optional(file, "message", r->failures[i].text);
        fputc('}', file);
    }
    fputs(r->failure_count > 0 ? "\n  ]\n}\n" : "]\n}\n", file);
}

bool report_write_json(const report *r, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    write_report(file, r);
    bool ok = !ferror(file);
    return fclose(file) == 0 && ok;
}

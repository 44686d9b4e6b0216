/* Draws curves over sizes as an SVG file. */
#ifndef TRP_BENCH_SUITE_PLOT_SVG_H
#define TRP_BENCH_SUITE_PLOT_SVG_H

#include <stdbool.h>
#include <stdio.h>

enum { PLOT_SERIES = 8, PLOT_POINTS = 32 };

typedef struct plot_series {
    char label[64];
    bool dashed; /* the raw side */
    int colour;  /* index of the colour; related series share one */
    int count;   /* number of points, from left to right */
    double x[PLOT_POINTS], y[PLOT_POINTS];
} plot_series;

typedef struct plot {
    char title[128], x_label[64], y_label[64];
    int count; /* number of series */
    plot_series series[PLOT_SERIES];
} plot;

/* Adds a point to the series of that label and begins the series if needed. Drops points beyond the
 * capacity and values that are not finite. x must be positive. */
void plot_add(plot *p, const char *label, int colour, bool dashed, double x, double y);

/* Writes the plot with x by powers of two and y from 0. Returns false if writing fails. */
bool plot_write(const plot *p, FILE *file);
bool plot_write_file(const plot *p, const char *path);

#endif

/* Lines over sizes, as an SVG file. */
#ifndef TRP_BENCH_SUITE_PLOT_SVG_H
#define TRP_BENCH_SUITE_PLOT_SVG_H

#include <stdbool.h>
#include <stdio.h>

enum { PLOT_SERIES = 8, PLOT_POINTS = 32 };

typedef struct plot_series {
    char label[64];
    bool dashed; /* what is compared with */
    int colour;  /* series of one colour belong together: 0, 1, ... */
    int count;   /* of points, from left to right */
    double x[PLOT_POINTS], y[PLOT_POINTS];
} plot_series;

typedef struct plot {
    char title[128], x_label[64], y_label[64];
    int count; /* of series */
    plot_series series[PLOT_SERIES];
} plot;

/* Adds a point to the series of that label, which is begun if there is none yet; what there is no
 * room for, or is no finite number, is left out. x is above 0. */
void plot_add(plot *p, const char *label, int colour, bool dashed, double x, double y);

/* Writes it; x by powers of two, y from 0. False: it could not be written. */
bool plot_write(const plot *p, FILE *file);
bool plot_write_file(const plot *p, const char *path);

#endif

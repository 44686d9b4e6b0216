#include "plot_svg.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    WIDTH = 880,
    HEIGHT = 520,
    LEFT = 76,
    RIGHT = 24,
    TOP = 56,
    BOTTOM = 64,
    LEGEND_LINE = 20,
};

static const char *const colours[] = {"#1f6feb", "#d1242f", "#1a7f37", "#8250df"};

enum { COLOURS = sizeof colours / sizeof *colours };

static plot_series *find_series(plot *p, const char *label)
{
    for (int i = 0; i < p->count; i++) {
        if (strcmp(p->series[i].label, label) == 0)
            return &p->series[i];
    }
    if (p->count == PLOT_SERIES)
        return NULL;
    plot_series *s = &p->series[p->count++];
    memset(s, 0, sizeof *s);
    snprintf(s->label, sizeof s->label, "%s", label);
    return s;
}

void plot_add(plot *p, const char *label, int colour, bool dashed, double x, double y)
{
    plot_series *s = isfinite(x) && x > 0 && isfinite(y) ? find_series(p, label) : NULL;
    if (!s || s->count == PLOT_POINTS)
        return;
    s->colour = colour;
    s->dashed = dashed;
    s->x[s->count] = x;
    s->y[s->count++] = y;
}

typedef struct scale {
    double first, last; /* x range as powers of two */
    double top, step;   /* y range from 0, and distance of lines */
} scale;

static double x_of(const scale *s, double x)
{
    double part = s->last > s->first ? (log2(x) - s->first) / (s->last - s->first) : 0.5;
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double y_of(const scale *s, double y)
{
    return HEIGHT - BOTTOM - y / s->top * (HEIGHT - TOP - BOTTOM);
}

/* Returns the distance of five to ten lines, 1, 2 or 5 times a power of ten. */
static double step_for(double most)
{
    double power = pow(10, floor(log10(most / 5)));
    double factor = most / 5 / power;
    return power * (factor < 2 ? 1 : factor < 5 ? 2 : 5);
}

static scale scale_of(const plot *p)
{
    scale s = {.first = 1024, .last = -1024};
    double most = 0;
    for (int i = 0; i < p->count; i++) {
        for (int k = 0; k < p->series[i].count; k++) {
            s.first = fmin(s.first, log2(p->series[i].x[k]));
            s.last = fmax(s.last, log2(p->series[i].x[k]));
            most = fmax(most, p->series[i].y[k]);
        }
    }
    s.step = step_for(most > 0 ? most : 1);
    s.top = s.step * ceil((most > 0 ? most * 1.03 : 1) / s.step);
    return s;
}

static void write_text(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '>')
            fputs("&gt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else if ((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f)
            fputc(*text, f);
        else
            fputc('?', f);
    }
}

static void write_label(FILE *f, double x, double y, const char *more, const char *text)
{
    fprintf(f, "  <text x=\"%.1f\" y=\"%.1f\"%s>", x, y, more);
    write_text(f, text);
    fputs("</text>\n", f);
}

static void write_line(FILE *f, double x1, double y1, double x2, double y2, const char *colour)
{
    fprintf(f, "  <line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1,
            x2, y2, colour);
}

static void write_axes(FILE *f, const plot *p, const scale *s)
{
    char text[64];
    const int lines = (int)(s->top / s->step * 1.0001);
    for (int i = 0; i <= lines; i++) {
        const double y = i * s->step;
        write_line(f, LEFT, y_of(s, y), WIDTH - RIGHT, y_of(s, y), y > 0 ? "#e4e4e4" : "#333333");
        snprintf(text, sizeof text, "%g", y);
        write_label(f, LEFT - 8, y_of(s, y) + 4, " text-anchor=\"end\"", text);
    }
    const int last = s->last >= s->first ? (int)floor(s->last + 1e-9) : INT_MIN;
    for (int x = (int)ceil(s->first - 1e-9); x <= last; x++) {
        double at = x_of(s, exp2(x));
        write_line(f, at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 5, "#333333");
        snprintf(text, sizeof text, "%g", exp2(x));
        write_label(f, at, HEIGHT - BOTTOM + 20, " text-anchor=\"middle\"", text);
    }
    write_line(f, LEFT, TOP, LEFT, HEIGHT - BOTTOM, "#333333");
    write_label(f, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 18, " text-anchor=\"middle\"",
                p->x_label);
    snprintf(text, sizeof text, " text-anchor=\"middle\" transform=\"rotate(-90 20 %d)\"",
             (TOP + HEIGHT - BOTTOM) / 2);
    write_label(f, 20, (TOP + HEIGHT - BOTTOM) / 2.0, text, p->y_label);
    write_label(f, LEFT, 30, " font-size=\"17\" font-weight=\"bold\"", p->title);
}

static void write_series(FILE *f, const plot_series *p, const scale *s)
{
    const char *colour = colours[p->colour % COLOURS];
    fprintf(f, "  <polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
            p->dashed ? " stroke-dasharray=\"6 4\"" : "");
    for (int i = 0; i < p->count; i++)
        fprintf(f, "%s%.1f,%.1f", i ? " " : "", x_of(s, p->x[i]), y_of(s, p->y[i]));
    fputs("\"/>\n", f);
    for (int i = 0; i < p->count; i++)
        fprintf(f,
                "  <circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" stroke=\"%s\" stroke-width=\"1.5\" "
                "fill=\"%s\"><title>%g: %.4g</title></circle>\n",
                x_of(s, p->x[i]), y_of(s, p->y[i]), colour, p->dashed ? "white" : colour, p->x[i],
                p->y[i]);
}

/* Writes the legend at the lower right, where rising curves leave space. */
static void write_legend(FILE *f, const plot *p)
{
    double x = WIDTH - RIGHT - 290, y = HEIGHT - BOTTOM - 16 - LEGEND_LINE * p->count;
    if (p->count == 0)
        return;
    fprintf(f,
            "  <rect x=\"%.1f\" y=\"%.1f\" width=\"280\" height=\"%d\" fill=\"white\" "
            "fill-opacity=\"0.85\" stroke=\"#cccccc\"/>\n",
            x, y, LEGEND_LINE * p->count + 8);
    for (int i = 0; i < p->count; i++) {
        const plot_series *s = &p->series[i];
        double at = y + LEGEND_LINE * i + 14;
        fprintf(f,
                "  <line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"2\"%s/>\n",
                x + 10, at, x + 44, at, colours[s->colour % COLOURS],
                s->dashed ? " stroke-dasharray=\"6 4\"" : "");
        write_label(f, x + 52, at + 4, "", s->label);
    }
}

bool plot_write(const plot *p, FILE *file)
{
    const scale s = scale_of(p);
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222222\">\n"
            "  <rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    write_axes(file, p, &s);
    for (int i = 0; i < p->count; i++)
        write_series(file, &p->series[i], &s);
    write_legend(file, p);
    fputs("</svg>\n", file);
    return !ferror(file);
}

bool plot_write_file(const plot *p, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    bool ok = plot_write(p, file);
    return fclose(file) == 0 && ok;
}

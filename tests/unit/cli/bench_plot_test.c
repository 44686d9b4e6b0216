/* The drawing of `troupe bench cutlass`: an SVG that is well-formed whatever is drawn, with what
 * was drawn in it. */
#include "bench/suite/plot_svg.h"
#include "support/label.h"

#include "support/unit.h"

#include <ctype.h>
#include <math.h>

TROUPE_TEST("no tsan");

static char *draw(const plot *p)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_true(plot_write(p, file));
    fclose(file);
    return text;
}

/* One tag, from behind its '<': its attributes are quoted; where it ends. */
static const char *read_tag(const char *at, char name[32], bool *closes, bool *empty)
{
    size_t length = 0;
    *closes = *at == '/';
    at += *closes;
    while (isalnum((unsigned char)*at) && length < 31)
        name[length++] = *at++;
    name[length] = '\0';
    assert_true(length > 0);
    while (*at && *at != '>' && *at != '/') {
        assert_true(isspace((unsigned char)*at));
        at += strspn(at, " \n");
        if (*at == '>' || *at == '/')
            break;
        at += strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789");
        assert_memory_equal(at, "=\"", 2);
        at += 2;
        at += strcspn(at, "\"<");
        assert_true(*at++ == '"');
    }
    *empty = *at == '/';
    at += *empty;
    assert_true(*at == '>');
    return at + 1;
}

/* Tags are nested, entities are whole, everything is plain text. */
static void check_form(const char *text)
{
    static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    char stack[8][32], name[32];
    int depth = 0, roots = 0;
    assert_memory_equal(text, head, sizeof head - 1);
    for (const char *at = text + sizeof head - 1; *at;) {
        bool closes, empty;
        if (*at == '&') {
            assert_true(!strncmp(at, "&lt;", 4) || !strncmp(at, "&gt;", 4) ||
                        !strncmp(at, "&amp;", 5));
            at++;
            continue;
        }
        assert_true(*at == '\n' || (*at >= 0x20 && *at < 0x7f));
        if (*at != '<') {
            assert_true(depth > 0 || isspace((unsigned char)*at));
            at++;
            continue;
        }
        at = read_tag(at + 1, name, &closes, &empty);
        if (closes) {
            assert_true(depth > 0);
            assert_string_equal(stack[--depth], name);
        } else if (!empty) {
            roots += depth == 0;
            assert_true(depth < 8);
            memcpy(stack[depth++], name, sizeof name);
        }
    }
    assert_int_equal(depth, 0);
    assert_int_equal(roots, 1);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

static void two_series(void **state)
{
    (void)state;
    plot p = {.title = "Squares", .x_label = "n", .y_label = "TFLOP/s"};
    for (int n = 1024; n <= 16384; n *= 2) {
        plot_add(&p, "ours", 0, false, n, 500 + n / 100.0);
        plot_add(&p, "theirs", 0, true, n, 510 + n / 120.0);
    }
    char *text = draw(&p);
    check_form(text);
    assert_int_equal(p.count, 2);
    assert_int_equal(count_of(text, "<polyline"), 2);
    assert_int_equal(count_of(text, "<circle"), 10);
    assert_int_equal(count_of(text, ">16384<"), 1);
    assert_int_equal(count_of(text, ">TFLOP/s<"), 1);
    assert_int_equal(count_of(text, ">ours<"), 1);
    assert_non_null(strstr(text, "stroke-dasharray"));
    free(text);
}

/* What lies higher is drawn higher, and nothing outside of the picture. */
static void places(void **state)
{
    (void)state;
    plot p = {.title = "t"};
    double x[3], y[3];
    plot_add(&p, "a", 0, false, 1000, 1);
    plot_add(&p, "a", 0, false, 3000, 700);
    plot_add(&p, "a", 0, false, 9000, 699.5);
    char *text = draw(&p), *at = strstr(text, "points=\"");
    check_form(text);
    assert_non_null(at);
    assert_int_equal(
        sscanf(at, "points=\"%lf,%lf %lf,%lf %lf,%lf", &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]),
        6);
    assert_true(x[0] < x[1] && x[1] < x[2] && y[0] > y[1] && y[1] <= y[2]);
    for (int i = 0; i < 3; i++)
        assert_true(x[i] >= 0 && x[i] <= 880 && y[i] >= 0 && y[i] <= 520);
    free(text);
}

static void odd_ones(void **state)
{
    (void)state;
    plot p = {.title = "a < b & c > d \" ' \x01 \xff"};
    char *text = draw(&p); /* nothing at all */
    check_form(text);
    assert_non_null(strstr(text, "a &lt; b &amp; c &gt; d"));
    free(text);
    plot_add(&p, "<&>", 9, false, 64, 0);
    plot_add(&p, "not numbers", 0, false, NAN, 1);
    plot_add(&p, "not numbers", 0, false, 1, INFINITY);
    plot_add(&p, "not numbers", 0, false, 0, 1);
    assert_int_equal(p.count, 1);
    text = draw(&p); /* one point, of height 0 */
    check_form(text);
    free(text);
    for (int i = 0; i < 2 * PLOT_POINTS; i++) {
        char label[16];
        snprintf(label, sizeof label, "%d", i);
        plot_add(&p, label, i, false, 1, 1e9);
        plot_add(&p, "<&>", 0, false, 64 + i, 1e-9);
    }
    assert_int_equal(p.count, PLOT_SERIES);
    assert_int_equal(p.series[0].count, PLOT_POINTS);
    text = draw(&p);
    check_form(text);
    free(text);
}

static void cannot_be_written(void **state)
{
    (void)state;
    const plot p = {.title = "t"};
    assert_false(plot_write_file(&p, "/nowhere/x.svg"));
    assert_false(plot_write_file(&p, "/dev/full"));
}

UNIT_MAIN(UNIT(two_series), UNIT(places), UNIT(odd_ones), UNIT(cannot_be_written))

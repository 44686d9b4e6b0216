#include "support/problems/dnn_problem.h"

#include <math.h>

/* Returns <dy, y> at a distance from x. */
static double along(trp_actor *dnn, dp_problem *p, const dp_slope *s, const double *direction,
                    double step)
{
    const dr_tensor *x = &p->value[s->x];
    double *old = h_malloc((x->count + 1) * sizeof *old), *result, sum = 0;
    double *moved = h_malloc((x->count + 1) * sizeof *moved);
    memcpy(old, x->v, x->count * sizeof *old);
    for (size_t i = 0; i < x->count; i++)
        moved[i] = old[i] + step * direction[i];
    dp_put(p, s->x, moved);
    dp_compute(dnn, p);
    result = dp_read(p, s->y);
    for (size_t i = 0; i < p->value[s->y].count; i++)
        sum += result[i] * p->value[s->dy].v[i];
    dp_put(p, s->x, old);
    free(result);
    free(moved);
    free(old);
    return sum;
}

void dp_check_slope(const char *file, int line, trp_actor *dnn, dp_problem *p, dp_slope s)
{
    const double step = 1e-5;
    const size_t count = p->value[s.x].count;
    double slope = 0, size = 1;
    dp_compute(dnn, p);
    if (p->refused)
        return;
    double *direction = h_malloc((count + 1) * sizeof *direction);
    double *g = dp_read(p, s.dx);
    for (size_t i = 0; i < count; i++) {
        direction[i] = ref_rng_uniform(h_rng(), -1, 1);
        slope += g[i] * direction[i];
        size += fabs(g[i] * direction[i]);
    }
    const double ahead = along(dnn, p, &s, direction, step);
    const double behind = along(dnn, p, &s, direction, -step);
    const double difference = (ahead - behind) / (2 * step);
    if (!(fabs(difference - slope) <= 1e-6 * size))
        h_fail(file, line,
               "%s: pointwise %d: tensor %u: slope %.12g, difference %.12g, %s in %u parts%s",
               p->kind, (int)p->node[0].pointwise, s.x, slope, difference, p->options.ran->engine,
               p->options.ran->parts, p->options.ran->proven ? "" : ", not proven");
    free(g);
    free(direction);
}

#include "window.h"

check_grid check_grid_of(const tensor *t)
{
    check_grid g = {.n = (int64_t)t->file.dim[0], .c = (int64_t)t->file.dim[1], .size = {1, 1, 1}};
    for (uint32_t i = 2; i < t->file.rank; i++)
        g.size[CHECK_DIMS - t->file.rank + i] = (int64_t)t->file.dim[i];
    return g;
}

bool check_grid_fill(check_grid *grid, const tensor *t)
{
    grid->value = tensor_values(t, false);
    return grid->value != NULL;
}

bool check_grid_is_empty(const check_grid *g)
{
    return g->n == 0 || g->c == 0 || g->size[0] == 0 || g->size[1] == 0 || g->size[2] == 0;
}

uint64_t check_grid_index(const check_grid *g, int64_t n, int64_t c, const int64_t *place)
{
    int64_t i = n * g->c + c;
    for (int d = 0; d < CHECK_DIMS; d++)
        i = i * g->size[d] + place[d];
    return (uint64_t)i;
}

void check_grid_place(const check_grid *g, uint64_t index, int64_t *n, int64_t *c, int64_t *place)
{
    int64_t rest = (int64_t)index;
    for (int d = CHECK_DIMS; d-- > 0;) {
        place[d] = rest % g->size[d];
        rest /= g->size[d];
    }
    *n = rest / g->c;
    *c = rest % g->c;
}

bool check_next(const int64_t *size, int64_t *place)
{
    for (int d = CHECK_DIMS; d-- > 0;) {
        if (++place[d] < size[d])
            return true;
        place[d] = 0;
    }
    return false;
}

check_window check_window_of(const check_grid *in, const check_grid *out, uint32_t dims,
                             const int64_t *pad, const int64_t *stride, const int64_t *dilation)
{
    check_window w;
    for (uint32_t d = 0; d < CHECK_DIMS; d++) {
        bool there = d + dims >= CHECK_DIMS;
        uint32_t i = there ? d + dims - CHECK_DIMS : 0;
        w.in[d] = in->size[d];
        w.out[d] = out->size[d];
        w.pad[d] = there ? pad[i] : 0;
        w.stride[d] = there ? stride[i] : 1;
        w.dilation[d] = there && dilation ? dilation[i] : 1;
    }
    return w;
}

bool check_under(const check_window *w, const int64_t *out, const int64_t *tap, int64_t *in)
{
    bool inside = true;
    for (int d = 0; d < CHECK_DIMS; d++) {
        in[d] = out[d] * w->stride[d] - w->pad[d] + tap[d] * w->dilation[d];
        inside = inside && in[d] >= 0 && in[d] < w->in[d];
    }
    return inside;
}

bool check_over(const check_window *w, const int64_t *in, const int64_t *tap, int64_t *out)
{
    bool there = true;
    for (int d = 0; d < CHECK_DIMS; d++) {
        int64_t from = in[d] + w->pad[d] - tap[d] * w->dilation[d];
        out[d] = from / w->stride[d];
        there = there && from >= 0 && from % w->stride[d] == 0 && out[d] < w->out[d];
    }
    return there;
}

/* SCATTER_ADD on the host, a part of f32.c and f64.c. The numbers of indices are sorted by their
 * targets; then each target is summed separately in the order of the numbers. So threads can share
 * the targets, and the result has the same bits for any number of threads. */

typedef struct NAME(scatter) {
    const trp__train_node *x;
    const trp__gather *g;
    int64_t targets;
    const int64_t *first; /* begin of each target's numbers, and the end */
    const int64_t *order; /* numbers */
} NAME(scatter);

/* Sorts by counting, which keeps the order within a target. */
static void NAME(sort)(NAME(scatter) * s, int64_t *memory)
{
    int64_t *first = memory, *order = first + s->targets + 1, *target = order + s->g->count;
    memset(first, 0, (size_t)(s->targets + 1) * sizeof *first);
    for (int64_t i = 0; i < s->g->count; i++) {
        target[i] = trp__gather_target(s->x, s->g, i);
        if (target[i] >= 0)
            first[target[i] + 1]++;
    }
    for (int64_t t = 0; t < s->targets; t++)
        first[t + 1] += first[t];
    for (int64_t i = 0; i < s->g->count; i++) {
        if (target[i] >= 0)
            order[first[target[i]]++] = i;
    }
    for (int64_t t = s->targets; t > 0; t--) /* each begin has become the next target's */
        first[t] = first[t - 1];
    first[0] = 0;
    s->first = first;
    s->order = order;
}

static void NAME(scatter_line)(const NAME(scatter) * s, int64_t target, int64_t line)
{
    enum { BLOCK = 512 };
    const trp__train_node *x = s->x;
    const trp__gather *g = s->g;
    const trp__dnn_tensor *whole = x->t[TRP__GATHER_WHOLE], *before = x->t[TRP__GATHER_BEFORE];
    const trp__dnn_tensor *slices = x->t[TRP__GATHER_SLICES];
    const int64_t to = trp__gather_whole(g, whole, target, line);
    const int64_t old = before ? trp__gather_whole(g, before, target, line) : 0;
    const int64_t old_step = before ? before->stride[g->rank - 1] : 0;
    T sum[BLOCK], block[BLOCK];
    for (int64_t i = 0, count; i < g->line; i += count) {
        count = g->line - i < BLOCK ? g->line - i : BLOCK;
        memset(sum, 0, sizeof sum);
        if (before) {
            const T *v =
                VIEW(before, x->at[TRP__GATHER_BEFORE], old + i * old_step, old_step, count, sum);
            if (v != sum)
                memcpy(sum, v, (size_t)count * sizeof(T));
        }
        for (int64_t k = s->first[target]; k < s->first[target + 1]; k++) {
            const int64_t from = trp__gather_slice(x, g, s->order[k], line);
            const T *v = VIEW(slices, x->at[TRP__GATHER_SLICES], from + i * g->slices_step,
                              g->slices_step, count, block);
            for (int64_t e = 0; e < count; e++)
                sum[e] += v[e];
        }
        PUT(whole, x->at[TRP__GATHER_WHOLE], to + i * g->whole_step, g->whole_step, count, sum);
    }
}

static void NAME(scatter_part)(void *context, int64_t first, int64_t end)
{
    const NAME(scatter) *s = context;
    const bool same = s->x->at[TRP__GATHER_BEFORE] == s->x->at[TRP__GATHER_WHOLE];
    for (int64_t target = first; target < end; target++) {
        if (same && s->first[target] == s->first[target + 1])
            continue;
        for (int64_t line = 0; line < s->g->lines; line++)
            NAME(scatter_line)(s, target, line);
    }
}

void NAME(trp__train_scatter)(const trp__train_node *x)
{
    const trp__dnn_tensor *whole = x->t[TRP__GATHER_WHOLE];
    const trp__gather g = trp__gather_of(x);
    const int64_t all = trp__dnn_elements(whole);
    NAME(scatter) s = {.x = x, .g = &g};
    if (all == 0)
        return;
    s.targets = g.elements ? all : whole->dim[g.axis];
    NAME(sort)(&s, (int64_t *)(void *)x->scratch);
    trp__train_share(s.targets, (1 << 15) / (g.line * g.lines) + 1, NAME(scatter_part), &s);
}

#include "rows.h"

#include <stdio.h>

dnn_rows dnn_rows_begin(suite *s)
{
    return (dnn_rows){.suite = s, .begun = stats_now()};
}

bool dnn_rows_late(const dnn_rows *rows)
{
    return (double)(stats_now() - rows->begun) > rows->suite->limit * 1e9;
}

void dnn_rows_run(const dnn_rows *rows, size_t count, dnn_rows_layer layer, void *context)
{
    suite *s = rows->suite;
    dnn_place place;
    size_t done = 0;
    bool good = dnn_open(s, &place);
    trp_actor *actor = good ? suite_actor(s, "dnn") : NULL;
    if (!good)
        suite_fail(s, "a device of its own");
    for (; actor && done < count && !dnn_rows_late(rows); done++)
        layer(context, actor, done);
    if (actor && dnn_rows_late(rows))
        printf("  stopped after %g s (--limit): %zu of %zu layers\n", s->limit, done, count);
    trp_actor_destroy(actor);
    dnn_close(s, &place);
}

stats_summary dnn_rows_known(double ns)
{
    return (stats_summary){.samples = ns > 0,
                           .operations = 1,
                           .min = ns,
                           .p50 = ns,
                           .p90 = ns,
                           .p99 = ns,
                           .max = ns,
                           .mean = ns};
}

/* A block includes the wake-ups of worker and program, about 0.1 ms, which short alternating blocks
 * do not amortise. PyTorch's figures come from blocks of one side alone, so blocks here are as
 * short: a GPU that is busy for longer lowers its clock. */
static bool time_it(suite *s, const dnn_work *work, report_row *row)
{
    return work->raw.run ? suite_time_blocks(s, 9, 50e6, false, work->raw, work->side, row)
                         : suite_time_blocks(s, 5, 10e6, false, work->raw, work->side, row);
}

bool dnn_rows_measure(const dnn_rows *rows, const dnn_work *work, report_row *out)
{
    suite *s = rows->suite;
    *out = (report_row){.raw = work->raw.run ? work->raw_name
                               : s->torch    ? "PyTorch"
                                             : NULL,
                        .type = trp_dtype_name(work->type)};
    suite_set_flop(s, out, work->flop);
    snprintf(out->name, sizeof out->name, "%s", work->name);
    if (!time_it(s, work, out)) {
        suite_fail(s, out->name);
        return false;
    }
    if (!work->raw.run)
        out->raw_ns = dnn_rows_known(dnn_torch_ns(s, out->name));
    if (work->ran)
        snprintf(out->note, sizeof out->note, "%s%.30s", work->ran->parts > 1 ? "pieces " : "",
                 work->ran->engine);
    report_add(s->report, out);
    return true;
}

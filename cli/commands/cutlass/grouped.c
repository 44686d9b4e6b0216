/* troupe cutlass grouped: products of pieces of a matrix, each with a matrix of its own. */
#include "cutlass.h"

#include "ui/sizes.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALONG_M, ALONG_N, ALONG_K };

/* Returns the matrix that each group has its own of. */
static int stacked(const cutlass *job)
{
    return job->along == ALONG_M ? CUTLASS_B : job->along == ALONG_N ? CUTLASS_A : CUTLASS_D;
}

static uint64_t groups_in(const char *text)
{
    uint64_t count = 1;
    for (const char *c = text; *c; c++)
        count += *c == ',';
    return count;
}

/* Parses "3,0,5" into the ends of groups. */
bool cutlass_read_sizes(cutlass *job)
{
    const char *at = job->sizes;
    int64_t size, end = 0;
    job->groups = groups_in(at);
    job->ends = malloc(job->groups * sizeof *job->ends);
    for (uint64_t i = 0; job->ends && i < job->groups; i++) {
        at = sizes_next(at, &size);
        if (!at || size > INT32_MAX - end) {
            ui_error("--sizes: expected numbers like 3,0,5, below 2^31 in all, got '%s'",
                     job->sizes);
            return false;
        }
        job->ends[i] = (int32_t)(end += size);
    }
    if (!job->ends)
        ui_error("--sizes: no memory for %" PRIu64 " groups", job->groups);
    return job->ends != NULL;
}

/* Checks that the divided matrix has as many lines as all groups together. */
static bool check_sum(const cutlass *job, const operand *o, bool rows)
{
    uint64_t lines = rows ? o->file.rows : o->file.cols, sum = (uint64_t)job->ends[job->groups - 1];
    if (lines == sum)
        return true;
    ui_wrong("--sizes: expected groups of %" PRIu64 " %s in all, got %" PRIu64 "; %s", lines,
             rows ? "rows" : "columns", sum, operand_describe(o).s);
    return false;
}

/* Returns the rows that each group has of a stacked matrix. */
static bool rows_of_one(const cutlass *job, const operand *o, uint64_t *rows)
{
    *rows = o->file.rows / job->groups;
    if (o->file.rows % job->groups == 0)
        return true;
    ui_error("%s: expected matrices of %" PRIu64 " groups on top of each other; %s", o->option,
             job->groups, operand_describe(o).s);
    return false;
}

static bool settle(cutlass *job)
{
    const operand *a = &job->operand[CUTLASS_A], *b = &job->operand[CUTLASS_B];
    uint64_t b_rows = b->file.rows;
    job->m = a->file.rows;
    job->k = a->file.cols;
    job->n = b->file.cols;
    if (job->along == ALONG_M   ? !check_sum(job, a, true) || !rows_of_one(job, b, &b_rows)
        : job->along == ALONG_N ? !check_sum(job, b, false) || !rows_of_one(job, a, &job->m)
                                : !check_sum(job, a, false))
        return false;
    job->d_rows = job->along == ALONG_K ? job->m * job->groups : job->m;
    job->d_cols = job->n;
    job->flop = 2 * job->m * job->n * job->k;
    if (job->k == b_rows)
        return true;
    ui_error("the shapes do not agree: %s, %s; columns of the first must equal rows of %s",
             operand_describe(a).s, operand_describe(b).s,
             job->along == ALONG_M ? "each group's part of the second" : "the second");
    return false;
}

/* Returns the distance from one group's matrix to the next, below it. */
static int64_t stride_of(const trp_matmul_matrix *x, uint64_t rows)
{
    return x->order == TRP_ROW_MAJOR ? x->ld * (int64_t)rows : (int64_t)rows;
}

static trp_status send(cutlass *job, const trp_cutlass_gemm_request *r, trp_completion *done)
{
    static const trp_cutlass_grouping groupings[] = {
        TRP_CUTLASS_GROUPS_OF_M, TRP_CUTLASS_GROUPS_OF_N, TRP_CUTLASS_GROUPS_OF_K};
    const cutlass_choice choice = cutlass_choice_of(job);
    size_t bytes = job->groups * sizeof *job->ends;
    trp_cutlass_chosen chosen = {0};
    trp_completion sent = {0};
    trp_cutlass_grouped_gemm_request g = {.groups = (int64_t)job->groups,
                                          .grouping = groupings[job->along],
                                          .compute = r->compute,
                                          .m = r->m,
                                          .n = r->n,
                                          .k = r->k,
                                          .a = r->a,
                                          .b = r->b,
                                          .c = r->c,
                                          .d = r->d,
                                          .epilogue = job->tree.node,
                                          .epilogue_count = job->tree.count,
                                          .kernel = choice.kernel,
                                          .tune = choice.tune,
                                          .chosen = &chosen};
    if (stacked(job) == CUTLASS_A)
        g.a.stride = stride_of(&g.a, job->m);
    else if (stacked(job) == CUTLASS_B)
        g.b.stride = stride_of(&g.b, job->k);
    else
        g.c.stride = g.d.stride = stride_of(&g.d, job->m);
    trp_status status = trp_buffer_create(job->run.device, bytes, &job->table);
    if (status == TRP_OK)
        status = trp_write(job->run.device, job->table, 0, job->ends, bytes, &sent);
    if (status == TRP_OK)
        status = trp_await(sent.future, TRP_FOREVER, NULL);
    g.table = job->table;
    if (status == TRP_OK)
        status = cutlass_sent(job, &chosen, trp_cutlass_grouped_gemm(job->run.actor, &g, done));
    return status;
}

uint64_t cutlass_copies(const cutlass *job, bool per_row, bool per_column)
{
    bool whole = (per_row && job->along == ALONG_M) || (per_column && job->along == ALONG_N);
    return whole ? 0 : job->groups;
}

const cutlass_kind cutlass_grouped = {"grouped product", "multiplying", false, settle, send};

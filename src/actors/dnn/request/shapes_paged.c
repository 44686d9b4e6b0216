/* Checks a PAGED_LOAD node. */
#include "actors/dnn/request/shapes.h"

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

enum { RANK = 4, PAGES = 0, BATCH = 0, HEADS = 1, ROWS = 2, DEPTH = 3 };

static trp__dnn_tensor *tensor(const checked *c, int at)
{
    return &c->m->tensor[c->n->port[at]];
}

/* Checks the table and the lengths, in memory or from an earlier node. */
static trp_status check_integers(const checked *c, int at)
{
    trp__dnn_tensor *t = tensor(c, at);
    if (t->role == TRP__DNN_VALUE)
        return FAIL(c, at, "expected a tensor that is no value");
    if (t->type == TRP_DTYPE_NONE)
        t->type = TRP_I32;
    return t->type == TRP_I32
               ? TRP_OK
               : FAIL(c, at, "expected i32, got %s", trp_dtype_name((trp_dtype)t->type));
}

/* Computes the rows of y: as given, or those of the pages of a table. */
static trp_status check_rows(const checked *c, int64_t *rows)
{
    const trp__dnn_tensor *y = tensor(c, TRP__DNN_PAGED_Y);
    const int64_t size = tensor(c, TRP__DNN_PAGED_X)->dim[ROWS];
    const int64_t pages = tensor(c, TRP__DNN_PAGED_TABLE)->dim[ROWS];
    if (size < 1)
        return FAIL(c, TRP__DNN_PAGED_X, "dimension 2: expected pages of at least 1 row, got %lld",
                    (long long)size);
    if (y->rank == 0 && __builtin_mul_overflow(pages, size, rows))
        return FAIL(c, TRP__DNN_PAGED_TABLE, "expected fewer pages, got %lld of %lld rows",
                    (long long)pages, (long long)size);
    if (y->rank == 0)
        return TRP_OK;
    if (y->rank != RANK)
        return FAIL(c, TRP__DNN_PAGED_Y, "expected 4 dimensions, got %d", y->rank);
    *rows = y->dim[ROWS];
    const int64_t needed = *rows / size + (*rows % size != 0);
    return pages == needed
               ? TRP_OK
               : FAIL(c, TRP__DNN_PAGED_TABLE,
                      "dimension 2: expected %lld, for %lld rows in pages of %lld, "
                      "got %lld",
                      (long long)needed, (long long)*rows, (long long)size, (long long)pages);
}

static trp_status check_types(const checked *c)
{
    trp__dnn_tensor *x = tensor(c, TRP__DNN_PAGED_X), *y = tensor(c, TRP__DNN_PAGED_Y);
    if (x->role == TRP__DNN_VALUE)
        return FAIL(c, TRP__DNN_PAGED_X, "expected a tensor that is no value");
    if (x->type != TRP_F64 && x->type != TRP_F32 && x->type != TRP_F16 && x->type != TRP_BF16)
        return FAIL(c, TRP__DNN_PAGED_X, "expected f64, f32, f16 or bf16, got %s",
                    trp_dtype_name((trp_dtype)x->type));
    if (y->type == TRP_DTYPE_NONE)
        y->type = x->type;
    if (y->type != x->type)
        return FAIL(c, TRP__DNN_PAGED_Y, "expected %s, as x has, got %s",
                    trp_dtype_name((trp_dtype)x->type), trp_dtype_name((trp_dtype)y->type));
    trp_status status = check_integers(c, TRP__DNN_PAGED_TABLE);
    return status == TRP_OK ? check_integers(c, TRP__DNN_PAGED_SEQ_KV) : status;
}

trp_status trp__dnn_check_paged(const checked *c)
{
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_PAGED_X),
                          *table = tensor(c, TRP__DNN_PAGED_TABLE);
    int64_t rows = 0;
    if (x->rank != RANK)
        return FAIL(c, TRP__DNN_PAGED_X,
                    "expected 4 dimensions, pages, heads, rows and depth, got %d", x->rank);
    if (x->dim[PAGES] < 1)
        return FAIL(c, TRP__DNN_PAGED_X, "dimension 0: expected at least 1 page, got %lld",
                    (long long)x->dim[PAGES]);
    if (table->rank != RANK || table->dim[1] != 1 || table->dim[3] != 1)
        return FAIL(c, TRP__DNN_PAGED_TABLE,
                    "expected batches x 1 x pages x 1, got %lld x %lld x %lld x %lld",
                    (long long)table->dim[0], (long long)table->dim[1], (long long)table->dim[2],
                    (long long)table->dim[3]);
    trp_status status = check_rows(c, &rows);
    const int64_t y[RANK] = {table->dim[BATCH], x->dim[HEADS], rows, x->dim[DEPTH]};
    const int64_t lengths[RANK] = {table->dim[BATCH], 1, 1, 1};
    if (status == TRP_OK)
        status = trp__dnn_expect_dims(c, TRP__DNN_PAGED_SEQ_KV, RANK, lengths);
    if (status == TRP_OK)
        status = trp__dnn_expect_dims(c, TRP__DNN_PAGED_Y, RANK, y);
    return status == TRP_OK ? check_types(c) : status;
}

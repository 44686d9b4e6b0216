/* Loads rows from pages, one element at a time; elements without a page are NaN.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/dnn_reference.h"

#include <math.h>

void dr_paged_load(const dr_work *w)
{
    const dr_tensor *x = dr_of(w, w->n->x), *table = dr_of(w, w->n->table);
    const dr_tensor *length = dr_of(w, w->n->seq_kv);
    dr_tensor *y = dr_of(w, w->n->y);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = y->count > 0; more; more = dr_next(y, at)) {
        const size_t to = dr_at(y, at);
        if ((double)at[2] >= length->v[at[0]])
            continue;
        const double page = table->v[dr_at(table, (int64_t[]){at[0], 0, at[2] / x->dim[2], 0})];
        const bool known = page >= 0 && page < (double)x->dim[0];
        const size_t from =
            known ? dr_at(x, (int64_t[]){(int64_t)page, at[1], at[2] % x->dim[2], at[3]}) : 0;
        y->v[to] = known ? x->v[from] : NAN;
        y->e[to] = known ? x->e[from] : 0;
    }
}

#include "support/problems/dnn_wrong.h"

void dw_good(const dw_table *table, dw_graph *p)
{
    table->make(p, table->buffer);
    p->request = (trp_dnn_graph_request){.tensors = p->tensor,
                                         .tensor_count = table->tensors,
                                         .nodes = p->node,
                                         .node_count = table->nodes};
}

void dw_check(const char *file, int line, trp_actor *dnn, const dw_table *table)
{
    for (int row = 0;; row++) {
        dw_graph p;
        trp_completion c = {.future = {7}};
        dw_good(table, &p);
        const char *says = table->spoil(&p, row);
        if (!says && row > 0)
            return;
        if (!says)
            h_fail(file, line, "the table has no rows");
        h_check_status(file, line, says, trp_dnn_graph(dnn, &p.request, &c), TRP_E_ARGUMENT);
        h_check_says(file, line, trp_error_message(), says);
        h_check_equal(file, line, says, c.future.id, 7);
    }
}

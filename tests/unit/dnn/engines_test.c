/* The table of engines as the tests of the dnn actor read it. SPDX-License-Identifier: Apache-2.0
 */
#include "support/problems/engines.h"
#include "support/harness.h"

TROUPE_TEST("no tsan");

/* One node that reads tensors[1]. */
static bool allows(trp_dtype type, trp_dnn_node node)
{
    const trp_dnn_tensor tensors[2] = {{0}, {.type = type, .rank = 1, .dim = {4}}};
    return engines_allow_plain(tensors, &node, 1);
}

static void rows(void)
{
    const trp_dnn_node conv = {.kind = TRP_DNN_CONV_FORWARD, .x = 1},
                       turned = {.kind = TRP_DNN_CONV_FORWARD, .x = 1, .flip = true},
                       sum = {.kind = TRP_DNN_REDUCTION, .x = 1},
                       dropout = {.kind = TRP_DNN_ATTENTION,
                                  .q = 1,
                                  .parameter = {{0}, {.re = 0.1, .given = true}}},
                       attention = {.kind = TRP_DNN_ATTENTION, .q = 1};
    H_CHECK(allows(TRP_I64, (trp_dnn_node){.kind = TRP_DNN_RANDOM, .seed = 1}));
    H_CHECK(allows(TRP_BOOL, conv) && allows(TRP_I8, conv));
    H_CHECK(!allows(TRP_F32, conv) && !allows(TRP_BF16, conv));
    H_CHECK(allows(TRP_F32, turned));
    H_CHECK(!allows(TRP_F32, sum) && !allows(TRP_F64, sum));
    H_CHECK(allows(TRP_F32, attention) && !allows(TRP_F16, attention));
    H_CHECK(allows(TRP_F16, dropout));
}

/* A graph may run so if any of its nodes may. */
static void graphs(void)
{
    const trp_dnn_tensor tensors[3] = {{0}, {.type = TRP_F32, .rank = 1, .dim = {4}}, {0}};
    const trp_dnn_node nodes[] = {{.kind = TRP_DNN_POINTWISE, .x = 1, .y = 2},
                                  {.kind = TRP_DNN_RANDOM, .seed = 1}};
    H_CHECK(!engines_allow_plain(tensors, nodes, 1));
    H_CHECK(engines_allow_plain(tensors, nodes, 2));
    H_CHECK(!engines_allow_plain(tensors, nodes, 0));
}

/* Each kind has a name that the table can use. */
static void names(void)
{
    for (int kind = TRP_DNN_CONV_FORWARD; kind <= TRP_DNN_PAGED_LOAD; kind++)
        H_CHECK(engines_name((trp_dnn_kind)kind) != NULL);
    H_CHECK(engines_name(TRP_DNN_NONE) == NULL);
    H_CHECK(engines_name((trp_dnn_kind)1000) == NULL);
}

H_CASES(H_CASE(rows), H_CASE(graphs), H_CASE(names))

/* See dnn_small.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_small.h"

#include <float.h>
#include <math.h>

h_world ds_world;
trp_actor *ds_dnn;
trp_dnn_ran ds_ran;

void ds_begin(void)
{
    ds_world = h_open(NULL);
    ds_dnn = h_actor(ds_world.device, "dnn");
}

void ds_end(void)
{
    h_close(&ds_world);
}

uint32_t ds_put(ds_graph *g, trp_dtype type, uint32_t rank, const int64_t *dim, const double *v,
                size_t values)
{
    const uint32_t number = ++g->tensors;
    trp_dnn_tensor *t = &g->tensor[number];
    size_t count = 1;
    *t = (trp_dnn_tensor){.type = type, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        t->dim[i] = dim[i];
        count *= (size_t)dim[i];
    }
    const size_t size = trp_dtype_bits(type) / 8, bytes = (count ? count : 1) * size;
    unsigned char *data = h_malloc(bytes);
    memset(data, 0x5a, bytes);
    for (size_t i = 0; v && i < count; i++)
        dr_store(type, data, (int64_t)i, v[i % values]);
    t->buffer = h_buffer(ds_world.device, bytes);
    h_write(ds_world.device, t->buffer, 0, data, bytes);
    free(data);
    g->count[number] = count;
    return number;
}

uint32_t ds_line(ds_graph *g, trp_dtype type, size_t count, const double *v, size_t values)
{
    const int64_t dim = (int64_t)count;
    return ds_put(g, type, 1, &dim, v, values);
}

uint32_t ds_number(ds_graph *g, double value)
{
    g->tensor[++g->tensors] = (trp_dnn_tensor){.value = trp_real(value)};
    return g->tensors;
}

trp_dnn_node *ds_node(ds_graph *g, trp_dnn_kind kind)
{
    g->node[g->nodes] = (trp_dnn_node){.kind = kind};
    return &g->node[g->nodes++];
}

trp_status ds_send(ds_graph *g, trp_completion *done)
{
    const trp_dnn_graph_request r = {.options.ran = &ds_ran,
                                     .tensors = g->tensor,
                                     .tensor_count = g->tensors + 1,
                                     .nodes = g->node,
                                     .node_count = g->nodes};
    return trp_dnn_graph(ds_dnn, &r, done);
}

void ds_run(ds_graph *g)
{
    trp_completion done = {0};
    H_OK(ds_send(g, &done));
    H_OK(h_await_any(done));
}

double *ds_get(const ds_graph *g, uint32_t t)
{
    const size_t size = trp_dtype_bits(g->tensor[t].type) / 8, count = g->count[t];
    unsigned char *data = h_malloc(count * size + 1);
    double *v = h_malloc((count + 1) * sizeof *v);
    h_read(ds_world.device, g->tensor[t].buffer, 0, data, count * size);
    for (size_t i = 0; i < count; i++)
        v[i] = dr_load(g->tensor[t].type, data, (int64_t)i);
    free(data);
    return v;
}

void ds_drop(ds_graph *g)
{
    for (uint32_t i = 1; i <= g->tensors; i++) {
        if (g->tensor[i].buffer.id)
            H_OK(trp_buffer_free(ds_world.device, g->tensor[i].buffer));
    }
    *g = (ds_graph){0};
}

double ds_step_of(trp_dtype type)
{
    return type == TRP_F64   ? 0x1p-52
           : type == TRP_F32 ? 0x1p-23
           : type == TRP_F16 ? 0x1p-10
                             : 0x1p-7;
}

double ds_smallest(trp_dtype type)
{
    return type == TRP_F64    ? 0x1p-1074
           : type == TRP_F16  ? 0x1p-24
           : type == TRP_BF16 ? 0x1p-133
                              : 0x1p-149;
}

double ds_most_of(trp_dtype type)
{
    return type == TRP_F64   ? DBL_MAX
           : type == TRP_F32 ? (double)FLT_MAX
           : type == TRP_F16 ? 65504
                             : 0x1.fep127;
}

void ds_check(const char *what, trp_dtype type, size_t at, double got, double want, double units,
              double size)
{
    const double held = dr_round(type, want);
    if (isnan(want) ? isnan(got) : got == held || got == want)
        return;
    const double bound = units * ds_step_of(type) * fmax(fabs(want), size) + 2 * ds_smallest(type);
    if (!isnan(want) && !isinf(held) && fabs(got - want) <= bound)
        return;
    if (isinf(held) && fabs(want) <= ds_most_of(type) * (1 + 4 * ds_step_of(type)) &&
        fabs(got) >= ds_most_of(type) * (1 - 4 * ds_step_of(type)))
        return; /* a rounding away from infinity */
    h_fail(__FILE__, __LINE__, "%s, %s, by %s, element %zu: got %.17g, expected %.17g +- %.3g",
           what, trp_dtype_name(type), ds_ran.engine, at, got, want, bound);
}

void ds_check_all(const char *what, const ds_graph *g, uint32_t t, const double *want,
                  size_t values, double units, double size)
{
    double *got = ds_get(g, t);
    for (size_t i = 0; i < g->count[t]; i++)
        ds_check(what, g->tensor[t].type, i, got[i], want[i % values], units, size);
    free(got);
}

/* See calls.h. SPDX-License-Identifier: Apache-2.0 */
#include "conformance/calls.h"

static const cf_variant variants[] = {
    {.name = "f64", .type = TRP_F64}, {.name = "f32", .type = TRP_F32},
    {.name = "f16", .type = TRP_F16}, {.name = "bf16", .type = TRP_BF16},
    {.name = "i8", .type = TRP_I8},   {.name = "u8", .type = TRP_U8},
    {.name = "i32", .type = TRP_I32}, {.name = "bool", .type = TRP_BOOL},
};

/* ---- fields ---- */

static f_field *add(cf_fields *p, trp_dtype type, int rank, const int64_t *dim, double low,
                    double high)
{
    H_CHECK(p->count < CF_FIELDS);
    f_field *f = &p->field[p->count++];
    *f = f_draw(type, rank, dim, p->packed || p->tight, low, high);
    if (p->tight)
        f->bytes -= 2 * (trp_dtype_bits(type) / 8); /* exactly as many as its elements */
    f->t.buffer.id = p->count;
    return f;
}

f_field *cf_in(cf_fields *p, trp_dtype type, int rank, const int64_t *dim, double low, double high)
{
    return add(p, type, rank, dim, low, high);
}

f_field *cf_out(cf_fields *p, trp_dtype type, int rank, const int64_t *dim)
{
    return add(p, type, rank, dim, 1, 0);
}

double *cf_zeros(int64_t count)
{
    double *v = calloc((size_t)count + 1, sizeof *v);
    H_CHECK(v);
    return v;
}

double *cf_want(cf_fields *p, const f_field *f, double size, double units, bool wide)
{
    const size_t at = (size_t)(f - p->field);
    p->wanted[at].v = cf_zeros(f->count);
    p->wanted[at].size = size;
    p->wanted[at].units = units;
    p->wanted[at].wide = wide;
    return p->wanted[at].v;
}

/* ---- the family ---- */

static void drop(cf_problem *problem)
{
    cf_fields *p = problem->own;
    for (unsigned i = 0; i < p->count; i++) {
        p->field[i].t.buffer.id = 0;
        f_drop(&p->field[i]);
        free(p->wanted[i].v);
    }
    free(p);
}

/* Returns the field that a tensor of the request is, or is a part of; NULL: none. */
static f_field *field_of(cf_fields *p, const cf_tensor *tensor)
{
    trp_dnn_tensor t;
    memcpy(&t, p->request + tensor->at, sizeof t);
    H_CHECK(t.buffer.id <= p->count);
    return t.buffer.id ? &p->field[t.buffer.id - 1] : NULL;
}

static bool draw(cf_problem *problem, unsigned way, cf_kind kind)
{
    cf_fields *p = h_malloc(sizeof *p);
    *p = (cf_fields){.call = problem->operation->row, .tight = kind == CF_TIGHT};
    problem->own = p;
    bool good = p->call->draw(p, variants[problem->variant].type, way);
    for (unsigned i = 0; i < p->count; i++)
        good = good && (!p->tight || p->field[i].bytes > 1);
    if (!good) {
        drop(problem);
        return false;
    }
    for (unsigned i = 0; i < p->count; i++) {
        block *b = &p->blocks[i];
        *b = block_make(p->field[i].bytes, NULL);
        memcpy(b->before, p->field[i].raw, b->bytes);
    }
    for (const cf_tensor *t = p->call->tensor; t->name; t++) {
        const f_field *f = field_of(p, t);
        if (!f || !t->use || (t->use == CF_SHARED && !p->wanted[f - p->field].v))
            continue;
        f_mark(f, p->blocks[f - p->field].writable);
    }
    problem->blocks = p->blocks;
    problem->block_count = (int)p->count;
    problem->may_fault = p->may_fault;
    return true;
}

static void make_request(const cf_problem *problem, void *out)
{
    cf_fields *p = problem->own;
    trp_dnn_ran *ran = &p->ran;
    memcpy(out, p->request, p->call->request_bytes);
    for (const cf_tensor *t = p->call->tensor; t->name; t++) {
        const f_field *f = field_of(p, t);
        if (f)
            memcpy((char *)out + t->at + offsetof(trp_dnn_tensor, buffer),
                   &p->blocks[f - p->field].buffer, sizeof(trp_buffer));
    }
    memcpy((char *)out + p->call->ran_at, &ran, sizeof ran);
}

static trp_status submit(trp_actor *dnn, const cf_problem *problem, void *request,
                         trp_completion *done)
{
    ((trp_request *)request)->wait_ns = TRP_FOREVER;
    return ((const cf_call *)problem->operation->row)->send(dnn, request, done);
}

static trp_status send(trp_actor *dnn, const cf_problem *problem, trp_completion *done)
{
    _Alignas(16) unsigned char request[CF_REQUEST_BYTES];
    make_request(problem, request);
    return submit(dnn, problem, request, done);
}

static bool check(cf_problem *problem, cf_tally *tally)
{
    cf_fields *p = problem->own;
    for (unsigned i = 0; i < p->count; i++) {
        f_decode(&p->field[i], p->blocks[i].after);
        if (p->wanted[i].v && !f_right(&p->field[i], p->wanted[i].v, p->wanted[i].size,
                                       p->wanted[i].units, p->wanted[i].wide, &tally->worst)) {
            fprintf(stderr, "%s: field %u\n", p->call->name, i);
            return false;
        }
    }
    if (h_is_cuda() && p->engine && strncmp(p->ran.engine, p->engine, strlen(p->engine)) != 0) {
        fprintf(stderr, "%s: by %s, expected %s\n", p->call->name, p->ran.engine, p->engine);
        return false;
    }
    return !p->call->check || p->call->check(p);
}

/* Mistakes that no table of fields describes: in a rank, a dimension, a type. */
static bool spoil(const cf_problem *problem, unsigned which, const cf_wrong *wrong, void *request)
{
    enum { EACH = 3 };
    cf_fields *p = problem->own;
    unsigned number = 0;
    for (const cf_tensor *t = p->call->tensor; t->name; t++) {
        if (!field_of(p, t) || which / EACH != number++)
            continue;
        trp_dnn_tensor *x = (trp_dnn_tensor *)(void *)((char *)request + t->at);
        *wrong->word = t->name;
        if (which % EACH == 0)
            x->rank = TRP_DNN_RANK_MAX + 1;
        if (which % EACH == 1)
            x->dim[0] = -1;
        if (which % EACH == 2)
            x->type = TRP_C64;
        return true;
    }
    return false;
}

/* ---- the actor ---- */

int cf_calls_main(int argc, char **argv, const char *title, const cf_call *calls, size_t count)
{
    enum { MOST = 16 };
    static cf_operation operations[MOST];
    static cf_operand operands[MOST][CF_FIELDS];
    static cf_family families[MOST];
    H_CHECK(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        const cf_call *call = &calls[i];
        cf_operation *o = &operations[i];
        *o = (cf_operation){.name = call->name,
                            .op = TRP_OP_DNN_GRAPH,
                            .family = &families[i],
                            .row = call,
                            .variants = variants,
                            .variant_count = call->types,
                            .ways = call->ways,
                            .runs_again = call->runs_again};
        size_t some = 0;
        for (const cf_tensor *t = call->tensor; t->name; t++, some++) {
            const cf_has bit = (cf_has)1 << some;
            operands[i][some] = (cf_operand){.name = t->name,
                                             .buffer = t->at + offsetof(trp_dnn_tensor, buffer),
                                             .offset = t->at + offsetof(trp_dnn_tensor, offset),
                                             .has = bit};
            o->has |= bit;
            o->writes |= t->use & CF_WRITE ? bit : 0;
            o->in_place |= t->use & CF_SHARED ? bit : 0;
        }
        families[i] = (cf_family){.operands = operands[i],
                                  .operand_count = some,
                                  .request_bytes = call->request_bytes,
                                  .draw = draw,
                                  .request = make_request,
                                  .send = send,
                                  .submit = submit,
                                  .check = check,
                                  .drop = drop,
                                  .spoil = spoil};
    }
    const cf_actor dnn = {.kind = "dnn",
                          .title = title,
                          .operations = operations,
                          .count = count,
                          .rounds = 40,
                          .slow_fake = true};
    return cf_main(argc, argv, &dnn);
}

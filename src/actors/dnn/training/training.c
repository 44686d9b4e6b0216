/* Functions shared by the kinds of graph/train.h, on both sides. */
#include "actors/dnn/training/parts.h"
#include "actors/dnn/training/real.h"
#include "base/os/cpu.h"
#include "base/error.h"
#include "base/numbers/half.h"
#include "base/os/thread.h"

#include <troupe/convert.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

const trp__train_op *trp__train_op_of(uint32_t kind)
{
    static const trp__train_op *const ops[] = {
        [TRP_DNN_GATHER] = &trp__train_gather,
        [TRP_DNN_SCATTER_ADD] = &trp__train_scatter,
        [TRP_DNN_CROSS_ENTROPY] = &trp__train_cross_entropy,
        [TRP_DNN_LOSS] = &trp__train_loss,
        [TRP_DNN_ROTARY] = &trp__train_rotary,
        [TRP_DNN_ROTARY_BACKWARD] = &trp__train_rotary_backward,
        [TRP_DNN_ARG] = &trp__train_arg,
        [TRP_DNN_TOP_K] = &trp__train_top_k,
        [TRP_DNN_SAMPLE] = &trp__train_sample,
        [TRP_DNN_OPTIMIZER] = &trp__train_optimizer,
    };
    return ops[kind];
}

/* --- The sender's side --- */

uint32_t trp__train_parameters(trp__dnn_node *n)
{
    const trp__train_op *op = trp__train_op_of(n->kind);
    return op->parameters ? op->parameters(n->mode, n->parameter) : 0;
}

bool trp__train_has_axis(uint32_t kind)
{
    return kind == TRP_DNN_GATHER || kind == TRP_DNN_SCATTER_ADD || kind == TRP_DNN_ARG ||
           kind == TRP_DNN_TOP_K;
}

static bool has_reduction(uint32_t kind)
{
    return kind == TRP_DNN_CROSS_ENTROPY || kind == TRP_DNN_LOSS;
}

static bool has_ignore(uint32_t kind)
{
    return kind == TRP_DNN_SCATTER_ADD || kind == TRP_DNN_CROSS_ENTROPY;
}

trp_status trp__train_take(trp__dnn_making *m, uint32_t index)
{
    const trp_dnn_node *given = &m->nodes[index];
    trp__dnn_node *n = &m->node[index];
    const char *name = trp__dnn_kind_of(n->kind)->name;
    const uint32_t most = n->kind == TRP_DNN_LOSS            ? TRP_DNN_REDUCE_BATCH
                          : n->kind == TRP_DNN_CROSS_ENTROPY ? TRP_DNN_REDUCE_NONE
                                                             : 0;
    const trp_scalar *ignore = &given->ignore;
    int64_t left_out = -100;
    if (given->reduction > most)
        return trp__error_set(m->error, TRP_E_ARGUMENT,
                              "nodes[%u].reduction (%s): expected 0 to %u, got %u", index, name,
                              most, (unsigned)given->reduction);
    if (ignore->given && (!has_ignore(n->kind) || ignore->im != 0 ||
                          !(fabs(ignore->re) <= 0x1p53) || ignore->re != floor(ignore->re)))
        return trp__error_set(m->error, TRP_E_ARGUMENT,
                              "nodes[%u].ignore (%s): expected %s, got %g + %gi", index, name,
                              has_ignore(n->kind) ? "a whole number, -2^53 to 2^53" : "none",
                              ignore->re, ignore->im);
    if (trp__train_has_axis(n->kind))
        n->window[0] = (int32_t)given->axis;
    if (has_reduction(n->kind))
        n->window[1] = (int32_t)given->reduction;
    if (has_ignore(n->kind)) {
        if (ignore->given)
            left_out = (int64_t)ignore->re;
        n->window[2] = ignore->given || n->kind == TRP_DNN_CROSS_ENTROPY;
        n->start[0] = n->window[2] ? (int32_t)(uint32_t)(uint64_t)left_out : 0;
        n->start[1] = n->window[2] ? (int32_t)(uint32_t)((uint64_t)left_out >> 32) : 0;
    }
    return TRP_OK;
}

trp__dnn_tensor *trp__train_tensor(const checked *c, int at)
{
    const uint8_t number = c->n->port[at];
    return number == TRP__DNN_NO_PORT ? NULL : &c->m->tensor[number];
}

static bool is_real(uint8_t type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
}

trp_status trp__train_check_real(const checked *c, int at, trp_dtype none)
{
    trp__dnn_tensor *t = trp__train_tensor(c, at);
    if (!t)
        return TRP_OK;
    if (t->role == TRP__DNN_VALUE)
        return FAIL(c, at, "expected a tensor with elements, got a number");
    if (t->type == TRP_DTYPE_NONE)
        t->type = (uint8_t)none;
    return is_real(t->type) ? TRP_OK
                            : FAIL(c, at, "expected f64, f32, f16 or bf16, got %s",
                                   trp_dtype_name((trp_dtype)t->type));
}

trp_status trp__train_check_index(const checked *c, int at)
{
    trp__dnn_tensor *t = trp__train_tensor(c, at);
    if (!t)
        return TRP_OK;
    if (t->role == TRP__DNN_VALUE)
        return FAIL(c, at, "expected a tensor with elements, got a number");
    if (t->type == TRP_DTYPE_NONE)
        t->type = TRP_I32;
    return t->type == TRP_I32 || t->type == TRP_I64
               ? TRP_OK
               : FAIL(c, at, "expected i32 or i64, got %s", trp_dtype_name((trp_dtype)t->type));
}

trp_status trp__train_check_one(const checked *c, int at, bool integer)
{
    trp__dnn_tensor *t = trp__train_tensor(c, at);
    if (!t)
        return TRP_OK;
    if (integer)
        return trp__dnn_check_integer(c, at);
    if (t->type == TRP_DTYPE_NONE)
        t->type = TRP_F64;
    if (t->rank == 0 && c->kind->port[at].written) {
        t->rank = 1;
        t->dim[0] = 1;
    }
    if (!is_real(t->type))
        return FAIL(c, at, "expected f64, f32, f16 or bf16, got %s",
                    trp_dtype_name((trp_dtype)t->type));
    return trp__dnn_elements(t) == 1
               ? TRP_OK
               : FAIL(c, at, "expected one element, got %lld", (long long)trp__dnn_elements(t));
}

trp_status trp__train_set_compute(const checked *c, int at)
{
    const trp_dtype given = c->m->nodes[c->index].compute;
    const trp_dtype own = trp__train_tensor(c, at)->type == TRP_F64 ? TRP_F64 : TRP_F32;
    if (given != TRP_DTYPE_NONE && given != TRP_F64 && given != own)
        return trp__error_set(
            c->m->error, TRP_E_ARGUMENT, "nodes[%u].compute (%s): expected %s, got %s", c->index,
            c->kind->name, own == TRP_F64 ? "f64" : "f32 or f64", trp_dtype_name(given));
    c->n->compute = (uint8_t)(given ? given : own);
    return TRP_OK;
}

/* --- The host's side --- */

static trp__train_node describe(const trp__dnn_host_run *run, const trp__dnn_node *n)
{
    trp__train_node x = {.n = n, .scratch = run->scratch};
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const uint8_t number = n->port[i];
        if (number == TRP__DNN_NO_PORT)
            continue;
        x.t[i] = &run->graph.tensor[number];
        if (x.t[i]->role == TRP__DNN_VALUE)
            x.value[i] = run->graph.value[number];
        else
            x.at[i] = run->place[number];
    }
    return x;
}

/* Returns the variant for this processor, or NULL. */
static void (*faster(uint32_t kind))(const trp__train_node *)
{
#if TRP__TRAIN_AVX2
    static void (*const runs[])(const trp__train_node *) = {
        [TRP_DNN_SCATTER_ADD] = trp__train_scatter_f32_avx2,
        [TRP_DNN_CROSS_ENTROPY] = trp__train_cross_entropy_f32_avx2,
        [TRP_DNN_LOSS] = trp__train_loss_f32_avx2,
        [TRP_DNN_ROTARY] = trp__train_rotary_f32_avx2,
        [TRP_DNN_ROTARY_BACKWARD] = trp__train_rotary_f32_avx2,
        [TRP_DNN_OPTIMIZER] = trp__train_optimizer_f32_avx2,
    };
    if (kind < COUNT_OF(runs) && __builtin_cpu_supports("avx2"))
        return runs[kind];
#endif
    (void)kind;
    return NULL;
}

void trp__train_run(const trp__dnn_host_run *run, const trp__dnn_node *n)
{
    const trp__train_op *op = trp__train_op_of(n->kind);
    const trp__train_node x = describe(run, n);
    void (*fast)(const trp__train_node *) = faster(n->kind);
    if (n->compute == TRP_F64)
        op->run_f64(&x);
    else if (fast)
        fast(&x);
    else
        op->run_f32(&x);
}

size_t trp__train_bytes(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    const trp__train_op *op = trp__train_op_of(n->kind);
    const trp__dnn_tensor *t[TRP__DNN_PORTS];
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        t[i] = n->port[i] == TRP__DNN_NO_PORT ? NULL : &g->tensor[n->port[i]];
    return op->host_bytes ? op->host_bytes(n, t) : 0;
}

/* Returns the port of a node's index tensor and the limit of indices, or -1. */
static int index_of(const trp__dnn_graph *g, const trp__dnn_node *n, int64_t *below)
{
    const bool gathers = n->kind == TRP_DNN_GATHER || n->kind == TRP_DNN_SCATTER_ADD;
    if (gathers) {
        *below = g->tensor[n->port[TRP__GATHER_WHOLE]].dim[trp__train_axis(n)];
        return TRP__GATHER_INDEX;
    }
    if (n->kind == TRP_DNN_CROSS_ENTROPY && n->port[TRP__LOSS_INDEX] != TRP__DNN_NO_PORT) {
        const trp__dnn_tensor *x = &g->tensor[n->port[TRP__LOSS_X]];
        *below = x->dim[x->rank - 1];
        return TRP__LOSS_INDEX;
    }
    return -1;
}

bool trp__train_has_indices(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    int64_t below = 0;
    const int port = index_of(g, n, &below);
    const trp__dnn_tensor *t = port < 0 ? NULL : &g->tensor[n->port[port]];
    return t && t->role == TRP__DNN_BUFFER && !t->written && trp__dnn_elements(t) > 0;
}

trp_status trp__train_look(const trp__dnn_host_run *run, int node, trp_error *error)
{
    const trp__dnn_graph *g = &run->graph;
    const trp__dnn_node *n = &g->node[node];
    int64_t below = 0;
    const int port = index_of(g, n, &below);
    const trp__dnn_tensor *t = &g->tensor[n->port[port]];
    const void *place = run->place[n->port[port]];
    const int last = t->rank - 1;
    trp__train_walk w;
    const int64_t lines = trp__train_walk_begin(&w, t, last, 1);
    for (int64_t line = 0; line < lines; line++) {
        trp__train_walk_to(&w, line);
        const int64_t from = trp__train_walk_offset(&w, t);
        for (int64_t i = 0; i < t->dim[last]; i++) {
            const int64_t index = trp__train_index(t, place, from + i * t->stride[last]);
            if ((uint64_t)index >= (uint64_t)below && !trp__train_ignores(n, index))
                return trp__error_set(error, TRP_E_ARGUMENT,
                                      "nodes[%d].index (%s): element %lld: expected 0 to %lld%s, "
                                      "got %lld",
                                      node, trp__dnn_kind_of(n->kind)->name,
                                      /* NOLINTNEXTLINE(bugprone-misplaced-widening-cast) */
                                      (long long)(line * t->dim[last] + i), (long long)below - 1,
                                      n->window[2] && has_ignore(n->kind) ? " or the ignored one"
                                                                          : "",
                                      (long long)index);
        }
    }
    return TRP_OK;
}

double trp__train_number(const trp__train_node *x, int port, double none)
{
    double value = x->value[port];
    if (!x->t[port])
        return none;
    if (x->at[port] && x->t[port]->type == TRP_I32)
        return *(const int32_t *)x->at[port];
    if (x->at[port] && x->t[port]->type == TRP_BOOL)
        return *(const uint8_t *)x->at[port] != 0;
    if (x->at[port]) {
        (void)trp_convert((trp_dtype)x->t[port]->type, x->at[port], TRP_F64, &value, 1);
    } else if (x->t[port]->type != TRP_F64) { /* rounded to its type */
        unsigned char held[8];
        (void)trp_convert(TRP_F64, &value, (trp_dtype)x->t[port]->type, held, 1);
        (void)trp_convert((trp_dtype)x->t[port]->type, held, TRP_F64, &value, 1);
    }
    return value;
}

int64_t trp__train_integer(const trp__train_node *x, int port, int64_t none)
{
    int64_t value = none;
    if (x->t[port])
        memcpy(&value, x->at[port] ? x->at[port] : (const void *)&x->value[port], sizeof value);
    return value;
}

void trp__train_put_number(const trp__train_node *x, int port, double value)
{
    if (x->t[port])
        (void)trp_convert(TRP_F64, &value, (trp_dtype)x->t[port]->type, x->at[port], 1);
}

#define SPREAD(type)                                                                               \
    do {                                                                                           \
        const type *from = (const type *)place + offset;                                           \
        for (int64_t i = 0; i < count; i++)                                                        \
            ((type *)(void *)block)[i] = from[(done + i) * step];                                  \
    } while (0)

#define GATHER_BACK(type)                                                                          \
    do {                                                                                           \
        type *to = (type *)place + offset;                                                         \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[(done + i) * step] = ((const type *)(const void *)block)[i];                        \
    } while (0)

enum { BLOCK = 512 };

/* Widens elements, also of types that trp_convert() does not support. */
static void widen(uint8_t type, const void *from, trp_dtype real, void *to, int64_t count)
{
    if (type != TRP_U8 && type != TRP_BOOL) {
        (void)trp_convert((trp_dtype)type, from, real, to, (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const uint8_t byte = ((const uint8_t *)from)[i];
        const uint8_t value = type == TRP_BOOL ? byte != 0 : byte;
        if (real == TRP_F64)
            ((double *)to)[i] = value;
        else
            ((float *)to)[i] = value;
    }
}

static void load(const trp__dnn_tensor *t, const void *place, int64_t offset, int64_t step,
                 int64_t all, trp_dtype real, void *to)
{
    _Alignas(16) char block[BLOCK * 8];
    const int64_t size = trp_dtype_bits((trp_dtype)t->type) / 8;
    const int64_t real_size = real == TRP_F64 ? 8 : 4;
    if (step == 1) {
        widen(t->type, (const char *)place + offset * size, real, to, all);
        return;
    }
    for (int64_t done = 0, count; done < all; done += count) {
        count = all - done < BLOCK ? all - done : BLOCK;
        if (size == 1)
            SPREAD(uint8_t);
        else if (size == 2)
            SPREAD(uint16_t);
        else if (size == 4)
            SPREAD(uint32_t);
        else
            SPREAD(uint64_t);
        widen(t->type, block, real, (char *)to + done * real_size, count);
    }
}

static void store(const trp__dnn_tensor *t, void *place, int64_t offset, int64_t step, int64_t all,
                  trp_dtype real, const void *from)
{
    _Alignas(16) char block[BLOCK * 8];
    const int64_t size = trp_dtype_bits((trp_dtype)t->type) / 8;
    const int64_t real_size = real == TRP_F64 ? 8 : 4;
    if (step == 1) {
        char *to = (char *)place + offset * size;
        if (to != from)
            (void)trp_convert(real, from, (trp_dtype)t->type, to, (size_t)all);
        return;
    }
    for (int64_t done = 0, count; done < all; done += count) {
        count = all - done < BLOCK ? all - done : BLOCK;
        (void)trp_convert(real, (const char *)from + done * real_size, (trp_dtype)t->type, block,
                          (size_t)count);
        if (size == 2)
            GATHER_BACK(uint16_t);
        else if (size == 4)
            GATHER_BACK(uint32_t);
        else
            GATHER_BACK(uint64_t);
    }
}

const float *trp__train_view_f32(const trp__dnn_tensor *t, const void *place, int64_t offset,
                                 int64_t step, int64_t count, float *buffer)
{
    if (t->type == TRP_F32 && (step == 1 || count == 1))
        return (const float *)place + offset;
    load(t, place, offset, step, count, TRP_F32, buffer);
    return buffer;
}

const double *trp__train_view_f64(const trp__dnn_tensor *t, const void *place, int64_t offset,
                                  int64_t step, int64_t count, double *buffer)
{
    if (t->type == TRP_F64 && (step == 1 || count == 1))
        return (const double *)place + offset;
    load(t, place, offset, step, count, TRP_F64, buffer);
    return buffer;
}

void trp__train_put_f32(const trp__dnn_tensor *t, void *place, int64_t offset, int64_t step,
                        int64_t count, const float *from)
{
    store(t, place, offset, step, count, TRP_F32, from);
}

void trp__train_put_f64(const trp__dnn_tensor *t, void *place, int64_t offset, int64_t step,
                        int64_t count, const double *from)
{
    store(t, place, offset, step, count, TRP_F64, from);
}

int64_t trp__train_walk_begin(trp__train_walk *w, const trp__dnn_tensor *t, int first, int rest)
{
    int64_t count = 1;
    *w = (trp__train_walk){.rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        w->dim[i] = i >= first && i < first + rest ? 1 : t->dim[i];
        count *= w->dim[i];
    }
    return count;
}

void trp__train_walk_to(trp__train_walk *w, int64_t number)
{
    for (int i = w->rank - 1; i >= 0; i--) {
        w->at[i] = number % w->dim[i];
        number /= w->dim[i];
    }
}

int64_t trp__train_walk_offset(const trp__train_walk *w, const trp__dnn_tensor *t)
{
    int64_t offset = 0;
    for (int i = 0; i < t->rank && i < w->rank; i++)
        offset += t->dim[i] == 1 ? 0 : w->at[i] * t->stride[i];
    return offset;
}

enum { THREADS_MAX = 32 };

typedef struct share {
    void (*part)(void *context, int64_t first, int64_t end);
    void *context;
    int64_t first, end;
} share;

static void *run_share(void *argument)
{
    const share *s = argument;
    s->part(s->context, s->first, s->end);
    return NULL;
}

void trp__train_share(int64_t count, int64_t least,
                      void (*part)(void *context, int64_t first, int64_t end), void *context)
{
    share all[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    int64_t threads = trp__cpu_count(), begun = 1;
    if (count <= 0)
        return;
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    if (count / (least > 0 ? least : 1) < threads)
        threads = count / (least > 0 ? least : 1);
    threads = threads > 0 ? threads : 1;
    for (int64_t i = 0; i < threads; i++)
        all[i] = (share){part, context, count * i / threads, count * (i + 1) / threads};
    for (; begun < threads; begun++) {
        if (trp__thread_start(&thread[begun], TRP__SIGNALS_OF_FAULTS, run_share, &all[begun]) != 0)
            break;
    }
    run_share(&all[0]);
    for (int64_t i = begun; i < threads; i++) /* those without a thread */
        run_share(&all[i]);
    for (int64_t i = 1; i < begun; i++)
        pthread_join(thread[i], NULL);
}

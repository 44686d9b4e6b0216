/* The kernels of attention for GPUs (actors/dnn/reference/attention.h), as C and by threads of this
 * machine for those of one block: what they compute is what the host backend computes. */
#include "actors/dnn/dnn.h"
#include "unit/dnn/dnn_direct.h"
#include "support/label.h"

#include <pthread.h>
#include "support/unit.h"

TROUPE_TEST("no tsan");

enum { THREADS = 4, BLOCKS = 3 };

static _Thread_local int thread;
static int block;
static pthread_barrier_t barrier;

#define TRP__KERNEL  static __attribute__((unused))
#define TRP__SHARED  static
#define TRP__SYNC()  pthread_barrier_wait(&barrier)
#define TRP__THREAD  thread
#define TRP__THREADS THREADS
#define TRP__BLOCK   block
#define TRP__BLOCKS  BLOCKS
#include "actors/dnn/reference/kernels.h"

typedef void kernel(const trp__direct d);

typedef struct start {
    kernel *run;
    const trp__direct *d;
    int thread;
} start;

static void *begin(void *argument)
{
    const start *s = argument;
    thread = s->thread;
    s->run(*s->d);
    return NULL;
}

static void launch(kernel *run, trp__direct *d, int count_port)
{
    d->count = elements(&d->tensor[count_port]);
    for (block = 0; block < BLOCKS; block++) {
        pthread_t other[THREADS];
        start all[THREADS];
        pthread_barrier_init(&barrier, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) {
            all[i] = (start){run, d, i};
            assert_int_equal(pthread_create(&other[i], NULL, begin, &all[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(other[i], NULL);
        pthread_barrier_destroy(&barrier);
    }
}

/* A problem: all of it in f64, packed. */

static uint64_t seed = 1;

static int64_t below(int64_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)(seed >> 33) % bound;
}

static int64_t from(int64_t least, int64_t most)
{
    return least + below(most - least + 1);
}

typedef struct problem {
    dd_graph graph;
    uint32_t written[4], count;
} problem;

static uint32_t tensor(problem *p, bool written, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t dim[] = {b, h, i, j};
    const int64_t count = b * h * i * j;
    double *array = calloc((size_t)count, sizeof *array);
    assert_non_null(array);
    for (int64_t at = 0; at < count; at++)
        array[at] = written ? 77 : (double)from(-1000, 1000) / 500;
    const uint32_t number = dd_tensor(&p->graph, TRP_F64, array, 4, dim);
    if (written)
        p->written[p->count++] = number;
    return number;
}

static uint32_t lengths(problem *p, int64_t batches, int64_t most)
{
    int32_t *array = calloc((size_t)batches, sizeof *array);
    assert_non_null(array);
    for (int64_t b = 0; b < batches; b++)
        array[b] = (int32_t)from(0, most);
    return dd_tensor(&p->graph, TRP_I32, array, 4, (const int64_t[]){batches, 1, 1, 1});
}

/* By value or in memory. */
static uint32_t integer(problem *p)
{
    const uint64_t value = seed * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t *array = below(2) ? NULL : malloc(sizeof *array);
    if (array)
        *array = value;
    const uint32_t number = dd_line(&p->graph, TRP_I64, array, 1);
    if (!array)
        p->graph.tensor[number] = trp_dnn_integer(value);
    return number;
}

static void drop(problem *p)
{
    for (uint32_t i = 1; i <= p->graph.tensors; i++)
        free(p->graph.array[i]);
}

/* What the kernels get, of a graph that was just sent. */
static void describe(const problem *p, trp__direct *d)
{
    const trp__dnn_graph g = trp__dnn_graph_at(dd_ran() + 1);
    const trp_dnn_node *sent = &p->graph.node[0];
    memset(d, 0, sizeof *d);
    d->node = g.node[0];
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        uint32_t number;
        if (d->node.port[i] == TRP__DNN_NO_PORT)
            continue;
        d->value[i] = g.value[d->node.port[i]];
        d->used[i] = true;
        d->tensor[i] = g.tensor[d->node.port[i]];
        if (d->tensor[i].role == TRP__DNN_VALUE)
            continue;
        memcpy(&number, (const char *)sent + trp__dnn_kind_of(d->node.kind)->port[i].offset,
               sizeof number);
        d->at[i] = p->graph.array[number];
    }
    d->tensor[TRP__DIRECT_STATISTICS] = d->tensor[TRP__DNN_ATTENTION_Q];
    d->tensor[TRP__DIRECT_STATISTICS].dim[3] = 1;
}

static void run_kernels(const problem *p)
{
    trp__direct d;
    describe(p, &d);
    if (d.node.kind == TRP_DNN_ATTENTION) {
        launch(trp_direct_attention, &d, TRP__DIRECT_STATISTICS);
        return;
    }
    launch(trp_direct_attention_backward_q, &d, TRP__DIRECT_STATISTICS);
    launch(trp_direct_attention_backward_kv, &d, TRP__DNN_ATTENTION_K);
    if (d.used[TRP__DNN_ATTENTION_DBIAS])
        launch(trp_direct_attention_backward_bias, &d, TRP__DNN_ATTENTION_DBIAS);
}

/* The host's results are put away and computed again. */
static void compare(problem *p)
{
    double *wanted[4];
    assert_int_equal(dd_send(&p->graph, NULL), TRP_OK);
    for (uint32_t i = 0; i < p->count; i++) {
        const uint32_t t = p->written[i];
        wanted[i] = malloc(p->graph.bytes[t]);
        assert_non_null(wanted[i]);
        memcpy(wanted[i], p->graph.array[t], p->graph.bytes[t]);
        memset(p->graph.array[t], 0x55, p->graph.bytes[t]);
    }
    run_kernels(p);
    for (uint32_t i = 0; i < p->count; i++) {
        const double *got = p->graph.array[p->written[i]];
        for (size_t k = 0; k < p->graph.bytes[p->written[i]] / sizeof *got; k++) {
            if (got[k] != wanted[i][k])
                assert_true(fabs(got[k] - wanted[i][k]) <= 1e-12 * (1 + fabs(wanted[i][k])));
        }
        free(wanted[i]);
    }
}

/* y and stats as the forward pass has them: the kernels take weights from stats, the host does not.
 */
static void fill_forward(problem *p)
{
    dd_graph forward = p->graph;
    trp_dnn_node *n = &forward.node[0];
    n->kind = TRP_DNN_ATTENTION;
    n->dy = n->dq = n->dk = n->dv = n->dbias = 0;
    forward.tensors = 0; /* those behind the last that it names are left out */
    const uint32_t named[] = {n->q,      n->k,     n->v,      n->y,    n->stats, n->bias,
                              n->slopes, n->seq_q, n->seq_kv, n->seed, n->offset};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        forward.tensors = named[i] > forward.tensors ? named[i] : forward.tensors;
    assert_int_equal(dd_send(&forward, NULL), TRP_OK);
}

static void one(bool backward)
{
    problem p = {.count = 0};
    const int64_t b = from(1, 2), shared = from(1, 2), h = shared * from(1, 3), rows = from(1, 9);
    const int64_t columns = from(1, 9), depth = from(1, 7), width = from(1, 7);
    trp_dnn_node *n = dd_node(&p.graph, backward ? TRP_DNN_ATTENTION_BACKWARD : TRP_DNN_ATTENTION);
    n->q = tensor(&p, false, b, h, rows, depth);
    n->k = tensor(&p, false, b, shared, columns, depth);
    n->v = tensor(&p, false, b, shared, columns, width);
    n->y = tensor(&p, !backward, b, h, rows, width);
    if (backward || below(2))
        n->stats = tensor(&p, !backward, b, h, rows, 1);
    n->mask = (trp_dnn_mask)below(3);
    n->window[0] = below(2) ? from(1, columns) : 0;
    if (below(2))
        n->bias = tensor(&p, false, below(2) ? b : 1, h, below(2) ? rows : 1, columns);
    if (below(2))
        n->slopes = tensor(&p, false, 1, h, 1, 1);
    if (below(2)) {
        n->seq_q = lengths(&p, b, rows);
        n->seq_kv = lengths(&p, b, columns);
    }
    if (below(2)) {
        n->parameter[1] = trp_real((double)from(1, 9) / 10);
        n->seed = integer(&p);
        n->offset = below(2) ? integer(&p) : 0;
    }
    if (backward) {
        fill_forward(&p);
        n->dy = tensor(&p, false, b, h, rows, width);
        n->dq = tensor(&p, true, b, h, rows, depth);
        n->dk = tensor(&p, true, b, shared, columns, depth);
        n->dv = tensor(&p, true, b, shared, columns, width);
    }
    if (backward && n->bias)
        n->dbias = dd_tensor(&p.graph, TRP_F64, calloc(1, p.graph.bytes[n->bias]), 4,
                             p.graph.tensor[n->bias].dim);
    if (n->dbias)
        p.written[p.count++] = n->dbias;
    compare(&p);
    drop(&p);
}

static void forward(void **unused)
{
    (void)unused;
    for (int i = 0; i < 60; i++)
        one(false);
}

static void backward(void **unused)
{
    (void)unused;
    for (int i = 0; i < 60; i++)
        one(true);
}

static int open_host(void **unused)
{
    (void)unused;
    if (dd_open() != TRP_OK) {
        printf("%s: skipped\n", dd_error()->message);
        exit(77);
    }
    return 0;
}

static int close_host(void **unused)
{
    (void)unused;
    dd_close();
    return 0;
}

int main(int count, char **argument)
{
    const struct CMUnitTest tests[] = {UNIT(forward), UNIT(backward)};
    if (count > 1)
        cmocka_set_test_filter(argument[1]);
    return cmocka_run_group_tests(tests, open_host, close_host);
}

/* Chains of nodes on the host: random graphs give the same bits whether their nodes run as chains
 * or one by one, with one thread or all; and what one node gives is what functions.c says. */
#include "support/unit.h"

#include "actors/dnn/math/functions.h"
#include "actors/dnn/host/chain.h"
#include "base/os/team.h"
#include "unit/dnn/dnn_graphs.h"
#include "support/label.h"

#include <troupe/convert.h>

#include <math.h>

TROUPE_TEST("foreign leaks");

enum { GRAPHS = 1000, NODES_MOST = 10, RANK_MOST = 4 };

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((seed >> 33) % below);
}

/* Numbers as they come, and those at the edges. */
static double draw_number(void)
{
    static const double edges[] = {0,    -0.0,  1,     -1,     NAN,    INFINITY, -INFINITY,
                                   3e38, -3e38, 1e-42, -1e-42, 0.5,    -2.5,     88.8,
                                   -104, 700,   65504, 1e300,  -1e300, 16777217};
    if (draw(4) == 0)
        return edges[draw(sizeof edges / sizeof *edges)];
    return ((double)draw(1 << 20) / (1 << 19) - 1) * pow(10, draw(3));
}

/* --- random graphs --- */

typedef struct problem {
    dnn_graph g;
    trp__dnn_graph graph;
    int rank;
    int64_t dim[RANK_MOST], split;
    void *memory[TRP_DNN_TENSORS_MAX];
    uint64_t bytes[TRP_DNN_TENSORS_MAX];
} problem;

static trp_dtype draw_type(bool wide)
{
    static const trp_dtype types[] = {TRP_F32, TRP_F32,    TRP_F32,    TRP_F16, TRP_BF16, TRP_I32,
                                      TRP_I8,  TRP_F8E4M3, TRP_F8E5M2, TRP_U8,  TRP_BOOL, TRP_F64};
    return types[draw(sizeof types / sizeof *types - !wide)];
}

/* Other strides: an order of the dimensions, with gaps. */
static void spread(trp__dnn_tensor *t)
{
    int order[RANK_MOST];
    int64_t next = 1 + (int64_t)draw(2);
    for (int i = 0; i < t->rank; i++)
        order[i] = i;
    for (int i = t->rank - 1; i > 0; i--) {
        const int with = (int)draw((uint32_t)i + 1), kept = order[i];
        order[i] = order[with];
        order[with] = kept;
    }
    for (int i = 0; i < t->rank; i++) {
        t->stride[order[i]] = next;
        next *= t->dim[order[i]] > 0 ? t->dim[order[i]] : 1;
        next += draw(3) == 0 ? (int64_t)draw(4) : 0;
    }
}

/* Memory with elements, and something else in the gaps. */
static void fill(problem *p, uint8_t number)
{
    const trp__dnn_tensor *t = &p->g.tensor[number];
    const size_t size = trp_dtype_bits((trp_dtype)t->type) / 8;
    const size_t count = (size_t)trp__dnn_extent(t);
    p->bytes[number] = count * size;
    p->memory[number] = malloc(count * size + 1);
    for (size_t i = 0; i < count; i++) {
        const double value = draw_number();
        unsigned char *to = (unsigned char *)p->memory[number] + i * size;
        if (t->type == TRP_U8 || t->type == TRP_BOOL)
            *to = (unsigned char)draw(t->type == TRP_BOOL ? 2 : 256);
        else
            assert_int_equal(trp_convert(TRP_F64, &value, (trp_dtype)t->type, to, 1), TRP_OK);
    }
}

/* Something for a node of the shape to read: a number, an earlier tensor, or a new one that may be
 * broadcast. */
static uint8_t draw_input(problem *p, const int64_t *dim, bool wide, bool whole)
{
    dnn_graph *g = &p->g;
    int64_t mine[RANK_MOST];
    if (!whole && draw(6) == 0)
        return dnn_value(g, draw(2) ? TRP_F32 : TRP_BF16, draw_number());
    for (int tries = 0; tries < 4 && draw(3) != 0; tries++) {
        const uint8_t number = (uint8_t)draw(g->head.tensors + 1u);
        const trp__dnn_tensor *t = &g->tensor[number];
        bool fits = number < g->head.tensors && t->role != TRP__DNN_VALUE && t->rank == p->rank &&
                    (wide || t->type != TRP_F64);
        for (int i = 0; i < p->rank && fits; i++)
            fits = t->dim[i] == dim[i] || (!whole && t->dim[i] == 1);
        if (fits)
            return number;
    }
    for (int i = 0; i < p->rank; i++)
        mine[i] = !whole && draw(4) == 0 ? 1 : dim[i];
    const uint8_t number =
        dnn_tensor(g, TRP__DNN_BUFFER, draw_type(wide), DNN_ROWS, (uint32_t)p->rank, mine);
    if (draw(3) == 0)
        spread(&g->tensor[number]);
    fill(p, number);
    return number;
}

static uint8_t draw_result(problem *p, const int64_t *dim, bool wide)
{
    const trp__dnn_role role = draw(3) ? TRP__DNN_VIRTUAL : TRP__DNN_BUFFER;
    const uint8_t number =
        dnn_tensor(&p->g, role, draw_type(wide), DNN_ROWS, (uint32_t)p->rank, dim);
    if (role == TRP__DNN_BUFFER && draw(3) == 0)
        spread(&p->g.tensor[number]);
    if (role == TRP__DNN_BUFFER)
        fill(p, number);
    return number;
}

static void add_node(problem *p, bool wide)
{
    const trp_dtype compute = wide ? TRP_F64 : TRP_F32;
    int64_t dim[RANK_MOST], column[RANK_MOST];
    const bool reduced = draw(4) == 0, one = !reduced && draw(5) == 0;
    for (int i = 0; i < p->rank; i++) {
        column[i] = i < p->split ? p->dim[i] : 1;
        dim[i] = one ? column[i] : p->dim[i];
    }
    if (reduced) {
        const uint8_t x = draw_input(p, p->dim, wide, true);
        const uint8_t y = draw_result(p, column, wide);
        trp__dnn_node *n = dnn_node(&p->g, TRP_DNN_REDUCTION, draw(8), compute, 0);
        n->port[TRP__DNN_REDUCTION_X] = x;
        n->port[TRP__DNN_REDUCTION_Y] = y;
        return;
    }
    if (draw(5) == 0) {
        const uint8_t x = draw_input(p, dim, wide, true), dy = draw_input(p, dim, wide, true);
        const uint8_t dx = draw_result(p, dim, wide);
        trp__dnn_node *n =
            dnn_node(&p->g, TRP_DNN_POINTWISE_BACKWARD, TRP_DNN_RELU + draw(8), compute, 0);
        n->port[TRP__DNN_GRADIENT_X] = x;
        n->port[TRP__DNN_GRADIENT_DY] = dy;
        n->port[TRP__DNN_GRADIENT_DX] = dx;
        return;
    }
    const uint32_t mode = draw(TRP_DNN_SWISH + 1);
    const uint32_t inputs = trp__dnn_pointwise_inputs(mode);
    uint8_t from[3];
    for (uint32_t i = 0; i < inputs; i++)
        from[i] = draw_input(p, dim, wide, false);
    const uint8_t y = draw_result(p, dim, wide);
    trp__dnn_node *n = dnn_node(&p->g, TRP_DNN_POINTWISE, mode, compute, 0);
    for (uint32_t i = 0; i < inputs; i++)
        n->port[TRP__DNN_POINTWISE_X + i] = from[i];
    n->port[TRP__DNN_POINTWISE_Y] = y;
}

static void draw_problem(problem *p)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 5, 8, 17, 31, 64, 0, 129, 1000, 2048};
    memset(p, 0, sizeof *p);
    dnn_begin(&p->g);
    p->rank = 1 + (int)draw(RANK_MOST);
    int64_t all = 1;
    for (int i = 0; i < p->rank; i++) {
        do
            p->dim[i] = sizes[draw(sizeof sizes / sizeof *sizes)];
        while (all * p->dim[i] > 100000);
        all *= p->dim[i] > 0 ? p->dim[i] : 1;
    }
    p->split = draw((uint32_t)p->rank + 1);
    const uint32_t nodes = 1 + draw(NODES_MOST);
    const bool wide = draw(5) == 0;
    for (uint32_t i = 0; i < nodes && p->g.head.tensors + 5 < TRP_DNN_TENSORS_MAX; i++)
        add_node(p, wide || draw(12) == 0);
    p->graph = dnn_finish(&p->g);
}

static void end_problem(problem *p)
{
    for (int i = 0; i < p->g.head.tensors; i++)
        free(p->memory[i]);
    dnn_end(&p->g);
}

static const trp__dnn_host_libraries none;
static trp__dnn_host_room room;

/* Runs it on copies of its memory. */
static void run(const problem *p, int chain_most, void *copy[TRP_DNN_TENSORS_MAX])
{
    trp__dnn_host_run *r = NULL;
    trp_error error;
    for (int i = 0; i < p->g.head.tensors; i++) {
        copy[i] = p->memory[i] ? malloc(p->bytes[i] + 1) : NULL;
        if (copy[i])
            memcpy(copy[i], p->memory[i], p->bytes[i]);
    }
    if (trp__dnn_host_make_of(&none, &room, &p->graph, copy, p->bytes, chain_most, &r, &error) !=
        TRP_OK)
        fail_msg("%s", error.message);
    trp__dnn_host_run_now(r);
}

/* Tells of a graph whose tensor `wrong` differs. */
static void show(const problem *p, int number, int wrong)
{
    for (int i = 0; i < p->g.head.tensors; i++) {
        const trp__dnn_tensor *t = &p->g.tensor[i];
        print_error("%d: %s role %d", i, trp_dtype_name((trp_dtype)t->type), t->role);
        for (int k = 0; k < t->rank; k++)
            print_error(" %lld(%lld)", (long long)t->dim[k], (long long)t->stride[k]);
        print_error("\n");
    }
    for (int i = 0; i < p->g.head.nodes; i++) {
        const trp__dnn_node *n = &p->g.node[i];
        print_error("%s %d %s:", trp__dnn_kind_of(n->kind)->name, n->mode,
                    trp_dtype_name((trp_dtype)n->compute));
        for (int k = 0; k < 4; k++)
            print_error(" %d", n->port[k] == TRP__DNN_NO_PORT ? -1 : n->port[k]);
        print_error("\n");
    }
    fail_msg("graph %d: tensor %d differs", number, wrong);
}

static void compare(const problem *p, void *const *a, void *const *b, int number)
{
    for (int i = 0; i < p->g.head.tensors; i++) {
        if (a[i] && memcmp(a[i], b[i], p->bytes[i]) != 0)
            show(p, number, i);
    }
}

static void forget(void *copy[TRP_DNN_TENSORS_MAX])
{
    for (int i = 0; i < TRP_DNN_TENSORS_MAX; i++)
        free(copy[i]);
    memset(copy, 0, TRP_DNN_TENSORS_MAX * sizeof *copy);
}

static void chains_and_single_nodes(void **state)
{
    static problem p;
    int64_t chained = 0;
    (void)state;
    for (int i = 0; i < GRAPHS; i++) {
        void *a[TRP_DNN_TENSORS_MAX] = {0}, *b[TRP_DNN_TENSORS_MAX] = {0};
        draw_problem(&p);
        chained += trp__dnn_chain_length(&p.graph, 0, TRP_DNN_NODES_MAX) > 1;
        run(&p, TRP_DNN_NODES_MAX, a);
        run(&p, 1, b);
        compare(&p, a, b, i);
        forget(b);
        run(&p, 1 + (int)draw(4), b);
        compare(&p, a, b, i);
        forget(a), forget(b);
        end_problem(&p);
    }
    assert_true(chained > GRAPHS / 4);
}

/* Softmax, its entropy and more of rows that are not whole blocks, by all threads and by one. */
static void threads_do_not_matter(void **state)
{
    static const int64_t shapes[][2] = {{1000, 1003}, {3, 65536}, {100003, 7}, {2, 200001}};
    static problem p;
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        void *a[TRP_DNN_TENSORS_MAX] = {0}, *b[TRP_DNN_TENSORS_MAX] = {0};
        const int64_t column[] = {shapes[s][0], 1};
        enum { X, MOST, SHIFTED, POWER, SUM, Y, LOG, TOTAL };
        memset(&p, 0, sizeof p);
        dnn_begin(&p.g);
        for (int i = X; i <= TOTAL; i++) {
            const bool narrow = i == MOST || i == SUM || i == LOG;
            const bool kept = i == X || i == Y || i == LOG || i == TOTAL;
            dnn_tensor(&p.g, kept ? TRP__DNN_BUFFER : TRP__DNN_VIRTUAL, i == Y ? TRP_BF16 : TRP_F32,
                       DNN_ROWS, 2, narrow ? column : shapes[s]);
        }
        static const struct {
            trp_dnn_kind kind;
            uint32_t mode;
            uint8_t x, b, y;
        } nodes[] = {{TRP_DNN_REDUCTION, TRP_DNN_MOST, X, DNN_NONE, MOST},
                     {TRP_DNN_POINTWISE, TRP_DNN_SUB, X, MOST, SHIFTED},
                     {TRP_DNN_POINTWISE, TRP_DNN_EXP, SHIFTED, DNN_NONE, POWER},
                     {TRP_DNN_REDUCTION, TRP_DNN_SUM, POWER, DNN_NONE, SUM},
                     {TRP_DNN_POINTWISE, TRP_DNN_DIV, POWER, SUM, Y},
                     {TRP_DNN_POINTWISE, TRP_DNN_LOG, SUM, DNN_NONE, LOG},
                     {TRP_DNN_POINTWISE, TRP_DNN_MUL, Y, SHIFTED, TOTAL}};
        for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
            trp__dnn_node *n = dnn_node(&p.g, nodes[i].kind, nodes[i].mode, TRP_F32, 0);
            const bool reduced = nodes[i].kind == TRP_DNN_REDUCTION;
            n->port[0] = nodes[i].x;
            n->port[reduced ? TRP__DNN_REDUCTION_Y : TRP__DNN_POINTWISE_Y] = nodes[i].y;
            if (!reduced)
                n->port[TRP__DNN_POINTWISE_B] = nodes[i].b;
        }
        for (uint8_t i = X; i <= TOTAL; i++) {
            if (p.g.tensor[i].role == TRP__DNN_BUFFER)
                fill(&p, i);
        }
        p.graph = dnn_finish(&p.g);
        run(&p, TRP_DNN_NODES_MAX, a); /* nobody has opened the team: one thread */
        trp__team_open();
        run(&p, TRP_DNN_NODES_MAX, b);
        compare(&p, a, b, (int)s);
        forget(b);
        run(&p, 1, b);
        compare(&p, a, b, (int)s);
        trp__team_close();
        forget(a), forget(b);
        end_problem(&p);
    }
}

/* --- one node against functions.c --- */

enum { COUNT = 4099 };

/* Units of the last place of f32 between two numbers; infinite if one is none. */
static double apart(float a, float b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    const float size = fmaxf(fabsf(a), fabsf(b));
    return (double)fabsf(a - b) / (double)(nextafterf(size, INFINITY) - size);
}

static bool is_exact(uint32_t mode)
{
    static const uint8_t rounded[] = {
        TRP_DNN_EXP, TRP_DNN_LOG,  TRP_DNN_ERF,       TRP_DNN_TANH,     TRP_DNN_SIGMOID,
        TRP_DNN_ELU, TRP_DNN_GELU, TRP_DNN_GELU_TANH, TRP_DNN_SOFTPLUS, TRP_DNN_SWISH};
    return !memchr(rounded, (int)mode, sizeof rounded);
}

static void check_node(bool backward, uint32_t mode)
{
    static float x[COUNT], b[COUNT], t[COUNT], y[COUNT];
    static problem p;
    const int64_t dim = COUNT;
    void *at[TRP_DNN_TENSORS_MAX] = {x, b, t, y};
    const uint64_t bytes[TRP_DNN_TENSORS_MAX] = {sizeof x, sizeof b, sizeof t, sizeof y};
    const uint32_t inputs = backward ? 2 : trp__dnn_pointwise_inputs(mode);
    trp__dnn_host_run *r = NULL;
    trp_error error;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)draw_number();
        b[i] = (float)draw_number();
        t[i] = (float)(draw(3) - 1.0);
        y[i] = 7;
    }
    memset(&p, 0, sizeof p);
    dnn_begin(&p.g);
    for (int i = 0; i < 4; i++)
        dnn_tensor(&p.g, TRP__DNN_BUFFER, TRP_F32, DNN_ROWS, 1, &dim);
    trp__dnn_node *n =
        dnn_node(&p.g, backward ? TRP_DNN_POINTWISE_BACKWARD : TRP_DNN_POINTWISE, mode, TRP_F32, 0);
    for (uint8_t i = 0; i < inputs; i++)
        n->port[i] = i;
    n->port[backward ? TRP__DNN_GRADIENT_DX : TRP__DNN_POINTWISE_Y] = 3;
    if (mode == TRP_DNN_SOFTPLUS || mode == TRP_DNN_SWISH || mode == TRP_DNN_ELU)
        n->parameter[0] = 1.5;
    if (mode == TRP_DNN_RELU && draw(2))
        n->parameter[0] = -0.5, n->parameter[1] = 6, n->parameter[2] = 0.125;
    p.graph = dnn_finish(&p.g);
    assert_int_equal(trp__dnn_host_make(&none, &room, &p.graph, at, bytes, &r, &error), TRP_OK);
    trp__dnn_host_run_now(r);
    for (int i = 0; i < COUNT; i++) {
        const double v = (double)x[i], w = (double)b[i];
        const float wanted = (float)(backward ? trp__dnn_activation_gradient(n, v, w)
                                              : trp__dnn_pointwise_value(n, v, w, (double)t[i]));
        const double most = backward || !is_exact(mode) ? 2 : 0;
        /* Near its zero a slope is the difference of two numbers; so is what f64 has of the tail of
         * a gelu. */
        const double by = backward ? fabs(w) : fabs(v);
        const bool none_left =
            fabs((double)wanted) < 1e-4 * by && fabs((double)(y[i] - wanted)) < 1e-11 * by;
        if (!(apart(y[i], wanted) <= most) && !none_left)
            fail_msg("%s of %.9g and %.9g%s: %.9g, expected %.9g", trp__dnn_pointwise_name(mode), v,
                     w, backward ? ", backward" : "", (double)y[i], (double)wanted);
    }
    dnn_end(&p.g);
}

static void nodes_are_functions(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 8; round++) {
        for (uint32_t mode = 0; mode <= TRP_DNN_SWISH; mode++)
            check_node(false, mode);
        for (uint32_t mode = TRP_DNN_RELU; mode <= TRP_DNN_SWISH; mode++)
            check_node(true, mode);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        UNIT(nodes_are_functions),
        UNIT(chains_and_single_nodes),
        UNIT(threads_do_not_matter),
    };
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    printf("seed %llu\n", (unsigned long long)seed);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    trp__dnn_host_trim(&room);
    return failed;
}

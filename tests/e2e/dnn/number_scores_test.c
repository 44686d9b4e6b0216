/* Attention whose scores are shifted far, or hidden and no numbers, against a reference of long
 * double; and where its gradients may lie. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_small.h"
#include "support/label.h"

#include <float.h>
#include <math.h>
#include <troupe/layers.h>

TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

/* --- attention --- */

enum { ROWS = 3, COLUMNS = 5, DEPTH = 2, WIDTH = 3 };

typedef struct attention_case {
    double q[ROWS * DEPTH], k[COLUMNS * DEPTH], v[COLUMNS * WIDTH], dy[ROWS * WIDTH];
    double bias[ROWS * COLUMNS];
    bool causal;
} attention_case;

typedef struct attention_results {
    double y[ROWS * WIDTH], dq[ROWS * DEPTH], dk[COLUMNS * DEPTH], dv[COLUMNS * WIDTH];
    double dbias[ROWS * COLUMNS];
} attention_results;

static void attention_reference(const attention_case *k, attention_results *r)
{
    *r = (attention_results){.y = {0}};
    for (int i = 0; i < ROWS; i++) {
        double score[COLUMNS], most = -INFINITY;
        long double weight[COLUMNS], sum = 0, y[WIDTH] = {0}, mean = 0;
        for (int j = 0; j < COLUMNS; j++) {
            const double bias = k->bias[i * COLUMNS + j];
            score[j] = bias;
            if ((k->causal && j > i) || bias == -INFINITY)
                score[j] = -INFINITY;
            for (int d = 0; d < DEPTH && score[j] != -INFINITY; d++)
                score[j] += k->q[i * DEPTH + d] * k->k[j * DEPTH + d];
            most = score[j] > most ? score[j] : most;
        }
        for (int j = 0; j < COLUMNS; j++) {
            weight[j] = score[j] == -INFINITY ? 0 : expl((long double)score[j] - (long double)most);
            sum += weight[j];
        }
        for (int j = 0; j < COLUMNS && most != -INFINITY; j++) {
            weight[j] /= sum;
            for (int w = 0; w < WIDTH && weight[j] != 0; w++)
                y[w] += weight[j] * (long double)k->v[j * WIDTH + w];
        }
        for (int w = 0; w < WIDTH; w++) {
            r->y[i * WIDTH + w] = (double)y[w];
            mean += y[w] * (long double)k->dy[i * WIDTH + w];
        }
        for (int j = 0; j < COLUMNS; j++) {
            long double g = -mean;
            if (most == -INFINITY || weight[j] == 0)
                continue;
            for (int w = 0; w < WIDTH; w++) {
                g += (long double)k->v[j * WIDTH + w] * (long double)k->dy[i * WIDTH + w];
                r->dv[j * WIDTH + w] += (double)(weight[j] * (long double)k->dy[i * WIDTH + w]);
            }
            g *= weight[j];
            r->dbias[i * COLUMNS + j] = (double)g;
            for (int d = 0; d < DEPTH; d++) {
                r->dq[i * DEPTH + d] += (double)(g * (long double)k->k[j * DEPTH + d]);
                r->dk[j * DEPTH + d] += (double)(g * (long double)k->q[i * DEPTH + d]);
            }
        }
    }
}

static void attention_one(const char *name, trp_dtype type, const attention_case *k)
{
    const int64_t q_dim[] = {1, 1, ROWS, DEPTH}, k_dim[] = {1, 1, COLUMNS, DEPTH};
    const int64_t v_dim[] = {1, 1, COLUMNS, WIDTH}, y_dim[] = {1, 1, ROWS, WIDTH};
    const int64_t row_dim[] = {1, 1, ROWS, 1}, bias_dim[] = {1, 1, ROWS, COLUMNS};
    attention_results want;
    ds_graph g = {0};
    trp_dnn_node *n = ds_node(&g, TRP_DNN_ATTENTION), *b = ds_node(&g, TRP_DNN_ATTENTION_BACKWARD);
    attention_reference(k, &want);
    n->q = ds_put(&g, type, 4, q_dim, k->q, COUNT_OF(k->q));
    n->k = ds_put(&g, type, 4, k_dim, k->k, COUNT_OF(k->k));
    n->v = ds_put(&g, type, 4, v_dim, k->v, COUNT_OF(k->v));
    n->bias = ds_put(&g, type, 4, bias_dim, k->bias, COUNT_OF(k->bias));
    n->y = ds_put(&g, type, 4, y_dim, NULL, 0);
    n->stats = ds_put(&g, type == TRP_F64 ? TRP_F64 : TRP_F32, 4, row_dim, NULL, 0);
    n->mask = k->causal ? TRP_DNN_MASK_CAUSAL : TRP_DNN_MASK_NONE;
    n->parameter[0] = trp_real(1);
    *b = *n;
    b->kind = TRP_DNN_ATTENTION_BACKWARD;
    b->dy = ds_put(&g, type, 4, y_dim, k->dy, COUNT_OF(k->dy));
    b->dq = ds_put(&g, type, 4, q_dim, NULL, 0);
    b->dk = ds_put(&g, type, 4, k_dim, NULL, 0);
    b->dv = ds_put(&g, type, 4, v_dim, NULL, 0);
    b->dbias = ds_put(&g, type, 4, bias_dim, NULL, 0);
    ds_run(&g);
    const double units = 16;
    ds_check_all(name, &g, n->y, want.y, COUNT_OF(want.y), units, 1);
    ds_check_all(name, &g, b->dv, want.dv, COUNT_OF(want.dv), units, 1);
    ds_check_all(name, &g, b->dq, want.dq, COUNT_OF(want.dq), units, 2);
    ds_check_all(name, &g, b->dk, want.dk, COUNT_OF(want.dk), units, 2);
    ds_check_all(name, &g, b->dbias, want.dbias, COUNT_OF(want.dbias), units, 1);
    ds_drop(&g);
}

/* Numbers that every type holds. */
static attention_case ordinary(void)
{
    attention_case k = {.causal = false};
    for (size_t i = 0; i < COUNT_OF(k.q); i++)
        k.q[i] = (double)(i * 3 % 5) / 4 - 0.5;
    for (size_t i = 0; i < COUNT_OF(k.k); i++)
        k.k[i] = (double)(i * 7 % 9) / 4 - 1;
    for (size_t i = 0; i < COUNT_OF(k.v); i++)
        k.v[i] = (double)(i * 5 % 11) / 4 - 1;
    for (size_t i = 0; i < COUNT_OF(k.dy); i++)
        k.dy[i] = (double)(i * 2 % 7) / 4 - 0.75;
    return k;
}

static void shifted(void)
{
    ds_begin();
    FOR_FLOATS(type)
    {
        const double lowest = -ds_most_of(type), far = type == TRP_F16 ? -60000 : -1e9;
        const double shifts[] = {0, 50, dr_round(type, far), -dr_round(type, far), lowest};
        for (size_t i = 0; i < COUNT_OF(shifts); i++) {
            attention_case k = ordinary();
            for (int j = 0; j < ROWS * COLUMNS; j++) /* all; in the second row all but two */
                k.bias[j] = j / COLUMNS == 1 && j % COLUMNS < 2 ? 0 : shifts[i];
            /* Kernels for GPUs add a bias in f32: what a far one rounds away is gone. */
            if (!h_is_cuda() || type == TRP_F64 || fabs(shifts[i]) <= 50)
                attention_one("shifted", type, &k);
            memset(k.q, 0, sizeof k.q); /* then all scores of a row are equal */
            attention_one("shifted, equal", type, &k);
            k.causal = true;
            attention_one("shifted, equal, causal", type, &k);
        }
    }
    ds_end();
}

/* Hidden keys and values may be anything. */
static void hidden(void)
{
    ds_begin();
    FOR_FLOATS(type)
    {
        for (int what = 0; what < 3; what++) {
            const double bad = what == 0 ? NAN : what == 1 ? INFINITY : -INFINITY;
            attention_case k = ordinary();
            k.k[3 * DEPTH] = bad;
            k.v[3 * WIDTH + 1] = bad;
            for (int i = 0; i < ROWS; i++)
                k.bias[i * COLUMNS + 3] = -INFINITY;
            attention_one("a hidden key", type, &k);
            for (int j = 0; j < COLUMNS; j++) /* a row that sees nothing, and holds nothing */
                k.bias[1 * COLUMNS + j] = -INFINITY;
            k.q[1 * DEPTH] = bad;
            attention_one("a row that sees nothing", type, &k);
            k = ordinary();
            k.causal = true; /* rows see 0 to 2 */
            k.k[4 * DEPTH + 1] = k.v[3 * WIDTH] = bad;
            attention_one("behind the diagonal", type, &k);
        }
    }
    ds_end();
}

/* --- places --- */

/* dq, dk and dv in one buffer, row by row; and errors that name the fields of the call. */
static void views(void)
{
    ds_begin();
    const attention_case k = ordinary();
    const int64_t dim[] = {1, 1, ROWS, DEPTH}, row_dim[] = {1, 1, ROWS, 1};
    enum { LINE = 3 * DEPTH };
    double zero = 0, *apart[3];
    for (int together = 0; together < 2; together++) {
        ds_graph g = {0};
        trp_completion done = {0};
        trp_attention_request r = {.mask = TRP_DNN_MASK_NONE};
        r.q = g.tensor[ds_put(&g, TRP_F32, 4, dim, k.q, COUNT_OF(k.q))];
        r.k = g.tensor[ds_put(&g, TRP_F32, 4, dim, k.k, COUNT_OF(k.q))];
        r.v = g.tensor[ds_put(&g, TRP_F32, 4, dim, k.v, COUNT_OF(k.q))];
        r.y = g.tensor[ds_put(&g, TRP_F32, 4, dim, NULL, 0)];
        r.stats = g.tensor[ds_put(&g, TRP_F32, 4, row_dim, NULL, 0)];
        H_OK(trp_attention_forward(ds_dnn, &r, &done));
        H_OK(h_await_any(done));
        r.dy = g.tensor[ds_put(&g, TRP_F32, 4, dim, k.dy, COUNT_OF(k.q))];
        trp_dnn_tensor *const to[] = {&r.dq, &r.dk, &r.dv};
        const uint32_t all = ds_line(&g, TRP_F32, ROWS * LINE, &zero, 1);
        uint32_t number_of[3];
        for (int i = 0; i < 3; i++) {
            number_of[i] = together ? all : ds_put(&g, TRP_F32, 4, dim, NULL, 0);
            *to[i] = g.tensor[number_of[i]];
            if (!together)
                continue;
            *to[i] = (trp_dnn_tensor){.type = TRP_F32,
                                      .rank = 4,
                                      .dim = {1, 1, ROWS, DEPTH},
                                      .stride = {ROWS * LINE, ROWS * LINE, LINE, 1},
                                      .buffer = g.tensor[all].buffer,
                                      .offset = (uint64_t)i * DEPTH * sizeof(float)};
        }
        H_OK(trp_attention_backward(ds_dnn, &r, &done));
        H_OK(h_await_any(done));
        for (int i = 0; i < 3; i++) {
            double *got = ds_get(&g, number_of[i]);
            for (int row = 0; together && row < ROWS; row++) {
                for (int d = 0; d < DEPTH; d++)
                    H_CHECK(got[row * LINE + i * DEPTH + d] == apart[i][row * DEPTH + d]);
            }
            if (together)
                free(apart[i]);
            apart[i] = together ? NULL : got;
            if (together)
                free(got);
        }
        if (together) {
            r.dk.offset = 0;
            H_IS(trp_attention_backward(ds_dnn, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("dq: it overlaps dk, and is written");
            r.dk = r.q;
            H_IS(trp_attention_backward(ds_dnn, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("dk: it overlaps q, and is written");
            r.k.dim[3] = DEPTH + 1;
            H_IS(trp_attention_backward(ds_dnn, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("k: expected");
            H_CHECK(strstr(trp_error_message(), "nodes[") == NULL);
            r.k.dim[3] = DEPTH;
            r.dropout = 2;
            H_IS(trp_attention_backward(ds_dnn, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("dropout: expected the probability of dropout");
        }
        ds_drop(&g);
    }
    ds_end();
}

H_CASES(H_CASE(shifted), H_CASE(hidden), H_CASE(views))

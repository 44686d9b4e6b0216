/* Runs requests that a program at the other end of a pipe describes: the side of Troupe in
 * tests/peer/peer.py, from the public headers alone. One device serves all cases.
 *
 *     peer_runner MAP BYTES host|cuda [DEADLINE_SECONDS]
 *
 * MAP is a file of so many bytes that both programs map: contents of buffers travel in it. A case
 * is lines of standard input, numbers in C's notation (also hexadecimal floating):
 *
 *     case CALL                     a row of `calls`, "graph" for nodes
 *     b BYTES AT WRITTEN            a buffer: filled from MAP at AT; if WRITTEN, read back to there
 *     t NAME TYPE RANK DIM... STRIDE... BUFFER OFFSET     a tensor: a field of the request, or of a
 *                                   graph the index; BUFFER from 0 in the order of the b lines
 *     v NAME TYPE VALUE             a tensor that is a number; i NAME NUMBER: one of 64 bits
 *     u NAME TYPE RANK DIM...       a virtual tensor; TYPE and RANK may be 0
 *     n                             the next node of a graph: what follows are its fields
 *     f FIELD VALUE...              a field; "-" ends those of a node: then those of the request
 *     go
 *
 * The answer is one line: done STATUS PARTS ENGINE MESSAGE. SPDX-License-Identifier: Apache-2.0 */
#include <troupe/troupe.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { LINE = 4096, BUFFERS = 32, WORDS = 64 };

/* --- fields of requests --- */

typedef enum shape { U32, I64, BOOL, F64, SCALAR, TENSOR, MATRIX, VECTOR, BUFFER } shape;

typedef struct field {
    const char *name;
    shape shape;
    size_t count, at;
} field;

/* clang-format off */
#define ROW(type, shape, member) {#member, shape, 1, offsetof(type, member)}
#define ROWS(type, shape, member, count) {#member, shape, count, offsetof(type, member)}
#define OPTIONS(type)                                                                              \
    ROW(type, BOOL, options.tf32), ROW(type, BOOL, options.deterministic),                         \
    ROW(type, U32, options.heuristic), ROW(type, U32, options.tune),                               \
    ROW(type, I64, options.workspace_bytes)
#define SPATIAL(type) ROWS(type, I64, pre_pad, TRP_DNN_SPATIAL_MAX),                               \
    ROWS(type, I64, post_pad, TRP_DNN_SPATIAL_MAX), ROWS(type, I64, stride, TRP_DNN_SPATIAL_MAX)
#define ACTIVATION(type) ROW(type, U32, activation.mode),                                          \
    ROWS(type, SCALAR, activation.parameter, TRP_DNN_PARAMETERS)

#define N(shape, member) ROW(trp_dnn_node, shape, member)
static const field node_fields[] = {
    N(U32, kind), N(U32, x), N(U32, w), N(U32, y), N(U32, dx), N(U32, dw), N(U32, dy), N(U32, a),
    N(U32, b), N(U32, t), N(U32, index), N(U32, scale), N(U32, bias), N(U32, epsilon), N(U32, mean),
    N(U32, inv_variance), N(U32, dscale), N(U32, dbias), N(U32, running_mean),
    N(U32, running_variance), N(U32, average_factor), N(U32, new_running_mean),
    N(U32, new_running_variance), N(U32, sum), N(U32, square_sum), N(U32, pointwise),
    N(U32, reduce), N(U32, resample), N(U32, norm), SPATIAL(trp_dnn_node),
    ROWS(trp_dnn_node, I64, dilation, TRP_DNN_SPATIAL_MAX),
    ROWS(trp_dnn_node, I64, window, TRP_DNN_SPATIAL_MAX), N(BOOL, flip), N(U32, compute),
    ROWS(trp_dnn_node, SCALAR, parameter, TRP_DNN_PARAMETERS), N(U32, q), N(U32, k), N(U32, v),
    N(U32, dq), N(U32, dk), N(U32, dv), N(U32, stats), N(U32, slopes), N(U32, seq_q), N(U32, seq_kv),
    N(U32, mask), ROWS(trp_dnn_node, U32, part, TRP_DNN_PARTS_MAX), N(U32, axis),
    ROWS(trp_dnn_node, I64, start, TRP_DNN_RANK_MAX), ROWS(trp_dnn_node, I64, step, TRP_DNN_RANK_MAX),
    ROWS(trp_dnn_node, U32, order, TRP_DNN_RANK_MAX), N(U32, seed), N(U32, offset), N(U32, random),
    N(U32, block), N(U32, table),
};
static const field graph_fields[] = {OPTIONS(trp_dnn_graph_request)};

#define C(shape, member) ROW(trp_conv_request, shape, member)
static const field conv_fields[] = {
    C(TENSOR, x), C(TENSOR, w), C(TENSOR, y), C(TENSOR, z), C(TENSOR, bias),
    SPATIAL(trp_conv_request), ROWS(trp_conv_request, I64, dilation, TRP_DNN_SPATIAL_MAX),
    C(BOOL, flip), C(U32, compute), C(SCALAR, alpha), C(SCALAR, beta), ACTIVATION(trp_conv_request),
    OPTIONS(trp_conv_request),
};

#define P(shape, member) ROW(trp_pool_request, shape, member)
static const field pool_fields[] = {
    P(U32, mode), P(TENSOR, x), P(TENSOR, y), P(TENSOR, index), P(TENSOR, old_x), P(TENSOR, old_y),
    SPATIAL(trp_pool_request), ROWS(trp_pool_request, I64, window, TRP_DNN_SPATIAL_MAX),
    OPTIONS(trp_pool_request),
};

/* A real number that may be given, or has a default at 0. */
#define REAL(type, member)                                                                         \
    ROW(type, _Generic(((type *)0)->member, double: F64, trp_scalar: SCALAR), member)
#define M(shape, member) ROW(trp_norm_request, shape, member)
static const field norm_fields[] = {
    M(U32, mode), M(TENSOR, x), M(TENSOR, scale), M(TENSOR, bias), M(TENSOR, y), M(TENSOR, mean),
    M(TENSOR, inv_variance), REAL(trp_norm_request, epsilon), M(TENSOR, running_mean), M(TENSOR, running_variance),
    M(TENSOR, new_running_mean), M(TENSOR, new_running_variance), REAL(trp_norm_request, average_factor),
    M(TENSOR, dx), M(TENSOR, dscale), M(TENSOR, dbias), ACTIVATION(trp_norm_request),
    OPTIONS(trp_norm_request),
};

#define A(shape, member) ROW(trp_attention_request, shape, member)
static const field attention_fields[] = {
    A(TENSOR, q), A(TENSOR, k), A(TENSOR, v), A(TENSOR, y), A(TENSOR, stats), A(TENSOR, bias),
    A(TENSOR, slopes), A(TENSOR, seq_q), A(TENSOR, seq_kv), A(SCALAR, scale), A(U32, mask),
    A(I64, window), A(TENSOR, dy), A(TENSOR, dq), A(TENSOR, dk), A(TENSOR, dv), A(TENSOR, dbias),
    REAL(trp_attention_request, dropout), A(TENSOR, seed), A(TENSOR, offset), A(TENSOR, table_k), A(TENSOR, table_v),
    A(I64, columns), OPTIONS(trp_attention_request),
};

#define V(shape, member) ROW(trp_activation_request, shape, member)
static const field activation_fields[] = {
    ACTIVATION(trp_activation_request), V(TENSOR, x), V(TENSOR, y), V(TENSOR, dx),
    OPTIONS(trp_activation_request),
};

#define S(shape, member) ROW(trp_softmax_request, shape, member)
static const field softmax_fields[] = {
    S(U32, axis), S(BOOL, log), S(TENSOR, x), S(TENSOR, y), S(TENSOR, dy), S(TENSOR, dx),
    OPTIONS(trp_softmax_request),
};

#define G(shape, member) ROW(trp_matmul_request, shape, member)
static const field matmul_fields[] = {
    G(I64, m), G(I64, n), G(I64, k), G(I64, batch), G(U32, trans_a), G(U32, trans_b),
    G(U32, compute), G(BOOL, fast_accumulation), G(MATRIX, a), G(MATRIX, b), G(MATRIX, c),
    G(MATRIX, d), G(SCALAR, alpha), G(SCALAR, beta), G(U32, activation), G(VECTOR, bias),
    G(MATRIX, aux), G(U32, gradient_of), G(VECTOR, gradient), G(I64, workspace_bytes), G(U32, tune),
};
/* clang-format on */

/* --- calls --- */

typedef union any_request {
    trp_request header;
    trp_dnn_graph_request graph;
    trp_conv_request conv;
    trp_pool_request pool;
    trp_norm_request norm;
    trp_attention_request attention;
    trp_activation_request activation;
    trp_softmax_request softmax;
    trp_matmul_request matmul;
} any_request;

#define SENDS(call)                                                                                \
    static trp_status send_##call(trp_actor *actor, const void *request, trp_completion *done)     \
    {                                                                                              \
        return trp_##call(actor, request, done);                                                   \
    }
SENDS(dnn_graph)
SENDS(conv_forward)
SENDS(conv_backward_data)
SENDS(conv_backward_filter)
SENDS(pool_forward)
SENDS(pool_backward)
SENDS(norm_training)
SENDS(norm_inference)
SENDS(norm_backward)
SENDS(attention_forward)
SENDS(attention_backward)
SENDS(activation_forward)
SENDS(activation_backward)
SENDS(softmax_forward)
SENDS(softmax_backward)
SENDS(matmul)

enum { NO_RAN = 0 };

typedef struct call {
    const char *name;
    trp_status (*send)(trp_actor *, const void *, trp_completion *);
    const field *fields;
    size_t count, ran; /* where options.ran lies; NO_RAN: nothing says how it ran */
} call;

#define CALL(name, fields, type)                                                                   \
    {                                                                                              \
#name, send_##name, fields, COUNT_OF(fields), offsetof(type, options.ran)                  \
    }

static const call calls[] = {
    {"graph", send_dnn_graph, graph_fields, COUNT_OF(graph_fields),
     offsetof(trp_dnn_graph_request, options.ran)},
    CALL(conv_forward, conv_fields, trp_conv_request),
    CALL(conv_backward_data, conv_fields, trp_conv_request),
    CALL(conv_backward_filter, conv_fields, trp_conv_request),
    CALL(pool_forward, pool_fields, trp_pool_request),
    CALL(pool_backward, pool_fields, trp_pool_request),
    CALL(norm_training, norm_fields, trp_norm_request),
    CALL(norm_inference, norm_fields, trp_norm_request),
    CALL(norm_backward, norm_fields, trp_norm_request),
    CALL(attention_forward, attention_fields, trp_attention_request),
    CALL(attention_backward, attention_fields, trp_attention_request),
    CALL(activation_forward, activation_fields, trp_activation_request),
    CALL(activation_backward, activation_fields, trp_activation_request),
    CALL(softmax_forward, softmax_fields, trp_softmax_request),
    CALL(softmax_backward, softmax_fields, trp_softmax_request),
    {"matmul", send_matmul, matmul_fields, COUNT_OF(matmul_fields), NO_RAN},
};

/* --- one case --- */

typedef struct buffer {
    trp_buffer handle;
    uint64_t bytes, at;
    bool written;
} buffer;

typedef struct problem {
    const call *call;
    any_request request;
    trp_dnn_tensor tensors[TRP_DNN_TENSORS_MAX];
    trp_dnn_node nodes[TRP_DNN_NODES_MAX];
    uint32_t tensor_count, node_count;
    bool in_node;
    buffer buffers[BUFFERS];
    size_t buffer_count;
} problem;

typedef struct bench {
    trp_system *system;
    trp_device *device;
    trp_actor *dnn, *matmul;
    unsigned char *map;
    uint64_t map_bytes, deadline_ns;
} bench;

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "peer_runner: %s: %s\n", what, detail);
    exit(2);
}

/* The words of a line; `next` walks through them. */
typedef struct words {
    char *word[WORDS];
    size_t count, next;
} words;

static const char *next_word(words *w)
{
    if (w->next >= w->count)
        die("a line ends too early", w->count ? w->word[0] : "");
    return w->word[w->next++];
}

static int64_t next_whole(words *w)
{
    return strtoll(next_word(w), NULL, 0);
}

static double next_real(words *w)
{
    return strtod(next_word(w), NULL);
}

static const field *find_field(const field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(fields[i].name, name))
            return &fields[i];
    die("no such field", name);
    return NULL;
}

static trp_buffer next_buffer(problem *p, words *w)
{
    const int64_t i = next_whole(w);
    if (i < 0 || (size_t)i >= p->buffer_count)
        die("no such buffer", w->word[0]);
    return p->buffers[i].handle;
}

/* BUFFER OFFSET TYPE ORDER LD STRIDE [SCALE's BUFFER] */
static void read_matrix(problem *p, words *w, trp_matmul_matrix *out)
{
    out->buffer = next_buffer(p, w);
    out->offset = (uint64_t)next_whole(w);
    out->type = (trp_dtype)next_whole(w);
    out->order = (trp_order)next_whole(w);
    out->ld = next_whole(w);
    out->stride = next_whole(w);
    if (w->next < w->count)
        out->scale.buffer = next_buffer(p, w);
}

static void set_field(problem *p, words *w)
{
    const char *name = next_word(w);
    if (!strcmp(name, "-")) {
        p->in_node = false;
        return;
    }
    const field *f = p->in_node ? find_field(node_fields, COUNT_OF(node_fields), name)
                                : find_field(p->call->fields, p->call->count, name);
    unsigned char *at = p->in_node ? (unsigned char *)&p->nodes[p->node_count - 1] + f->at
                                   : (unsigned char *)&p->request + f->at;
    for (size_t i = 0; i < f->count && w->next < w->count; i++) {
        switch (f->shape) {
        case U32:
            ((uint32_t *)(void *)at)[i] = (uint32_t)next_whole(w);
            break;
        case I64:
            ((int64_t *)(void *)at)[i] = next_whole(w);
            break;
        case BOOL:
            ((bool *)(void *)at)[i] = next_whole(w) != 0;
            break;
        case F64:
            ((double *)(void *)at)[i] = next_real(w);
            break;
        case SCALAR: { /* "-": not given */
            const char *text = next_word(w);
            if (strcmp(text, "-") != 0)
                ((trp_scalar *)(void *)at)[i] = trp_real(strtod(text, NULL));
            break;
        }
        case MATRIX:
            read_matrix(p, w, (trp_matmul_matrix *)(void *)at);
            break;
        case VECTOR: {
            trp_matmul_vector *v = (trp_matmul_vector *)(void *)at;
            v->buffer = next_buffer(p, w);
            v->offset = (uint64_t)next_whole(w);
            v->type = (trp_dtype)next_whole(w);
            v->stride = next_whole(w);
            break;
        }
        default:
            die("a field that a line f can't set", name);
        }
    }
}

static trp_dnn_tensor *find_tensor(problem *p, const char *name)
{
    if (p->call->send == send_dnn_graph) {
        const long i = strtol(name, NULL, 10);
        if (i <= 0 || i >= TRP_DNN_TENSORS_MAX)
            die("no such tensor", name);
        if ((uint32_t)i >= p->tensor_count)
            p->tensor_count = (uint32_t)i + 1;
        return &p->tensors[i];
    }
    const field *f = find_field(p->call->fields, p->call->count, name);
    if (f->shape != TENSOR)
        die("no tensor", name);
    return (trp_dnn_tensor *)(void *)((unsigned char *)&p->request + f->at);
}

static void set_tensor(problem *p, words *w, char kind)
{
    trp_dnn_tensor *t = find_tensor(p, next_word(w));
    if (kind == 'i') {
        *t = trp_dnn_integer((uint64_t)strtoull(next_word(w), NULL, 0));
        return;
    }
    t->type = (trp_dtype)next_whole(w);
    if (kind == 'v') {
        t->value = trp_real(next_real(w));
        return;
    }
    t->rank = (uint32_t)next_whole(w);
    if (t->rank > TRP_DNN_RANK_MAX)
        die("a rank", "too high");
    for (uint32_t i = 0; i < t->rank; i++)
        t->dim[i] = next_whole(w);
    if (kind == 'u')
        return;
    for (uint32_t i = 0; i < t->rank; i++)
        t->stride[i] = next_whole(w);
    t->buffer = next_buffer(p, w);
    t->offset = (uint64_t)next_whole(w);
}

static void check(trp_status status, const char *what)
{
    if (status)
        die(what, trp_error_message());
}

static void add_buffer(bench *b, problem *p, words *w)
{
    if (p->buffer_count == BUFFERS)
        die("too many buffers", "");
    buffer *one = &p->buffers[p->buffer_count++];
    one->bytes = (uint64_t)next_whole(w);
    one->at = (uint64_t)next_whole(w);
    one->written = next_whole(w) != 0;
    if (one->at > b->map_bytes || one->bytes > b->map_bytes - one->at)
        die("a buffer", "outside of the map");
    check(trp_buffer_create(b->device, one->bytes, &one->handle), "trp_buffer_create");
    trp_completion done = {0};
    check(trp_write(b->device, one->handle, 0, b->map + one->at, one->bytes, &done), "trp_write");
    check(trp_await(done.future, TRP_FOREVER, NULL), "trp_write");
}

static void read_back(bench *b, problem *p)
{
    for (size_t i = 0; i < p->buffer_count; i++) {
        const buffer *one = &p->buffers[i];
        if (!one->written)
            continue;
        trp_completion done = {0};
        check(trp_read(b->device, one->handle, 0, b->map + one->at, one->bytes, &done), "trp_read");
        check(trp_await(done.future, TRP_FOREVER, NULL), "trp_read");
    }
}

static void run(bench *b, problem *p)
{
    trp_dnn_ran ran = {0};
    trp_error error = {0};
    trp_completion done = {0};
    if (p->call->send == send_dnn_graph) {
        p->request.graph.tensors = p->tensors;
        p->request.graph.tensor_count = p->tensor_count;
        p->request.graph.nodes = p->nodes;
        p->request.graph.node_count = p->node_count;
    }
    if (p->call->ran != NO_RAN) {
        trp_dnn_ran *where = &ran;
        memcpy((unsigned char *)&p->request + p->call->ran, &where, sizeof where);
    }
    p->request.header.deadline_ns = b->deadline_ns;
    trp_actor *actor = p->call->send == send_matmul ? b->matmul : b->dnn;
    trp_status status = p->call->send(actor, &p->request, &done);
    if (status)
        snprintf(error.message, sizeof error.message, "%s", trp_error_message());
    else
        status = trp_await(done.future, TRP_FOREVER, &error);
    if (!status)
        read_back(b, p);
    for (size_t i = 0; i < p->buffer_count; i++)
        (void)trp_buffer_free(b->device, p->buffers[i].handle);
    for (char *c = error.message; *c; c++)
        if (*c == '\n')
            *c = ' ';
    printf("done %d %u %s %s\n", (int)status, ran.parts, *ran.engine ? ran.engine : "-",
           status ? error.message : "");
    fflush(stdout);
}

static const call *find_call(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        if (!strcmp(calls[i].name, name))
            return &calls[i];
    die("no such call", name);
    return NULL;
}

static void read_line(bench *b, problem *p, words *w)
{
    const char *what = next_word(w);
    if (!strcmp(what, "case")) {
        memset(p, 0, sizeof *p);
        p->tensor_count = 1;
        p->call = find_call(next_word(w));
        return;
    }
    if (!p->call)
        die("a line before its case", what);
    if (!strcmp(what, "go")) {
        run(b, p);
        return;
    }
    switch (what[0]) {
    case 'b':
        add_buffer(b, p, w);
        break;
    case 't':
    case 'v':
    case 'i':
    case 'u':
        set_tensor(p, w, what[0]);
        break;
    case 'n':
        if (p->node_count == TRP_DNN_NODES_MAX)
            die("too many nodes", "");
        p->node_count++;
        p->in_node = true;
        break;
    case 'f':
        set_field(p, w);
        break;
    default:
        die("no such line", what);
    }
}

static void open_all(bench *b, char **argv, const char *backend)
{
    int file = open(argv[1], O_RDWR | O_CLOEXEC);
    b->map_bytes = strtoull(argv[2], NULL, 0);
    if (file < 0)
        die("open", argv[1]);
    b->map = mmap(NULL, b->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (b->map == MAP_FAILED)
        die("mmap", argv[1]);
    close(file);
    const trp_device_options options = {.backend = !strcmp(backend, "cuda") ? TRP_BACKEND_CUDA
                                                                            : TRP_BACKEND_HOST,
                                        .standby = TRP_STANDBY_OFF};
    check(trp_system_create(NULL, &b->system), "trp_system_create");
    check(trp_device_open(b->system, &options, &b->device), "trp_device_open");
    check(trp_actor_create(b->device, &(trp_actor_options){.kind = "dnn"}, &b->dnn), "dnn");
    check(trp_actor_create(b->device, &(trp_actor_options){.kind = "matmul"}, &b->matmul),
          "matmul");
    trp_device_info info;
    check(trp_device_get_info(b->device, &info), "trp_device_get_info");
    printf("ready %s %s\n", trp_backend_name(info.backend), info.name);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static problem p;
    static char line[LINE];
    bench b = {0};
    if (argc < 4)
        die("usage", "peer_runner MAP BYTES host|cuda [DEADLINE_SECONDS]");
    b.deadline_ns = argc > 4 ? strtoull(argv[4], NULL, 10) * UINT64_C(1000000000) : 0;
    open_all(&b, argv, argv[3]);
    while (fgets(line, sizeof line, stdin)) {
        words w = {0};
        for (char *word = strtok(line, " \n"); word && w.count < WORDS; word = strtok(NULL, " \n"))
            w.word[w.count++] = word;
        if (w.count)
            read_line(&b, &p, &w);
    }
    trp_actor_destroy(b.dnn);
    trp_actor_destroy(b.matmul);
    trp_device_close(b.device);
    return trp_system_destroy(b.system) != TRP_OK;
}

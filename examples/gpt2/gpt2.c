/* Trains a small GPT-2 on the bytes of a text. Every number of a step is computed by one actor; its
 * worker may die at any time, and the losses stay the same to the last bit: see README.md.
 *
 *     gpt2 TEXT [-steps N] [-batch N] [-context N] [-layers N] [-width N] [-heads N] [-bf16 1]
 *          [-vocabulary N] [-in_place 1] [-kill N] [-save FILE] [-load FILE]
 *
 * -kill N kills the worker in each Nth step. -in_place 1 needs less memory, and a fault in a
 * request that writes where it reads ends the program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/troupe.h>

/* Parameters: of each layer, then of the model. A bias follows its weight. */
enum { N1, N1B, QKV, QKVB, PROJ, PROJB, N2, N2B, UP, UPB, DOWN, DOWNB, LAYER };
enum { WTE = LAYER, WPE, NF, NFB, PARAMETERS, LAYERS_MAX = 64 };
/* What a layer computes, and the model: a row for each token. */
enum { X, M1, V1, NORMED, Q, STATS, ATT, MID, M2, V2, NORMED2, Z, ACT, OUT, VALUES };
enum { PLACE, LAST, MF, VF, LOGITS, DLOGITS, DN, DZ, DATT, DQKV, DX, DX2 };
enum { TOKENS = DX2 + 1, LABELS, PLACES, OTHERS };
typedef trp_dnn_tensor tensor;
static int steps = 20, B = 4, T = 64, L = 2, C = 64, H = 4, V = 256, kill_each, bf16, in_place, now;
static int64_t size[PARAMETERS], first[PARAMETERS], layer_size, total;
static trp_system *sys;
static trp_device *device;
static trp_actor *dnn;
/* Parameters and moments: each step reads those of state[now] and writes the others, so that every
 * request can run again; with -in_place both are the same, as are other results and their inputs.
 */
static tensor state[2][3], narrow, grads, head_grad, loss, value[LAYERS_MAX][VALUES], o[OTHERS];

/* clang-format off */
static void need(trp_status status, const char *doing)
{
    if (status == TRP_OK) return;
    fprintf(stderr, "%s: %s (%s)\n", doing, trp_error_message(), trp_status_name(status));
    exit(1);
}
#define SEND(call, type, ...)                                                                      \
    need(trp_##call(dnn, &(trp_##type##_request){__VA_ARGS__}, NULL), #call)

static tensor make(trp_dtype type, int64_t rows, int64_t columns)
{
    tensor t = {.type = type, .rank = columns ? 2 : 1, .dim = {rows, columns}};
    const uint64_t bytes = (uint64_t)(rows * (columns ? columns : 1)) * trp_dtype_bits(type) / 8;
    need(trp_buffer_create(device, bytes, &t.buffer), "buffer");
    return t;
}

/* One parameter, of an array of them all, as rows of so many columns. */
static tensor part(tensor all, int which, int layer, int64_t columns)
{
    const int64_t at = first[which] + (which < LAYER ? layer * layer_size : 0);
    all.offset = (uint64_t)at * trp_dtype_bits(all.type) / 8;
    all.dim[0] = size[which] / columns;
    all.dim[1] = columns;
    return all;
}
static tensor w(int p, int l, int64_t n) { return part(bf16 ? narrow : state[now][0], p, l, n); }
static tensor f32(int p, int l) { return part(state[now][0], p, l, size[p]); }
static tensor g(int p, int l, int64_t n) { return part(grads, p, l, n); }

/* Heads, from column `from` on, of an array of tokens x width. */
static tensor heads(tensor t, int from)
{
    const int64_t width = t.dim[1], depth = C / H;
    return (tensor){.type = t.type, .rank = 4, .dim = {B, H, T, depth}, .buffer = t.buffer,
                    .stride = {T * width, depth, width, 1},
                    .offset = (uint64_t)from * trp_dtype_bits(t.type) / 8};
}

static void forward(void)
{
    SEND(embedding_forward, embedding, .table = w(WPE, 0, C), .index = o[PLACES], .y = o[PLACE]);
    SEND(embedding_forward, embedding, .table = w(WTE, 0, C), .index = o[TOKENS], .add = o[PLACE], .y = value[0][X]);
    for (int l = 0; l < L; l++) {
        const tensor *v = value[l];
        SEND(residual_norm_forward, residual_norm, .x = v[X], .scale = f32(N1, l), .bias = f32(N1B, l),
             .y = v[NORMED], .mean = v[M1], .inv_variance = v[V1]);
        SEND(linear_forward, linear, .x = v[NORMED], .w = w(QKV, l, C), .bias = w(QKVB, l, 3 * C), .y = v[Q]);
        SEND(attention_forward, attention, .q = heads(v[Q], 0), .k = heads(v[Q], C), .v = heads(v[Q], 2 * C),
             .y = heads(v[ATT], 0), .stats = v[STATS], .mask = TRP_DNN_MASK_CAUSAL);
        SEND(linear_forward, linear, .x = v[ATT], .w = w(PROJ, l, C), .bias = w(PROJB, l, C), .residual = v[X], .y = v[MID]);
        SEND(residual_norm_forward, residual_norm, .x = v[MID], .scale = f32(N2, l), .bias = f32(N2B, l),
             .y = v[NORMED2], .mean = v[M2], .inv_variance = v[V2]);
        SEND(linear_forward, linear, .x = v[NORMED2], .w = w(UP, l, C), .bias = w(UPB, l, 4 * C),
             .activation.mode = TRP_DNN_GELU_TANH, .z = v[Z], .y = v[ACT]);
        SEND(linear_forward, linear, .x = v[ACT], .w = w(DOWN, l, 4 * C), .bias = w(DOWNB, l, C), .residual = v[MID], .y = v[OUT]);
    }
    SEND(residual_norm_forward, residual_norm, .x = value[L - 1][OUT], .scale = f32(NF, 0),
         .bias = f32(NFB, 0), .y = o[LAST], .mean = o[MF], .inv_variance = o[VF]);
    SEND(linear_forward, linear, .x = o[LAST], .w = w(WTE, 0, C), .y = o[LOGITS]);
    SEND(cross_entropy, cross_entropy, .logits = o[LOGITS], .labels = o[LABELS], .loss = loss, .dlogits = o[DLOGITS]);
}

static void backward(void)
{
    SEND(linear_backward, linear, .dy = o[DLOGITS], .x = o[LAST], .w = w(WTE, 0, C), .dx = o[DN], .dw = head_grad);
    SEND(residual_norm_backward, residual_norm, .dy = o[DN], .x = value[L - 1][OUT], .scale = f32(NF, 0),
         .mean = o[MF], .inv_variance = o[VF], .dx = o[DX], .dscale = g(NF, 0, C), .dbias = g(NFB, 0, C));
    for (int l = L - 1; l >= 0; l--) {
        const tensor *v = value[l];
        SEND(linear_backward, linear, .dy = o[DX], .x = v[ACT], .w = w(DOWN, l, 4 * C), .dx = o[DZ],
             .dw = g(DOWN, l, 4 * C), .dbias = g(DOWNB, l, C), .x_z = v[Z],
             .x_activation.mode = TRP_DNN_GELU_TANH);
        SEND(linear_backward, linear, .dy = o[DZ], .x = v[NORMED2], .w = w(UP, l, C), .dx = o[DN], .dw = g(UP, l, C), .dbias = g(UPB, l, 4 * C));
        SEND(residual_norm_backward, residual_norm, .dy = o[DN], .x = v[MID], .scale = f32(N2, l),
             .mean = v[M2], .inv_variance = v[V2], .dx = o[DX2], .add_dx = o[DX], .dscale = g(N2, l, C), .dbias = g(N2B, l, C));
        SEND(linear_backward, linear, .dy = o[DX2], .x = v[ATT], .w = w(PROJ, l, C), .dx = o[DATT],
             .dw = g(PROJ, l, C), .dbias = g(PROJB, l, C));
        SEND(attention_backward, attention, .q = heads(v[Q], 0), .k = heads(v[Q], C),
             .v = heads(v[Q], 2 * C), .y = heads(v[ATT], 0), .stats = v[STATS],
             .mask = TRP_DNN_MASK_CAUSAL, .dy = heads(o[DATT], 0), .dq = heads(o[DQKV], 0),
             .dk = heads(o[DQKV], C), .dv = heads(o[DQKV], 2 * C));
        SEND(linear_backward, linear, .dy = o[DQKV], .x = v[NORMED], .w = w(QKV, l, C), .dx = o[DN],
             .dw = g(QKV, l, C), .dbias = g(QKVB, l, 3 * C));
        SEND(residual_norm_backward, residual_norm, .dy = o[DN], .x = v[X], .scale = f32(N1, l),
             .mean = v[M1], .inv_variance = v[V1], .dx = o[DX], .add_dx = o[DX2], .dscale = g(N1, l, C), .dbias = g(N1B, l, C));
    }
    SEND(embedding_backward, embedding, .index = o[TOKENS], .dy = o[DX], .add_dtable = head_grad, .dtable = g(WTE, 0, C));
    SEND(embedding_backward, embedding, .index = o[PLACES], .dy = o[DX], .dtable = g(WPE, 0, C));
}

static void update(uint64_t step)
{
    const tensor *from = state[now], *to = state[!now];
    SEND(optimizer, optimizer, .optimizer = TRP_DNN_ADAMW, .w = from[0], .dw = grads,
         .moment = {from[1], from[2]}, .new_w = to[0], .new_moment = {to[1], to[2]},
         .narrow = narrow, .rate = trp_real(1e-3), .step = step, .decay = trp_real(0.01),
         .max_norm = trp_real(1));
    now = !now;
}

/* All of a tensor from `host`, or to it. */
static void transfer(tensor t, void *host, bool up)
{
    const uint64_t bytes = (uint64_t)(t.dim[0] * (t.rank > 1 ? t.dim[1] : 1)) * trp_dtype_bits(t.type) / 8;
    trp_completion done = {0};
    need(up ? trp_write(device, t.buffer, 0, host, bytes, &done)
            : trp_read(device, t.buffer, 0, host, bytes, &done), "transfer");
    need(trp_await(done.future, TRP_FOREVER, NULL), "transfer");
}

/* A checkpoint, .npz or .safetensors: straight from the device; back to `host`, which lies as it does there. */
static void checkpoint(const char *name, bool saves, float *host)
{
    static const char *const names[] = {"parameters", "first_moment", "second_moment", "steps"};
    trp_io_item item[4] = {{.array = {.rank = 0}}};
    trp_io_file *file = NULL;
    if (!saves) need(trp_io_open(name, &file), "checkpoint");
    for (uint64_t i = 0, at; i < 4; i++) {
        const uint64_t count = i < 3 ? (uint64_t)total : 1;
        item[i] = (trp_io_item){.array = {.name = names[i], .type = TRP_F32, .rank = i < 3, .dim = {i < 3 ? total : 0}},
                                .buffer = state[now][i % 3].buffer, .data = i < 3 ? NULL : host + 3 * total};
        if (saves) continue;
        need(trp_io_find(file, names[i], &at), "checkpoint");
        need(trp_io_read(file, at, host + (int64_t)i * total, count * sizeof *host, NULL), "checkpoint");
    }
    if (saves) need(trp_io_save(name, item, 4, &(trp_io_save_options){.device = device}), "checkpoint");
    trp_io_close(file);
}

/* All arrays: statistics are f32. */
static void create(void)
{
    const int rows = B * T, layer[VALUES] = {C, 1, 1, C, 3 * C, H, C, C, 1, 1, C, 4 * C, 4 * C, C};
    const int other[OTHERS] = {C, C, 1, 1, V, V, C, 4 * C, C, 3 * C, C, C, 0, 0, 0};
    const trp_dtype type = bf16 ? TRP_BF16 : TRP_F32;
    for (int i = 0; i < OTHERS; i++)
        o[i] = i == DLOGITS && in_place ? o[LOGITS] : make(i >= TOKENS ? TRP_I32 : i == MF || i == VF ? TRP_F32 : type, rows, other[i]);
    for (int i = 0; i < L * VALUES; i++) {
        const int k = i % VALUES;
        tensor *t = &value[i / VALUES][k];
        *t = k == X && i > 0 ? t[OUT - VALUES] /* of the layer before */
                             : make(layer[k] == 1 || k == STATS ? TRP_F32 : type, rows, layer[k]);
        if (k == STATS) t->rank = 4, memcpy(t->dim, (int64_t[]){B, H, T, 1}, 4 * sizeof *t->dim);
    }
    for (int i = 0; i < 6; i++) state[i / 3][i % 3] = i > 2 && in_place ? state[0][i % 3] : make(TRP_F32, 1, total);
    grads = make(TRP_F32, 1, total), loss = make(TRP_F32, 1, 1), head_grad = in_place ? g(WTE, 0, C) : make(TRP_F32, V, C);
    if (bf16) narrow = make(TRP_BF16, 1, total);
}

/* Where parameters lie, and what training begins with: uniform weights, of deviation 0.02. */
static float *set_up(void)
{
    const int64_t c = C, sizes[PARAMETERS] = {c, c, 3 * c * c, 3 * c, c * c, c, c, c, 4 * c * c, 4 * c,
                                              4 * c * c, c, V * c, T * c, c, c};
    for (int p = 0; p < PARAMETERS; p++) {
        first[p] = p == LAYER ? total = layer_size * L : total;
        total += size[p] = sizes[p];
        layer_size = p < LAYER ? total : layer_size;
    }
    float *host = calloc(3 * (size_t)total + 1, sizeof *host);
    uint64_t draw = 1;
    for (int p = 0; p < PARAMETERS; p++) {
        for (int64_t i = 0; i < size[p] * (p < LAYER ? L : 1); i++) {
            const float weight = (float)((double)((draw = draw * 6364136223846793005u + 1442695040888963407u) >> 33) / 0x1p31 - 0.5);
            host[first[p] + (p < LAYER ? i / size[p] * layer_size : 0) + i % size[p]] =
                p == N1 || p == N2 || p == NF ? 1 : size[p] > 4 * c ? weight * 0.069F : 0;
        }
    }
    return host;
}

int main(int argc, char **argv)
{
    const char *const names[] = {"-steps", "-batch", "-context", "-layers", "-width", "-heads", "-kill", "-bf16", "-vocabulary", "-in_place"};
    int *const numbers[] = {&steps, &B, &T, &L, &C, &H, &kill_each, &bf16, &V, &in_place};
    const char *save = NULL, *load = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0); /* each step is seen when it is done, in a file too */
    static unsigned char text[1 << 20];
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    const int length = f ? (int)fread(text, 1, sizeof text, f) : 0;
    for (int i = 2; i + 1 < argc; i += 2) {
        for (int k = 0; k < 10; k++)
            *numbers[k] = strcmp(argv[i], names[k]) ? *numbers[k] : atoi(argv[i + 1]);
        save = strcmp(argv[i], "-save") ? save : argv[i + 1];
        load = strcmp(argv[i], "-load") ? load : argv[i + 1];
    }
    if (length <= T || B < 1 || V < 256 || T < 1 || L < 1 || L > LAYERS_MAX || H < 1 || C < H || C % H != 0)
        return fprintf(stderr, "usage: see the top of gpt2.c\n"), 2;
    float *host = set_up(), *done = host + 3 * total, mean;
    int32_t *io[3] = {calloc((size_t)(B * T), 4), calloc((size_t)(B * T), 4), calloc((size_t)(B * T), 4)};
    if (load) checkpoint(load, false, host);
    need(trp_system_create(NULL, &sys), "system");
    need(trp_device_open(sys, NULL, &device), "device");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "dnn"}, &dnn), "dnn");
    create();
    uint16_t *half = calloc((size_t)total, sizeof *half);
    need(trp_convert(TRP_F32, host, TRP_BF16, half, (size_t)total), "convert");
    for (int i = 0; i < 3 + bf16; i++)
        transfer(i < 3 ? state[0][i] : narrow, i < 3 ? host + i * total : (void *)half, true);
    for (const int end = (int)*done + steps; *done < (float)end; *done += 1) {
        for (int i = 0; i < B * T; i++) {
            const int at = ((int)*done * 7919 + i / T * 104729) % (length - T) + i % T; /* anywhere in the text */
            io[0][i] = text[at], io[1][i] = text[at + 1], io[2][i] = i % T;
        }
        for (int i = 0; i < 3; i++) transfer(o[TOKENS + i], io[i], true);
        forward(), backward(), update((uint64_t)*done + 1);
        trp_device_info info;
        if (kill_each && (int)*done % kill_each == 0 && trp_device_get_info(device, &info) == TRP_OK && info.worker_pid > 0)
            kill((pid_t)info.worker_pid, SIGKILL);
        transfer(loss, &mean, false);
        printf("step %d loss %.9g\n", (int)*done, (double)mean);
    }
    if (save) checkpoint(save, true, host);
    trp_actor_destroy(dnn), trp_device_close(device);
    need(trp_system_destroy(sys), "system");
    return free(io[0]), free(io[1]), free(io[2]), free(half), free(host), 0;
}

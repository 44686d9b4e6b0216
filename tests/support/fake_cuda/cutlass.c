/* Kernels of the cutlass actor on the fake driver: the builder leaves what the real one leaves, and
 * the kernel computes the product, with its epilogue tree evaluated by the library's host code.
 * Both are stricter than those of CUTLASS: what a kernel may rely on and does not find is a fault.
 */
#include "support/fake_cuda/cutlass.h"

#include "actors/cutlass/templates/groups.h"
#include "actors/cutlass/tree_eval.h"
#include "actors/cutlass/tree_render.h"
#include "support/elements.h"
#include "support/fake_cuda/fake.h"
#include "support/fake_cuda/told.h"
#include "support/matmul_reference.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BARRIERS = 4096 }; /* bytes of a workspace that must be zero */

static bool read_kernel(uint64_t address, fake_cutlass_kernel *k)
{
    fake_pin pin;
    const void *at = fake_cuda_reach(&pin, address, sizeof *k, false);
    if (at)
        memcpy(k, at, sizeof *k);
    fake_cuda_let_go(&pin);
    return at;
}

static uint32_t bytes_of(uint8_t type)
{
    return trp_dtype_bits((trp_dtype)type) / 8;
}

/* Two elements of 4 bits make one. */
static uint64_t bytes_of_all(uint8_t type, uint64_t elements)
{
    return (elements * trp_dtype_bits((trp_dtype)type) + 7) / 8;
}

/* The builder. */

/* As CUDA numbers them; what TMA does not know goes as bytes. */
static uint8_t map_type(uint8_t type)
{
    return type == TRP_F16    ? 6
           : type == TRP_F32  ? 7
           : type == TRP_F64  ? 8
           : type == TRP_BF16 ? 9
                              : 0;
}

static void describe(trp_cutlass_map *map, uint8_t type, uint64_t address, bool contiguous_k,
                     int64_t lines, int64_t k, int64_t ld, int64_t batch, int64_t l)
{
    uint32_t element = bytes_of(type);
    if (element == 0) { /* 4 bits: as bytes, along k */
        describe(map, TRP_U8, address, true, lines, k / 2, ld / 2, batch / 2, l);
        return;
    }
    *map =
        (trp_cutlass_map){.tag = TRP_CUTLASS_TILED,
                          .address = address,
                          .type = map_type(type),
                          .rank = 3,
                          .swizzle = 3,
                          .stride = {(uint64_t)ld * element, l > 1 ? (uint64_t)batch * element : 0},
                          .size = {(uint32_t)(contiguous_k ? k : lines) - 1,
                                   (uint32_t)(contiguous_k ? lines : k) - 1, (uint32_t)l - 1},
                          .box = {(uint16_t)(128 / element), 64, 1},
                          .step = {1, 1, 1, 1, 1}};
}

/* Whether what is loaded at once is aligned. */
static bool aligned(uint64_t address, int64_t ld, int64_t batch, int64_t l, uint8_t type,
                    uint32_t elements)
{
    uint64_t all = address | bytes_of_all(type, (uint64_t)ld) |
                   (l > 1 ? bytes_of_all(type, (uint64_t)batch) : 0);
    return all % bytes_of_all(type, elements) == 0;
}

/* Whether lines of a tensor begin at multiples of what is loaded at once. */
static bool tensor_aligned(const fake_cutlass_kernel *k, const trp_cutlass_args *a, bool right)
{
    const int64_t *stride = right ? a->conv_b : a->conv_a;
    uint64_t address = right ? a->b : a->a;
    int64_t batch = right ? a->batch_b : a->batch_a;
    for (int i = 0; i < 4; i++) {
        if (!aligned(address, stride[i], batch, a->l, right ? k->b : k->a, k->a_align))
            return false;
    }
    return true;
}

static bool can_run(const fake_cutlass_kernel *k, const trp_cutlass_args *a)
{
    if (k->convolves)
        return a->m > 0 && a->n > 0 && a->k > 0 && a->l > 0 && a->sm_count > 0 &&
               a->blocks_per_sm > 0 && fake_cutlass_can_convolve(k, a) &&
               (a->conv_images == 0 ||
                (tensor_aligned(k, a, false) && tensor_aligned(k, a, true))) &&
               aligned(a->d, a->ldd, a->batch_d, a->l, k->d, k->d_align);
    return a->m > 0 && a->n > 0 && a->k > 0 && a->l > 0 && a->sm_count > 0 &&
           a->blocks_per_sm > 0 && aligned(a->a, a->lda, a->batch_a, a->l, k->a, k->a_align) &&
           aligned(a->b, a->ldb, a->batch_b, a->l, k->b, k->b_align) &&
           aligned(a->d, a->ldd, a->batch_d, a->l, k->d, k->d_align);
}

static uint32_t blocks(int32_t size, uint32_t tile, uint32_t cluster)
{
    uint32_t count = ((uint32_t)size + tile - 1) / tile;
    return (count + cluster - 1) / cluster * cluster;
}

/* Grouped products: the arrays, and behind them what a kernel changes. */

enum { VECTORS = TRP__TREE_NODES_MAX, GROUPED_BYTES = 1 << 10 };

static int32_t vectors_of(const fake_cutlass_kernel *k, trp_group_vector out[VECTORS])
{
    trp__tree tree;
    int32_t count = 0;
    trp__tree_decode(k->tree, k->tree_bytes, &tree);
    for (uint32_t i = 0; i < tree.count; i++) {
        const trp__tree_node *n = &tree.node[i];
        if (n->op == TRP__TREE_PER_ROW || n->op == TRP__TREE_PER_COLUMN)
            out[count++] = (trp_group_vector){.word = (int32_t)trp__tree_word(&tree, n->slot),
                                              .bytes = (int32_t)bytes_of(n->type),
                                              .per_row = n->op == TRP__TREE_PER_ROW};
    }
    return count;
}

static trp_group_kind kind_of(const fake_cutlass_kernel *k)
{
    trp__tree tree;
    trp__tree_decode(k->tree, k->tree_bytes, &tree);
    const uint8_t type[4] = {k->a, k->b, tree.c, k->d};
    const uint16_t elements[4] = {k->a_align, k->a_align, k->d_align, k->d_align};
    trp_group_kind kind = {.row_major = {k->a_row, k->b_row, 1, 1}};
    for (int i = 0; i < 4; i++) {
        uint32_t vector = k->sm90 ? 16 : elements[i] * bytes_of(type[i]);
        kind.element[i] = (int32_t)bytes_of(type[i]);
        kind.align[i] = vector > 16 ? 16 : vector > 0 ? (int32_t)vector : 1;
        kind.vector[i] = k->sm90 ? 1 : elements[i];
    }
    return kind;
}

static void build_grouped(const fake_cutlass_kernel *k, const trp_cutlass_args *a,
                          trp_cutlass_built *built, fake_cutlass_parameter *p)
{
    trp_group_vector vector[VECTORS];
    const trp_group_arrays arrays = trp_group_arrays_at(a->workspace, a->l, vectors_of(k, vector));
    p->workspace_bytes = built->workspace_bytes = arrays.bytes + GROUPED_BYTES;
    if (!a->workspace || a->workspace_bytes < p->workspace_bytes) {
        built->status = TRP_CUTLASS_WORKSPACE;
        return;
    }
    if (a->l < 1 || a->sm_count < 1 || a->blocks_per_sm < 1)
        return;
    built->status = TRP_CUTLASS_BUILT;
    built->grid[0] = blocks(a->sm_count / k->cluster[1], 1, k->cluster[0]);
    built->grid[1] = k->cluster[1];
    built->grid[2] = 1;
    built->tensor_maps = k->sm90 ? 2 : 0;
    for (int i = 0; i < 2 && k->sm90; i++) /* any address: the kernel writes those of groups */
        describe(&p->map[i].description, i ? k->b : k->a, arrays.at[i], true, 1, 1, 16, 0, 1);
}

static void build(const fake_cutlass_kernel *k, const trp_cutlass_args *a, unsigned char *room)
{
    trp_cutlass_built built = {.abi = TRP_CUTLASS_ABI,
                               .status = TRP_CUTLASS_REFUSED,
                               .params_bytes = sizeof(fake_cutlass_parameter)};
    fake_cutlass_parameter p;
    memset(&p, 0, sizeof p);
    p.args = *a;
    if (k->grouped) {
        build_grouped(k, a, &built, &p);
        memcpy(room + TRP_CUTLASS_ALIGN, &p, sizeof p);
        memcpy(room, &built, sizeof built);
        return;
    }
    p.workspace_bytes = fake_told_number("workspace");
    if (k->stream_k && p.workspace_bytes == 0)
        p.workspace_bytes = BARRIERS + (uint64_t)a->m * (uint64_t)a->n * 4;
    p.workspace_zero = p.workspace_bytes < BARRIERS ? p.workspace_bytes : BARRIERS;
    built.workspace_bytes = p.workspace_bytes;
    built.workspace_zero = p.workspace_zero;
    if (p.workspace_bytes > 0 && (!a->workspace || a->workspace_bytes < p.workspace_bytes)) {
        built.status = TRP_CUTLASS_WORKSPACE;
    } else if (can_run(k, a)) {
        built.status = TRP_CUTLASS_BUILT;
        built.grid[0] = blocks(a->m, k->tile[0], k->cluster[0]);
        built.grid[1] = blocks(a->n, k->tile[1], k->cluster[1]);
        built.grid[2] = (uint32_t)a->l;
        built.tensor_maps = k->sm90 ? 2 : 0;
        if (k->sm90 && k->convolves) {
            fake_cutlass_conv_maps(k, a, &p.map[0].description, &p.map[1].description);
        } else if (k->sm90) {
            describe(&p.map[0].description, k->a, a->a, k->a_row, a->m, a->k, a->lda, a->batch_a,
                     a->l);
            describe(&p.map[1].description, k->b, a->b, !k->b_row, a->n, a->k, a->ldb, a->batch_b,
                     a->l);
        }
    }
    memcpy(room + TRP_CUTLASS_ALIGN, &p, sizeof p);
    memcpy(room, &built, sizeof built);
}

/* As long as the test wants it. */
static void take_time(const char *name)
{
    for (unsigned long ms = 0; ms < fake_told_number(name) && !fake_interrupted(); ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* What kernels have taken, where a test says which are fast: no clock of the machine's has a say in
 * what a search finds. */
static _Atomic int64_t taken;

int64_t fake_cutlass_clock(void)
{
    char fast[64];
    return fake_told("fast", fast, sizeof fast) ? atomic_load(&taken) : fake_now();
}

void fake_cuda_took(int64_t ns)
{
    atomic_fetch_add(&taken, ns);
}

/* Kernels whose tile and settings do not begin with what the test calls fast take longer: 1 ms, or
 * 3 if the tile is another one. */
static void take_time_if_slow(const fake_cutlass_kernel *k, const trp_cutlass_args *args)
{
    char fast[64], label[64];
    snprintf(label, sizeof label, "%ux%u_s%d_r%d_k%d_%d", k->tile[0], k->tile[1], args->swizzle,
             args->raster, args->stream_k, args->splits);
    fake_tell("ran", label);
    if (!fake_told("fast", fast, sizeof fast))
        return;
    bool same_tile = strncmp(label, fast, strcspn(label, "_")) == 0;
    fake_cuda_took(strncmp(label, fast, strlen(fast)) == 0 ? 20000 : same_tile ? 1000000 : 3000000);
}

/* What a test wants to see left by a builder that went wrong. */
static void spoil(const char *how, unsigned char *room)
{
    trp_cutlass_built *built = (trp_cutlass_built *)(void *)room;
    fake_cutlass_parameter *p = (fake_cutlass_parameter *)(void *)(room + TRP_CUTLASS_ALIGN);
    if (strncmp(how, "refuse", 6) == 0)
        built->status = TRP_CUTLASS_REFUSED;
    else if (strncmp(how, "nothing", 7) == 0)
        memset(room, 0, TRP_CUTLASS_RESULT_SIZE);
    else if (strncmp(how, "rubbish", 7) == 0)
        memset(room, 0xa5, TRP_CUTLASS_RESULT_SIZE);
    else if (strncmp(how, "bytes", 5) == 0)
        built->params_bytes = UINT32_MAX;
    else if (strncmp(how, "zero", 4) == 0)
        built->workspace_zero = built->workspace_bytes + 1;
    else if (strncmp(how, "more", 4) == 0)
        built->workspace_bytes = built->workspace_zero = UINT64_C(1) << 40;
    else if (strncmp(how, "again", 5) == 0)
        built->status = TRP_CUTLASS_WORKSPACE;
    else if (strncmp(how, "grid", 4) == 0)
        built->grid[1] = 0;
    else if (strncmp(how, "maps", 4) == 0)
        built->tensor_maps++;
    else if (strncmp(how, "rank", 4) == 0)
        p->map[1].description.rank = 6;
    else if (strncmp(how, "im2col", 6) == 0) {
        p->map[1].description.tag = TRP_CUTLASS_IM2COL;
        p->map[1].description.rank = 2;
    } else if (strncmp(how, "trap", 4) == 0)
        fake_fault(FAKE_ERROR_LAUNCH_FAILED);
}

/* (trp_cutlass_args, void *room), and what the kernel is. */
void fake_cutlass_build(const uint64_t *parameter)
{
    enum { ARGS = sizeof(trp_cutlass_args) / 8 };
    fake_cutlass_kernel k;
    trp_cutlass_args args;
    fake_pin pin;
    char how[32];
    memcpy(&args, parameter, sizeof args);
    fake_tell("builds", "build");
    take_time("build_ms");
    unsigned char *room = fake_cuda_reach(&pin, parameter[ARGS], TRP_CUTLASS_RESULT_SIZE, true);
    if (room && read_kernel(parameter[ARGS + 1], &k)) {
        build(&k, &args, room);
        if (fake_told("build", how, sizeof how))
            spoil(how, room);
    }
    fake_cuda_let_go(&pin);
}

/* (trp_cutlass_args, void const *table), and what the kernel is. */
void fake_cutlass_prepare(const uint64_t *parameter)
{
    enum { ARGS = sizeof(trp_cutlass_args) / 8 };
    fake_cutlass_kernel k;
    trp_cutlass_args args;
    trp_group_vector vector[VECTORS];
    fake_pin of_table, of_arrays;
    memcpy(&args, parameter, sizeof args);
    fake_tell("runs", "prepare");
    if (!read_kernel(parameter[ARGS + 1], &k))
        return;
    const trp_group_kind kind = kind_of(&k);
    const uint64_t row = args.grouping >= TRP_GROUPED_OF_M ? 4 : sizeof(trp_group_row);
    const int32_t vectors = vectors_of(&k, vector);
    const uint64_t bytes = trp_group_arrays_at(0, args.l, vectors).bytes;
    const void *table = fake_cuda_reach(&of_table, parameter[ARGS], (uint64_t)args.l * row, false);
    void *room = fake_cuda_reach(&of_arrays, args.workspace, bytes, true);
    if (table && room) {
        const trp_group_arrays arrays = trp_group_arrays_at((uintptr_t)room, args.l, vectors);
        memset(room, 0xcd, bytes);
        for (int32_t i = 0; i < args.l; i++) {
            const trp_group group = trp_group_at(&args, &kind, table, i);
            trp_group_write(&args, &arrays, vector, vectors, &group, i);
        }
    }
    fake_cuda_let_go(&of_table);
    fake_cuda_let_go(&of_arrays);
}

/* The kernel. */

enum { PINS = TRP__TREE_SLOTS_MAX + 7 };

typedef struct running {
    fake_cutlass_kernel k;
    fake_cutlass_parameter p;
    trp__tree tree;
    fake_pin pin[PINS];
    uint32_t pins;
    bool failed;
    trp__tree_data slot[TRP__TREE_SLOTS_MAX];
    void *a, *b, *scale_a, *scale_b, *zero;
    int64_t m, n; /* as the tree has them */
} running;

static void *reach(running *x, uint64_t address, uint64_t bytes, bool write)
{
    void *at = x->failed ? NULL : fake_cuda_reach(&x->pin[x->pins++], address, bytes, write);
    x->failed = !at;
    return at;
}

static void fail(running *x)
{
    x->failed = true;
    fake_fault(FAKE_ERROR_LAUNCH_FAILED);
}

/* The elements between the first and the last of all matrices of a batch. */
static uint64_t span(const running *x, int64_t lines, int64_t run, int64_t ld, int64_t stride)
{
    return (uint64_t)((x->p.args.l - 1) * stride + (lines - 1) * ld + run);
}

static void *reach_matrix(running *x, uint64_t address, uint8_t type, int64_t rows, int64_t columns,
                          bool row_major, int64_t ld, int64_t stride, bool write)
{
    uint64_t elements = span(x, row_major ? rows : columns, row_major ? columns : rows, ld, stride);
    return reach(x, address, bytes_of_all(type, elements), write);
}

static void reach_d_and_c(running *x)
{
    const trp_cutlass_args *a = &x->p.args;
    bool tree = x->k.tree_bytes > 0, row_major = !tree || x->tree.order == TRP_ROW_MAJOR;
    uint8_t c = tree ? x->tree.c : a->beta != 0 ? TRP_I32 : TRP_DTYPE_NONE;
    trp__tree_data *d = &x->slot[TRP__TREE_SLOT_D], *old = &x->slot[TRP__TREE_SLOT_C];
    *d = (trp__tree_data){.ld = a->ldd, .stride = a->batch_d};
    *old = (trp__tree_data){.ld = a->ldc, .stride = a->batch_c};
    d->at = reach_matrix(x, a->d, x->k.d, x->m, x->n, row_major, a->ldd, a->batch_d, true);
    if (c)
        old->at = reach_matrix(x, a->c, c, x->m, x->n, row_major, a->ldc, a->batch_c, false);
}

/* What a reduction begins with: the host has set it. */
static void check_neutral(running *x, const trp__tree_node *n, const trp__tree_data *slot,
                          int64_t count)
{
    uint64_t bits = trp__tree_neutral_bits(&x->tree, n);
    uint32_t width = bytes_of(x->tree.compute);
    for (int64_t l = 0; l < x->p.args.l && !x->failed; l++) {
        for (int64_t i = 0; i < count && !x->failed; i++) {
            const char *at = (const char *)slot->at + (l * slot->stride + i) * width;
            if (memcmp(at, &bits, width) != 0) /* little endian */
                fail(x);
        }
    }
}

static void reach_slot(running *x, const trp__tree_node *n)
{
    const trp_cutlass_args *a = &x->p.args;
    const uint64_t *word = &a->slot[trp__tree_word(&x->tree, n->slot)];
    trp__tree_data *s = &x->slot[n->slot];
    bool matrix = n->op == TRP__TREE_LOAD || n->op == TRP__TREE_STORE;
    bool rows = n->op == TRP__TREE_PER_ROW || n->op == TRP__TREE_REDUCE_ROWS;
    bool columns = n->op == TRP__TREE_PER_COLUMN || n->op == TRP__TREE_REDUCE_COLUMNS;
    int64_t count = rows ? x->m : columns ? x->n : 1;
    uint8_t type = n->type ? n->type : x->tree.compute;
    if (n->op == TRP__TREE_SCALAR && word[0] == 0) {
        memcpy(&s->value, &word[1], sizeof s->value);
        return;
    }
    if (matrix) {
        s->ld = (int64_t)word[1];
        s->stride = (int64_t)word[2];
        s->at = reach_matrix(x, word[0], type, x->m, x->n, n->detail == TRP_ROW_MAJOR, s->ld,
                             s->stride, n->op == TRP__TREE_STORE);
        return;
    }
    s->stride = (int64_t)word[1];
    s->at =
        reach(x, word[0], span(x, 1, count, 0, s->stride) * bytes_of(type), trp__tree_is_sink(n));
    if (s->at && trp__tree_is_sink(n))
        check_neutral(x, n, s, count);
}

/* What it is given must be zero where it was asked to be, and is not after it. */
static void use_workspace(running *x)
{
    if (x->p.workspace_bytes == 0)
        return;
    unsigned char *at = reach(x, x->p.args.workspace, x->p.workspace_bytes, true);
    for (uint64_t i = 0; at && i < x->p.workspace_zero && !x->failed; i++) {
        if (at[i] != 0)
            fail(x);
    }
    if (!x->failed)
        memset(at, 0xab, x->p.workspace_bytes);
}

static void check_maps(running *x, uint64_t a, uint64_t b)
{
    const uint64_t address[2] = {a, b};
    for (int i = 0; i < 2 && x->k.sm90; i++) {
        bool gathered = x->k.convolves && (i == 0 || x->k.conv == TRP_CONV_WGRAD);
        uint64_t rank = x->k.convolves ? x->k.dims + 2u : 3u;
        if (x->p.map[i].encoded.opaque[0] != address[i] ||
            (x->p.map[i].encoded.opaque[1] & 15) != (rank | (gathered ? 8 : 0)))
            fail(x);
    }
}

/* Factors of blocks of all of the batch, which are f32. */
static void *reach_factors(running *x, uint8_t mode, uint64_t address, int64_t lines, int64_t apart)
{
    const trp_cutlass_args *a = &x->p.args;
    if (!mode)
        return NULL;
    uint64_t bytes = (uint64_t)ref_scale_bytes((trp_scale_mode)mode, lines, a->k);
    return reach(x, address, bytes + (uint64_t)(a->l - 1) * (uint64_t)apart * 4, false);
}

/* Whether A is the narrower matrix. */
static bool narrow_a(const running *x)
{
    return trp_dtype_bits((trp_dtype)x->k.a) < trp_dtype_bits((trp_dtype)x->k.b);
}

static void reach_groups(running *x)
{
    const trp_cutlass_args *a = &x->p.args;
    if (!x->k.groups != !a->group || (x->k.zeros && !a->zero_b))
        fail(x);
    if (!x->k.groups || x->failed)
        return;
    uint64_t count = (uint64_t)((a->k - 1) / a->group + 1) * (uint64_t)(narrow_a(x) ? a->m : a->n);
    count += (uint64_t)(a->l - 1) * (uint64_t)a->batch_scale_b;
    x->scale_b = reach(x, a->scale_b, count * 2, false);
    if (x->k.zeros)
        x->zero = reach(x, a->zero_b, count * 2, false);
}

/* Elements of the narrower matrix as the wider one's type has them. */
static void apply_groups(const running *x, double *wide, int64_t lines, int64_t l)
{
    const trp_cutlass_args *a = &x->p.args;
    trp_dtype type = (trp_dtype)(narrow_a(x) ? x->k.b : x->k.a);
    for (int64_t i = 0; wide && i < lines; i++) {
        for (int64_t p = 0; p < a->k; p++) {
            int64_t at = l * a->batch_scale_b + p / a->group * lines + i;
            double *y = &wide[i * a->k + p];
            *y = ref_element_round(type, *y * creal(ref_element_load(type, x->scale_b, at)));
            if (x->zero)
                *y = ref_element_round(type, *y + creal(ref_element_load(type, x->zero, at)));
        }
    }
}

static void apply_factors(double *wide, uint8_t mode, const float *at, int64_t lines, int64_t k)
{
    for (int64_t i = 0; wide && i < lines; i++) {
        for (int64_t p = 0; p < k; p++)
            wide[i * k + p] *= ref_scale((trp_scale_mode)mode, at, lines, k, i, p);
    }
}

/* One matrix of the batch, as rows of `run` numbers. */
static double *widen(const void *from, uint8_t type, int64_t rows, int64_t run, bool row_major,
                     int64_t ld, int64_t first)
{
    double *out = malloc((size_t)(rows * run) * sizeof *out);
    for (int64_t i = 0; out && i < rows; i++) {
        for (int64_t j = 0; j < run; j++)
            out[i * run + j] = creal(ref_element_load(
                (trp_dtype)type, from, first + (row_major ? i * ld + j : j * ld + i)));
    }
    return out;
}

static void store_sum(uint8_t type, void *out, int64_t at, double sum)
{
    if (type == TRP_I32)
        ((int32_t *)out)[at] = (int32_t)(uint32_t)(uint64_t)(int64_t)sum; /* it wraps */
    else if (type == TRP_F64)
        ((double *)out)[at] = sum;
    else
        ((float *)out)[at] = (float)sum;
}

/* Of one matrix of the batch, row-major. */
static bool sums_of(const running *x, int64_t l, void *out)
{
    const trp_cutlass_args *a = &x->p.args;
    int64_t m = a->m, n = a->n, k = a->k;
    bool conv = x->k.convolves;
    double *left = conv ? fake_cutlass_gather(&x->k, a, false, x->a, l)
                        : widen(x->a, x->k.a, m, k, x->k.a_row, a->lda, l * a->batch_a);
    double *right = conv ? fake_cutlass_gather(&x->k, a, true, x->b, l)
                         : widen(x->b, x->k.b, n, k, !x->k.b_row, a->ldb, l * a->batch_b);
    if (x->k.scale_a)
        apply_factors(left, x->k.scale_a, (float *)x->scale_a + l * a->batch_scale_a, m, k);
    if (x->k.scale_b)
        apply_factors(right, x->k.scale_b, (float *)x->scale_b + l * a->batch_scale_b, n, k);
    if (x->k.groups)
        apply_groups(x, narrow_a(x) ? left : right, narrow_a(x) ? m : n, l);
    for (int64_t i = 0; left && right && i < m && !fake_interrupted(); i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += left[i * k + p] * right[j * k + p];
            store_sum(x->k.accumulator, out, i * n + j, sum);
        }
    }
    free(left);
    free(right);
    return left && right && !fake_interrupted();
}

/* D = alpha sums + beta C in i32, whose arithmetic wraps. */
static void finish_integers(const running *x, int64_t l, const int32_t *sums)
{
    const trp_cutlass_args *a = &x->p.args;
    const int32_t *c = x->slot[TRP__TREE_SLOT_C].at;
    int32_t *d = x->slot[TRP__TREE_SLOT_D].at;
    uint32_t alpha = (uint32_t)(int32_t)a->alpha, beta = (uint32_t)(int32_t)a->beta;
    for (int64_t i = 0; i < a->m; i++) {
        for (int64_t j = 0; j < a->n; j++) {
            uint32_t value = alpha * (uint32_t)sums[i * a->n + j];
            if (c)
                value += beta * (uint32_t)c[l * a->batch_c + i * a->ldc + j];
            d[l * a->batch_d + i * a->ldd + j] = (int32_t)value;
        }
    }
}

static void compute(running *x, void *sums)
{
    const trp_cutlass_args *a = &x->p.args;
    bool tree = x->k.tree_bytes > 0;
    trp__tree_eval eval = {.tree = &x->tree, .m = x->m, .n = x->n, .batch = a->l, .slot = x->slot};
    if (tree)
        eval.sums = malloc((size_t)trp__tree_eval_sums(&eval) * sizeof *eval.sums + 1);
    if (eval.sums)
        trp__tree_eval_begin(&eval);
    for (int64_t l = 0; l < a->l && sums_of(x, l, sums); l++) {
        const trp__tree_tile tile = {.rows = x->m,
                                     .columns = x->n,
                                     .batch = l,
                                     .acc = sums,
                                     .acc_type = (trp_dtype)x->k.accumulator,
                                     .acc_order = x->k.swap ? TRP_COL_MAJOR : TRP_ROW_MAJOR,
                                     .acc_ld = a->n};
        if (tree)
            trp__tree_eval_tile(&eval, &tile);
        else
            finish_integers(x, l, sums);
    }
    if (eval.sums)
        trp__tree_eval_end(&eval);
    free(eval.sums);
}

static void reach_all(running *x)
{
    const trp_cutlass_args *a = &x->p.args;
    if (x->k.convolves && a->conv_images > 0) {
        x->a = reach(x, a->a, fake_cutlass_conv_span(&x->k, a, false) * bytes_of(x->k.a), false);
        x->b = reach(x, a->b, fake_cutlass_conv_span(&x->k, a, true) * bytes_of(x->k.b), false);
    } else if (!x->k.convolves && a->k > 0) {
        x->a = reach_matrix(x, a->a, x->k.a, a->m, a->k, x->k.a_row, a->lda, a->batch_a, false);
        x->b = reach_matrix(x, a->b, x->k.b, a->k, a->n, x->k.b_row, a->ldb, a->batch_b, false);
    }
    x->scale_a = reach_factors(x, x->k.scale_a, a->scale_a, a->m, a->batch_scale_a);
    x->scale_b = reach_factors(x, x->k.scale_b, a->scale_b, a->n, a->batch_scale_b);
    reach_groups(x);
    reach_d_and_c(x);
    for (uint32_t i = 0; i < x->tree.count; i++) {
        if (x->tree.node[i].slot)
            reach_slot(x, &x->tree.node[i]);
    }
}

static void let_go(running *x)
{
    for (uint32_t i = 0; i < x->pins; i++)
        fake_cuda_let_go(&x->pin[i]);
    x->pins = 0;
}

/* The product, or that of one group. */
static void run_one(running *x)
{
    x->m = x->k.swap ? x->p.args.n : x->p.args.m;
    x->n = x->k.swap ? x->p.args.m : x->p.args.n;
    if (!x->failed)
        reach_all(x);
    void *sums =
        x->failed ? NULL : malloc((size_t)x->p.args.m * (size_t)x->p.args.n * sizeof(double));
    if (sums)
        compute(x, sums);
    let_go(x);
    free(sums);
}

/* What is told of group number `index` as the problem in hand; false if there is nothing to do. */
static bool become(running *x, const trp_cutlass_args *all, const trp_group_arrays *arrays,
                   const trp_group_kind *kind, int32_t index)
{
    trp_group_vector vector[VECTORS];
    trp_cutlass_args *a = &x->p.args;
    const int32_t vectors = vectors_of(&x->k, vector);
    const int32_t *shape = (const int32_t *)(uintptr_t)arrays->shapes + (int64_t)3 * index;
    uint64_t at[4];
    int64_t ld[4];
    for (int i = 0; i < 4; i++) {
        at[i] = ((const uint64_t *)(uintptr_t)arrays->at[i])[index];
        ld[i] = ((const int64_t *)(uintptr_t)arrays->ld[i])[index];
        if (shape[0] > 0 && kind->element[i] > 0 &&
            (at[i] | (uint64_t)(ld[i] * kind->element[i])) % (uint64_t)kind->align[i] != 0)
            fail(x);
    }
    *a = *all;
    a->m = shape[0];
    a->n = shape[1];
    a->k = shape[2];
    a->l = 1;
    a->a = at[0];
    a->b = at[1];
    a->c = at[2];
    a->d = at[3];
    a->lda = ld[0];
    a->ldb = ld[1];
    a->ldc = ld[2];
    a->ldd = ld[3];
    a->batch_a = a->batch_b = a->batch_c = a->batch_d = 0;
    for (uint32_t i = 0; i < x->tree.count; i++) {
        const trp__tree_node *n = &x->tree.node[i];
        uint64_t *word = &a->slot[trp__tree_word(&x->tree, n->slot)];
        if (n->op == TRP__TREE_SCALAR && word[0])
            word[0] += word[1] * (uint64_t)index * bytes_of(x->tree.compute);
    }
    for (int v = 0; v < vectors; v++)
        a->slot[vector[v].word] =
            ((const uint64_t *)(uintptr_t)arrays->vector)[(int64_t)v * all->l + index];
    return a->m > 0 && a->n > 0;
}

static void run_groups(running *x)
{
    trp_group_vector vector[VECTORS];
    const trp_cutlass_args all = x->p.args;
    const trp_group_kind kind = kind_of(&x->k);
    const int32_t vectors = vectors_of(&x->k, vector);
    fake_pin pin;
    const uint64_t bytes = trp_group_arrays_at(0, all.l, vectors).bytes;
    const trp_group_arrays there = trp_group_arrays_at(all.workspace, all.l, vectors);
    unsigned char *room = fake_cuda_reach(&pin, all.workspace, bytes + GROUPED_BYTES, true);
    const trp_group_arrays arrays = trp_group_arrays_at((uintptr_t)room, all.l, vectors);
    check_maps(x, there.at[0], there.at[1]);
    for (int32_t i = 0; room && i < all.l && !x->failed && !fake_interrupted(); i++) {
        if (become(x, &all, &arrays, &kind, i))
            run_one(x);
    }
    if (room)
        memset(room, 0xab, bytes + GROUPED_BYTES);
    fake_cuda_let_go(&pin);
}

/* (its own parameter), and what the kernel is. */
void fake_cutlass_run(const uint64_t *parameter)
{
    running *x = calloc(1, sizeof *x);
    if (!x)
        return fake_fault(FAKE_ERROR_LAUNCH_FAILED);
    memcpy(&x->p, parameter, sizeof x->p);
    fake_tell("runs", "run");
    take_time("run_ms");
    x->failed = !read_kernel(parameter[sizeof x->p / 8], &x->k);
    if (!x->failed)
        take_time_if_slow(&x->k, &x->p.args);
    if (fake_told_number("run_traps"))
        fail(x);
    if (!x->failed && x->k.tree_bytes > 0 &&
        !trp__tree_decode(x->k.tree, x->k.tree_bytes, &x->tree))
        fail(x);
    if (!x->failed && x->k.grouped) {
        run_groups(x);
    } else if (!x->failed) {
        check_maps(x, x->p.args.a, x->p.args.b);
        use_workspace(x);
        run_one(x);
    }
    free(x);
}

/* Kernels of the cutlass actor on the fake driver. They compute the product; the library's host
 * code evaluates the epilogue tree. Kernels and builders (cutlass_build.c) are stricter than those
 * of CUTLASS: if a condition that a kernel may rely on does not hold, the stream faults. */
#include "support/fake_cuda/cutlass/cutlass_parts.h"

#include "actors/cutlass/epilogue/eval.h"
#include "actors/cutlass/epilogue/render.h"
#include "support/reference/elements.h"
#include "support/fake_cuda/settings.h"
#include "support/reference/matmul_reference.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool fake_cutlass_read(uint64_t address, fake_cutlass_kernel *k)
{
    fake_pin pin;
    const void *at = fake_cuda_reach(&pin, address, sizeof *k, false);
    if (at)
        memcpy(k, at, sizeof *k);
    fake_cuda_let_go(&pin);
    return at;
}

uint32_t fake_cutlass_bytes(uint8_t type)
{
    return trp_dtype_bits((trp_dtype)type) / 8;
}

uint64_t fake_cutlass_bytes_of_all(uint8_t type, uint64_t elements)
{
    return (elements * trp_dtype_bits((trp_dtype)type) + 7) / 8;
}

void fake_cutlass_take_time(const char *name)
{
    for (unsigned long ms = 0; ms < fake_setting_number(name) && !fake_interrupted(); ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Time of kernels on the device's clock, if a test lists fast ones. The machine's clock has no
 * influence on a search. */
static _Atomic int64_t taken;

int64_t fake_cutlass_clock(void)
{
    char fast[64];
    return fake_setting("fast", fast, sizeof fast) ? atomic_load(&taken) : fake_now();
}

void fake_cuda_took(int64_t ns)
{
    atomic_fetch_add(&taken, ns);
}

/* A kernel takes 2 ms if its tile and settings begin with the text that the test lists as fast, 100
 * ms if only its tile does, and 300 ms otherwise. Times are long because a search runs short
 * kernels hundreds of times, while its limit is real time (TROUPE_SEARCH_PATIENCE extends it). */
static void take_time_if_slow(const fake_cutlass_kernel *k, const trp_cutlass_args *args)
{
    char fast[64], label[64];
    snprintf(label, sizeof label, "%ux%u_s%d_r%d_k%d_%d", k->tile[0], k->tile[1], args->swizzle,
             args->raster, args->stream_k, args->splits);
    fake_report("ran", label);
    if (!fake_setting("fast", fast, sizeof fast))
        return;
    bool same_tile = strncmp(label, fast, strcspn(label, "_")) == 0;
    const int ms = strncmp(label, fast, strlen(fast)) == 0 ? 2 : same_tile ? 100 : 300;
    fake_cuda_took(ms * INT64_C(1000000));
}

/* Returns whether a test wants kernels of this tile, or all kernels, to write a wrong first element
 * of D. */
static bool is_wrong(const fake_cutlass_kernel *k)
{
    char tiles[256], label[32];
    if (getenv("TROUPE_FAKE_CUTLASS_WRONG"))
        return true;
    snprintf(label, sizeof label, "%ux%u,", k->tile[0], k->tile[1]);
    return fake_setting("cutlass_wrong", tiles, sizeof tiles) && strstr(tiles, label);
}

/* The kernel. */

enum { PINS = TRP__TREE_SLOTS_MAX + 7 };

typedef struct running {
    fake_cutlass_kernel k;
    fake_cutlass_parameter p;
    trp__tree tree;
    fake_pin pin[PINS];
    uint32_t pins;
    bool failed, wrong;
    trp__tree_data slot[TRP__TREE_SLOTS_MAX];
    void *a, *b, *scale_a, *scale_b, *zero;
    int64_t m, n; /* sizes as the tree has them */
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

/* Returns the elements from the first to the last of all matrices of a batch. */
static uint64_t span(const running *x, int64_t lines, int64_t run, int64_t ld, int64_t stride)
{
    return (uint64_t)((x->p.args.l - 1) * stride + (lines - 1) * ld + run);
}

static void *reach_matrix(running *x, uint64_t address, uint8_t type, int64_t rows, int64_t columns,
                          bool row_major, int64_t ld, int64_t stride, bool write)
{
    uint64_t elements = span(x, row_major ? rows : columns, row_major ? columns : rows, ld, stride);
    return reach(x, address, fake_cutlass_bytes_of_all(type, elements), write);
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

/* Checks that the host has set the neutral value from which a reduction begins. */
static void check_neutral(running *x, const trp__tree_node *n, const trp__tree_data *slot,
                          int64_t count)
{
    uint64_t bits = trp__tree_neutral_bits(&x->tree, n);
    uint32_t width = fake_cutlass_bytes(x->tree.compute);
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
    s->at = reach(x, word[0], span(x, 1, count, 0, s->stride) * fake_cutlass_bytes(type),
                  trp__tree_is_sink(n));
    if (s->at && trp__tree_is_sink(n))
        check_neutral(x, n, s, count);
}

static void check_zeros(running *x, uint64_t address, uint64_t bytes)
{
    const unsigned char *at = reach(x, address, bytes, true);
    for (uint64_t i = 0; at && i < bytes && !x->failed; i++) {
        if (at[i] != 0)
            fail(x);
    }
}

/* Checks that the workspace is zero where the kernel asked for zeros, and overwrites it. */
static void use_workspace(running *x)
{
    if (x->p.workspace_bytes == 0)
        return;
    unsigned char *at = reach(x, x->p.args.workspace, x->p.workspace_bytes, true);
    check_zeros(x, x->p.args.flags, TRP_CUTLASS_FLAGS);
    check_zeros(x, x->p.args.workspace + x->p.zero_at, x->p.zero_bytes);
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

/* Reaches the f32 factors of all blocks of a batch. */
static void *reach_factors(running *x, uint8_t mode, uint64_t address, int64_t lines, int64_t apart)
{
    const trp_cutlass_args *a = &x->p.args;
    if (!mode)
        return NULL;
    uint64_t bytes = (uint64_t)ref_scale_bytes((trp_scale_mode)mode, lines, a->k);
    return reach(x, address, bytes + (uint64_t)(a->l - 1) * (uint64_t)apart * 4, false);
}

/* Returns whether A is the narrower matrix. */
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

/* Converts elements of the narrower matrix to the wider one's type, with the factors of groups. */
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

/* Converts one matrix of the batch to rows of `run` numbers. */
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
        ((int32_t *)out)[at] = (int32_t)(uint32_t)(uint64_t)(int64_t)sum; /* the sum wraps */
    else if (type == TRP_F64)
        ((double *)out)[at] = sum;
    else
        ((float *)out)[at] = (float)sum;
}

/* Computes the sums of one matrix of the batch, row-major. */
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

/* Changes the element by a large amount, in any type. */
static void spoil(const running *x)
{
    const uint32_t width = fake_cutlass_bytes(x->k.d);
    unsigned char *d = x->slot[TRP__TREE_SLOT_D].at;
    for (int64_t l = 0; l < x->p.args.l; l++)
        d[(uint64_t)(l * x->p.args.batch_d) * width + width - 1] ^= 0x40;
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
    if (x->wrong)
        spoil(x);
    free(eval.sums);
}

static void reach_all(running *x)
{
    const trp_cutlass_args *a = &x->p.args;
    if (x->k.convolves && a->conv_images > 0) {
        x->a = reach(x, a->a, fake_cutlass_conv_span(&x->k, a, false) * fake_cutlass_bytes(x->k.a),
                     false);
        x->b = reach(x, a->b, fake_cutlass_conv_span(&x->k, a, true) * fake_cutlass_bytes(x->k.b),
                     false);
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

/* Computes the product, or that of one group. */
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

/* Sets the problem of group number `index`; false if it is empty. */
static bool become(running *x, const trp_cutlass_args *all, const trp_group_arrays *arrays,
                   const trp_group_kind *kind, int32_t index)
{
    trp_group_vector vector[FAKE_CUTLASS_VECTORS];
    trp_cutlass_args *a = &x->p.args;
    const int32_t vectors = fake_cutlass_vectors(&x->k, vector);
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
            word[0] += word[1] * (uint64_t)index * fake_cutlass_bytes(x->tree.compute);
    }
    for (int v = 0; v < vectors; v++)
        a->slot[vector[v].word] =
            ((const uint64_t *)(uintptr_t)arrays->vector)[(int64_t)v * all->l + index];
    return a->m > 0 && a->n > 0;
}

static void run_groups(running *x)
{
    trp_group_vector vector[FAKE_CUTLASS_VECTORS];
    const trp_cutlass_args all = x->p.args;
    const trp_group_kind kind = fake_cutlass_kind(&x->k);
    const int32_t vectors = fake_cutlass_vectors(&x->k, vector);
    fake_pin pin;
    const uint64_t bytes = trp_group_arrays_at(0, all.l, vectors).bytes;
    const trp_group_arrays there = trp_group_arrays_at(all.workspace, all.l, vectors);
    unsigned char *room =
        fake_cuda_reach(&pin, all.workspace, bytes + FAKE_CUTLASS_GROUPED_BYTES, true);
    const trp_group_arrays arrays = trp_group_arrays_at((uintptr_t)room, all.l, vectors);
    check_maps(x, there.at[0], there.at[1]);
    for (int32_t i = 0; room && i < all.l && !x->failed && !fake_interrupted(); i++) {
        if (become(x, &all, &arrays, &kind, i))
            run_one(x);
    }
    if (room)
        memset(room, 0xab, bytes + FAKE_CUTLASS_GROUPED_BYTES);
    fake_cuda_let_go(&pin);
}

/* (the kernel's parameter), and the variable that describes the kernel. */
void fake_cutlass_run(const uint64_t *parameter)
{
    running *x = calloc(1, sizeof *x);
    if (!x)
        return fake_fault(FAKE_ERROR_LAUNCH_FAILED);
    memcpy(&x->p, parameter, sizeof x->p);
    fake_report("runs", "run");
    fake_cutlass_take_time("run_ms");
    x->failed = !fake_cutlass_read(parameter[sizeof x->p / 8], &x->k);
    if (!x->failed)
        take_time_if_slow(&x->k, &x->p.args);
    x->wrong = !x->failed && is_wrong(&x->k);
    if (fake_setting_number("run_traps"))
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

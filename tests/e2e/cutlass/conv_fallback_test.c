/* Convolutions of the cutlass actor by cuDNN, as long as no kernel is there, on the fakes of both.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/conv_problem.h"
#include "support/kernels.h"
#include "support/label.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TROUPE_TEST_FAKE_GPU("cutlass", "dnn");

static const trp_dtype types[] = {TRP_F32, TRP_F16, TRP_BF16};

/* Sums are written in the type of what is read; those of an FPROP without groups, of channels in
 * eights, also in f32. */
static void choose_type(cv_problem *p)
{
    const bool half = p->tensor[CV_A].type != TRP_F32;
    const bool wide = half && p->operation == TRP_CONV_FPROP && p->groups == 1 && cv_below(2);
    if (wide) {
        p->channels = 8 * (1 + cv_below(2));
        p->filters = 8 * (1 + cv_below(2));
    } else if (half) {
        p->alpha = 1;
        p->beta = 0;
    }
    if (p->alpha == 1 && p->beta == 0)
        p->tensor[CV_D].type = wide ? TRP_F32 : p->tensor[CV_A].type;
}

/* Without anything that cuDNN is not asked for. */
static cv_problem draw(trp_conv_operation operation)
{
    static const double alphas[] = {1, 1, -2, 3}, betas[] = {0, 1, -3, 2};
    trp_dtype type = types[cv_below(3)];
    cv_problem p = {.operation = operation,
                    .dims = 1 + cv_below(3),
                    .groups = cv_below(3) ? 1 : 1 + cv_below(3),
                    .images = 1 + cv_below(3),
                    .packed = true,
                    .alpha = alphas[cv_below(4)],
                    .beta = betas[cv_below(4)],
                    .compute =
                        type == TRP_F32 && cv_below(2) ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT,
                    .first = TRP_CUTLASS_FIRST_FALLBACK};
    p.channels = p.groups * (1 + cv_below(5));
    p.filters = p.groups * (1 + cv_below(5));
    p.tensor[CV_A].type = p.tensor[CV_B].type = type;
    p.tensor[CV_C].type = types[cv_below(3)];
    p.tensor[CV_D].type = types[cv_below(3)];
    choose_type(&p);
    p.flip = cv_below(4) == 0;
    const bool alike = operation == TRP_CONV_FPROP && p.tensor[CV_A].type != TRP_F32 &&
                       (p.channels % 8 != 0 || p.filters % 8 != 0);
    for (size_t i = 0; i < p.dims; i++) {
        p.filter[i] = 1 + cv_below(3);
        p.stride[i] = 1 + cv_below(3);
        p.dilation[i] = 1 + cv_below(3);
        p.pad[i] = cv_below(3);
        p.pad_after[i] = alike ? p.pad[i] : cv_below(3);
        size_t wide = (p.filter[i] - 1) * p.dilation[i] + 1, pads = p.pad[i] + p.pad_after[i];
        p.input[i] = (wide > pads ? wide - pads : 0) + cv_below(5);
        p.input[i] += p.input[i] == 0;
    }
    cv_set_output(&p);
    return p;
}

static bool by_cudnn(const trp_cutlass_chosen *c)
{
    bool it = strcmp(c->kernel, "cudnn") == 0;
    H_CHECK(!it || (c->fallback && c->ready && !c->tuned && !c->searching));
    return it;
}

/* One that is made, sent and checked; whether cuDNN was chosen. */
static bool run(const h_kernels *k, cv_problem p)
{
    cv_make(k->world.device, &p);
    H_OK(cv_send(k->cutlass, &p));
    cv_check(k->world.device, &p);
    H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE); /* once */
    return by_cudnn(&p.chosen);
}

/* Without a compiler there is no reference that engines of cuDNN could be proven by. */
static h_kernels begin(bool compiles)
{
    trp_device_options options = h_options();
    options.proof = compiles ? TRP_PROOF_ON : TRP_PROOF_OFF;
    h_kernels k = h_kernels_open(&options);
    h_kernels_set(&k, "cudnn_takes", "all");
    if (!compiles)
        h_kernels_set(&k, "compile_ms", "100000");
    return k;
}

/* Each operation, of each type and rank, with C or without. */
static void convolutions(void)
{
    h_kernels k = begin(false);
    const int count = H_SANITIZED ? 40 : 120;
    for (int i = 0; i < count; i++)
        H_CHECK(run(&k, draw((trp_conv_operation)(i % 3))));
    H_EQUAL(h_kernels_reported(&k, "runs"), 0);
    H_CHECK(h_kernels_reported(&k, "cudnn_runs") >= (size_t)count);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* The first request by cuDNN, until the kernel is compiled; then the kernel. */
static void until_compiled(void)
{
    h_kernels k = begin(false);
    for (int i = 0; i < 3; i++) {
        cv_problem p = draw((trp_conv_operation)i);
        h_kernels_set(&k, "compile_ms", "100000");
        while (!run(&k, p)) /* a kernel of another one was good for it */
            p = draw((trp_conv_operation)i);
        h_kernels_unset(&k, "compile_ms");
        while (run(&k, p))
            continue;
        trp_device_trim(k.world.device);
        H_CHECK(!run(&k, p));
    }
    H_CHECK(h_kernels_reported(&k, "runs") > 0);
    h_kernels_close(&k);
}

static cv_problem draw_sums(trp_conv_operation operation)
{
    cv_problem p = draw(operation);
    p.tensor[CV_A].type = p.tensor[CV_B].type = TRP_F32;
    p.compute = TRP_COMPUTE_DEFAULT;
    p.alpha = -2;
    p.beta = 3;
    return p;
}

/* Where the library has an engine for the convolution alone; the kernels for the rest are in the
 * cache. */
static void in_parts(void)
{
    enum { COUNT = 12 };
    h_kernels k = begin(true);
    h_kernels_set(&k, "cudnn_takes", "conv");
    H_CHECK(run(&k, draw_sums(TRP_CONV_FPROP)));
    while (run(&k, draw_sums(TRP_CONV_FPROP))) /* until a kernel and its reference are there */
        continue;
    h_kernels_set(&k, "compile_ms", "100000");
    for (int i = 0; i < COUNT; i++) {
        while (!run(&k, draw_sums((trp_conv_operation)(i % 3)))) /* the kernel of the first */
            continue;
    }
    H_CHECK(h_kernels_reported(&k, "cudnn_runs") > COUNT);
    h_kernels_close(&k);
}

/* Where it has none, the dnn actor's own kernels. */
static void no_engine(void)
{
    h_kernels k = h_kernels_open(NULL);
    int seen = 0;
    for (int i = 0; i < 12; i++)
        seen += run(&k, draw((trp_conv_operation)(i % 3)));
    H_CHECK(seen > 0);
    H_EQUAL(h_kernels_reported(&k, "cudnn_runs"), 0);
    h_kernels_close(&k);
}

typedef struct kind {
    const char *name;
    void (*change)(cv_problem *p);
    int operation; /* that it matters to; -1: all */
} kind;

static void first_waits(cv_problem *p)
{
    p->first = TRP_CUTLASS_FIRST_WAIT;
}

static void has_tree(cv_problem *p)
{
    p->tree = true;
}

static void is_in_place(cv_problem *p)
{
    p->in_place = true;
    p->beta = 2;
}

static void is_f64(cv_problem *p)
{
    p->compute = TRP_COMPUTE_DEFAULT;
    for (int i = 0; i < CV_TENSORS; i++)
        p->tensor[i].type = TRP_F64;
}

static void is_f8(cv_problem *p)
{
    p->compute = TRP_COMPUTE_DEFAULT;
    p->tensor[CV_A].type = p->tensor[CV_B].type = TRP_F8E4M3;
}

static void writes_i8(cv_problem *p)
{
    p->tensor[CV_D].type = TRP_I8;
}

static void adds_f8(cv_problem *p)
{
    p->tensor[CV_C].type = TRP_F8E4M3;
    p->beta = 1;
}

static void rounds(cv_problem *p)
{
    p->compute = TRP_COMPUTE_DEFAULT;
    p->alpha = 1;
    p->beta = 0;
    p->tensor[CV_A].type = p->tensor[CV_B].type = TRP_F32;
    p->tensor[CV_D].type = TRP_BF16;
}

static void scales_gradients(cv_problem *p)
{
    p->compute = TRP_COMPUTE_DEFAULT;
    p->alpha = 3;
    p->tensor[CV_A].type = p->tensor[CV_B].type = TRP_F16;
}

/* Channels that do not come in eights, too. */
static void pads_more_behind(cv_problem *p)
{
    p->compute = TRP_COMPUTE_DEFAULT;
    p->alpha = 1;
    p->beta = 0;
    p->tensor[CV_A].type = p->tensor[CV_B].type = p->tensor[CV_D].type = TRP_BF16;
    p->channels = p->filters = p->groups;
    p->pad_after[0] = p->pad[0] + 1;
    p->input[0]++; /* it may have had one more behind */
    cv_set_output(p);
}

static void has_no_images(cv_problem *p)
{
    p->images = 0;
}

/* What it has no convolution like, or may end in a fault of, waits for a kernel. */
static void others(void)
{
    static const kind kinds[] = {
        {"first", first_waits, -1},
        {"a tree", has_tree, -1},
        {"in place", is_in_place, -1},
        {"f64", is_f64, -1},
        {"f8", is_f8, -1},
        {"to i8", writes_i8, -1},
        {"C of f8", adds_f8, -1},
        {"f32 to bf16", rounds, -1},
        {"gradients times alpha", scales_gradients, TRP_CONV_WGRAD},
        {"pads", pads_more_behind, TRP_CONV_FPROP},
        {"no images", has_no_images, TRP_CONV_WGRAD},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        h_kernels k = begin(true);
        cv_problem p = draw(kinds[i].operation < 0 ? (trp_conv_operation)cv_below(3)
                                                   : (trp_conv_operation)kinds[i].operation);
        kinds[i].change(&p);
        if (run(&k, p))
            h_fail(__FILE__, __LINE__, "%s: by cuDNN", kinds[i].name);
        H_CHECK(h_kernels_reported(&k, "runs") > 0); /* for its proof, too */
        H_EQUAL(h_kernels_reported(&k, "cudnn_runs"), 0);
        h_kernels_close(&k);
    }
}

/* 2 images of 6 x 8 with 8 channels, 8 filters of 1 x 1, all ones. */
typedef struct plain {
    trp_cutlass_conv_request r;
    trp_cutlass_chosen chosen;
} plain;

static void make_plain(const h_kernels *k, plain *x)
{
    const trp_buffer all[] = {h_buffer(k->world.device, 8192), h_buffer(k->world.device, 8192),
                              h_buffer(k->world.device, 8192)};
    h_fill(k->world.device, all[0], 0x3f803f80); /* ones */
    h_fill(k->world.device, all[1], 0x3f803f80);
    h_fill(k->world.device, all[2], 0x12345678);
    x->chosen = (trp_cutlass_chosen){0};
    x->r = (trp_cutlass_conv_request){.images = 2,
                                      .channels = 8,
                                      .filters = 8,
                                      .input = {6, 8},
                                      .filter = {1, 1},
                                      .a = {.buffer = all[0], .type = TRP_BF16},
                                      .b = {.buffer = all[1]},
                                      .d = {.buffer = all[2]},
                                      .first = TRP_CUTLASS_FIRST_FALLBACK,
                                      .chosen = &x->chosen};
}

static void check_plain(const h_kernels *k, const plain *x)
{
    uint16_t out[4096];
    h_read(k->world.device, x->r.d.buffer, 0, out, sizeof out);
    for (int i = 0; i < 2 * 6 * 8 * 8; i++)
        H_EQUAL(out[i], 0x4100); /* 8 */
    H_EQUAL(out[2 * 6 * 8 * 8], 0x5678);
}

/* Strides with gaps, places that are not aligned, a kernel by name: a kernel. What lies without
 * gaps and is told so: cuDNN. */
static void places(void)
{
    for (int i = 0; i < 6; i++) {
        h_kernels k = begin(true);
        trp_completion done = {0};
        plain x;
        make_plain(&k, &x);
        x.r.a.stride[2] = i == 0 ? 9 : 0;
        x.r.b.stride[0] = i == 1 ? 16 : 0;
        x.r.d.stride[2] = i == 2 ? 16 : i == 5 ? 8 : 0;
        x.r.a.offset = i == 3 ? 2 : 0;
        x.r.kernel = i == 4 ? "s80_conv_half_64x64x32_a1" : NULL;
        x.r.a.stride[0] = i == 5 ? 6 * 8 * 8 : 0;
        H_OK(trp_cutlass_conv(k.cutlass, &x.r, &done));
        H_OK(h_await(done.future, NULL));
        H_EQUAL(by_cudnn(&x.chosen), i == 5);
        if (i != 2)
            check_plain(&k, &x);
        h_kernels_close(&k);
    }
}

/* Errors name what the request has, whoever computes. */
static void wrong(void)
{
    h_kernels k = begin(false);
    trp_completion done = {0};
    plain x;
    make_plain(&k, &x);
    for (int i = 0; i < 3; i++) {
        trp_cutlass_conv_request r = x.r;
        trp_conv_tensor *const t[] = {&r.a, &r.b, &r.d};
        const char *const begins[] = {"a: ", "b: ", "d: "};
        t[i]->offset = 8192 - 64;
        H_IS(trp_cutlass_conv(k.cutlass, &r, &done), TRP_E_ARGUMENT);
        H_CHECK(strncmp(trp_error_message(), begins[i], 3) == 0);
        t[i]->offset = 0;
        t[i]->buffer.id ^= UINT64_C(1) << 40;
        H_CHECK(trp_cutlass_conv(k.cutlass, &r, &done) != TRP_OK);
    }
    H_OK(trp_cutlass_conv(k.cutlass, &x.r, &done));
    H_CHECK(by_cudnn(&x.chosen));
    H_OK(h_await(done.future, NULL));
    check_plain(&k, &x);
    h_kernels_close(&k);
}

/* Without the library, or with a file that is cut off, requests wait for the kernel. */
static void missing(void)
{
    char path[] = "/tmp/troupe-cut-off-XXXXXX";
    const int fd = mkstemp(path);
    H_CHECK(fd >= 0 && write(fd, "\177ELF", 4) == 4);
    close(fd);
    for (int i = 0; i < 2; i++) {
        setenv("TROUPE_CUDNN", i ? path : "/nowhere/libcudnn.so", 1);
        h_kernels k = begin(true);
        H_CHECK(!run(&k, draw(TRP_CONV_FPROP)));
        H_CHECK(h_kernels_reported(&k, "runs") > 0); /* for its proof, too */
        h_kernels_close(&k);
    }
    unlink(path);
}

/* The worker dies with such requests in flight: the next one does them again, once. */
static void killed(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        return;
    h_kernels k = begin(false);
    for (int i = 0; i < 3; i++) {
        cv_problem p = draw((trp_conv_operation)i);
        h_kernels_set(&k, "compile_ms", "100000");
        cv_make(k.world.device, &p);
        H_OK(cv_send(k.cutlass, &p));
        H_CHECK(by_cudnn(&p.chosen));
        h_kernels_unset(&k, "compile_ms");
        kill((pid_t)h_info(k.world.device).worker_pid, SIGKILL);
        cv_check(k.world.device, &p);
        H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE);
        H_CHECK(h_info(k.world.device).restarts <= (uint64_t)i + 1);
    }
    H_CHECK(h_info(k.world.device).restarts > 0);
    h_kernels_close(&k);
}

/* Cancelled at any time it ends once: as it would have, or cancelled; so do others behind it. */
static void cancelled(void)
{
    enum { EACH = 8 };
    h_kernels k = begin(false);
    for (int i = 0; i < 10; i++) {
        plain x[EACH];
        trp_completion done[EACH] = {0};
        for (int j = 0; j < EACH; j++) {
            make_plain(&k, &x[j]);
            x[j].r.input[0] = x[j].r.input[1] = 2 + i; /* a new plan */
            H_OK(trp_cutlass_conv(k.cutlass, &x[j].r, &done[j]));
            H_CHECK(by_cudnn(&x[j].chosen));
        }
        for (int j = 0; j < EACH; j += 2)
            trp_cancel(done[j].future);
        for (int j = 0; j < EACH; j++) {
            trp_status status = h_await(done[j].future, NULL);
            H_CHECK(status == TRP_OK || (status == TRP_E_CANCELLED && j % 2 == 0));
            H_IS(trp_await(done[j].future, 0, NULL), TRP_E_STALE);
        }
        for (int j = 0; j < EACH; j++) {
            H_OK(trp_buffer_free(k.world.device, x[j].r.a.buffer));
            H_OK(trp_buffer_free(k.world.device, x[j].r.b.buffer));
            H_OK(trp_buffer_free(k.world.device, x[j].r.d.buffer));
        }
    }
    H_CHECK(run(&k, draw(TRP_CONV_DGRAD)));
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* With a deadline that is long enough, and among products by cuBLASLt. */
static void with_products(void)
{
    h_kernels k = begin(false);
    for (int i = 0; i < 9; i++) {
        cv_problem c = draw((trp_conv_operation)(i % 3));
        h_product p = {.m = 24, .n = 40, .k = 16, .first = TRP_CUTLASS_FIRST_FALLBACK};
        c.deadline_ns = h_isolation() == TRP_ISOLATION_PROCESS ? 600 * H_SEC : 0;
        cv_make(k.world.device, &c);
        h_product_make(&k, &p);
        H_OK(cv_send(k.cutlass, &c));
        H_OK(h_product_send(&k, &p));
        H_CHECK(by_cudnn(&c.chosen));
        H_CHECK(strcmp(p.chosen.kernel, "cublaslt") == 0);
        cv_check(k.world.device, &c);
        H_OK(h_await(p.done.future, NULL));
        h_product_check(&k, &p);
        h_product_free(&k, &p);
    }
    trp_device_trim(k.world.device);
    H_CHECK(run(&k, draw(TRP_CONV_FPROP)));
    H_EQUAL(h_kernels_reported(&k, "runs"), 0);
    h_kernels_close(&k);
}

H_KERNEL_CASES(H_CASE(convolutions), H_CASE(until_compiled), H_CASE(in_parts), H_CASE(no_engine),
               H_CASE(others), H_CASE(places), H_CASE(wrong), H_CASE(missing), H_CASE(killed),
               H_CASE(cancelled), H_CASE(with_products))

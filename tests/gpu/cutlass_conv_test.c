/* Convolutions by kernels of CUTLASS on a GPU: rendered, compiled, loaded and run as a request does
 * it, with small integers, whose results are known to the bit. All kernels of a case are compiled
 * side by side. */
#include "support/problems/conv_problem.h"
#include "support/gpu.h"
#include "support/label.h"

#include <stdio.h>
#include <string.h>

TROUPE_TEST("long", "computes");
TROUPE_TEST_FAKE_GPU("no sanitizer", "cutlass", "dnn");

static h_world world;
static trp_actor *cutlass;

/* How a filter goes over its input. */
typedef struct windows {
    size_t dims, input[CV_DIMS], filter[CV_DIMS], pad[CV_DIMS], pad_after[CV_DIMS];
    size_t stride[CV_DIMS], dilation[CV_DIMS];
    bool flip;
} windows;

/* A problem in short; what is 0 is as in a request. */
typedef struct shape {
    trp_dtype a, d;
    trp_conv_operation operation;
    const windows *where;
    size_t images, channels, filters, groups;
    bool tree, in_place, beta, tf32, tight;
    size_t unit;
    const char *kernel;
} shape;

#define F TRP_CONV_FPROP
#define D TRP_CONV_DGRAD
#define W TRP_CONV_WGRAD

static cv_problem problem_of(const shape *s)
{
    const windows *w = s->where;
    cv_problem p = {.operation = s->operation,
                    .dims = w->dims,
                    .images = s->images,
                    .channels = s->channels,
                    .filters = s->filters,
                    .groups = s->groups ? s->groups : 1,
                    .flip = w->flip,
                    .tree = s->tree,
                    .in_place = s->in_place,
                    .alpha = 2,
                    .beta = s->beta ? -3 : 0,
                    .packed = s->tight,
                    .unit = s->unit,
                    .compute = s->tf32 ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT,
                    .kernel = s->kernel};
    for (size_t i = 0; i < p.dims; i++) {
        p.input[i] = w->input[i];
        p.filter[i] = w->filter[i];
        p.pad[i] = w->pad[i];
        p.pad_after[i] = w->pad_after[i];
        p.stride[i] = w->stride[i];
        p.dilation[i] = w->dilation[i];
    }
    cv_set_output(&p);
    for (int i = 0; i < CV_TENSORS; i++)
        p.tensor[i].type = i >= CV_C ? s->d : s->a;
    return p;
}

static void check(cv_problem *p)
{
    cv_check(world.device, p);
    printf("  operation %d of %s, %zu x %zu: %s\n", (int)p->operation,
           trp_dtype_name(p->tensor[CV_A].type), p->rows, p->columns, p->chosen.kernel);
}

static void run_all(const shape *s, size_t count)
{
    s += gpu_chosen(&count);
    if (count == 0)
        return;
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    cv_problem *p = h_malloc(count * sizeof *p);
    int64_t start = h_now();
    for (size_t i = 0; i < count; i++) {
        p[i] = problem_of(&s[i]);
        cv_make(world.device, &p[i]);
        H_OK(cv_send(cutlass, &p[i]));
    }
    for (size_t i = 0; i < count; i++)
        check(&p[i]);
    printf("  %zu convolutions: %.1f s\n", count, (double)(h_now() - start) / 1e9);
    free(p);
    h_close(&world);
}

#define RUN(list) run_all(list, sizeof(list) / sizeof *(list))

/* Those that rows share. */
static const windows at_13 = {2, {13, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false};
static const windows at_9 = {2, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false};
static const windows at_9_8 = {2, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false};
static const windows at_9_8_by_2 = {2, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {1, 1}, false};
static const windows stem = {2, {33, 31}, {7, 7}, {3, 3}, {3, 3}, {2, 2}, {1, 1}, false};
static const windows uneven = {2, {17, 14}, {3, 2}, {2, 0}, {1, 3}, {2, 3}, {1, 2}, true};
static const windows uneven_1 = {2, {17, 14}, {3, 2}, {2, 0}, {1, 3}, {1, 1}, {1, 2}, true};
static const windows box = {3,         {5, 6, 7}, {2, 3, 2}, {1, 1, 0},
                            {0, 1, 1}, {1, 2, 1}, {1, 1, 1}, false};
static const windows box_1 = {3,         {5, 6, 7}, {2, 3, 2}, {1, 1, 0},
                              {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, false};
static const windows line_200 = {1, {200}, {5}, {2}, {2}, {1}, {1}, false};
static const windows line_300 = {1, {300}, {5}, {2}, {2}, {1}, {1}, false};

static void sm80(void)
{
    static const shape list[] = {
        {TRP_BF16, TRP_BF16, F, &at_13, .images = 2, .channels = 64, .filters = 72, .unit = 8,
         .kernel = "s80_conv_half_128x128x32_a8"},
        {TRP_BF16, TRP_BF16, D, &at_13, .images = 2, .channels = 64, .filters = 72, .unit = 8,
         .kernel = "s80_conv_half_128x128x32_a8"},
        {TRP_BF16, TRP_F32, W, &at_13, .images = 2, .channels = 64, .filters = 72, .unit = 8,
         .kernel = "s80_conv_half_128x128x32_a8_streamk"},
        {TRP_F16, TRP_F32, F, &uneven, .images = 2, .channels = 40, .filters = 24, .unit = 8,
         .tree = true},
        {TRP_F16, TRP_F32, D, &uneven, .images = 2, .channels = 40, .filters = 24, .unit = 8,
         .tree = true},
        {TRP_F16, TRP_F32, W, &uneven, .images = 2, .channels = 40, .filters = 24, .unit = 8,
         .tree = true},
        {TRP_BF16, TRP_F16, F, &box, .images = 2, .channels = 6, .filters = 15, .groups = 3,
         .unit = 1, .tree = true},
        {TRP_BF16, TRP_F16, D, &box, .images = 2, .channels = 6, .filters = 15, .groups = 3,
         .unit = 1, .tree = true},
        {TRP_BF16, TRP_F16, W, &box, .images = 2, .channels = 6, .filters = 15, .groups = 3,
         .unit = 1, .tree = true},
        {TRP_F32, TRP_F32, F, &line_200, .images = 3, .channels = 5, .filters = 7, .beta = true,
         .in_place = true},
        {TRP_F32, TRP_F32, D, &at_9, .images = 3, .channels = 12, .filters = 20, .groups = 2,
         .unit = 4, .beta = true, .tf32 = true, .tight = true},
        {TRP_F32, TRP_F32, W, &at_9, .images = 3, .channels = 32, .filters = 32, .unit = 4,
         .tf32 = true, .tight = true},
        {TRP_F64, TRP_F64, F, &at_9_8, .images = 1, .channels = 9, .filters = 10, .tree = true},
        {TRP_F64, TRP_F64, D, &at_9_8_by_2, .images = 1, .channels = 9, .filters = 10},
        {TRP_F64, TRP_F64, W, &at_9_8, .images = 1, .channels = 9, .filters = 10, .tree = true},
        {TRP_F8E4M3, TRP_BF16, F, &at_9_8, .images = 2, .channels = 32, .filters = 48, .unit = 16,
         .kernel = "s80_conv_fp8_64x64x64_a16"},
        {TRP_F8E4M3, TRP_BF16, W, &at_9_8, .images = 2, .channels = 32, .filters = 48},
        {TRP_BF16, TRP_BF16, F, &stem, .images = 2, .channels = 3, .filters = 64, .tight = true},
        {TRP_BF16, TRP_BF16, W, &at_9_8, .images = 0, .channels = 16, .filters = 24, .unit = 8,
         .beta = true},
        {TRP_F16, TRP_F16, F, &at_9_8, .images = 2, .channels = 16, .filters = 16, .groups = 16,
         .tree = true},
        {TRP_BF16, TRP_BF16, F, &at_9_8, .images = 2, .channels = 12, .filters = 20, .unit = 4},
        {TRP_BF16, TRP_BF16, D, &at_9_8, .images = 2, .channels = 18, .filters = 14, .unit = 2},
    };
    RUN(list);
}

/* The same for 9.0: by TMA. */
static void sm90(void)
{
    static const shape list[] = {
        {TRP_BF16, TRP_BF16, F, &at_13, .images = 3, .channels = 64, .filters = 272, .unit = 8,
         .kernel = "s90_conv_half_128x256x64_2x1"},
        {TRP_BF16, TRP_BF16, D, &at_13, .images = 3, .channels = 136, .filters = 72, .unit = 8,
         .kernel = "s90_conv_half_128x128x64_2x1"},
        {TRP_BF16, TRP_F32, W, &at_13, .images = 3, .channels = 64, .filters = 136, .unit = 8,
         .kernel = "s90_conv_half_128x256x64_2x1_streamk"},
        {TRP_F16, TRP_F32, F, &uneven, .images = 2, .channels = 40, .filters = 24, .unit = 8,
         .tree = true, .kernel = "s90_conv_half_64x128x64_1x1_pingpong"},
        {TRP_F16, TRP_F32, D, &uneven_1, .images = 2, .channels = 40, .filters = 24, .unit = 8,
         .tree = true, .kernel = "s90_conv_half_64x64x64_1x1_pingpong"},
        {TRP_F16, TRP_F32, W, &uneven, .images = 2, .channels = 128, .filters = 24, .unit = 8,
         .tree = true, .kernel = "s90_conv_half_64x256x64_1x1_pingpong"},
        {TRP_BF16, TRP_F16, F, &box, .images = 2, .channels = 128, .filters = 80, .groups = 2,
         .unit = 8, .tree = true, .kernel = "s90_conv_half_128x64x64_1x1"},
        {TRP_BF16, TRP_F16, D, &box_1, .images = 2, .channels = 80, .filters = 128, .groups = 2,
         .unit = 8, .tree = true, .kernel = "s90_conv_half_128x128x64_1x1"},
        {TRP_BF16, TRP_F16, W, &box, .images = 2, .channels = 128, .filters = 80, .groups = 2,
         .unit = 8, .tree = true, .kernel = "s90_conv_half_256x128x64_2x1"},
        {TRP_BF16, TRP_BF16, F, &line_300, .images = 3, .channels = 16, .filters = 8, .unit = 8,
         .beta = true, .in_place = true, .kernel = "s90_conv_half_64x64x64_1x1_pingpong"},
        {TRP_F32, TRP_F32, F, &at_13, .images = 3, .channels = 36, .filters = 136, .unit = 4,
         .tf32 = true, .kernel = "s90_conv_tf32_128x128x32_2x1"},
        {TRP_F8E4M3, TRP_BF16, F, &at_13, .images = 3, .channels = 48, .filters = 136, .unit = 16,
         .kernel = "s90_conv_fp8_128x128x128_2x1"},
        {TRP_BF16, TRP_BF16, W, &at_13, .images = 3, .channels = 64, .filters = 264, .unit = 8,
         .kernel = "s90_conv_half_256x128x64_2x1"},
        {TRP_BF16, TRP_F32, W, &at_13, .images = 3, .channels = 192, .filters = 72, .unit = 8,
         .kernel = "s90_conv_half_128x128x64_1x1_streamk"},
        {TRP_F16, TRP_F16, F, &at_13, .images = 3, .channels = 64, .filters = 64, .unit = 8,
         .beta = true},
    };
    RUN(list);
}

/* A problem for a kernel, as odd as it takes; of three operations one, where it has them. */
static shape shape_of(const gpu_row *row, size_t align)
{
    const bool fake = !h_is_gpu(); /* it gets less to do */
    const char *in = row->inputs;
    const bool by_tma = row->name[1] == '9', single = strstr(row->name, "_d1") != NULL;
    const bool half = strncmp(in, "f16", 3) == 0, f8 = strncmp(in, "f8e4m3", 6) == 0;
    shape s = {.a = half                         ? (cv_below(2) ? TRP_F16 : TRP_BF16)
                    : f8                         ? TRP_F8E4M3
                    : strncmp(in, "f64", 3) == 0 ? TRP_F64
                                                 : TRP_F32,
               .where = fake ? &at_9 : &at_13,
               .images = fake ? 1 : 3,
               .channels = by_tma && half ? 64 : align * (align < 8 ? 9 : 3),
               .filters = align * (align < 8 ? 35 : 17) + single,
               .beta = true,
               .tf32 = strstr(in, "tf32") != NULL,
               .unit = align,
               .kernel = row->name};
    if (strstr(row->name, "_streamk"))
        s.operation = W;
    else if (!single && (half || (!by_tma && (!f8 || strstr(row->name, "simt")))))
        s.operation = (trp_conv_operation)cv_below(3);
    s.d = f8 ? TRP_BF16 : s.a;
    return s;
}

static cv_problem of_row[GPU_ROWS_AT_ONCE];

/* Of multiples of more than a kernel loads of A and B at once if it stores more of D. */
static void send_to(const gpu_row *row, size_t at)
{
    trp_status status = TRP_E_UNSUPPORTED;
    cv_problem *p = &of_row[at];
    for (size_t align = (size_t)row->align; status == TRP_E_UNSUPPORTED && align <= 16;
         align *= 2) {
        const shape s = shape_of(row, align);
        *p = problem_of(&s);
        cv_make(world.device, p);
        status = cv_send(cutlass, p);
        if (status == TRP_E_UNSUPPORTED)
            cv_drop(world.device, p);
    }
    H_OK(status);
}

static void check_row(size_t at)
{
    check(&of_row[at]);
}

/* Every kernel that the device can have. */
static void each_row(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    gpu_each_row("_conv_", world.device, send_to, check_row);
    h_close(&world);
}

/* Many problems of a few kernels. */
static void many_problems(void)
{
    enum { COUNT = 120 };
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    cv_problem *p = h_malloc(COUNT * sizeof *p);
    for (int i = 0; i < COUNT; i++) {
        p[i] = (cv_problem){.operation = (trp_conv_operation)(i % 3),
                            .dims = 1 + cv_below(2),
                            .images = 1 + cv_below(3),
                            .channels = 8 * (1 + cv_below(9)),
                            .filters = 8 * (1 + cv_below(9)),
                            .groups = 1,
                            .alpha = 1,
                            .flip = cv_below(2),
                            .unit = 8,
                            .kernel = "s80_conv_half_64x64x64_a8"};
        for (size_t d = 0; d < p[i].dims; d++) {
            p[i].filter[d] = 1 + cv_below(4);
            p[i].input[d] = 4 + cv_below(12);
            p[i].pad[d] = cv_below(3);
            p[i].pad_after[d] = 6 + cv_below(3);
            p[i].stride[d] = 1 + cv_below(3);
            p[i].dilation[d] = 1 + cv_below(3);
        }
        cv_set_output(&p[i]);
        for (int t = 0; t < CV_TENSORS; t++)
            p[i].tensor[t].type = TRP_F16;
        cv_make(world.device, &p[i]);
        H_OK(cv_send(cutlass, &p[i]));
    }
    for (int i = 0; i < COUNT; i++)
        cv_check(world.device, &p[i]);
    free(p);
    h_close(&world);
}

/* By cuDNN as long as a kernel is being compiled, by the kernel from then on. */
static void fallback(void)
{
    static const shape list[] = {
        {TRP_BF16, TRP_BF16, F, &at_13, .images = 3, .channels = 64, .filters = 72},
        {TRP_F16, TRP_F16, D, &at_13, .images = 3, .channels = 64, .filters = 72},
        {TRP_BF16, TRP_BF16, W, &at_13, .images = 3, .channels = 64, .filters = 72},
        {TRP_F32, TRP_F32, F, &at_9, .images = 2, .channels = 16, .filters = 24},
    };
    enum { COUNT = sizeof list / sizeof *list };
    const char *const library[] = {"cudnn", NULL, NULL};
    const gpu_cache cache = gpu_empty_cache();
    cv_problem p[COUNT];
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (int time = 0; time < 3; time++) {
        for (size_t i = 0; i < COUNT; i++) {
            p[i] = problem_of(&list[i]);
            p[i].alpha = 1;
            p[i].packed = true;
            p[i].first = time == 1 ? TRP_CUTLASS_FIRST_WAIT : TRP_CUTLASS_FIRST_FALLBACK;
            cv_make(world.device, &p[i]);
            H_OK(cv_send(cutlass, &p[i]));
            gpu_check_fallback(&p[i].chosen, library[time]);
        }
        for (size_t i = 0; i < COUNT; i++)
            check(&p[i]);
    }
    h_close(&world);
    gpu_drop_cache(&cache);
}

GPU_CASES(H_CASE(sm80), H_CASE(sm90), H_CASE(many_problems), H_CASE(each_row), H_CASE(fallback))

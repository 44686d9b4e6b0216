/* A fake cuFFT on the fake driver: plans with layouts of 64-bit sizes, in memory that they are
 * given. What it computes comes from the library's transforms for the host, in f64. As the real one
 * may, it overwrites the input of C2R, and gives other numbers where that is not symmetric. */
#include "support/fake_cuda/hooks.h"
#include "support/fake_cuda/settings.h"

#include "actors/fft/host/kernels.h"
#include "libs/cufft/cufft_abi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(result, name, parameters, required) FAKE_API result name parameters;
TRP__CUFFT_FUNCTIONS(DECLARE)
#undef DECLARE

static const struct {
#define MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__CUFFT_FUNCTIONS(MEMBER)
#undef MEMBER
} all __attribute__((used)) = {
#define ROW(result, name, parameters, required) .name = name,
    TRP__CUFFT_FUNCTIONS(ROW)
#undef ROW
};

enum {
    SUCCESS = TRP__CUFFT_SUCCESS,
    INVALID_PLAN = 1,
    ALLOC_FAILED = TRP__CUFFT_ALLOC_FAILED,
    INVALID_TYPE = 3,
    INVALID_VALUE = 4,
    INTERNAL_ERROR = 5,
    EXEC_FAILED = 6,
    SETUP_FAILED = 7,
    INVALID_SIZE = TRP__CUFFT_INVALID_SIZE,
    UNALIGNED_DATA = 9,
    NO_WORKSPACE = 0xd,
};

enum { AXES = 3, PLANS = 1024, RUBBISH = 0xff };

typedef enum kind { C2C, R2C, C2R } kind;

typedef struct layout {
    int64_t embed[AXES], stride, distance;
} layout;

typedef struct description {
    int64_t n[AXES], batch, work_bytes;
    layout x, y;
    uint8_t rank, kind, wide, wrong;
} description;

typedef struct plan {
    bool there, made, external; /* external: it gets its memory to work in */
    trp__cu_stream stream;
    void *area;
    description d;
} plan;

/* One call. */
typedef struct job {
    description d;
    uint64_t x, y, area;
    int32_t handle;
    bool inverse;
} job;

_Static_assert(sizeof(job) <= FAKE_ARGUMENT_BYTES, "a job fits into an operation");

static struct {
    pthread_mutex_t lock;
    plan plan[PLANS]; /* handles are never used twice */
    int next;
    atomic_ulong plans, runs;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* For tests whose worker is another process: one line for each that ends in order. */
__attribute__((destructor)) static void report_counts(void)
{
    const char *path = getenv("FAKE_CUFFT_COUNTS");
    FILE *file = path && !fake_cuda_stopping() ? fopen(path, "ae") : NULL;
    int left = 0;
    if (!file)
        return;
    for (int i = 0; i < PLANS; i++)
        left += state.plan[i].there;
    fprintf(file, "cuFFT plans %lu runs %lu left %d\n", atomic_load(&state.plans),
            atomic_load(&state.runs), left);
    fclose(file);
}

/* Handles. */

static plan *get(trp__cufft_handle handle)
{
    plan *p = handle >= 0 ? &state.plan[handle % PLANS] : NULL;
    return p && p->there && handle < state.next && handle >= state.next - PLANS ? p : NULL;
}

/* With the lock; NULL without it. */
static plan *hold(trp__cufft_handle handle)
{
    pthread_mutex_lock(&state.lock);
    plan *p = get(handle);
    if (!p)
        pthread_mutex_unlock(&state.lock);
    return p;
}

static trp__cufft_result leave(trp__cufft_result result)
{
    pthread_mutex_unlock(&state.lock);
    return result;
}

trp__cufft_result cufftCreate(trp__cufft_handle *out)
{
    if (!out)
        return INVALID_VALUE;
    if (fake_cuda_usable() != 0)
        return SETUP_FAILED;
    pthread_mutex_lock(&state.lock);
    plan *p = &state.plan[state.next % PLANS];
    if (p->there)
        return leave(ALLOC_FAILED);
    *p = (plan){.there = true};
    *out = state.next++;
    return leave(SUCCESS);
}

trp__cufft_result cufftDestroy(trp__cufft_handle handle)
{
    plan *p = hold(handle);
    if (!p)
        return INVALID_PLAN;
    p->there = false;
    return leave(SUCCESS);
}

trp__cufft_result cufftSetAutoAllocation(trp__cufft_handle handle, int on)
{
    plan *p = hold(handle);
    if (!p || p->made)
        return p ? leave(INVALID_VALUE) : INVALID_PLAN;
    p->external = !on;
    return leave(SUCCESS);
}

trp__cufft_result cufftSetStream(trp__cufft_handle handle, trp__cu_stream stream)
{
    plan *p = hold(handle);
    if (!p)
        return INVALID_PLAN;
    p->stream = stream;
    return leave(SUCCESS);
}

trp__cufft_result cufftSetWorkArea(trp__cufft_handle handle, void *area)
{
    plan *p = hold(handle);
    if (!p || (uintptr_t)area % 256 != 0)
        return p ? leave(INVALID_VALUE) : INVALID_PLAN;
    p->area = area;
    return leave(SUCCESS);
}

trp__cufft_result cufftGetProperty(trp__cuda_property which, int *value)
{
    static const int version[] = {12, 0, 0};
    if ((int)which < 0 || (int)which > 2 || !value)
        return INVALID_VALUE;
    *value = version[which];
    return SUCCESS;
}

/* Plans. */

static int64_t length(const description *d, bool of_x, int axis)
{
    const bool half = axis == d->rank - 1 && d->kind == (of_x ? C2R : R2C);
    return half ? d->n[axis] / 2 + 1 : d->n[axis];
}

static bool is_real(const description *d, bool of_x)
{
    return d->kind == (of_x ? R2C : C2R);
}

static bool good_layout(const description *d, bool of_x)
{
    const layout *l = of_x ? &d->x : &d->y;
    if (l->stride < 1 || l->distance < 1)
        return false;
    for (int i = 0; i < d->rank; i++) {
        if (l->embed[i] < length(d, of_x, i))
            return false;
    }
    return true;
}

static bool set_types(description *d, trp__cufft_type x, trp__cufft_type y, trp__cufft_type compute)
{
    const trp__cufft_type complex = compute,
                          real = compute == TRP__CUFFT_C_64F ? TRP__CUFFT_R_64F : TRP__CUFFT_R_32F;
    d->wide = compute == TRP__CUFFT_C_64F;
    d->kind = x == real ? R2C : y == real ? C2R : C2C;
    return (compute == TRP__CUFFT_C_32F || compute == TRP__CUFFT_C_64F) &&
           x == (d->kind == R2C ? real : complex) && y == (d->kind == C2R ? real : complex);
}

static void set_layout(layout *l, int rank, const long long *embed, long long stride,
                       long long distance)
{
    l->stride = stride;
    l->distance = distance;
    for (int i = 0; i < rank; i++)
        l->embed[i] = embed[i];
}

static void report(const char *file, const description *d)
{
    char line[128];
    snprintf(line, sizeof line, "%dd %s f%d %lldx%lldx%lld, %lld", d->rank,
             d->kind == C2C   ? "c2c"
             : d->kind == R2C ? "r2c"
                              : "c2r",
             d->wide ? 64 : 32, (long long)d->n[0], (long long)d->n[1], (long long)d->n[2],
             (long long)d->batch);
    fake_report(file, line);
}

trp__cufft_result cufftXtMakePlanMany(trp__cufft_handle handle, int rank, long long *n,
                                      long long *x_embed, long long x_stride, long long x_distance,
                                      trp__cufft_type x_type, long long *y_embed,
                                      long long y_stride, long long y_distance,
                                      trp__cufft_type y_type, long long batch, size_t *work_bytes,
                                      trp__cufft_type compute_type)
{
    description d = {.rank = (uint8_t)rank, .batch = batch};
    if (rank < 1 || rank > AXES || batch < 1 || !x_embed || !y_embed || !work_bytes)
        return INVALID_VALUE;
    if (fake_cuda_usable() != 0)
        return SETUP_FAILED;
    if (!set_types(&d, x_type, y_type, compute_type))
        return INVALID_TYPE;
    int64_t elements = 1;
    for (int i = 0; i < rank; i++) {
        d.n[i] = n[i];
        if (n[i] < 1)
            return INVALID_SIZE;
        elements *= n[i];
    }
    set_layout(&d.x, rank, x_embed, x_stride, x_distance);
    set_layout(&d.y, rank, y_embed, y_stride, y_distance);
    if (!good_layout(&d, true) || !good_layout(&d, false))
        return INVALID_VALUE;
    if (fake_setting_has("cufft_plans_fail", rank))
        return INTERNAL_ERROR;
    d.wrong = fake_setting_has("cufft_wrong", rank);
    d.work_bytes = elements & (elements - 1) ? elements * 16 + 100 : 0;
    report("cufft_plans", &d);
    plan *p = hold(handle);
    if (!p || p->made || !p->external) /* each handle has one plan, and no memory of its own */
        return p ? leave(INVALID_VALUE) : INVALID_PLAN;
    p->d = d;
    p->made = true;
    atomic_fetch_add(&state.plans, 1);
    *work_bytes = (size_t)d.work_bytes;
    return leave(SUCCESS);
}

/* Runs. */

static int64_t part_bytes(const description *d)
{
    return d->wide ? 8 : 4;
}

/* Elements from the first to the last of all batches. */
static int64_t span(const description *d, bool of_x)
{
    const layout *l = of_x ? &d->x : &d->y;
    int64_t last = (d->batch - 1) * l->distance, stride = l->stride;
    for (int i = d->rank - 1; i >= 0; i--) {
        last += (length(d, of_x, i) - 1) * stride;
        stride *= l->embed[i];
    }
    return last + 1;
}

static size_t bytes(const description *d, bool of_x)
{
    return (size_t)(span(d, of_x) * part_bytes(d) * (is_real(d, of_x) ? 1 : 2));
}

/* The place of an element of a row-major box. */
static int64_t place(const description *d, bool of_x, int64_t batch, const int64_t index[])
{
    const layout *l = of_x ? &d->x : &d->y;
    int64_t at = 0;
    for (int i = 0; i < d->rank; i++)
        at = at * l->embed[i] + index[i];
    return batch * l->distance + at * l->stride;
}

static double get_part(const description *d, const void *from, int64_t at)
{
    return d->wide ? ((const double *)from)[at] : (double)((const float *)from)[at];
}

static void put_part(const description *d, void *to, int64_t at, double value)
{
    if (d->wide)
        ((double *)to)[at] = value;
    else
        ((float *)to)[at] = (float)value;
}

static bool next(const description *d, const int64_t box[], int64_t index[])
{
    int i = d->rank - 1;
    for (; i >= 0 && ++index[i] >= box[i]; i--)
        index[i] = 0;
    return i >= 0;
}

static int64_t packed(const description *d, const int64_t index[])
{
    int64_t at = 0;
    for (int i = 0; i < d->rank; i++)
        at = at * d->n[i] + index[i];
    return at;
}

/* Reads one batch as complex numbers; half a spectrum is completed. */
static void gather(const description *d, const void *x, int64_t batch, double *to)
{
    int64_t index[AXES] = {0}, box[AXES];
    const bool real = d->kind == R2C;
    for (int i = 0; i < d->rank; i++)
        box[i] = length(d, true, i);
    do {
        const int64_t from = place(d, true, batch, index), at = 2 * packed(d, index);
        to[at] = get_part(d, x, real ? from : 2 * from);
        to[at + 1] = real ? 0 : get_part(d, x, 2 * from + 1);
    } while (next(d, box, index));
    const int last = d->rank - 1;
    memset(index, 0, sizeof index);
    do {
        int64_t other[AXES];
        if (d->kind != C2R || index[last] <= d->n[last] / 2)
            continue;
        for (int i = 0; i < d->rank; i++)
            other[i] = (d->n[i] - index[i]) % d->n[i];
        to[2 * packed(d, index)] = to[2 * packed(d, other)];
        to[2 * packed(d, index) + 1] = -to[2 * packed(d, other) + 1];
    } while (next(d, d->n, index));
}

/* As the real one may, to what it has read. */
static void spoil(const description *d, int64_t batch, void *x)
{
    int64_t index[AXES] = {0}, box[AXES];
    const size_t size = (size_t)part_bytes(d) * 2;
    for (int i = 0; i < d->rank; i++)
        box[i] = length(d, true, i);
    do
        memset((char *)x + (size_t)place(d, true, batch, index) * size, RUBBISH, size);
    while (next(d, box, index));
}

/* All parts of the sum: imaginary ones, which symmetric input has none of, show in real results. */
static void scatter(const description *d, const double *from, int64_t batch, void *y)
{
    int64_t index[AXES] = {0}, box[AXES];
    for (int i = 0; i < d->rank; i++)
        box[i] = length(d, false, i);
    do {
        const int64_t to = place(d, false, batch, index), at = 2 * packed(d, index);
        if (d->kind == C2R) {
            put_part(d, y, to, from[at] + from[at + 1]);
            continue;
        }
        put_part(d, y, 2 * to, from[at]);
        put_part(d, y, 2 * to + 1, from[at + 1]);
    } while (next(d, box, index));
}

/* Transforms a packed box along one axis; the inverse is the conjugate of that of conjugates. */
static bool transform(const description *d, double *box, int axis, bool inverse)
{
    const trp__fft_key key = {
        .n = d->n[axis], .wide = true, .single = trp__fft_is_single(d->n[axis], false, true, 1)};
    trp__fft_plan *lines = NULL;
    const int64_t n = d->n[axis];
    int64_t inner = 1, outer = 1;
    for (int i = 0; i < d->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : d->n[i];
    double *line = aligned_alloc(64, ((size_t)n * 16 + 63) / 64 * 64);
    bool good = line && trp__fft_plan_make(&key, &lines, NULL) == TRP_OK;
    for (int64_t i = 0; i < outer * inner && good; i++) {
        double *at = box + 2 * (i / inner * n * inner + i % inner);
        for (int64_t k = 0; k < n; k++) {
            line[2 * k] = at[2 * k * inner];
            line[2 * k + 1] = inverse ? -at[2 * k * inner + 1] : at[2 * k * inner + 1];
        }
        good = trp__fft_line(lines, line, 1);
        for (int64_t k = 0; k < n; k++) {
            at[2 * k * inner] = line[2 * k];
            at[2 * k * inner + 1] = inverse ? -line[2 * k + 1] : line[2 * k + 1];
        }
    }
    trp__fft_plan_drop(lines);
    free(line);
    return good;
}

static void compute(const job *j, void *x, void *y)
{
    const description *d = &j->d;
    int64_t elements = 1;
    for (int i = 0; i < d->rank; i++)
        elements *= d->n[i];
    const size_t box = (size_t)elements * 2;
    double *all_boxes = malloc(box * (size_t)d->batch * sizeof *all_boxes);
    if (!all_boxes)
        abort();
    for (int64_t b = 0; b < d->batch; b++) {
        double *one = all_boxes + (size_t)b * box;
        gather(d, x, b, one);
        for (int i = 0; i < d->rank; i++) {
            if (!transform(d, one, i, j->inverse))
                abort();
        }
    }
    for (int64_t b = 0; b < d->batch && d->kind == C2R; b++)
        spoil(d, b, x);
    if (d->wrong)
        all_boxes[0] += 1;
    for (int64_t b = 0; b < d->batch; b++)
        scatter(d, all_boxes + (size_t)b * box, b, y);
    free(all_boxes);
}

/* Work on a plan that is gone reaches memory that is not there. */
static void run(void *arguments)
{
    const job *j = arguments;
    fake_pin x = {0}, y = {0}, area = {0};
    plan *p = hold(j->handle);
    const bool writes_x = j->d.kind == C2R;
    if (p)
        leave(SUCCESS);
    if (fake_cuda_reach(&x, p ? j->x : 0, bytes(&j->d, true), writes_x) &&
        fake_cuda_reach(&y, j->y, bytes(&j->d, false), true) &&
        (j->d.work_bytes == 0 || fake_cuda_reach(&area, j->area, (size_t)j->d.work_bytes, true))) {
        if (j->d.work_bytes > 0)
            memset(area.at, RUBBISH, (size_t)j->d.work_bytes);
        compute(j, x.at, y.at);
    }
    fake_pin *const pins[] = {&x, &y, &area};
    for (int i = 0; i < 3; i++) {
        if (pins[i]->at)
            fake_cuda_let_go(pins[i]);
    }
}

static bool record(trp__cu_stream stream, const job *j)
{
    job *copy = malloc(sizeof *copy);
    if (copy)
        *copy = *j;
    if (copy && fake_cuda_record(stream, run, free, copy))
        return true;
    free(copy);
    return false;
}

trp__cufft_result cufftXtExec(trp__cufft_handle handle, void *x, void *y, int direction)
{
    plan *p = hold(handle);
    if (!p || !p->made)
        return p ? leave(INVALID_PLAN) : INVALID_PLAN;
    const plan copy = *p;
    leave(SUCCESS);
    const description *d = &copy.d;
    const job j = {.d = *d,
                   .x = (uintptr_t)x,
                   .y = (uintptr_t)y,
                   .area = (uintptr_t)copy.area,
                   .handle = handle,
                   .inverse = d->kind == C2R || (d->kind == C2C && direction == 1)};
    if (!x || !y || (direction != 1 && direction != -1))
        return INVALID_VALUE;
    if ((uintptr_t)x % (uintptr_t)(2 * part_bytes(d)) != 0 ||
        (uintptr_t)y % (uintptr_t)(2 * part_bytes(d)) != 0)
        return UNALIGNED_DATA;
    if (d->work_bytes > 0 && !copy.area)
        return NO_WORKSPACE;
    if (fake_setting_has("cufft_runs_fail", d->rank))
        return EXEC_FAILED;
    atomic_fetch_add(&state.runs, 1);
    report("cufft_runs", d);
    return record(copy.stream, &j) || fake_cuda_enqueue(copy.stream, run, &j, sizeof j) == 0
               ? SUCCESS
               : EXEC_FAILED;
}

/* Kernels of the application in the conformance suite: one that reads what it writes, and one that
 * does not, on arrays at any offset. */
#include "conformance/conformance.h"
#include "support/jit_kernels.h"

#include <math.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { X, Y, ARRAYS };

typedef struct launch {
    const char *kernel;
    uint32_t count, offset; /* elements */
    float factor;
    block blocks[ARRAYS];
    trp_kernel_arg args[4];
} launch;

static struct {
    trp_device *device;
    trp_module module;
} loaded; /* a module of the actor under test; none on the host */

static void load(trp_actor *jit)
{
    static const char *const names[] = {"jit_axpy", "jit_fill"};
    const trp_jit_load_request r = {
        .image = jit_kernels_ptx, .bytes = sizeof jit_kernels_ptx, .names = names, .name_count = 2};
    loaded.device = trp_actor_device(jit);
    if (h_is_cuda())
        H_OK(trp_jit_load(jit, &r, &loaded.module, NULL)); /* requests that use it wait for it */
}

static void unload(void)
{
    if (loaded.module.id)
        H_OK(trp_module_free(loaded.device, loaded.module));
    loaded.device = NULL;
    loaded.module.id = 0;
}

static uint32_t below(uint32_t bound)
{
    return (uint32_t)ref_rng_below(h_rng(), bound);
}

static bool draw(cf_problem *problem, unsigned way, cf_kind kind)
{
    const bool tight = kind == CF_TIGHT;
    launch *p = h_malloc(sizeof *p);
    *p = (launch){.kernel = problem->operation->row,
                  .count = 1 + (tight ? 256 : below(way ? 3000 : 300000)),
                  .offset = tight ? 0 : below(9),
                  .factor = (float)ref_rng_uniform(h_rng(), -2, 2)};
    const bool adds = strcmp(p->kernel, "jit_axpy") == 0;
    for (int i = adds ? X : Y; i < ARRAYS; i++) {
        block *b = &p->blocks[i];
        *b = block_make((p->offset + p->count + (tight ? 0 : below(5))) * sizeof(float), NULL);
        ref_fill_uniform(REF_F32, b->before, b->bytes / sizeof(float), h_rng());
        if (i == Y)
            memset(b->writable + p->offset * sizeof(float), true, p->count * sizeof(float));
    }
    problem->own = p;
    problem->blocks = p->blocks;
    problem->block_count = ARRAYS;
    problem->may_fault = adds;
    return true;
}

static trp_kernel_arg array_of(const launch *p, int which, trp_access_mode mode)
{
    trp_kernel_arg a = trp_arg_buffer(p->blocks[which].buffer, mode);
    a.offset = p->offset * sizeof(float);
    a.buffer_bytes = p->count * sizeof(float);
    return a;
}

static void make_request(const cf_problem *problem, void *out)
{
    launch *p = problem->own;
    const bool adds = p->blocks[X].before;
    trp_kernel_arg *a = p->args;
    if (adds)
        *a++ = array_of(p, X, TRP_ACCESS_READ);
    *a++ = array_of(p, Y, adds ? TRP_ACCESS_READ_WRITE : TRP_ACCESS_WRITE);
    *a++ = adds ? trp_arg_f32(p->factor) : trp_arg_u32(p->offset);
    *a++ = trp_arg_u32(p->count);
    *(trp_kernel_launch_request *)out =
        (trp_kernel_launch_request){.module = loaded.device ? loaded.module : (trp_module){0},
                                    .kernel = p->kernel,
                                    .grid = {(p->count + 255) / 256},
                                    .block = {256},
                                    .args = p->args,
                                    .arg_count = (uint32_t)(a - p->args)};
}

static trp_status submit(trp_actor *jit, const cf_problem *problem, void *request,
                         trp_completion *done)
{
    trp_kernel_launch_request *r = request;
    (void)problem;
    if (loaded.device != trp_actor_device(jit))
        load(jit);
    r->module = loaded.module;
    return trp_kernel_launch(jit, r, done);
}

static trp_status send(trp_actor *jit, const cf_problem *problem, trp_completion *done)
{
    trp_kernel_launch_request r;
    make_request(problem, &r);
    return submit(jit, problem, &r, done);
}

static bool check(cf_problem *problem, cf_tally *tally)
{
    const launch *p = problem->own;
    const float *x = (const float *)(void *)p->blocks[X].before;
    const char *y = p->blocks[Y].before, *got = p->blocks[Y].after;
    for (uint32_t i = p->offset; i < p->offset + p->count; i++) {
        uint32_t word;
        float before, after;
        memcpy(&word, got + i * sizeof word, sizeof word);
        memcpy(&after, got + i * sizeof after, sizeof after);
        memcpy(&before, y + i * sizeof before, sizeof before);
        const double wanted = x ? (double)before + (double)p->factor * (double)x[i] : 0;
        const double off = fabs((double)after - wanted) / 1e-6;
        if (x ? !(off <= 1) : word != i) {
            fprintf(stderr, "%s: element %u of %u is %g\n", p->kernel, i, p->count, (double)after);
            return false;
        }
        tally->worst = x ? fmax(tally->worst, off) : 0;
    }
    return true;
}

static void drop(cf_problem *problem)
{
    free(problem->own);
}

static bool spoil(const cf_problem *problem, unsigned which, const cf_wrong *wrong, void *request)
{
    launch *p = problem->own;
    trp_kernel_launch_request *r = request;
    const unsigned array = r->arg_count > 3 ? 1 : 0; /* the last buffer */
    make_request(problem, request);
    *wrong->word = array ? "args[1]" : "args[0]";
    switch (which) {
    case 0:
        p->args[array].buffer = wrong->stale;
        *wrong->status = TRP_E_STALE;
        return true;
    case 1:
        p->args[array].buffer = wrong->tiny;
        return true;
    case 2:
        p->args[array].offset = UINT64_MAX - 15;
        return true;
    case 3:
        r->grid[0] = 0;
        *wrong->word = "grid";
        return true;
    case 4:
        r->block[0] = 1025;
        *wrong->word = "block";
        return true;
    default:
        return false;
    }
}

static const cf_family family = {
    .request_bytes = sizeof(trp_kernel_launch_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .submit = submit,
    .check = check,
    .drop = drop,
    .spoil = spoil,
};

int main(int argc, char **argv)
{
    static const cf_variant f32[] = {{.name = "f32", .type = TRP_F32}},
                            i32[] = {{.name = "i32", .type = TRP_I32}};
    const cf_operation operations[] = {{.name = "axpy",
                                        .op = TRP_OP_KERNEL_LAUNCH,
                                        .family = &family,
                                        .row = "jit_axpy",
                                        .variants = f32,
                                        .variant_count = 1,
                                        .ways = 20},
                                       {.name = "fill",
                                        .op = TRP_OP_KERNEL_LAUNCH,
                                        .family = &family,
                                        .row = "jit_fill",
                                        .variants = i32,
                                        .variant_count = 1,
                                        .ways = 20,
                                        .runs_again = true}};
    const cf_actor jit = {.kind = "jit",
                          .operations = operations,
                          .count = 2,
                          .rounds = 60,
                          .keeps = true,
                          .end = unload};
    return cf_main(argc, argv, &jit);
}

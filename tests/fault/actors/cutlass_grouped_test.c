/* Workers that die or hang with grouped products in hand, whose groups are told by value, in a
 * table and by ends, on the fake driver. */
#include "support/kernels.h"
#include "support/label.h"

#include <signal.h>

TROUPE_TEST_FAKE_GPU("no tsan", "cutlass", "FAKE_CUDA_REPORT_MS=1");

enum { GROUPS = 3, M = 4, N = 8, K = 8, ROWS = GROUPS * M };

static h_kernels kernels;

/* Rows of ones times columns of ones; each with a D and a table of its own. */
typedef struct sent {
    int k; /* of all groups */
    trp_buffer in, out, table;
    trp_completion done;
} sent;

static trp_buffer upload(const void *data, size_t bytes)
{
    trp_buffer b = h_buffer(kernels.world.device, bytes);
    h_write(kernels.world.device, b, 0, data, bytes);
    return b;
}

static void send(sent *s, int which)
{
    uint16_t ones[ROWS * K];
    float nothing[ROWS * N];
    int32_t ends[GROUPS];
    trp_cutlass_group row[GROUPS];
    const trp_cutlass_grouping grouping = which % 3 == 0   ? TRP_CUTLASS_GROUPS_BY_VALUE
                                          : which % 3 == 1 ? TRP_CUTLASS_GROUPS_BY_TABLE
                                                           : TRP_CUTLASS_GROUPS_OF_M;
    for (int i = 0; i < ROWS * K; i++)
        ones[i] = 0x3f80;
    h_random_bytes(h_rng(), nothing, sizeof nothing);
    *s = (sent){.k = (int)ref_rng_below(h_rng(), K + 1)};
    for (int g = 0; g < GROUPS; g++) {
        ends[g] = (g + 1) * M;
        row[g] = (trp_cutlass_group){.m = M, .n = N, .k = s->k, .a = g * M * s->k, .d = g * M * N};
    }
    s->in = upload(ones, sizeof ones);
    s->out = upload(nothing, sizeof nothing);
    trp_cutlass_grouped_gemm_request r = {
        .groups = GROUPS,
        .grouping = grouping,
        .m = grouping == TRP_CUTLASS_GROUPS_OF_M ? ROWS : M,
        .n = N,
        .k = s->k,
        .a = {.buffer = s->in, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = s->in},
        .d = {.buffer = s->out, .type = TRP_F32, .order = TRP_ROW_MAJOR}};
    if (grouping == TRP_CUTLASS_GROUPS_BY_VALUE) {
        r.m = r.n = r.k = 0;
        r.group = row;
    } else {
        bool ends_only = grouping == TRP_CUTLASS_GROUPS_OF_M;
        r.table = s->table =
            upload(ends_only ? (void *)ends : (void *)row, ends_only ? sizeof ends : sizeof row);
    }
    H_OK(trp_cutlass_grouped_gemm(kernels.cutlass, &r, &s->done));
}

static void check(sent *s)
{
    float got[ROWS * N];
    trp_buffer all[] = {s->in, s->out, s->table};
    H_OK(h_await_any(s->done));
    h_read(kernels.world.device, s->out, 0, got, sizeof got);
    for (int i = 0; i < ROWS * N; i++)
        H_CHECK(got[i] == (float)s->k);
    for (int i = 0; i < 3; i++) {
        if (all[i].id)
            H_OK(trp_buffer_free(kernels.world.device, all[i]));
    }
}

/* Killed at any time, with many in flight: each is computed, once more if it has to be. */
static void killed_often(void)
{
    enum { COUNT = 120 };
    sent *s = h_malloc(COUNT * sizeof *s);
    kernels = h_kernels_open(NULL);
    h_kernels_tell(&kernels, "compile_ms", "20");
    for (int i = 0; i < COUNT; i++) {
        send(&s[i], i);
        if (i % 30 == 29) {
            h_sleep((int64_t)ref_rng_below(h_rng(), 30) * H_MS);
            kill((pid_t)h_info(kernels.world.device).worker_pid, SIGKILL);
            h_await_incarnation(kernels.world.device, (uint32_t)(2 + i / 30));
        }
    }
    for (int i = 0; i < COUNT; i++)
        check(&s[i]);
    free(s);
    h_kernels_close(&kernels);
}

/* A fault on the device costs the request that it came from. */
static void traps(void)
{
    kernels = h_kernels_open(NULL);
    for (int i = 0; i < 3; i++) {
        sent good, bad;
        send(&good, i);
        check(&good);
        h_kernels_tell(&kernels, "run_traps", "1");
        send(&bad, i);
        H_IS(h_await_any(bad.done), TRP_E_FAULT);
        h_kernels_untell(&kernels, "run_traps");
        send(&good, i + 1);
        check(&good);
    }
    H_CHECK(h_info(kernels.world.device).restarts >= 3);
    h_kernels_close(&kernels);
}

static const h_case cases[] = {{"killed_often", killed_often}, {"traps", traps}};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake() || h_isolation() != TRP_ISOLATION_PROCESS)
        return H_EXIT_SKIPPED;
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

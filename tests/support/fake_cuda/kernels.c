/* Kernels of the fake driver, for those that tests launch. */
#include "support/fake_cuda/cutlass/cutlass.h"
#include "support/fake_cuda/cutlass/cutlass_reference.h"
#include "support/fake_cuda/device_kernels.h"
#include "support/fake_cuda/direct.h"
#include "support/fake_cuda/fake.h"
#include "support/fake_cuda/fft_kernels.h"
#include "support/fake_cuda/product.h"

#include <string.h>
#include <time.h>

enum { NAP_NS = 200000 };

static void run_nop(const uint64_t *parameter)
{
    (void)parameter;
}

static void run_spin(const uint64_t *parameter)
{
    uint64_t begun = (uint64_t)fake_now();
    for (uint64_t gone; (gone = (uint64_t)fake_now() - begun) < parameter[0];) {
        if (fake_interrupted())
            return;
        uint64_t left = parameter[0] - gone;
        nanosleep(&(struct timespec){.tv_nsec = left < NAP_NS ? (long)left : NAP_NS}, NULL);
    }
}

/* A GPU reports a misaligned address before it looks up the mapping. */
static void run_store(const uint64_t *parameter)
{
    fake_pin pin;
    uint64_t value = 57005;
    if (parameter[0] % 8 != 0) {
        fake_fault(FAKE_ERROR_MISALIGNED_ADDRESS);
        return;
    }
    void *at = fake_cuda_reach(&pin, parameter[0], sizeof value, true);
    if (at)
        memcpy(at, &value, sizeof value);
    fake_cuda_let_go(&pin);
}

static void run_trap(const uint64_t *parameter)
{
    (void)parameter;
    fake_fault(FAKE_ERROR_LAUNCH_FAILED);
}

/* Reaches words of 4 bytes that a kernel reads or writes; NULL: the stream has faulted. */
static void *reach(fake_pin *pin, uint64_t address, uint64_t count, bool write)
{
    return fake_cuda_reach(pin, address, count * 4, write);
}

/* (const float *x, float *y, float a, unsigned n): y[i] += a * x[i] */
static void run_axpy(const uint64_t *parameter)
{
    fake_pin px, py;
    uint64_t n = (uint32_t)parameter[3];
    uint32_t bits = (uint32_t)parameter[2];
    float a;
    memcpy(&a, &bits, sizeof a);
    const float *x = reach(&px, parameter[0], n, false);
    float *y = reach(&py, parameter[1], n, true);
    for (uint64_t i = 0; x && y && i < n; i++)
        y[i] += a * x[i];
    fake_cuda_let_go(&px);
    fake_cuda_let_go(&py);
}

/* (unsigned *out, unsigned value, unsigned n): out[i] = value + i */
static void run_fill(const uint64_t *parameter)
{
    fake_pin pin;
    uint64_t n = (uint32_t)parameter[2];
    uint32_t *out = reach(&pin, parameter[0], n, true);
    for (uint64_t i = 0; out && i < n; i++)
        out[i] = (uint32_t)(parameter[1] + i);
    fake_cuda_let_go(&pin);
}

/* (float *y, const float *x, unsigned n) with a variable float factor: y[i] = factor * x[i] */
static void run_scale(const uint64_t *parameter)
{
    fake_pin px, py, pf;
    uint64_t n = (uint32_t)parameter[2];
    float *y = reach(&py, parameter[0], n, true);
    const float *x = reach(&px, parameter[1], n, false);
    const float *factor = reach(&pf, parameter[3], 1, false);
    for (uint64_t i = 0; x && y && factor && i < n; i++)
        y[i] = *factor * x[i];
    fake_cuda_let_go(&px);
    fake_cuda_let_go(&py);
    fake_cuda_let_go(&pf);
}

/* (unsigned long long *out, struct of 24 bytes): out[0] is the sum of its three words */
static void run_sum(const uint64_t *parameter)
{
    fake_pin pin;
    uint64_t *out = reach(&pin, parameter[0], 2, true);
    if (out)
        *out = parameter[1] + parameter[2] + parameter[3];
    fake_cuda_let_go(&pin);
}

/* (unsigned *out, CUtensorMap map): out[0] is its rank, out[i] the size of axis i - 1 */
static void run_map(const uint64_t *parameter)
{
    fake_pin pin;
    uint32_t *out = reach(&pin, parameter[0], 6, true);
    for (uint32_t i = 0; out && i < 6; i++)
        out[i] = (uint32_t)parameter[2 + i];
    fake_cuda_let_go(&pin);
}

/* Every kernel that tests launch needs a row here. */
static const fake_kernel kernels[] = {
    {"probe_nop", run_nop, 0, NULL, NULL},
    {"bench_nop", run_nop, 0, NULL, NULL},
    {"probe_spin", run_spin, 1, NULL, NULL},
    {"probe_store", run_store, 1, NULL, NULL},
    {"probe_trap", run_trap, 0, NULL, NULL},
    {"jit_axpy", run_axpy, 4, NULL, NULL},
    {"jit_fill", run_fill, 3, NULL, NULL},
    {"jit_scale", run_scale, 3, "factor", NULL},
    {"jit_sum", run_sum, 2, NULL, NULL},
    {"jit_map", run_map, 2, NULL, NULL},
    {"jit_spin", run_spin, 1, NULL, NULL},
    {"jit_trap", run_trap, 0, NULL, NULL},
    {"warm", run_nop, 1, NULL, NULL},
    {"trp_cutlass_build", fake_cutlass_build, 2, FAKE_CUTLASS_KERNEL, NULL},
    {"trp_cutlass_prepare", fake_cutlass_prepare, 2, FAKE_CUTLASS_KERNEL, NULL},
    {"trp_cutlass_kernel", fake_cutlass_run, 1, FAKE_CUTLASS_KERNEL, NULL},
    {"trp_cutlass_reference", fake_cutlass_reference, 1, NULL, NULL},
    {"trp_fft_copy", fake_fft_copy, 1, NULL, NULL},
    {"trp_fft_sums", fake_fft_sums, 1, NULL, NULL},
    {"trp_fft_before", fake_fft_before, 1, NULL, NULL},
    {"trp_fft_behind", fake_fft_behind, 1, NULL, NULL},
    {"trp_product_reference", fake_product_reference, 1, NULL, NULL},
#define DIRECT(name, ...) {"trp_direct_" #name, fake_direct_##name, 1, NULL, NULL},
    FAKE_DIRECT_KERNELS(DIRECT)
#undef DIRECT
#define DEVICE(name, type) {#name, NULL, 1, NULL, fake_device_##name},
        FAKE_DEVICE_KERNELS(DEVICE)
#undef DEVICE
};

const fake_kernel *fake_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    }
    return NULL;
}

/* Tensor cores and copies to shared memory for multiply.cuh, and their counterparts for the tests'
 * device. */
#ifndef TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_CORE_CUH
#define TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_CORE_CUH

#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/common/tensor_core.cuh"

/* Splits x into the nearest number of 11 bits and the rest, 12 bits, of which tensor cores read 11.
 */
TRP__DEVICE void trp__split_number(float x, uint32_t *big, uint32_t *small)
{
    *big = (trp__f32_bits(x) + 0x1000u) & 0xffffe000u;
    *small = trp__f32_bits(x - trp__f32_from_bits(*big));
}

/* Returns the lesser of `before` and a number's bits, in the form of TRP__MULTIPLY_SMALL. */
TRP__DEVICE uint32_t trp__least_of(float number, uint32_t before)
{
    const uint32_t bits = trp__f32_bits(number) * 2 - 1;
    return bits < before ? bits : before;
}

struct alignas(8) trp__pair {
    float number[2];
};

/* Loads four 8 x 4 matrices of f32. Lane 8 m + r passes the address of row r of matrix m, a
 * multiple of 16. Lane 4 r + c gets element c of row r of each matrix. */
TRP__DEVICE void trp__load_quads(const float *row, uint32_t out[4])
{
    trp__load_matrices<false>((const uint16_t *)row, out); /* the same bytes as 8 x 8 halves */
}

#ifdef __CUDACC_RTC__

TRP__DEVICE uint64_t trp__shared_address(const void *at)
{
    return __cvta_generic_to_shared(at);
}

/* Returns the descriptor of rows of 128 bytes in groups of 8, whose chunks of 16 bytes are
 * permuted: chunk i of row r is at i ^ r % 8. */
TRP__DEVICE uint64_t trp__describe_rows(const float *b)
{
    const uint64_t at = (uint64_t)__cvta_generic_to_shared(b);
    return (at & 0x3ffff) >> 4 | UINT64_C(1) << 16 | UINT64_C(64) << 32 | UINT64_C(1) << 62;
}
/* Advances a descriptor by `numbers` numbers, a multiple of 4. */
TRP__DEVICE uint64_t trp__rows_at(uint64_t rows, int numbers)
{
    return rows + (uint64_t)numbers / 4;
}

/* Begins c = a b, or c += a b with `more`, of tf32: a is 64 x 8, 16 rows a warp; b are rows of 8
 * numbers in shared memory, as trp__multiplier has them. c may be read after trp__end_products().
 * */
TRP__DEVICE void trp__begin_product(const uint32_t a[4], uint64_t b, bool more, float (&c)[64])
{
    asm volatile(
        "{.reg .pred p;\n setp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
        "{%64,%65,%66,%67}, %68, p, 1, 1;}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
          "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
          "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
          "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
          "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
          "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
          "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
          "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]),
          "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]),
          "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)more));
}

/* Needed before products whose registers c or a were written, and after the products. */
TRP__DEVICE void trp__fence_products(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int COUNT> TRP__DEVICE void trp__end_products(float (&c)[COUNT])
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    TRP__EACH(i, COUNT)
        asm volatile("" : "+f"(c[i])::"memory");
}

/* Makes writes to shared memory visible to products. */
TRP__DEVICE void trp__show_products(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Barriers in shared memory: `count` arrivals end a phase. */
TRP__DEVICE void trp__barrier_begin(uint64_t *barrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(barrier)),
                 "r"(count)
                 : "memory");
}
TRP__DEVICE void trp__barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(barrier))
                 : "memory");
}
/* Arrives once the copies of this thread have ended. */
TRP__DEVICE void trp__barrier_arrive_copied(uint64_t *barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(barrier))
                 : "memory");
}
/* Begins to copy bytes, a multiple of 16, from an address aligned to 16. Their arrival counts as
 * one at the barrier. */
TRP__DEVICE void trp__copy_bulk(void *to, uint64_t from, uint32_t bytes, uint64_t *barrier)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(barrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
                 "[%3];" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(bytes), "r"(at)
                 : "memory");
}
/* Waits for the end of a phase. Phases are numbered 0 and 1 in turn. */
TRP__DEVICE void trp__barrier_wait(uint64_t *barrier, uint32_t phase)
{
    asm volatile("{\n.reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra done;\n"
                 "bra again;\n"
                 "done:\n}" ::"r"((uint32_t)__cvta_generic_to_shared(barrier)),
                 "r"(phase)
                 : "memory");
}

/* Sets the registers of each thread of a warp group: shrink() gives some back, grow() takes more.
 */
template <int REGISTERS> TRP__DEVICE void trp__shrink(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> TRP__DEVICE void trp__grow(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

#else

TRP__DEVICE uint64_t trp__shared_address(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

TRP__DEVICE float trp__tf32_of(uint32_t bits)
{
    return trp__f32_from_bits(bits & 0xffffe000u);
}

TRP__DEVICE uint64_t trp__describe_rows(const float *b)
{
    return (uint64_t)(uintptr_t)b;
}
TRP__DEVICE uint64_t trp__rows_at(uint64_t rows, int numbers)
{
    return rows + 4 * (uint64_t)numbers;
}

template <int COUNT>
TRP__DEVICE void trp__begin_product(const uint32_t a[4], uint64_t b, bool more, float (&c)[COUNT])
{
    __shared__ trp__lane_words<uint32_t, 4> all;
    const int lane = (int)(threadIdx.x % 32), quad = lane / 4 * 4;
    auto &words = all.word[threadIdx.x / 32];
    memcpy(words[lane], a, 4 * sizeof *a);
    __syncwarp();
    for (int i = 0; i < COUNT; i++) {
        const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
        const uintptr_t first = (uintptr_t)b + 128 * (uintptr_t)row;
        c[i] = more ? c[i] : 0;
        for (int k = 0; k < 8; k++) { /* chunks are permuted by the address */
            const uintptr_t at = first + 4 * (uintptr_t)k;
            const float *from = (const float *)(at ^ (at >> 7 & 7) << 4);
            c[i] += trp__tf32_of(words[quad + k % 4][k / 4 * 2 + i / 2 % 2]) *
                    trp__tf32_of(trp__f32_bits(*from));
        }
    }
    __syncwarp();
}

TRP__DEVICE void trp__fence_products(void)
{
}
template <int COUNT> TRP__DEVICE void trp__end_products(float (&)[COUNT])
{
}
TRP__DEVICE void trp__show_products(void)
{
}

/* A barrier on the tests' device: arrivals that are missing, arrivals of a phase, and phases that
 * have ended. */
struct trp__fake_barrier {
    uint16_t missing, count;
    uint32_t phases;
};

TRP__DEVICE void trp__barrier_begin(uint64_t *barrier, uint32_t count)
{
    const trp__fake_barrier b = {(uint16_t)count, (uint16_t)count, 0};
    memcpy(barrier, &b, sizeof b);
}
TRP__DEVICE void trp__barrier_arrive(uint64_t *barrier)
{
    trp__fake_barrier b;
    memcpy(&b, barrier, sizeof b);
    if (--b.missing == 0) {
        b.missing = b.count;
        b.phases++;
    }
    memcpy(barrier, &b, sizeof b);
}
TRP__DEVICE void trp__barrier_arrive_copied(uint64_t *barrier)
{
    trp__barrier_arrive(barrier);
}
TRP__DEVICE void trp__copy_bulk(void *to, uint64_t from, uint32_t bytes, uint64_t *barrier)
{
    memcpy(to, &trp__at<unsigned char>(from, 0), bytes);
    trp__barrier_arrive(barrier);
}
TRP__DEVICE void trp__barrier_wait(uint64_t *barrier, uint32_t phase)
{
    trp__fake_barrier b;
    for (;;) { /* other threads run only while this one waits */
        memcpy(&b, barrier, sizeof b);
        __syncwarp();
        if (__any_sync(0xffffffffu, b.phases % 2 != phase))
            return;
    }
}
template <int REGISTERS> TRP__DEVICE void trp__shrink(void)
{
}
template <int REGISTERS> TRP__DEVICE void trp__grow(void)
{
}

#endif

#endif

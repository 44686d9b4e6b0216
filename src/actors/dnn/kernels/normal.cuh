/* Two numbers of a normal distribution of two words of Philox, in f64: what random.h computes with
 * the C library's functions, to 2^-47 deviations, in a third of the instructions. A word has 24
 * bits that count, so arguments are whole numbers: the logarithm, sine and cosine are a line of a
 * table each, and polynomials of what is left. A kernel that draws many keeps the tables in shared
 * memory (trp__normal_table), others compute the lines that they need: the bits are the same. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORMAL_CUH
#define TRP_ACTORS_DNN_KERNELS_NORMAL_CUH

#include "actors/dnn/kernels/element.cuh"

enum {
    TRP__NORMAL_BITS = 24, /* of a word */
    TRP__NORMAL_PARTS = 32, /* lines of the table for each power of two */
    TRP__NORMAL_TERMS = 7, /* of the logarithm's polynomial */
    TRP__NORMAL_TURNS = 256, /* lines of the table of sine and cosine */
    TRP__NORMAL_LINES = TRP__NORMAL_BITS * TRP__NORMAL_PARTS + 1,
};

/* 1 / sqrt(x) to 2^-20 or so. */
TRP__DEVICE double trp__normal_rsqrt(double x)
{
#ifdef __CUDACC_RTC__
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
#else
    double y = 1 / sqrt(x);
    uint64_t bits;
    memcpy(&bits, &y, sizeof y);
    bits &= ~(uint64_t)UINT32_MAX;
    memcpy(&y, &bits, sizeof y);
    return y;
#endif
}

/* Polynomials, the highest power first: (-2 log(1 + r)) / r for |r| up to 2^-6; and of a turn of t / 2^24
 * for |t| up to 2^15, by t^2, the sine divided by t and the cosine less 1 divided by t^2. In constant
 * memory they are operands of instructions; as literals they would be moves. */
__constant__ double trp__normal_log[TRP__NORMAL_TERMS] = {
    -0x1.24aec744d74adp-2, 0x1.556d630cbac2dp-2,  -0x1.9999988a67ab0p-2, 0x1.ffffff6f60ff2p-2,
    -0x1.5555555556ad5p-1, 0x1.0000000000203p+0, -2.0,
};
__constant__ double trp__normal_sine[] = {0x1.466b536860e82p-114, -0x1.4abbce6246526p-67,
                                          0x1.921fb54442d18p-22};
__constant__ double trp__normal_cosine[] = {0x1.03c19b0cd2c2fp-90, -0x1.3bd3cc9bd9af5p-44};

/* -2 log(k / 2^24) of a whole k from 1 to 2^24 is `twice` - 2 log(1 + r), r = k inverse - 1, which
 * is at most 2^-6. */
struct trp__normal_line {
    double inverse, twice;
};

/* The line of the numbers from 1 + j / 32 on. */
TRP__DEVICE trp__normal_line trp__normal_first(int j)
{
    const double middle = j == TRP__NORMAL_PARTS - 1 ? 2.0 : 1 + (2 * j + 1) * 0x1p-6;
    const trp__normal_line line = {1 / middle, 2 * log(1 / middle)};
    return line;
}

/* The line of the numbers from 2^e (1 + j / 32) on, of that from 1 + j / 32 on. Where the logarithm
 * is near 0 it is the polynomial alone, which is exact relative to that. */
TRP__DEVICE trp__normal_line trp__normal_times(const trp__normal_line &first, int e)
{
    const uint64_t bits = (uint64_t)(1023 - e) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    trp__normal_line line = {
        first.inverse * power,
        fma((double)(TRP__NORMAL_BITS - e), 1.3862943611198906188, first.twice)};
    if (e == TRP__NORMAL_BITS) { /* 1 itself: the square root of 0 would be no number */
        line.inverse = power;
        line.twice = 0x1p-140;
    }
    return line;
}

/* Cosine and sine of the turns from n / 256 to (n + 1) / 256, in the middle. */
struct trp__normal_turn {
    double cosine, sine;
};

TRP__DEVICE trp__normal_turn trp__normal_turn_of(int n)
{
    const double angle = (n + 0.5) * (6.283185307179586477 / TRP__NORMAL_TURNS);
    const trp__normal_turn turn = {cos(angle), sin(angle)};
    return turn;
}

/* The lines, computed when they are wanted. */
struct trp__normal_lines {
    TRP__DEVICE trp__normal_turn turn_of(int n) const
    {
        return trp__normal_turn_of(n);
    }
    TRP__DEVICE trp__normal_line of(int n) const
    {
        return trp__normal_times(trp__normal_first(n % TRP__NORMAL_PARTS),
                                 n / TRP__NORMAL_PARTS);
    }
};

/* The same, computed before by all threads of a block: a multiple of 32. */
struct trp__normal_table {
    trp__normal_line line[TRP__NORMAL_LINES];
    trp__normal_turn turn[TRP__NORMAL_TURNS];

    TRP__DEVICE void fill()
    {
        const int thread = (int)threadIdx.x;
        for (int n = thread; n < TRP__NORMAL_TURNS; n += (int)blockDim.x)
            turn[n] = trp__normal_turn_of(n);
        if (thread < TRP__NORMAL_PARTS)
            line[thread] = trp__normal_first(thread);
        __syncthreads();
        const trp__normal_line first = line[thread % TRP__NORMAL_PARTS];
        __syncthreads();
        for (int n = thread; n < TRP__NORMAL_LINES; n += (int)blockDim.x)
            line[n] = trp__normal_times(first, n / TRP__NORMAL_PARTS);
        __syncthreads();
    }
    TRP__DEVICE trp__normal_line of(int n) const
    {
        return line[n];
    }
    TRP__DEVICE trp__normal_turn turn_of(int n) const
    {
        return turn[n];
    }
};

/* sqrt(-2 log(1 - u)), u the first 24 bits of a word. */
template <typename LINES> TRP__DEVICE double trp__normal_far(const LINES &lines, uint32_t word)
{
    const double k = (double)((1 << TRP__NORMAL_BITS) - (int32_t)(word >> 8));
    uint64_t bits;
    memcpy(&bits, &k, sizeof k);
    const trp__normal_line line =
        lines.of((int)((uint32_t)(bits >> 32) >> 15) - 1023 * TRP__NORMAL_PARTS);
    const double r = fma(k, line.inverse, -1.0);
    double p = trp__normal_log[0];
    TRP__UNROLL
    for (int i = 1; i < TRP__NORMAL_TERMS; i++)
        p = fma(p, r, trp__normal_log[i]);
    const double x = fma(p, r, line.twice);
    const double y = trp__normal_rsqrt(x), near = x * y, lacks = fma(-near, y, 1.0);
    return fma(near * lacks, fma(lacks, 0.375, 0.5), near);
}

/* out[0], out[1]: mean + deviation z, z as of TRP_DNN_NORMAL for an even element and the next one.
 */
template <typename LINES>
TRP__DEVICE void trp__normal_two(const LINES &lines, uint32_t word, uint32_t next, double mean,
                                 double deviation, double out[2])
{
    const trp__normal_turn turn = lines.turn_of((int)(next >> 24));
    const double t = (double)((int32_t)(next >> 8 & 0xffff) - 0x8000), z = t * t;
    const double far = deviation * trp__normal_far(lines, word);
    double s = trp__normal_sine[0], c = trp__normal_cosine[0];
    s = fma(s, z, trp__normal_sine[1]);
    c = fma(c, z, trp__normal_cosine[1]);
    s = fma(s, z, trp__normal_sine[2]) * t;
    c *= z;
    out[0] = fma(far, fma(turn.cosine, c, fma(-turn.sine, s, turn.cosine)), mean);
    out[1] = fma(far, fma(turn.sine, c, fma(turn.cosine, s, turn.sine)), mean);
}

/* --- Results of 16 bits --- */

/* Functions of the hardware, with the errors that the PTX manual promises. */
#ifdef __CUDACC_RTC__
#define TRP__NORMAL_HARDWARE(name, instruction, function)                                          \
    TRP__DEVICE float trp__normal_##name(float x)                                                  \
    {                                                                                              \
        float y;                                                                                   \
        asm(instruction ".approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));                             \
        return y;                                                                                  \
    }
#else
#define TRP__NORMAL_HARDWARE(name, instruction, function)                                          \
    TRP__DEVICE float trp__normal_##name(float x)                                                  \
    {                                                                                              \
        return (float)(function);                                                                  \
    }
#endif
TRP__NORMAL_HARDWARE(log2_of, "lg2", log2(x))        /* 2^-22; below 1/2 relative */
TRP__NORMAL_HARDWARE(root_of, "rsqrt", 1 / sqrt(x))  /* relative 2^-22.9 */
TRP__NORMAL_HARDWARE(sine_of, "sin", sin(x))         /* 2^-20.5 for |x| up to 2 pi */
TRP__NORMAL_HARDWARE(cosine_of, "cos", cos(x))       /* the same */

/* The same numbers in f32, with bounds between which those of trp__normal_two() are: where both
 * bounds round to the same number of 16 bits, that is it, and one pair in some hundreds has to be
 * computed in f64.
 *
 * With far = sqrt(x), x = -2 log v, near = 1 / far: log2 is off by 2^-22 where v is above 1/2, so x by
 * 2^-21.5 and far by no more than that times near; below, by less than 2^-23 far; products and the root add 2^-21.8 far, sine and
 * cosine with their argument 2^-20 far. */
struct trp__normal_bounds {
    float mean, deviation, of_far, of_near, least;

    TRP__DEVICE trp__normal_bounds(double m, double d)
        : mean((float)m), deviation((float)d), of_far((float)(fabs(d) * 0x1.cp-20)),
          of_near((float)(fabs(d) * 0x1.8p-22)), least((float)(fabs(m) * 0x1p-22 + 0x1p-120))
    {
        if (!(fabs(m) + 8 * fabs(d) < 0x1p120)) { /* could overflow on the way: no bounds */
            mean = deviation = 0;
            least = INFINITY;
        }
    }
    TRP__DEVICE void of(uint32_t word, uint32_t next, float low[2], float high[2]) const
    {
        const float v = (float)((1 << TRP__NORMAL_BITS) - (int32_t)(word >> 8)) * 0x1p-24f;
        const float x = fmax(trp__normal_log2_of(v) * -1.38629436111989061883f, 0x1p-60f);
        const float near = trp__normal_root_of(x), far = x * near, scaled = deviation * far;
        const float angle = (float)((int32_t)next >> 8) * (6.28318530717958647693f * 0x1p-24f);
        const float error = fma(far, of_far, fma(near, of_near, least));
        const float value[2] = {fma(scaled, trp__normal_cosine_of(angle), mean),
                                fma(scaled, trp__normal_sine_of(angle), mean)};
        TRP__UNROLL
        for (int k = 0; k < 2; k++) {
            low[k] = value[k] - error;
            high[k] = value[k] + error;
        }
    }
};

#endif

/* Determines which rows can compute a problem and which of them is likely to be the fastest. */
#include "actors/cutlass/catalogue/catalogue.h"
#include "actors/cutlass/catalogue/parts.h"
#include "actors/cutlass/epilogue/render.h"
#include "base/error.h"

#include <math.h>

#define REFUSE(row, error, format, ...)                                                            \
    trp__error_set(error, TRP_E_UNSUPPORTED, "%s: " format, (row)->name, __VA_ARGS__)

static const char *const operation_name[] = {
    [TRP__CUTLASS_GEMM] = "products",
    [TRP__CUTLASS_GROUPED] = "grouped products",
    [TRP__CUTLASS_CONV] = "convolutions",
};

static bool is_fp8(uint8_t type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

static bool is_half(uint8_t type)
{
    return type == TRP_F16 || type == TRP_BF16;
}

static bool is_narrow(uint8_t type)
{
    return type == TRP_I8 || type == TRP_I4 || is_fp8(type);
}

/* Tells whether one matrix is f16 or bf16 and the other a narrow type, i4 if and only if `i4`. */
static bool is_mixed(const trp__cutlass_problem *p, bool i4)
{
    const bool half_a = is_half(p->a);
    const uint8_t wide = half_a ? p->a : p->b, narrow = half_a ? p->b : p->a;
    return is_half(wide) && is_narrow(narrow) && (narrow == TRP_I4) == i4;
}

static bool takes_inputs(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    bool factors = p->scale_a != TRP_SCALE_TENSOR;
    if (factors != (row->inputs >= TRP__CUTLASS_FP8_BLOCKS))
        return false;
    switch (row->inputs) {
    case TRP__CUTLASS_HALF:
        return p->a == p->b && (p->a == TRP_F16 || p->a == TRP_BF16) && p->accumulator == TRP_F32;
    case TRP__CUTLASS_TF32:
    case TRP__CUTLASS_F32:
        return p->a == TRP_F32 && p->b == TRP_F32 && p->accumulator == TRP_F32;
    case TRP__CUTLASS_F64:
        return p->a == TRP_F64 && p->b == TRP_F64 && p->accumulator == TRP_F64;
    case TRP__CUTLASS_I8:
        return p->a == TRP_I8 && p->b == TRP_I8 && p->accumulator == TRP_I32;
    case TRP__CUTLASS_MIXED:
        return is_mixed(p, false);
    case TRP__CUTLASS_MIXED_I4:
        return is_mixed(p, true);
    case TRP__CUTLASS_FP8_BLOCKS:
        return is_fp8(p->a) && is_fp8(p->b) && p->scale_a >= TRP_SCALE_BLOCK_128 &&
               p->scale_b >= TRP_SCALE_BLOCK_128;
    case TRP__CUTLASS_MXFP8:
        return is_fp8(p->a) && is_fp8(p->b) && p->scale_a == TRP_SCALE_BLOCK_32 &&
               p->scale_b == TRP_SCALE_BLOCK_32;
    case TRP__CUTLASS_NVFP4:
        return p->a == TRP_F4E2M1 && p->b == TRP_F4E2M1;
    default:
        return is_fp8(p->a) && is_fp8(p->b) && p->accumulator == TRP_F32;
    }
}

static const char *factors_name(const trp__cutlass_problem *p)
{
    switch (p->scale_a) {
    case TRP_SCALE_TENSOR:
        return "no factors of blocks";
    case TRP_SCALE_BLOCK_16:
        return "factors of blocks of 16";
    case TRP_SCALE_BLOCK_32:
        return "factors of blocks of 32";
    default:
        return "factors of blocks of 128";
    }
}

static trp_status check_types(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                              trp_error *error)
{
    if (row->operation != p->operation)
        return REFUSE(row, error, "computes %s, not %s", operation_name[row->operation],
                      operation_name[p->operation]);
    if (!takes_inputs(row, p))
        return REFUSE(row, error, "does not multiply %s by %s with %s and sums in %s",
                      trp_dtype_name((trp_dtype)p->a), trp_dtype_name((trp_dtype)p->b),
                      factors_name(p), trp_dtype_name((trp_dtype)p->accumulator));
    if (row->inputs == TRP__CUTLASS_TF32 && p->compute != TRP_COMPUTE_TF32)
        return REFUSE(row, error, "rounds inputs to tf32, which compute has to allow%s", "");
    if (!p->tree && (p->accumulator != TRP_I32 || p->d != TRP_I32))
        return REFUSE(row, error, "stores %s through an epilogue tree only, and there is none",
                      trp_dtype_name((trp_dtype)p->d));
    if (p->tree && (p->tree->d != p->d || p->tree->c != p->c ||
                    p->tree->accumulator != p->accumulator || p->tree->order != TRP_ROW_MAJOR))
        return REFUSE(row, error, "needs an epilogue tree of the problem's own types, row-major%s",
                      "");
    return p->tree ? trp__tree_renders(
                         p->tree, trp__cutlass_row_3x(row) ? TRP__TREE_SM90 : TRP__TREE_SM80, error)
                   : TRP_OK;
}

/* Tensor cores read 16-bit types (and mma.sync 32- and 64-bit ones) in any layout, others along k
 * only. */
static trp_status check_layouts(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                trp_error *error)
{
    bool any = row->inputs == TRP__CUTLASS_HALF || trp__cutlass_row_simt(row) ||
               (row->family == TRP__CUTLASS_SM80 &&
                (row->inputs == TRP__CUTLASS_TF32 || row->inputs == TRP__CUTLASS_F64));
    if (any || (p->a_row && !p->b_row))
        return TRP_OK;
    return REFUSE(row, error, "needs A row-major and B column-major, got %s-major and %s-major",
                  p->a_row ? "row" : "column", p->b_row ? "row" : "column");
}

/* TMA gathers lines of 128 bytes, each from one filter position and one group. */
static trp_status check_convolution(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                    trp_error *error)
{
    const int32_t line = 1024 / (int32_t)trp_dtype_bits((trp_dtype)p->a);
    bool by_filter = p->conv.operation == TRP_CONV_WGRAD;
    if (row->family != TRP__CUTLASS_SM90)
        return TRP_OK;
    if (!p->conv.tma)
        return REFUSE(row, error, "no tensor map describes a problem that %s", p->conv.why_not_tma);
    if ((by_filter || p->batch > 1) && p->conv.inner % line != 0)
        return REFUSE(row, error, "needs %s%s in multiples of %d, got %d",
                      p->conv.operation == TRP_CONV_DGRAD ? "filters" : "channels",
                      p->batch > 1 ? " of a group" : "", line, p->conv.inner);
    return TRP_OK;
}

/* The major compute capability of the 3.x families. */
static const uint32_t generation[] = {
    [TRP__CUTLASS_SM90] = 9, [TRP__CUTLASS_SM100] = 10, [TRP__CUTLASS_SM120] = 12};

static trp_status check_device(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                               trp_error *error)
{
    uint32_t least = row->inputs == TRP__CUTLASS_FP8 && !trp__cutlass_row_simt(row) ? 89 : 80;
    if (trp__cutlass_row_3x(row) && p->capability / 10 != generation[row->family])
        return REFUSE(row, error, "is for compute capability %u.0%s, got %u.%u",
                      generation[row->family],
                      row->family == TRP__CUTLASS_SM90 ? "" : " and its kin", p->capability / 10,
                      p->capability % 10);
    if (p->capability < least)
        return REFUSE(row, error, "is for compute capability %u.%u and above, got %u.%u",
                      least / 10, least % 10, p->capability / 10, p->capability % 10);
    uint32_t shared = trp__cutlass_row_shared(row, p);
    if (p->shared_bytes < shared)
        return REFUSE(row, error, "needs %u bytes of shared memory, a block has %u", shared,
                      p->shared_bytes);
    return TRP_OK;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a - 1) / b + 1;
}

/* Returns the terms per sum that the row computes: convolution kernels for sm_90 pad the channels
 * of each filter position to a multiple of the tile. */
static int64_t depth_of(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    if (p->operation != TRP__CUTLASS_CONV || row->family != TRP__CUTLASS_SM90 ||
        p->conv.operation == TRP_CONV_WGRAD)
        return p->k;
    return p->k / p->conv.inner * divide_up(p->conv.inner, row->tile[2]) * row->tile[2];
}

static trp_status check_sizes(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                              trp_error *error)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"m", p->m}, {"n", p->n}, {"k", depth_of(row, p)}, {"batch", p->batch}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX)
            return REFUSE(row, error, "%s: expected 1 to %d, got %lld", sizes[i].name, INT32_MAX,
                          (long long)sizes[i].value);
    }
    if (row->stream_k && p->batch > 1)
        return REFUSE(row, error, "divides the sums of one product, got a batch of %lld",
                      (long long)p->batch);
    if (trp__cutlass_row_3x(row) || row->stream_k || row->operation != TRP__CUTLASS_GEMM)
        return TRP_OK;
    /* Grid dimensions: groups of up to 8 tiles along n are y, and the batch is z. */
    if (p->batch > 65535)
        return REFUSE(row, error, "batch: expected at most 65535, got %lld", (long long)p->batch);
    const uint32_t columns = trp__cutlass_row_tile(row, p, 1);
    if (divide_up(divide_up(p->n, columns), 8) > 65535)
        return REFUSE(row, error, "n: expected at most %lld, got %lld", 65535 * 8ll * columns,
                      (long long)p->n);
    return TRP_OK;
}

/* Returns a divisor of the length of lines along dimension `i`: for a single product the length
 * itself. */
static int64_t length_of(const trp__cutlass_problem *p, int i)
{
    const int64_t size[] = {p->m, p->n, p->k};
    return p->operation == TRP__CUTLASS_GROUPED ? p->divides[i] : size[i];
}

/* Checks a matrix with lines of `length` elements that is accessed by `elements` at a time. TMA
 * clips lines at their ends; other kernels access whole vectors. */
static trp_status check_lines(const trp__cutlass_row *row, const char *name, uint32_t align,
                              uint8_t type, int64_t length, uint32_t elements, bool whole,
                              trp_error *error)
{
    uint32_t bytes = elements * trp_dtype_bits((trp_dtype)type) / 8;
    bytes = bytes < 16 ? bytes : 16;
    if (align < bytes)
        return REFUSE(row, error, "needs %s's lines at multiples of %u bytes, got %u", name, bytes,
                      align);
    if (whole && length % elements != 0)
        return REFUSE(row, error, "needs %s's lines in multiples of %u elements, got %lld", name,
                      elements, (long long)length);
    return TRP_OK;
}

/* Kernels of 2.x read vectors along n like lines of D; 3.x reads them from any address, and
 * accesses auxiliary matrices as align[4] allows. */
static trp_status check_auxiliary(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                  const trp__tree_node *x, trp_error *error)
{
    bool by_tma = trp__cutlass_row_3x(row);
    bool matrix = x->op == TRP__TREE_LOAD || x->op == TRP__TREE_STORE;
    if (!matrix && (by_tma || x->op != TRP__TREE_PER_COLUMN))
        return TRP_OK;
    if (!by_tma)
        return check_lines(row, matrix ? "an auxiliary matrix" : "a vector", p->align[4], x->type,
                           length_of(p, 1), trp__cutlass_row_line_elements(row, p->d), true, error);
    uint32_t elements = p->align[4] * 8 / trp_dtype_bits((trp_dtype)x->type);
    return check_lines(row, "an auxiliary matrix", p->align[4], x->type,
                       x->detail == TRP_ROW_MAJOR ? p->n : p->m, elements > 0 ? elements : 1, true,
                       error);
}

static trp_status check_groups(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                               trp_error *error)
{
    /* All elements of a load share one factor; in 2.x also those of two steps, which start after a
     * first tile that may be partial. */
    const bool by_tma = trp__cutlass_row_3x(row);
    const uint32_t step = by_tma ? row->tile[2] : 2u * row->instruction[2];
    const int64_t lines = is_narrow(p->a) ? p->m : p->n;
    if (!p->group)
        return TRP_OK;
    if (p->group < p->k && p->group % step != 0)
        return REFUSE(row, error, "needs groups of a multiple of %u elements along k, got %lld",
                      step, (long long)p->group);
    if (!by_tma && p->group < p->k && p->k % step != 0)
        return REFUSE(row, error, "needs a multiple of %u elements along k with groups, got %lld",
                      step, (long long)p->k);
    if (!by_tma)
        return TRP_OK;
    if (lines % 8 != 0 || p->align_scales < 16)
        return REFUSE(row, error,
                      "needs factors of groups of a multiple of 8 columns, at a multiple of 16 "
                      "bytes, got %lld and %u",
                      (long long)lines, p->align_scales);
    return TRP_OK;
}

/* TMA reads factors per line as lines; factors per 128 lines require whole tiles. */
static trp_status check_factors(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                trp_error *error)
{
    const struct {
        const char *name;
        uint8_t mode;
        uint16_t tile;
        int64_t lines;
    } both[] = {{"A", p->scale_a, row->tile[0], p->m}, {"B", p->scale_b, row->tile[1], p->n}};
    if (trp__cutlass_row_mixed(row))
        return check_groups(row, p, error);
    if (row->inputs != TRP__CUTLASS_FP8_BLOCKS)
        return TRP_OK;
    for (size_t i = 0; i < 2; i++) {
        if (both[i].mode == TRP_SCALE_BLOCK_128X128 && both[i].tile % 128 != 0)
            return REFUSE(row, error, "has tiles of %u lines of %s, fewer than a factor is for",
                          both[i].tile, both[i].name);
        if (both[i].mode == TRP_SCALE_BLOCK_128 && (both[i].lines % 4 != 0 || p->align_scales < 16))
            return REFUSE(
                row, error,
                "needs a multiple of 4 lines of %s, and factors at a multiple of 16 bytes, "
                "got %lld and %u",
                both[i].name, (long long)both[i].lines, p->align_scales);
    }
    return TRP_OK;
}

static trp_status check_alignment(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                  trp_error *error)
{
    bool whole = !trp__cutlass_row_3x(row);
    uint32_t c = p->c != TRP_DTYPE_NONE && !whole ? 128 / trp_dtype_bits((trp_dtype)p->c)
                                                  : trp__cutlass_row_line_elements(row, p->d);
    trp_status status = check_lines(row, "A", p->align[0], p->a, length_of(p, p->a_row ? 2 : 0),
                                    row->align, whole, error);
    if (status == TRP_OK)
        status = check_lines(row, "B", p->align[1], p->b, length_of(p, p->b_row ? 1 : 2),
                             row->align, whole, error);
    if (status == TRP_OK && p->c != TRP_DTYPE_NONE)
        status = check_lines(row, "C", p->align[2], p->c, length_of(p, 1), c, whole, error);
    if (status == TRP_OK)
        status = check_lines(row, "D", p->align[3], p->d, length_of(p, 1),
                             trp__cutlass_row_line_elements(row, p->d), whole, error);
    for (uint32_t i = 0; p->tree && i < p->tree->count && status == TRP_OK; i++)
        status = check_auxiliary(row, p, &p->tree->node[i], error);
    return status == TRP_OK ? check_factors(row, p, error) : status;
}

trp_status trp__cutlass_row_applies(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                    trp_error *error)
{
    trp_status status = check_types(row, p, error);
    if (status == TRP_OK)
        status = check_layouts(row, p, error);
    if (status == TRP_OK && row->operation == TRP__CUTLASS_CONV)
        status = check_convolution(row, p, error);
    if (status == TRP_OK)
        status = check_device(row, p, error);
    if (status == TRP_OK)
        status = check_sizes(row, p, error);
    return status == TRP_OK ? check_alignment(row, p, error) : status;
}

/* The cost is the time of the processor with the most tiles, but at least the time of memory
 * transfers. The constants are those of one processor of an H100; on another device the costs of
 * all rows are off by about the same factor. */

enum {
    CLOCK_HZ = 1700000000,
    L2_BYTES_PER_CLOCK = 64,     /* per processor, all of them reading */
    MEMORY_BYTES_PER_CLOCK = 16, /* likewise */
};
#define LAUNCH_SECONDS 3e-6
#define TILE_SECONDS   1.0e-6 /* time of a tile outside its loop: pipeline, epilogue */
#define SINGLE_SECONDS 0.3e-6 /* the same with one tile per block */
#define NODE_CLOCKS    0.06   /* clocks of a processor per tree node and element */

/* Returns operations per processor and clock. mma.sync reaches five eighths of wgmma's rate. */
static double operations_per_clock(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    static const double wgmma[] = {
        [TRP__CUTLASS_HALF] = 4096,     [TRP__CUTLASS_TF32] = 2048,
        [TRP__CUTLASS_F32] = 256,       [TRP__CUTLASS_F64] = 256,
        [TRP__CUTLASS_I8] = 8192,       [TRP__CUTLASS_FP8] = 8192,
        [TRP__CUTLASS_MIXED] = 4096,    [TRP__CUTLASS_MXFP8] = 8192,
        [TRP__CUTLASS_NVFP4] = 16384,   [TRP__CUTLASS_FP8_BLOCKS] = 8192,
        [TRP__CUTLASS_MIXED_I4] = 4096,
    };
    if (trp__cutlass_row_simt(row))
        return 256;
    if (row->family == TRP__CUTLASS_SM100)
        return 2 * wgmma[row->inputs];
    if (row->family == TRP__CUTLASS_SM120)
        return wgmma[row->inputs] / 2;
    if (row->family == TRP__CUTLASS_SM90 || row->inputs == TRP__CUTLASS_F64)
        return wgmma[row->inputs];
    /* 8.9 computes fp8 natively; later devices execute mma.sync on fp8 as on f16. */
    if (row->inputs == TRP__CUTLASS_FP8 && p->capability >= 90)
        return wgmma[TRP__CUTLASS_HALF] * 0.625;
    return wgmma[row->inputs] * 0.625;
}

/* Returns the time of one tile: the maximum of its loop's computation and its reads of L2 (a
 * cluster reads once). */
static double tile_seconds(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    const double m = trp__cutlass_row_tile(row, p, 0), n = trp__cutlass_row_tile(row, p, 1);
    const double k = (double)(divide_up(depth_of(row, p), row->tile[2]) * row->tile[2]);
    const double bytes_a = trp_dtype_bits((trp_dtype)p->a) / 8.0;
    const double bytes_b = trp_dtype_bits((trp_dtype)p->b) / 8.0;
    const double math = 2 * m * n * k / (operations_per_clock(row, p) * row->efficiency / 100.0);
    double read =
        k * (m * bytes_a / row->cluster[1] + n * bytes_b / row->cluster[0]) / L2_BYTES_PER_CLOCK;
    return (math > read ? math : read) / CLOCK_HZ;
}

/* Returns a tree's time per tile beyond alpha times the sums. Pingpong kernels compute the next
 * tile meanwhile. */
static double tree_seconds(const trp__cutlass_row *row, const trp__cutlass_problem *p, double loop)
{
    const double nodes = p->tree && p->tree->count > 3 ? p->tree->count - 3.0 : 0;
    const double seconds = nodes * NODE_CLOCKS * row->tile[0] * row->tile[1] / CLOCK_HZ;
    return row->pingpong ? fmax(seconds - loop, 0) : seconds;
}

double trp__cutlass_row_cost(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    const double processors = p->processors > 0 ? p->processors : 1;
    const double d = trp_dtype_bits((trp_dtype)p->d) / 8.0;
    const double c = p->c ? trp_dtype_bits((trp_dtype)p->c) / 8.0 : 0;
    /* A cluster is scheduled as a whole, so the number of tiles is a multiple of its size. */
    const int64_t rows =
        divide_up(divide_up(p->m, trp__cutlass_row_tile(row, p, 0)), row->cluster[0]);
    const int64_t columns =
        divide_up(divide_up(p->n, trp__cutlass_row_tile(row, p, 1)), row->cluster[1]);
    const double tiles =
        (double)rows * row->cluster[0] * ((double)columns * row->cluster[1]) * (double)p->batch;
    const double loop = tile_seconds(row, p);
    double work;
    if (row->stream_k) {
        /* Stream-K divides the sums of all tiles into equal shares of at least one step; shares of
         * one tile are combined in L2.
         */
        const double steps = (double)divide_up(depth_of(row, p), row->tile[2]);
        const double share = fmax(tiles / processors, 1 / steps);
        const double meet = 3.0 * 4 * row->tile[0] * row->tile[1] / L2_BYTES_PER_CLOCK / CLOCK_HZ;
        work = share * loop + ceil(share) * TILE_SECONDS + meet + LAUNCH_SECONDS;
    } else {
        const double rest = row->single ? SINGLE_SECONDS : TILE_SECONDS;
        work = ceil(tiles / processors) * (loop + rest + tree_seconds(row, p, loop));
    }
    const double bytes =
        (double)p->batch * ((double)p->m * (double)p->k * trp_dtype_bits((trp_dtype)p->a) / 8.0 +
                            (double)p->k * (double)p->n * trp_dtype_bits((trp_dtype)p->b) / 8.0 +
                            (double)p->m * (double)p->n * (c + d));
    const double memory = bytes / (MEMORY_BYTES_PER_CLOCK * processors) / CLOCK_HZ;
    /* A part of the shorter time that does not overlap with the longer one distinguishes rows that
     * are equal otherwise. */
    return LAUNCH_SECONDS + fmax(work, memory) + 0.05 * fmin(work, memory);
}

/* Reports the reason of the last row with such inputs, which has the weakest requirements. */
static void explain_none(const trp__cutlass_problem *p, trp_error *why)
{
    bool found = false;
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++) {
        const trp__cutlass_row *row = trp__cutlass_row_at(i);
        if (!row->fast && row->operation == p->operation && (!found || takes_inputs(row, p))) {
            found = true;
            trp__cutlass_row_applies(row, p, why);
        }
    }
}

uint32_t trp__cutlass_choose(const trp__cutlass_problem *p, const trp__cutlass_row **out,
                             uint32_t room, trp_error *why_none)
{
    double cost[TRP__CUTLASS_ROWS_MAX];
    const trp__cutlass_row *best[TRP__CUTLASS_ROWS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++) {
        const trp__cutlass_row *row = trp__cutlass_row_at(i);
        if ((row->fast && !p->fast) || trp__cutlass_row_applies(row, p, NULL) != TRP_OK)
            continue;
        double c = trp__cutlass_row_cost(row, p);
        uint32_t at = count++;
        for (; at > 0 && cost[at - 1] > c; at--) {
            cost[at] = cost[at - 1];
            best[at] = best[at - 1];
        }
        cost[at] = c;
        best[at] = row;
    }
    if (count == 0 && why_none)
        explain_none(p, why_none);
    count = count < room ? count : room;
    for (uint32_t i = 0; i < count; i++)
        out[i] = best[i];
    return count;
}

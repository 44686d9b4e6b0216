/* A fake nvJitLink for programs that the fake NVRTC has compiled: its "cubin" is PTX, which the
 * fake driver reads. */
#define _GNU_SOURCE
#include "support/fake_cuda/cutlass/cutlass.h"
#include "support/fake_cuda/hooks.h"
#include "support/fake_cuda/settings.h"

#include "actors/cutlass/epilogue/render.h"
#include "libs/nvjitlink/nvjitlink_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_DECLARE(result, name, parameters, required) FAKE_API result name parameters;
TRP__NVJITLINK_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

enum { LOG_BYTES = 1024, FAILED = 1, OPTIONS_BYTES = 2048, IMAGE_BYTES = 64 << 10 };

struct trp__nvjitlink_opaque {
    char architecture[32];
    char options[OPTIONS_BYTES]; /* each followed by a newline */
    char log[LOG_BYTES];
    char *input, *image;
};

trp__nvjitlink_result nvJitLinkVersion(unsigned int *major, unsigned int *minor)
{
    *major = 13;
    *minor = 0;
    return TRP__NVJITLINK_SUCCESS;
}

trp__nvjitlink_result nvJitLinkCreate(trp__nvjitlink_handle *out, uint32_t count,
                                      const char **options)
{
    trp__nvjitlink_handle h = calloc(1, sizeof *h);
    size_t used = 0;
    if (!h)
        return FAILED;
    *out = h;
    for (uint32_t i = 0; i < count; i++) {
        used += (size_t)snprintf(h->options + used, OPTIONS_BYTES - used, "%s\n", options[i]);
        if (used >= OPTIONS_BYTES)
            return FAILED;
        if (strncmp(options[i], "-arch=", 6) == 0)
            snprintf(h->architecture, sizeof h->architecture, "%s", options[i] + 6);
    }
    return h->architecture[0] && strstr(h->options, "-lto\n") ? TRP__NVJITLINK_SUCCESS : FAILED;
}

trp__nvjitlink_result nvJitLinkDestroy(trp__nvjitlink_handle *handle)
{
    free((*handle)->input);
    free((*handle)->image);
    free(*handle);
    *handle = NULL;
    return TRP__NVJITLINK_SUCCESS;
}

trp__nvjitlink_result nvJitLinkAddData(trp__nvjitlink_handle h, trp__nvjitlink_input type,
                                       const void *data, size_t bytes, const char *name)
{
    (void)name;
    if (type != TRP__NVJITLINK_INPUT_LTOIR || h->input || bytes < strlen(FAKE_CUTLASS_LTO) ||
        memcmp(data, FAKE_CUTLASS_LTO, strlen(FAKE_CUTLASS_LTO)) != 0)
        return FAILED;
    h->input = strndup(data, bytes);
    return h->input ? TRP__NVJITLINK_SUCCESS : FAILED;
}

/* What a kernel is told by its source. */

/* Returns the rest of the line that begins with a text; NULL: there is none. */
static const char *find_line(const char *input, const char *begin)
{
    size_t length = strlen(begin);
    for (const char *at = input; (at = strstr(at, begin)); at += length) {
        if (at == input || at[-1] == '\n')
            return at + length;
    }
    return NULL;
}

static const char *defined(const char *input, const char *name)
{
    char begin[64];
    snprintf(begin, sizeof begin, "#define %s ", name);
    return find_line(input, begin);
}

static uint8_t read_type(const char *input, const char *name)
{
    const char *value = defined(input, name);
    for (uint32_t type = 1; value && type < TRP_DTYPE_COUNT; type++) {
        const char *element = trp__tree_element(type);
        size_t length = strlen(element);
        if (strncmp(value, element, length) == 0 && value[length] == '\n')
            return (uint8_t)type;
    }
    return TRP_DTYPE_NONE;
}

/* Reads numbers separated by commas; returns how many. */
static int read_numbers(const char *input, const char *name, uint16_t *out, int most)
{
    const char *at = defined(input, name);
    char *end;
    int count = 0;
    while (at && count < most) {
        unsigned long value = strtoul(at, &end, 10);
        if (end == at)
            break;
        out[count++] = (uint16_t)value;
        at = *end == ',' ? end + 1 : NULL;
    }
    return count;
}

static uint16_t read_number(const char *input, const char *name, uint16_t otherwise)
{
    uint16_t value;
    return read_numbers(input, name, &value, 1) ? value : otherwise;
}

static bool read_tree(const char *input, fake_cutlass_kernel *k)
{
    const char *at = find_line(input, "/* tree ");
    trp__tree tree;
    unsigned int byte;
    if (!at)
        return k->accumulator == TRP_I32;
    for (; sscanf(at, "%2x", &byte) == 1 && k->tree_bytes < sizeof k->tree; at += 2)
        k->tree[k->tree_bytes++] = (uint8_t)byte;
    return trp__tree_decode(k->tree, k->tree_bytes, &tree);
}

static bool is_there(const char *input, const char *name)
{
    const char *value = defined(input, name);
    return value && strncmp(value, "void", 4) != 0;
}

/* Reads how many lines share a factor, for factors of blocks of 128 along k. */
static uint8_t read_scale(const char *input, const char *name)
{
    switch (read_number(input, name, 0)) {
    case 1:
        return TRP_SCALE_BLOCK_128;
    case 128:
        return TRP_SCALE_BLOCK_128X128;
    default:
        return TRP_SCALE_TENSOR;
    }
}

/* Kernels of CUTLASS 2.x have one type for A and B: the narrower operand has another type in
 * memory, and is loaded as 16 bytes. */
static bool read_mixed(const char *input, fake_cutlass_kernel *k)
{
    const uint8_t type = read_type(input, "TRP_NARROW");
    const bool left = read_number(input, "TRP_LEFT_NARROW", 0);
    if (!find_line(input, "#include \"mixed_sm80.cuh\""))
        return false;
    *(left ? &k->a : &k->b) = type;
    *(left ? &k->a_align : &k->b_align) =
        (uint16_t)(128 / (type ? trp_dtype_bits((trp_dtype)type) : 8));
    k->groups = read_number(input, "TRP_FACTORS", 0) != 0;
    k->zeros = read_number(input, "TRP_ZEROS", 0) != 0;
    return type != TRP_DTYPE_NONE;
}

static bool read_kernel(const char *input, fake_cutlass_kernel *k)
{
    memset(k, 0, sizeof *k); /* clears padding, too, since the struct is printed as text */
    k->a = read_type(input, "TRP_A");
    k->b = read_type(input, "TRP_B");
    k->d = read_type(input, "TRP_D");
    k->accumulator = read_type(input, "TRP_ACC");
    k->a_row = (uint8_t)read_number(input, "TRP_A_ROW", 1);
    k->b_row = (uint8_t)read_number(input, "TRP_B_ROW", 0);
    k->convolves = find_line(input, "#include \"conv_sm") != NULL;
    k->conv = (uint8_t)read_number(input, "TRP_CONV", 0);
    k->dims = (uint8_t)read_number(input, "TRP_CONV_DIMS", 2);
    k->unit_stride = (uint8_t)read_number(input, "TRP_CONV_UNIT_STRIDE", 0);
    k->grouped = find_line(input, "#include \"grouped_sm") != NULL;
    k->sm90 = find_line(input, "#include \"gemm_sm90.cuh\"") != NULL ||
              find_line(input, "#include \"conv_sm90.cuh\"") != NULL ||
              find_line(input, "#include \"grouped_sm90.cuh\"") != NULL;
    k->stream_k = read_number(input, k->sm90 ? "TRP_SCHEDULER" : "TRP_STREAM_K", 0) == 1;
    k->a_align = read_number(input, "TRP_A_ALIGN", 1);
    k->b_align = read_number(input, "TRP_B_ALIGN", k->a_align);
    k->swap = read_number(input, "TRP_SWAP", 0) == 1;
    k->groups = is_there(input, "TRP_GROUPS");
    k->zeros = is_there(input, "TRP_ZEROS");
    k->d_align = read_number(input, "TRP_D_ALIGN", 1);
    k->scale_a = read_scale(input, "TRP_SCALE_A");
    k->scale_b = read_scale(input, "TRP_SCALE_B");
    k->cluster[0] = k->cluster[1] = 1;
    read_numbers(input, "TRP_CLUSTER", k->cluster, 2);
    const bool mixed = read_mixed(input, k);
    return k->a && k->b && k->d && k->accumulator && read_tree(input, k) &&
           read_numbers(input, "TRP_TILE", k->tile, 2) == 2 &&
           (k->sm90 || mixed ||
            find_line(input, k->grouped     ? "#include \"grouped_sm80.cuh\""
                             : k->convolves ? "#include \"conv_sm80.cuh\""
                                            : "#include \"gemm_sm80.cuh\""));
}

/* PTX. */

/* Returns whether the link keeps a kernel: it drops those that no option names. */
static bool is_used(const char *options, const char *what, const char *name)
{
    const char *at = strstr(options, what);
    const char *end = at ? strchr(at, '\n') : NULL;
    const char *here = at ? strstr(at, name) : NULL;
    return !at || (here && here < end);
}

static void add_words(FILE *f, const char *space, const char *name, const uint32_t *word,
                      uint32_t count)
{
    fprintf(f, "%s .align 8 .u32 %s[%u] = {", space, name, count);
    for (uint32_t i = 0; i < count; i++)
        fprintf(f, "%s%u", i ? ", " : "", word[i]);
    fprintf(f, "};\n");
}

static void add_info(FILE *f, const fake_cutlass_kernel *k)
{
    unsigned long abi = fake_setting_number("abi");
    const uint32_t info[TRP_CUTLASS_INFO_WORDS] = {
        [TRP_CUTLASS_INFO_ABI] = abi ? (uint32_t)abi : TRP_CUTLASS_ABI,
        [TRP_CUTLASS_INFO_PARAMS] = sizeof(fake_cutlass_parameter),
        [TRP_CUTLASS_INFO_ARGS] = sizeof(trp_cutlass_args),
        [TRP_CUTLASS_INFO_SHARED] = k->sm90 ? 200 << 10 : 40 << 10,
        [TRP_CUTLASS_INFO_THREADS] = k->sm90 ? 384 : 128,
        [TRP_CUTLASS_INFO_CLUSTER] = k->cluster[0],
        [TRP_CUTLASS_INFO_CLUSTER + 1] = k->cluster[1],
        [TRP_CUTLASS_INFO_CLUSTER + 2] = 1,
        [TRP_CUTLASS_INFO_TILE] = k->tile[0],
        [TRP_CUTLASS_INFO_TILE + 1] = k->tile[1],
        [TRP_CUTLASS_INFO_STAGES] = 1,
        [TRP_CUTLASS_INFO_ALIGNMENT] = 64,
        [TRP_CUTLASS_INFO_PREPARE] = k->grouped ? 256 : 0,
        [TRP_CUTLASS_INFO_PREPARE + 1] = k->grouped,
        [TRP_CUTLASS_INFO_OVERLAPS] = k->sm90 && !k->grouped && !k->stream_k,
    };
    add_words(f, ".global", "trp_cutlass_info", info, TRP_CUTLASS_INFO_WORDS);
}

static char *write_ptx(const struct trp__nvjitlink_opaque *h, const fake_cutlass_kernel *k)
{
    uint32_t word[(sizeof *k + 3) / 4] = {0};
    char *image = calloc(1, IMAGE_BYTES);
    FILE *f = image ? fmemopen(image, IMAGE_BYTES, "w") : NULL;
    if (!f) {
        free(image);
        return NULL;
    }
    memcpy(word, k, sizeof *k);
    fprintf(f, ".version 9.0\n.target %s\n.address_size 64\n", h->architecture);
    add_words(f, ".const", FAKE_CUTLASS_KERNEL, word, sizeof word / sizeof *word);
    if (is_used(h->options, "-variables-used=", "trp_cutlass_info"))
        add_info(f, k);
    if (is_used(h->options, "-kernels-used=", "trp_cutlass_build"))
        fprintf(f,
                ".visible .entry trp_cutlass_build(.param .align 8 .b8 args[%zu], .param .u64 out)"
                "\n{ ret; }\n",
                sizeof(trp_cutlass_args));
    if (is_used(h->options, "-kernels-used=", "trp_cutlass_kernel"))
        fprintf(f,
                ".visible .entry trp_cutlass_kernel(.param .align 64 .b8 params[%zu])\n{ ret; }\n",
                sizeof(fake_cutlass_parameter));
    if (k->grouped && is_used(h->options, "-kernels-used=", "trp_cutlass_prepare"))
        fprintf(f,
                ".visible .entry trp_cutlass_prepare(.param .align 8 .b8 args[%zu], .param .u64 "
                "table)\n{ ret; }\n",
                sizeof(trp_cutlass_args));
    fclose(f);
    return image;
}

trp__nvjitlink_result nvJitLinkComplete(trp__nvjitlink_handle h)
{
    fake_cutlass_kernel k;
    fake_report("links", h->architecture);
    if (fake_setting("link_fails", h->log, sizeof h->log))
        return FAILED;
    if (!h->input || !read_kernel(h->input, &k)) {
        strcpy(h->log, "fake nvJitLink: error: what was compiled says too little\n");
        return FAILED;
    }
    h->image = write_ptx(h, &k);
    return h->image ? TRP__NVJITLINK_SUCCESS : FAILED;
}

/* The driver reads PTX as text, so the size includes its terminator. */
trp__nvjitlink_result nvJitLinkGetLinkedCubinSize(trp__nvjitlink_handle h, size_t *bytes)
{
    *bytes = h->image ? strlen(h->image) + 1 : 0;
    return h->image ? TRP__NVJITLINK_SUCCESS : FAILED;
}

trp__nvjitlink_result nvJitLinkGetLinkedCubin(trp__nvjitlink_handle h, void *image)
{
    memcpy(image, h->image, strlen(h->image) + 1);
    return TRP__NVJITLINK_SUCCESS;
}

trp__nvjitlink_result nvJitLinkGetLinkedPtxSize(trp__nvjitlink_handle h, size_t *bytes)
{
    return nvJitLinkGetLinkedCubinSize(h, bytes);
}

trp__nvjitlink_result nvJitLinkGetLinkedPtx(trp__nvjitlink_handle h, char *image)
{
    return nvJitLinkGetLinkedCubin(h, image);
}

trp__nvjitlink_result nvJitLinkGetErrorLogSize(trp__nvjitlink_handle h, size_t *bytes)
{
    *bytes = strlen(h->log) + 1;
    return TRP__NVJITLINK_SUCCESS;
}

trp__nvjitlink_result nvJitLinkGetErrorLog(trp__nvjitlink_handle h, char *log)
{
    strcpy(log, h->log);
    return TRP__NVJITLINK_SUCCESS;
}

trp__nvjitlink_result nvJitLinkGetInfoLogSize(trp__nvjitlink_handle h, size_t *bytes)
{
    (void)h;
    *bytes = 0;
    return TRP__NVJITLINK_SUCCESS;
}

trp__nvjitlink_result nvJitLinkGetInfoLog(trp__nvjitlink_handle h, char *log)
{
    (void)h;
    (void)log;
    return TRP__NVJITLINK_SUCCESS;
}

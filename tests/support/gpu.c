#include "support/gpu.h"

#include "support/reference/elements.h"
#include "support/folder.h"

#include <complex.h>
#include <stdio.h>
#include <string.h>

int gpu_main(int argc, char **argv, const h_case *cases, size_t count)
{
    setenv("TROUPE_TEST_BACKEND", "cuda", 1);
    setenv("TROUPE_TEST_ISOLATION", "process", 1);
    return h_main(argc, argv, cases, count);
}

size_t gpu_chosen(size_t *count)
{
    const char *only = getenv("TROUPE_TEST_ONLY");
    size_t which = only ? strtoul(only, NULL, 10) : 0;
    if (which == 0)
        return 0;
    *count = which <= *count;
    return *count ? which - 1 : 0;
}

/* Reads a line of the list. */
static bool read_row(const char *line, gpu_row *row)
{
    /* columns of inputs and of alignments; the latter precede the devices */
    enum { INPUTS = 43, ALIGN = 5 };
    const char *device = strlen(line) > INPUTS ? strstr(line + INPUTS, " sm_") : NULL;
    if (!device || sscanf(line, "%63s", row->name) != 1 ||
        sscanf(device, " %15[a-z0-9_]", row->device) != 1)
        return false;
    row->align = (int)strtol(device - ALIGN, NULL, 10);
    snprintf(row->inputs, sizeof row->inputs, "%.20s", line + INPUTS);
    return row->align > 0;
}

/* Returns whether a row is selected. */
static bool wanted(const gpu_row *row, const char *word)
{
    const char *only = getenv("TROUPE_TEST_ROW");
    const bool others = strstr(row->name, "_grouped_") || strstr(row->name, "_conv_");
    return (word ? strstr(row->name, word) != NULL : !others) && (!only || strstr(row->name, only));
}

gpu_row *gpu_rows(const char *word, size_t *count)
{
    enum { MOST = 512 };
    char command[512], line[256];
    unsigned first = 0, step = 1, number = 0;
    const char *troupe = getenv("TROUPE_COMMAND"), *shard = getenv("TROUPE_TEST_SHARD");
    gpu_row *rows = h_malloc(MOST * sizeof *rows);
    if (shard)
        H_CHECK(sscanf(shard, "%u/%u", &first, &step) == 2 && first < step);
    snprintf(command, sizeof command, "%s cutlass kernels", troupe ? troupe : "troupe");
    FILE *f = popen(command, "r"); /* the command of this build */
    H_CHECK(f && fgets(line, sizeof line, f));
    *count = 0;
    while (*count < MOST && fgets(line, sizeof line, f)) {
        gpu_row *row = &rows[*count];
        H_CHECK(read_row(line, row));
        *count += wanted(row, word) && number++ % step == first;
    }
    H_CHECK(pclose(f) == 0 && number > 0);
    return rows;
}

bool gpu_row_fits(const gpu_row *row, trp_device *device)
{
    const trp_device_info info = h_info(device);
    const uint32_t has = info.compute_major * 10 + info.compute_minor;
    const uint32_t least = (uint32_t)strtoul(row->device + strlen("sm_"), NULL, 10);
    return strchr(row->device, 'a') ? has / 10 == least / 10 : has >= least;
}

void gpu_each_row(const char *word, trp_device *device, gpu_row_send send, gpu_row_check check)
{
    size_t count, some;
    gpu_row *rows = gpu_rows(word, &count);
    for (size_t i = 0; i < count;) {
        for (some = 0; i < count && some < GPU_ROWS_AT_ONCE; i++) {
            if (gpu_row_fits(&rows[i], device))
                send(&rows[i], some++);
        }
        for (size_t j = 0; j < some; j++)
            check(j);
    }
    free(rows);
}

gpu_cache gpu_empty_cache(void)
{
    gpu_cache c;
    h_folder_make(c.folder, sizeof c.folder, "kernels");
    setenv("TROUPE_CACHE_DIR", c.folder, 1);
    return c;
}

void gpu_drop_cache(const gpu_cache *cache)
{
    h_folder_remove(cache->folder);
}

void gpu_check_fallback(const trp_cutlass_chosen *chosen, const char *library)
{
    const bool by_library = library && strcmp(chosen->kernel, library) == 0;
    printf("  %s%s\n", chosen->kernel, chosen->fallback ? ", until the best is compiled" : "");
    if (library && h_is_gpu())
        H_CHECK(by_library);
    H_CHECK(by_library ? chosen->fallback && chosen->ready : chosen->kernel[0] == 's');
}

float *gpu_floats(trp_device *device, int count, trp_buffer *buffer)
{
    float *x = h_malloc((size_t)count * sizeof *x);
    for (int i = 0; i < count; i++)
        x[i] = (float)ref_rng_below(h_rng(), 64) / 16 - 2;
    *buffer = h_buffer(device, (size_t)count * sizeof *x);
    h_write(device, *buffer, 0, x, (size_t)count * sizeof *x);
    return x;
}

double gpu_rounding(trp_dtype type)
{
    switch (type) {
    case TRP_F16:
        return 1.0 / 2048;
    case TRP_BF16:
        return 1.0 / 256;
    case TRP_F8E4M3:
        return 1.0 / 16;
    case TRP_F8E5M2:
        return 1.0 / 8;
    case TRP_I8:
    case TRP_I32:
        return 0;
    case TRP_F64:
        return 1e-15;
    default:
        return 1e-6;
    }
}

double gpu_sum_error(trp_dtype input, trp_compute compute)
{
    const bool f8 = input == TRP_F8E4M3 || input == TRP_F8E5M2;
    return compute == TRP_COMPUTE_TF32 ? 1e-3 /* relative to the inputs */
           : f8                        ? 3e-5 /* tensor cores add with 14 bits */
           : input == TRP_F64          ? 1e-15
                                       : 2e-6;
}

void gpu_matrix_make(trp_device *device, gpu_matrix *x, bool is_output)
{
    bool whole = x->type == TRP_I8 || x->type == TRP_I32;
    x->data = h_malloc(gpu_matrix_bytes(x));
    if (is_output)
        h_random_bytes(h_rng(), x->data, gpu_matrix_bytes(x));
    for (size_t i = 0; !is_output && i < x->elements; i++)
        ref_element_store(x->type, x->data, (int64_t)i,
                          whole ? (double)ref_rng_below(h_rng(), 15) - 7
                                : (double)ref_rng_below(h_rng(), 2001) / 1000 - 1);
    x->buffer = h_buffer(device, gpu_matrix_bytes(x));
    h_write(device, x->buffer, 0, x->data, gpu_matrix_bytes(x));
}

void gpu_matrix_free(trp_device *device, gpu_matrix *x)
{
    free(x->data);
    if (x->buffer.id)
        H_OK(trp_buffer_free(device, x->buffer));
}

trp_matmul_matrix gpu_matrix_of(const gpu_matrix *x)
{
    return (trp_matmul_matrix){.buffer = x->buffer,
                               .type = x->type,
                               .order = x->by_row ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .ld = (int64_t)x->ld,
                               .stride = (int64_t)x->stride};
}

size_t gpu_matrix_bytes(const gpu_matrix *x)
{
    return x->elements * trp_dtype_bits(x->type) / 8;
}

size_t gpu_matrix_at(const gpu_matrix *x, size_t ld, int i, int j)
{
    return x->by_row ? (size_t)i * ld + (size_t)j : (size_t)j * ld + (size_t)i;
}

double gpu_matrix_load(const gpu_matrix *x, const unsigned char *data, size_t index)
{
    return creal(ref_element_load(x->type, data, (int64_t)index));
}

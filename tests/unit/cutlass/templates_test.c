/* The templates of src/actors/cutlass, as NVRTC compiles them: a few cheap kernels for sm_80, and
 * that the device's side of abi.h is the host's. No GPU is needed; NVRTC, CUDA's headers and
 * CUTLASS's (scripts/cutlass.sh) are, else the test is skipped. scripts/cutlass_sweep.py compiles
 * all rows. */
#include "support/unit.h"

#include "actors/cutlass/catalogue/catalogue.h"
#include "libs/nvrtc/nvrtc.h"
#include "support/label.h"

#include <elf.h>
#include <unistd.h>

TROUPE_TEST("long", "no tsan");

static const trp__nvrtc *nvrtc;
static char include_ours[512], include_templates[512], include_cutlass[512];
static char include_cuda[512], include_cccl[512];

static char *compile_source(const char *source, size_t *bytes)
{
    const char *options[] = {
        "--gpu-architecture=sm_80",
        "-std=c++17",
        "--device-as-default-execution-space",
        "-DNDEBUG",
        "--device-int128",
        "-w",
        include_ours,
        include_templates,
        include_cutlass,
        include_cuda,
        include_cccl,
    };
    trp__nvrtc_program program = NULL;
    assert_int_equal(nvrtc->nvrtcCreateProgram(&program, source, "kernel.cu", 0, NULL, NULL),
                     TRP__NVRTC_SUCCESS);
    int code =
        nvrtc->nvrtcCompileProgram(program, (int)(sizeof options / sizeof options[0]), options);
    if (code != TRP__NVRTC_SUCCESS) {
        size_t size = 0;
        nvrtc->nvrtcGetProgramLogSize(program, &size);
        char *log = calloc(1, size + 1);
        assert_non_null(log);
        nvrtc->nvrtcGetProgramLog(program, log);
        print_error("%.4000s\n", log);
        free(log);
    }
    assert_int_equal(code, TRP__NVRTC_SUCCESS);
    assert_int_equal(nvrtc->nvrtcGetCUBINSize(program, bytes), TRP__NVRTC_SUCCESS);
    char *image = malloc(*bytes);
    assert_non_null(image);
    assert_int_equal(nvrtc->nvrtcGetCUBIN(program, image), TRP__NVRTC_SUCCESS);
    nvrtc->nvrtcDestroyProgram(&program);
    return image;
}

/* The image that `settings` (lines of #define) give with a template. */
static char *compile(const char *settings, const char *template, size_t *bytes)
{
    char source[1024];
    snprintf(source, sizeof source, "%s#include \"%s.cuh\"\n", settings, template);
    return compile_source(source, bytes);
}

/* The symbol of that name, or NULL. */
static const Elf64_Sym *find_symbol(const char *image, const char *name, const Elf64_Shdr **section)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const char *strings = image + sections[sections[i].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(image + sections[i].sh_offset);
        for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++) {
            if (strcmp(strings + symbols[s].st_name, name) == 0) {
                *section = &sections[symbols[s].st_shndx];
                return &symbols[s];
            }
        }
    }
    return NULL;
}

static void check_module(const char *image, uint32_t threads)
{
    const Elf64_Shdr *section = NULL;
    assert_non_null(find_symbol(image, "trp_cutlass_kernel", &section));
    assert_non_null(find_symbol(image, "trp_cutlass_build", &section));
    const Elf64_Sym *symbol = find_symbol(image, "trp_cutlass_info", &section);
    assert_non_null(symbol);
    uint32_t info[TRP_CUTLASS_INFO_WORDS];
    assert_int_equal(symbol->st_size, sizeof info);
    memcpy(info, image + section->sh_offset + symbol->st_value, sizeof info);
    assert_int_equal(info[TRP_CUTLASS_INFO_ABI], TRP_CUTLASS_ABI);
    assert_int_equal(info[TRP_CUTLASS_INFO_ARGS], sizeof(trp_cutlass_args));
    assert_in_range(info[TRP_CUTLASS_INFO_PARAMS], 1, TRP_CUTLASS_PARAMS_MAX);
    assert_in_range(info[TRP_CUTLASS_INFO_SHARED], 1, 232448);
    assert_int_equal(info[TRP_CUTLASS_INFO_THREADS], threads);
    assert_int_equal(info[TRP_CUTLASS_INFO_CLUSTER], 1);
}

static void test_half(void **state)
{
    (void)state;
    size_t bytes = 0;
    char *image = compile("#define TRP_A cutlass::half_t\n", "gemm_sm80", &bytes);
    check_module(image, 128);
    free(image);
}

static void test_column_major_f64(void **state)
{
    (void)state;
    size_t bytes = 0;
    char *image = compile("#define TRP_A double\n"
                          "#define TRP_ACC double\n"
                          "#define TRP_A_ROW 0\n"
                          "#define TRP_B_ROW 0\n"
                          "#define TRP_D_ROW 0\n"
                          "#define TRP_INSTRUCTION 8, 8, 4\n"
                          "#define TRP_TILE 64, 64, 16\n"
                          "#define TRP_WARP 32, 32, 16\n"
                          "#define TRP_A_ALIGN 1\n"
                          "#define TRP_D_ALIGN 1\n",
                          "gemm_sm80", &bytes);
    check_module(image, 128);
    free(image);
}

/* A row of the catalogue, with a tree that has a vector, C, a matrix that is stored and one that is
 * loaded; SIMT, whose map of threads CUTLASS does not have. */
/* Compiles a row's kernel for a problem, whose tree is made of nodes. */
static void check_row(const char *name, trp__cutlass_problem *p, const trp_epilogue_node *nodes,
                      uint32_t count, const trp__tree_types *types, uint32_t threads)
{
    static char source[1 << 16];
    const trp__cutlass_row *row = trp__cutlass_row_find(name);
    trp__tree tree;
    trp_error error;
    if (trp__tree_build(nodes, count, types, &tree, &error) != TRP_OK)
        fail_msg("%s", error.message);
    p->c = (uint8_t)types->c;
    p->d = (uint8_t)types->d;
    p->tree = &tree;
    trp__text text = {.out = source, .size = sizeof source};
    if (trp__cutlass_row_applies(row, p, &error) != TRP_OK ||
        trp__cutlass_row_render(row, p, &text, &error) != TRP_OK)
        fail_msg("%s", error.message);
    size_t bytes = 0;
    char *image = compile_source(source, &bytes);
    check_module(image, threads);
    free(image);
}

static void test_tree(void **state)
{
    (void)state;
    const trp_epilogue_node nodes[] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_SCALE_ROWS, .input = {1}, .buffer = {2}},
        [3] = {.kind = TRP_EPILOGUE_C},
        [4] = {.kind = TRP_EPILOGUE_BINARY, .input = {2, 3}},
        [5] = {.kind = TRP_EPILOGUE_AUX_STORE, .order = TRP_ROW_MAJOR, .input = {4}, .buffer = {5}},
        [6] = {.kind = TRP_EPILOGUE_AUX_LOAD, .order = TRP_ROW_MAJOR, .buffer = {6}},
        [7] = {.kind = TRP_EPILOGUE_FMA, .input = {5, 6, 5}},
    };
    const trp__tree_types types = {
        .accumulator = TRP_F32, .c = TRP_F32, .d = TRP_F8E4M3, .order = TRP_ROW_MAJOR};
    trp__cutlass_problem problem = {.m = 100,
                                    .n = 100,
                                    .k = 100,
                                    .batch = 1,
                                    .a = TRP_F32,
                                    .b = TRP_F32,
                                    .accumulator = TRP_F32,
                                    .a_row = true,
                                    .align = {4, 4, 4, 1, 1},
                                    .capability = 80,
                                    .processors = 108,
                                    .shared_bytes = 166912};
    check_row("s80_f32_128x128x8", &problem, nodes, 8, &types, 256);
}

/* Weights of 4 bits with factors and what is added, and of fp8 without, which come second and
 * first. */
static void test_mixed(void **state)
{
    (void)state;
    const trp_epilogue_node nodes[] = {[1] = {.kind = TRP_EPILOGUE_ACCUMULATOR}};
    const trp__tree_types types = {.accumulator = TRP_F32, .d = TRP_BF16, .order = TRP_ROW_MAJOR};
    trp__cutlass_problem problem = {.m = 64,
                                    .n = 64,
                                    .k = 256,
                                    .batch = 1,
                                    .a = TRP_BF16,
                                    .b = TRP_I4,
                                    .accumulator = TRP_F32,
                                    .a_row = true,
                                    .group = 32,
                                    .zeros = true,
                                    .align = {16, 16, 16, 16, 16},
                                    .capability = 80,
                                    .processors = 108,
                                    .shared_bytes = 166912};
    check_row("s80_mixed_i4_64x64x64_a32", &problem, nodes, 2, &types, 128);
    problem.a = TRP_F8E4M3;
    problem.b = TRP_BF16;
    problem.group = 0;
    problem.zeros = false;
    check_row("s80_mixed_64x64x64_a16", &problem, nodes, 2, &types, 128);
}

static void option(char *out, size_t size, const char *folder, const char *below)
{
    snprintf(out, size, "-I%s%s", folder, below);
}

static bool exists(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, R_OK) == 0;
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("skipped: the compiler itself is what a sanitizer would watch\n");
    return 77;
#endif
    const char *cutlass = getenv("TROUPE_CUTLASS");
    if (!cutlass)
        cutlass = TRP_TEST_CUTLASS;
    trp_error error;
    if (!exists(cutlass, "cutlass/cutlass.h")) {
        printf("skipped: no headers of CUTLASS in %s (scripts/cutlass.sh fetches them)\n", cutlass);
        return 77;
    }
    if (!exists(TROUPE_CUDA_INCLUDE, "cuda_fp16.h")) {
        printf("skipped: no headers of CUDA\n");
        return 77;
    }
    if (trp__nvrtc_load(&nvrtc, &error) != TRP_OK) {
        printf("skipped: %s\n", error.message);
        return 77;
    }
    option(include_ours, sizeof include_ours, TRP_TEST_SOURCE, "/src/actors/cutlass/shims");
    option(include_templates, sizeof include_templates, TRP_TEST_SOURCE,
           "/src/actors/cutlass/templates");
    option(include_cutlass, sizeof include_cutlass, cutlass, "");
    option(include_cuda, sizeof include_cuda, TROUPE_CUDA_INCLUDE, "");
    option(include_cccl, sizeof include_cccl, TROUPE_CUDA_INCLUDE, "/cccl");
    const struct CMUnitTest tests[] = {
        UNIT(test_half),
        UNIT(test_mixed),
        UNIT(test_column_major_f64),
        UNIT(test_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

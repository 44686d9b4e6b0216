/* A fake NVRTC for kernels of the cutlass actor and of the dnn actor. Lines of the source that say
 * what a kernel computes stand for the LTO-IR of the former; the fake ignores the rest, such as
 * C++. */
#include "support/fake_cuda/compilers/nvrtc.h"
#include "support/fake_cuda/cutlass/cutlass.h"
#include "support/fake_cuda/hooks.h"
#include "support/fake_cuda/settings.h"

#include "libs/nvrtc/nvrtc_abi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAKE_DECLARE(result, name, parameters, required) FAKE_API result name parameters;
TRP__NVRTC_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

enum { NAMES = 8, LOG_BYTES = 8192, INVALID_INPUT = 3, INVALID_PROGRAM = 4 };

struct trp__nvrtc_program_opaque {
    fake_nvrtc_texts texts;
    char *image;
    char name[128], log[LOG_BYTES];
    char *expression[NAMES];
    int expressions;
    int (*flow)(void *, void *);
    void *flow_argument;
};

const char *nvrtcGetErrorString(trp__nvrtc_result result)
{
    switch (result) {
    case TRP__NVRTC_SUCCESS:
        return "NVRTC_SUCCESS";
    case TRP__NVRTC_ERROR_COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    case TRP__NVRTC_ERROR_CANCELLED:
        return "NVRTC_ERROR_CANCELLED";
    default:
        return "NVRTC_ERROR unknown";
    }
}

trp__nvrtc_result nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return TRP__NVRTC_SUCCESS;
}

trp__nvrtc_result nvrtcCreateProgram(trp__nvrtc_program *out, const char *source, const char *name,
                                     int count, const char *const *headers,
                                     const char *const *names)
{
    trp__nvrtc_program p = calloc(1, sizeof *p);
    const char *slash = name ? strrchr(name, '/') : NULL;
    if (!p)
        return TRP__NVRTC_ERROR_OUT_OF_MEMORY;
    p->texts.source = strdup(source);
    bool good = p->texts.source && count <= FAKE_NVRTC_HEADERS;
    for (; good && p->texts.count < count; p->texts.count++) {
        p->texts.name[p->texts.count] = strdup(names[p->texts.count]);
        p->texts.text[p->texts.count] = strdup(headers[p->texts.count]);
    }
    strncpy(p->name, slash ? slash + 1 : name ? name : "", sizeof p->name - 1);
    *out = p;
    return good ? TRP__NVRTC_SUCCESS : INVALID_INPUT;
}

trp__nvrtc_result nvrtcDestroyProgram(trp__nvrtc_program *program)
{
    trp__nvrtc_program p = *program;
    if (!p)
        return INVALID_PROGRAM;
    for (int i = 0; i < p->expressions; i++)
        free(p->expression[i]);
    for (int i = 0; i < p->texts.count; i++) {
        free(p->texts.name[i]);
        free(p->texts.text[i]);
    }
    free(p->texts.source);
    free(p->image);
    free(p);
    *program = NULL;
    return TRP__NVRTC_SUCCESS;
}

trp__nvrtc_result nvrtcAddNameExpression(trp__nvrtc_program p, const char *expression)
{
    if (p->expressions == NAMES)
        return INVALID_INPUT;
    p->expression[p->expressions++] = strdup(expression);
    return TRP__NVRTC_SUCCESS;
}

/* The lowered name of a function with C linkage, or of a variable, is the name itself. */
trp__nvrtc_result nvrtcGetLoweredName(trp__nvrtc_program p, const char *expression,
                                      const char **name)
{
    for (int i = 0; i < p->expressions && p->image; i++) {
        if (strcmp(p->expression[i], expression) == 0) {
            *name = p->expression[i] + (p->expression[i][0] == '&');
            return TRP__NVRTC_SUCCESS;
        }
    }
    return INVALID_INPUT;
}

trp__nvrtc_result nvrtcSetFlowCallback(trp__nvrtc_program p, int (*callback)(void *, void *),
                                       void *payload)
{
    p->flow = callback;
    p->flow_argument = payload;
    return TRP__NVRTC_SUCCESS;
}

/* Returns whether the program holds Troupe's own kernels. */
static bool is_own(const struct trp__nvrtc_program_opaque *p)
{
    return strncmp(p->name, FAKE_DNN_PROGRAM, strlen(FAKE_DNN_PROGRAM)) == 0 ||
           strncmp(p->name, FAKE_MATMUL_PROGRAM, strlen(FAKE_MATMUL_PROGRAM)) == 0 ||
           strncmp(p->name, FAKE_FFT_PROGRAM, strlen(FAKE_FFT_PROGRAM)) == 0 ||
           strncmp(p->name, FAKE_RANDOM_PROGRAM, strlen(FAKE_RANDOM_PROGRAM)) == 0 ||
           strncmp(p->name, FAKE_CUTLASS_PROGRAM, strlen(FAKE_CUTLASS_PROGRAM)) == 0;
}

/* Takes as long as the test says; false: the compile was cancelled. */
static bool take_time(const struct trp__nvrtc_program_opaque *p)
{
    for (unsigned long ms = 0;; ms++) {
        if (p->flow && p->flow(p->flow_argument, NULL))
            return false;
        if (ms >= fake_setting_number("compile_ms"))
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* Returns whether the test lets programs fail whose name begins so. */
static bool fails_by_name(struct trp__nvrtc_program_opaque *p)
{
    char name[64];
    if (!fake_setting("compile_fails_of", name, sizeof name))
        return false;
    name[strcspn(name, "\n")] = '\0';
    return strncmp(p->name, name, strlen(name)) == 0 &&
           fake_setting("compile_fails_log", p->log, sizeof p->log);
}

static bool kept(const char *line)
{
    static const char *const begins[] = {
        "#define TRP_",        "/* tree ",           "#include \"gemm_sm",
        "#include \"mixed_sm", "#include \"conv_sm", "#include \"grouped_sm",
    };
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (strncmp(line, begins[i], strlen(begins[i])) == 0)
            return true;
    }
    return false;
}

/* Collects the lines that describe a kernel. */
static char *collect(const char *source)
{
    char *image = malloc(strlen(source) + sizeof FAKE_CUTLASS_LTO);
    if (!image)
        return NULL;
    char *out = stpcpy(image, FAKE_CUTLASS_LTO);
    for (const char *line = source; *line;) {
        size_t length = strcspn(line, "\n");
        length += line[length] == '\n';
        if (kept(line)) {
            memcpy(out, line, length);
            out += length;
        }
        line += length;
    }
    *out = '\0';
    return image;
}

trp__nvrtc_result nvrtcCompileProgram(trp__nvrtc_program p, int count, const char *const *options)
{
    bool lto = false;
    for (int i = 0; i < count; i++)
        lto = lto || strcmp(options[i], "-dlto") == 0;
    fake_report("compiles", p->name);
    if (!take_time(p)) {
        fake_report("cancelled", p->name);
        return TRP__NVRTC_ERROR_CANCELLED;
    }
    if (fake_setting("compile_fails", p->log, sizeof p->log) || fails_by_name(p))
        return TRP__NVRTC_ERROR_COMPILATION;
    if (is_own(p)) {
        p->image = fake_nvrtc_direct(&p->texts, count, options, p->log, sizeof p->log);
        fake_report("compiled", p->name);
        return p->image ? TRP__NVRTC_SUCCESS : TRP__NVRTC_ERROR_COMPILATION;
    }
    if (!lto || !p->texts.source || !strstr(p->texts.source, "#define TRP_A ")) {
        strcpy(p->log, "fake NVRTC: error: it compiles kernels of the cutlass actor to LTO-IR\n");
        return TRP__NVRTC_ERROR_COMPILATION;
    }
    p->image = collect(p->texts.source);
    fake_report("compiled", p->name);
    return p->image ? TRP__NVRTC_SUCCESS : TRP__NVRTC_ERROR_OUT_OF_MEMORY;
}

trp__nvrtc_result nvrtcGetProgramLogSize(trp__nvrtc_program p, size_t *bytes)
{
    *bytes = strlen(p->log) + 1;
    return TRP__NVRTC_SUCCESS;
}

trp__nvrtc_result nvrtcGetProgramLog(trp__nvrtc_program p, char *log)
{
    strcpy(log, p->log);
    return TRP__NVRTC_SUCCESS;
}

trp__nvrtc_result nvrtcGetLTOIRSize(trp__nvrtc_program p, size_t *bytes)
{
    *bytes = p->image ? strlen(p->image) : 0;
    return p->image ? TRP__NVRTC_SUCCESS : INVALID_PROGRAM;
}

trp__nvrtc_result nvrtcGetLTOIR(trp__nvrtc_program p, char *image)
{
    memcpy(image, p->image, strlen(p->image));
    return TRP__NVRTC_SUCCESS;
}

trp__nvrtc_result nvrtcGetCUBINSize(trp__nvrtc_program p, size_t *bytes)
{
    bool made = p->image && is_own(p);
    *bytes = made ? strlen(p->image) + 1 : 0;
    return made ? TRP__NVRTC_SUCCESS : INVALID_PROGRAM;
}

trp__nvrtc_result nvrtcGetCUBIN(trp__nvrtc_program p, char *image)
{
    memcpy(image, p->image, strlen(p->image) + 1);
    return TRP__NVRTC_SUCCESS;
}

/* Functions that this fake lacks. */
#define NOT_MADE(name)                                                                             \
    trp__nvrtc_result nvrtcGet##name##Size(trp__nvrtc_program p, size_t *bytes)                    \
    {                                                                                              \
        (void)p;                                                                                   \
        *bytes = 0;                                                                                \
        return INVALID_PROGRAM;                                                                    \
    }                                                                                              \
    trp__nvrtc_result nvrtcGet##name(trp__nvrtc_program p, char *image)                            \
    {                                                                                              \
        (void)p;                                                                                   \
        (void)image;                                                                               \
        return INVALID_PROGRAM;                                                                    \
    }
NOT_MADE(PTX)

/* The table of directives, over every code of the CUDA driver, of cuBLAS, cuFFT and of signals.
 *
 * The codes are listed here a second time, by what is to be done about them. Where NVIDIA's headers
 * are found, every code of theirs must be in these lists, so that a new CUDA version shows. */
#include "support/unit.h"

#include "wire/directive.h"
#include "support/label.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

typedef struct group {
    trp__directive directive;
    bool sticky;
    int codes[80]; /* ended by -1 */
} group;

static const group cuda[] = {
    {TRP__DIRECTIVE_REPLY, false, {0,   1,   5,   6,   7,   8,   36,  101, 200, 202, 205, 206,
                                   207, 208, 209, 210, 211, 212, 213, 215, 216, 217, 218, 219,
                                   221, 222, 223, 224, 225, 300, 301, 302, 303, 304, 402, 500,
                                   600, 701, 703, 704, 705, 708, 711, 712, 713, 720, 800, 801,
                                   811, 812, 909, 910, 912, 913, 914, 915, -1}},
    {TRP__DIRECTIVE_TRIM, false, {2, -1}},
    {TRP__DIRECTIVE_RESTART_ACTOR,
     false,
     {400, 401, 900, 901, 902, 903, 904, 905, 906, 907, 908, -1}},
    {TRP__DIRECTIVE_RESTART_CONTEXT,
     false,
     {3, 4, 46, 201, 709, 802, 805, 806, 807, 808, 809, 810, 916, 999, -1}},
    {TRP__DIRECTIVE_RESTART_CONTEXT,
     true,
     {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 911, -1}},
    {TRP__DIRECTIVE_STOP, false, {34, 100, 102, 803, 804, -1}},
};

static const group cublas[] = {
    {TRP__DIRECTIVE_REPLY, false, {0, 7, 8, 15, 16, -1}},
    {TRP__DIRECTIVE_TRIM, false, {3, -1}},
    {TRP__DIRECTIVE_RESTART_ACTOR, false, {1, 11, 13, 14, -1}},
};

static const group cufft[] = {
    {TRP__DIRECTIVE_REPLY,
     false,
     {0x0, 0x3, 0x4, 0x8, 0x9, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 0x10, 0x11, 0x12, 0x13, 0x14, -1}},
    {TRP__DIRECTIVE_TRIM, false, {0x2, -1}},
    {TRP__DIRECTIVE_RESTART_ACTOR, false, {0x1, 0x5, 0x6, 0x7, -1}},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const group *find(const group *groups, size_t count, int code)
{
    for (size_t i = 0; i < count; i++) {
        for (const int *c = groups[i].codes; *c >= 0; c++) {
            if (*c == code)
                return &groups[i];
        }
    }
    return NULL;
}

/* Every number from -2 to 1100: those of the list as it says, all others as `other`. */
static void check_domain(const char *domain, const group *groups, size_t count,
                         trp__directive other)
{
    for (int code = -2; code < 1100; code++) {
        const group *g = find(groups, count, code);
        trp__directive got = trp__directive_of(domain, code);
        trp__directive wanted = g ? g->directive : other;
        if (got != wanted)
            fail_msg("%s %d: directive %d, expected %d", domain, code, (int)got, (int)wanted);
        assert_int_equal(trp__code_sticky(domain, code), g && g->sticky);
        if ((trp__code_name(domain, code) != NULL) != (g != NULL))
            fail_msg("%s %d: the name is %s", domain, code, trp__code_name(domain, code));
    }
}

static void every_code_of_cuda(void **state)
{
    (void)state;
    check_domain("cuda", cuda, COUNT(cuda), TRP__DIRECTIVE_RESTART_CONTEXT);
    assert_string_equal(trp__code_name("cuda", 700), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

static void every_code_of_cublas(void **state)
{
    (void)state;
    check_domain("cublas", cublas, COUNT(cublas), TRP__DIRECTIVE_RESTART_ACTOR);
    assert_string_equal(trp__code_name("cublas", 13), "CUBLAS_STATUS_EXECUTION_FAILED");
}

static void every_code_of_cufft(void **state)
{
    (void)state;
    check_domain("cufft", cufft, COUNT(cufft), TRP__DIRECTIVE_RESTART_ACTOR);
    assert_string_equal(trp__code_name("cufft", 5), "CUFFT_INTERNAL_ERROR");
}

/* The enumerators "NAME = NUMBER" between two texts of a header: each must have a row. Returns how
 * many there are; 0 if the header is not there. */
static int compare_with_header(const char *header, const char *begin, const char *end,
                               const char *domain)
{
    char line[512], path[512];
    int count = 0;
    bool inside = false;
    snprintf(path, sizeof path, "%s/%s", TROUPE_CUDA_INCLUDE, header);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        char name[128];
        int code;
        if (strstr(line, begin))
            inside = true;
        if (strstr(line, end))
            inside = false;
        if (!inside || sscanf(line, " %127[A-Z0-9_] = %i", name, &code) != 2)
            continue;
        const char *ours = trp__code_name(domain, code);
        if (!ours || strcmp(ours, name) != 0)
            fail_msg("%s %d is %s in %s, and %s in our table", domain, code, name, path,
                     ours ? ours : "missing");
        count++;
    }
    fclose(file);
    return count;
}

static void headers_of_cuda(void **state)
{
    (void)state;
    int codes = compare_with_header("cuda.h", "typedef enum cudaError_enum", "} CUresult", "cuda");
    int statuses =
        compare_with_header("cublas_api.h", "CUBLAS_STATUS_SUCCESS", "cublasStatus_t", "cublas");
    int results =
        compare_with_header("cufft.h", "typedef enum cufftResult_t", "} cufftResult", "cufft");
    if (codes == 0)
        skip();
    assert_in_range(codes, 80, 1000);
    assert_true(statuses == 0 || statuses >= 10); /* cuBLAS may be a package of its own, */
    assert_true(results == 0 || results >= 17);   /* and so may cuFFT */
}

/* What the kernel does with a process that gets a signal and has no handler. */
static bool ends_a_process(int number)
{
    int status = 0;
    if (number == 32 || number == 33)
        return true; /* libc's own: its handler can't be taken away */
    pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(number, SIG_DFL);
        kill(getpid(), number);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    if (WIFSTOPPED(status)) {
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    return WIFSIGNALED(status);
}

static void every_signal(void **state)
{
    (void)state;
    for (int number = 1; number <= 64; number++) {
        trp__directive got = trp__directive_of("signal", number);
        trp__directive wanted =
            ends_a_process(number) ? TRP__DIRECTIVE_RESTART_CONTEXT : TRP__DIRECTIVE_REPLY;
        if (got != wanted)
            fail_msg("signal %d: directive %d", number, (int)got);
        char name[32];
        const char *abbreviation = sigabbrev_np(number); /* real-time signals have none */
        if (abbreviation)
            snprintf(name, sizeof name, "SIG%s", abbreviation);
        else
            snprintf(name, sizeof name, "SIG%d", number);
        assert_string_equal(trp__code_name("signal", number), name);
        assert_false(trp__code_sticky("signal", number));
    }
    assert_int_equal(trp__directive_of("signal", 65), TRP__DIRECTIVE_RESTART_CONTEXT);
}

static void other_domains(void **state)
{
    (void)state;
    for (int code = -1; code < 200; code++) {
        assert_int_equal(trp__directive_of("exit", code), TRP__DIRECTIVE_RESTART_CONTEXT);
        assert_int_equal(trp__directive_of("errno", code),
                         code == ENOMEM ? TRP__DIRECTIVE_TRIM : TRP__DIRECTIVE_REPLY);
        assert_int_equal(trp__directive_of("", code), TRP__DIRECTIVE_REPLY);
        assert_int_equal(trp__directive_of("mine", code), TRP__DIRECTIVE_REPLY);
        assert_int_equal(trp__directive_of("CUDA", code), TRP__DIRECTIVE_REPLY);
        assert_null(trp__code_name("mine", code));
    }
    static const trp__directive probe[] = {TRP__DIRECTIVE_REPLY,         TRP__DIRECTIVE_REPLY,
                                           TRP__DIRECTIVE_RESTART_ACTOR, TRP__DIRECTIVE_TRIM,
                                           TRP__DIRECTIVE_STOP,          TRP__DIRECTIVE_REPLY};
    for (int code = 0; code < (int)COUNT(probe); code++)
        assert_int_equal(trp__directive_of("probe", code), probe[code]);
}

UNIT_MAIN(UNIT(every_code_of_cuda), UNIT(every_code_of_cublas), UNIT(every_code_of_cufft),
          UNIT(headers_of_cuda), UNIT(every_signal), UNIT(other_domains))

#include "support/kernels.h"

#include "support/folder.h"

#include <sys/wait.h>
#include <unistd.h>

bool h_kernels_are_fake(void)
{
    return h_is_cuda() && !h_is_gpu() && getenv("TROUPE_NVRTC");
}

void h_kernels_make_folder(h_kernels *k)
{
    h_folder_make(k->folder, sizeof k->folder, "kernels");
    setenv("FAKE_CUTLASS", k->folder, 1); /* workers inherit it */
}

h_kernels h_kernels_open(const trp_device_options *options)
{
    h_kernels k = {0};
    trp_device_options unproven = h_options();
    unproven.proof = TRP_PROOF_OFF;
    h_kernels_make_folder(&k);
    k.world = h_open(options ? options : &unproven);
    k.cutlass = h_actor(k.world.device, "cutlass");
    return k;
}

void h_kernels_close(h_kernels *k)
{
    h_close(&k->world);
    h_folder_remove(k->folder);
}

static void path_of(const h_kernels *k, const char *name, char out[400])
{
    snprintf(out, 400, "%s/%s", k->folder, name);
}

void h_kernels_set(const h_kernels *k, const char *name, const char *text)
{
    char path[400];
    path_of(k, name, path);
    h_file_write(path, text);
}

void h_kernels_unset(const h_kernels *k, const char *name)
{
    char path[400];
    path_of(k, name, path);
    unlink(path);
}

size_t h_kernels_reported(const h_kernels *k, const char *name)
{
    char path[400];
    size_t lines = 0;
    path_of(k, name, path);
    FILE *f = fopen(path, "r");
    for (int c; f && (c = getc(f)) != EOF;)
        lines += c == '\n';
    if (f)
        fclose(f);
    return lines;
}

void h_kernels_await(const h_kernels *k, const char *name, size_t lines)
{
    int64_t end = h_now() + H_LONG;
    while (h_kernels_reported(k, name) < lines) {
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "%s: %zu lines, expected %zu", name,
                   h_kernels_reported(k, name), lines);
        h_sleep(H_MS);
    }
}

/* Reads the last line that the fakes have written. */
static void last_line(const h_kernels *k, const char *name, char out[64])
{
    char path[400];
    path_of(k, name, path);
    FILE *f = fopen(path, "r");
    H_CHECK(f != NULL);
    while (fgets(out, 64, f))
        continue;
    fclose(f);
}

void h_kernels_check_last(const h_kernels *k, const char *begins)
{
    char last[64] = "";
    last_line(k, "ran", last);
    if (strncmp(last, begins, strlen(begins)) != 0)
        h_fail(__FILE__, __LINE__, "the last kernel was %s, expected %s", last, begins);
}

void h_kernels_expect(const trp_cutlass_chosen *chosen, bool tuned, bool searching,
                      const char *kernel)
{
    if (chosen->tuned != tuned || chosen->searching != searching ||
        (kernel && strcmp(chosen->kernel, kernel) != 0))
        h_fail(__FILE__, __LINE__, "%s, %s, %s; expected %s, %s, %s", chosen->kernel,
               chosen->tuned ? "tuned" : "not tuned",
               chosen->searching ? "searching" : "not searching", kernel ? kernel : "any",
               tuned ? "tuned" : "not tuned", searching ? "searching" : "not searching");
}

static int run_each(const char *self, const h_case *cases, size_t count)
{
    size_t ran = 0;
    for (size_t i = 0; i < count; i++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", self, cases[i].name, (char *)NULL);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 1;
        const bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == H_EXIT_SKIPPED;
        if (status != 0 && !skipped)
            return 1;
        ran += !skipped;
    }
    return ran > 0 ? 0 : H_EXIT_SKIPPED;
}

int h_kernels_main(int argc, char **argv, const h_case *cases, size_t count)
{
    char cache[256];
    if (argc == 1)
        return run_each(argv[0], cases, count);
    h_folder_make(cache, sizeof cache, "tuning");
    setenv("TROUPE_CACHE_DIR", cache, 1);
    int status = h_main(argc, argv, cases, count);
    h_folder_remove(cache);
    return status;
}

/* Converts an integer of at most 8 bits to bf16. */
static uint16_t narrow(int16_t value)
{
    float wide = value;
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static int16_t *make_numbers(const h_kernels *k, size_t count, trp_buffer *buffer)
{
    int16_t *numbers = h_malloc(count * sizeof *numbers);
    uint16_t *bits = h_malloc(count * sizeof *bits);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (int16_t)((int)ref_rng_below(h_rng(), 17) - 8);
        bits[i] = narrow(numbers[i]);
    }
    *buffer = h_buffer(k->world.device, count * sizeof *bits);
    h_write(k->world.device, *buffer, 0, bits, count * sizeof *bits);
    free(bits);
    return numbers;
}

void h_product_make(const h_kernels *k, h_product *p)
{
    p->a = make_numbers(k, (size_t)p->m * (size_t)p->k, &p->buffer[0]);
    p->b = make_numbers(k, (size_t)p->k * (size_t)p->n, &p->buffer[1]);
    p->buffer[2] = h_filled(k->world.device, (size_t)p->m * (size_t)p->n * 4, 0x7fc00000);
}

trp_status h_product_send(const h_kernels *k, h_product *p)
{
    const trp_cutlass_gemm_request r = {
        .header = {.deadline_ns = p->deadline_ns},
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = {.buffer = p->buffer[0], .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = p->buffer[1]},
        .d = {.buffer = p->buffer[2], .type = TRP_F32, .order = TRP_ROW_MAJOR},
        .kernel = p->kernel,
        .first = p->first,
        .tune = p->tune,
        .chosen = &p->chosen,
        .ran = &p->ran};
    p->done = (trp_completion){0};
    return trp_cutlass_gemm(k->cutlass, &r, &p->done);
}

void h_product_check(const h_kernels *k, const h_product *p)
{
    size_t count = (size_t)p->m * (size_t)p->n;
    float *d = h_malloc(count * sizeof *d);
    h_read(k->world.device, p->buffer[2], 0, d, count * sizeof *d);
    for (int i = 0; i < p->m; i++) {
        for (int j = 0; j < p->n; j++) {
            int sum = 0;
            for (int x = 0; x < p->k; x++)
                sum += p->a[i * p->k + x] * p->b[j * p->k + x];
            float got = d[(size_t)i * (size_t)p->n + (size_t)j];
            if (got != (float)sum)
                h_fail(__FILE__, __LINE__, "%d x %d x %d: D[%d][%d] is %.9g, expected %d", p->m,
                       p->n, p->k, i, j, (double)got, sum);
        }
    }
    free(d);
}

void h_product_free(const h_kernels *k, h_product *p)
{
    for (int i = 0; i < 3; i++)
        H_OK(trp_buffer_free(k->world.device, p->buffer[i]));
    free(p->a);
    free(p->b);
}

trp_status h_product_run(const h_kernels *k, h_product p, trp_error *error)
{
    h_product_make(k, &p);
    trp_status status = h_product_send(k, &p);
    if (status != TRP_OK) {
        *error = *trp_error_last();
    } else {
        status = h_await(p.done.future, error);
        /* a completion is delivered only once */
        H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE);
    }
    if (status == TRP_OK)
        h_product_check(k, &p);
    h_product_free(k, &p);
    return status;
}

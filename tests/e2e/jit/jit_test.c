/* The jit actor: what is compiled, linked and refused. Needs the real NVRTC, on whatever backend.
 * Launches are in launch_test.c. SPDX-License-Identifier: Apache-2.0 */
#include "support/jit_bed.h"
#include "support/jit_kernels.h"

TROUPE_TEST("long");

enum { MANY = 100 };

static const char scale_source[] = "template <class T, int N>\n"
                                   "__global__ void scale(T *x, T a) { x[threadIdx.x] *= a * N; }\n"
                                   "__constant__ float table[4];\n"
                                   "extern \"C\" __global__ void plain(float *x)\n"
                                   "{ x[0] = table[1]; }\n";

static trp_module compiled(const jb_bench *b, const trp_jit_compile_request *r)
{
    trp_module m = {0};
    trp_completion c = {0};
    H_OK(trp_jit_compile(b->jit, r, &m, &c));
    H_CHECK(m.id != 0);
    H_OK(h_await(c.future, NULL));
    return m;
}

/* A part of a module as a text; the caller frees it. */
static char *part_of(const jb_bench *b, trp_module m, trp_module_part part, uint64_t *bytes)
{
    uint64_t size = 0, again = 0;
    H_OK(trp_module_read(b->device, m, part, NULL, 0, &size));
    char *out = h_malloc(size + 1);
    H_OK(trp_module_read(b->device, m, part, out, size + 1, &again));
    H_EQUAL(again, size);
    out[size] = '\0';
    if (bytes)
        *bytes = size;
    return out;
}

static void part_says(const jb_bench *b, trp_module m, trp_module_part part, const char *word)
{
    char *text = part_of(b, m, part, NULL);
    h_check_says(__FILE__, __LINE__, text, word);
    free(text);
}

static void image_begins(const jb_bench *b, trp_module m, const char *first, size_t length)
{
    uint64_t bytes = 0;
    char *image = part_of(b, m, TRP_MODULE_IMAGE, &bytes);
    H_CHECK(bytes > length && memcmp(image, first, length) == 0);
    free(image);
}

static void outputs(void)
{
    static const char *const names[] = {"scale<float, 4>", "&table", "plain"};
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    trp_jit_compile_request r = jb_compile_of(scale_source);
    trp_module_info info;
    r.names = names;
    r.name_count = 3;
    trp_module m = compiled(&b, &r);
    H_OK(trp_module_get_info(b.device, m, &info));
    H_CHECK(info.state == TRP_MODULE_READY && info.output == TRP_JIT_CUBIN && info.names == 3 &&
            info.image_bytes > 500 && info.log_bytes == 0 && info.headers == 0);
    image_begins(&b, m,
                 "\x7f"
                 "ELF",
                 4);
    char *lowered = part_of(&b, m, TRP_MODULE_NAMES, NULL);
    H_CHECK(strcmp(lowered, "_Z5scaleIfLi4EEvPT_S0_\ntable\nplain\n") == 0);
    free(lowered);
    H_OK(trp_module_free(b.device, m));
    H_IS(trp_module_free(b.device, m), TRP_E_STALE);
    H_IS(trp_module_get_info(b.device, m, &info), TRP_E_STALE);

    r.output = TRP_JIT_PTX;
    r.architecture = "compute_90";
    m = compiled(&b, &r);
    part_says(&b, m, TRP_MODULE_IMAGE, ".entry _Z5scaleIfLi4EEvPT_S0_");
    part_says(&b, m, TRP_MODULE_IMAGE, ".target sm_90");
    H_OK(trp_module_free(b.device, m));

    r.output = TRP_JIT_LTOIR;
    m = compiled(&b, &r);
    image_begins(&b, m,
                 "\xed"
                 "CN\x7f",
                 4);
    H_OK(trp_module_free(b.device, m));
    jb_close(&b);
}

static bool image_has(const jb_bench *b, trp_module m, const char *word)
{
    uint64_t bytes = 0;
    char *image = part_of(b, m, TRP_MODULE_IMAGE, &bytes);
    bool has = memmem(image, bytes, word, strlen(word)) != NULL;
    free(image);
    return has;
}

/* Linked alone: a cubin, of what was named only. Twice, so that it is found again too. */
static void whole_programs(void)
{
    static const char *const all[] = {"scale<float, 4>", "&table", "plain"};
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    trp_jit_compile_request r = jb_compile_of(scale_source);
    trp_module_info info;
    r.output = TRP_JIT_CUBIN_LTO;
    for (uint32_t from = 0; from < 3; from += 2) {
        r.names = all + from;
        r.name_count = 3 - from;
        trp_module m = compiled(&b, &r), again = compiled(&b, &r);
        H_OK(trp_module_get_info(b.device, m, &info));
        H_CHECK(info.state == TRP_MODULE_READY && info.output == TRP_JIT_CUBIN &&
                info.names == 3 - from);
        image_begins(&b, m,
                     "\x7f"
                     "ELF",
                     4);
        H_CHECK(image_has(&b, m, "plain"));
        H_CHECK(image_has(&b, m, "_Z5scaleIfLi4EEvPT_S0_") == (from == 0));
        H_CHECK(image_has(&b, again, "plain"));
        H_OK(trp_module_free(b.device, m));
        H_OK(trp_module_free(b.device, again));
    }
    r.architecture = "compute_90";
    trp_module m = {0};
    H_IS(trp_jit_compile(b.jit, &r, &m, NULL), TRP_E_ARGUMENT);
    jb_close(&b);
}

/* The log is there as a whole, and the message begins with what matters. */
static void errors_of_a_compile(void)
{
    static const char *const names[] = {"missing<int>"};
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    trp_jit_compile_request r = jb_compile_of("__global__ void k(int *x)\n"
                                              "{\n"
                                              "    int unused;\n"
                                              "    x[0] = undeclared;\n"
                                              "    x[1] = alsonot;\n"
                                              "}\n");
    trp_module m, other;
    trp_module_info info;
    trp_completion c = {0};
    trp_error error = {0};
    r.name = "wrong.cu";
    H_OK(trp_jit_compile(b.jit, &r, &m, &c));
    H_IS(h_await(c.future, &error), TRP_E_LIBRARY);
    H_CHECK(strcmp(error.domain, "nvrtc") == 0 && error.code == 6);
    H_CHECK(strncmp(error.message, "wrong.cu(4): error", 18) == 0);
    h_check_says(__FILE__, __LINE__, error.message, "undeclared");
    H_OK(trp_module_get_info(b.device, m, &info));
    H_CHECK(info.state == TRP_MODULE_FAILED && info.log_bytes > 0 && info.image_bytes == 0);
    part_says(&b, m, TRP_MODULE_LOG, "alsonot");
    part_says(&b, m, TRP_MODULE_LOG, "never referenced");
    part_says(&b, m, TRP_MODULE_LOG, "2 errors detected");
    uint64_t bytes;
    H_IS(trp_module_read(b.device, m, TRP_MODULE_IMAGE, NULL, 0, &bytes), TRP_E_DEPENDENCY);

    /* That it was told makes no image: a link that needs it is refused still. */
    const trp_jit_input in = {.module = m};
    const trp_jit_link_request l = {.inputs = &in, .input_count = 1, .architecture = "sm_90"};
    H_IS(trp_jit_link(b.jit, &l, &other, NULL), TRP_E_DEPENDENCY);
    H_SAYS("was not made");
    H_EQUAL(other.id, 0);
    H_OK(trp_module_free(b.device, m));

    r = jb_compile_of("__global__ void k() {}");
    r.names = names;
    r.name_count = 1;
    H_OK(trp_jit_compile(b.jit, &r, &m, &c));
    H_IS(h_await(c.future, &error), TRP_E_LIBRARY);
    h_check_says(__FILE__, __LINE__, error.message, "missing");

    static const char *const options[] = {"--no-such-option"};
    r = jb_compile_of("__global__ void k() {}");
    r.options = options;
    r.option_count = 1;
    H_OK(trp_jit_compile(b.jit, &r, &m, &c));
    H_IS(h_await(c.future, &error), TRP_E_LIBRARY);
    h_check_says(__FILE__, __LINE__, error.message, "no-such-option");

    r = jb_compile_of("__global__ void k() {}");
    r.architecture = "sm_999";
    H_OK(trp_jit_compile(b.jit, &r, &m, &c));
    H_IS(h_await(c.future, &error), TRP_E_LIBRARY);

    r = jb_compile_of(scale_source);
    r.output_bytes_max = 600;
    H_OK(trp_jit_compile(b.jit, &r, &m, &c));
    H_IS(h_await(c.future, &error), TRP_E_ARGUMENT);
    h_check_says(__FILE__, __LINE__, error.message, "output_bytes_max");
    jb_close(&b);
}

/* Headers in memory and on disk, and the list of what was read. */
static void headers(void)
{
    jb_need_nvrtc();
    char folder[] = "/tmp/troupe-jit-XXXXXX", path[128];
    H_CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/disk.h", folder);
    FILE *file = fopen(path, "w");
    H_CHECK(file && fputs("#define DISK 5\n", file) >= 0 && fclose(file) == 0);
    const trp_jit_header memory[] = {{"first.h", "#include \"deep/second.h\"\n"},
                                     {"deep/second.h", "#define TWO 2\n"},
                                     {"unused.h", "#error never\n"}};
    const char *const includes[] = {folder};
    const char *const options[] = {"-DWHICH=\"disk.h\"", "-std=c++17"};
    jb_bench b = jb_open(NULL);
    trp_jit_compile_request r = jb_compile_of("#include \"first.h\"\n"
                                              "#include WHICH\n"
                                              "extern \"C\" __global__ void k(int *x)\n"
                                              "{ x[TWO] = DISK; }\n");
    r.headers = memory;
    r.header_count = 3;
    r.include_paths = includes;
    r.include_count = 1;
    r.options = options;
    r.option_count = 2;
    trp_module m = compiled(&b, &r);
    trp_module_info info;
    H_OK(trp_module_get_info(b.device, m, &info));
    H_EQUAL(info.headers, 3);
    char *list = part_of(&b, m, TRP_MODULE_HEADERS, NULL);
    h_check_says(__FILE__, __LINE__, list, "memory first.h\n");
    h_check_says(__FILE__, __LINE__, list, "memory deep/second.h\n");
    h_check_says(__FILE__, __LINE__, list, path);
    H_CHECK(!strstr(list, "unused.h") && !strstr(list, "unsure"));
    free(list);
    remove(path);
    remove(folder);
    jb_close(&b);
}

/* A function in one module, its caller in another, each compiled to LTO-IR and to PTX. */
static void linking(void)
{
    static const char *const names[] = {"caller<float>"};
    static const char *const rdc[] = {"-rdc=true"};
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    for (int lto = 0; lto < 2; lto++) {
        trp_module part[2], whole;
        trp_completion c = {0};
        trp_error error = {0};
        trp_jit_compile_request r = jb_compile_of(
            "extern __device__ float twice(float);\n"
            "template <class T> __global__ void caller(T *x) { x[0] = twice(x[1]); }\n");
        r.names = names;
        r.name_count = 1;
        r.options = rdc;
        r.option_count = 1;
        r.output = lto ? TRP_JIT_LTOIR : TRP_JIT_CUBIN;
        H_OK(trp_jit_compile(b.jit, &r, &part[0], NULL));
        r.source = "__device__ float twice(float x) { return 2 * x; }\n";
        r.names = NULL;
        r.name_count = 0;
        H_OK(trp_jit_compile(b.jit, &r, &part[1], NULL));
        const trp_jit_input in[] = {{.module = part[0]}, {.module = part[1], .name = "twice"}};
        trp_jit_link_request l = {.inputs = in,
                                  .input_count = 2,
                                  .lto = lto != 0,
                                  .names = names,
                                  .name_count = 1,
                                  .architecture = "sm_90"};
        H_OK(trp_jit_link(b.jit, &l, &whole, &c)); /* waits for both compiles */
        trp_status status = h_await(c.future, &error);
        if (status == TRP_E_MISSING) {
            H_CHECK(strstr(error.message, "nvJitLink") != NULL);
            break;
        }
        H_OK(status);
        image_begins(&b, whole,
                     "\x7f"
                     "ELF",
                     4);
        part_says(&b, whole, TRP_MODULE_NAMES, "_Z6callerIfEvPT_\n");

        /* One that lacks a function is no module. */
        l.input_count = 1;
        H_OK(trp_jit_link(b.jit, &l, &whole, &c));
        H_IS(h_await(c.future, &error), TRP_E_LIBRARY);
        H_CHECK(strcmp(error.domain, "nvjitlink") == 0);
        part_says(&b, whole, TRP_MODULE_LOG, "twice");
    }
    jb_close(&b);
}

/* Many at a time; each is right, and each ends once. */
static void side_by_side(void)
{
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    static char source[MANY][160];
    trp_module m[MANY];
    trp_queue *queue = NULL;
    bool seen[MANY] = {false};
    H_OK(trp_queue_create(b.world.system, &queue));
    bool once = !H_SANITIZED && !h_is_cuda() && h_isolation() == TRP_ISOLATION_PROCESS;
    int many = once ? MANY : 12;
    for (int i = 0; i < many; i++) {
        snprintf(source[i], sizeof source[i],
                 "extern \"C\" __global__ void k%d(int *x) { x[0] = %d; }", i, i * 7);
        trp_jit_compile_request r = jb_compile_of(source[i]);
        trp_completion c = {.queue = queue, .user_data = &seen[i]};
        r.output = TRP_JIT_PTX;
        H_OK(trp_jit_compile(b.jit, &r, &m[i], &c));
    }
    for (int i = 0; i < many; i++) {
        trp_event e;
        H_OK(trp_queue_next(queue, H_LONG, &e));
        H_OK(e.status);
        H_CHECK(!*(bool *)e.user_data);
        *(bool *)e.user_data = true;
    }
    for (int i = 0; i < many; i++) {
        char word[32];
        snprintf(word, sizeof word, ".entry k%d(", i);
        part_says(&b, m[i], TRP_MODULE_IMAGE, word);
        H_OK(trp_module_free(b.device, m[i]));
    }
    trp_event none;
    H_IS(trp_queue_next(queue, 0, &none), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(queue));
    jb_close(&b);
}

/* A source that takes long: as many instantiations as `depth` says. */
static const char *slow_source(char *out, size_t size, int depth)
{
    snprintf(out, size,
             "template <int N> struct F { static constexpr unsigned v = F<N - 1>::v * 3 + N; };\n"
             "template <> struct F<0> { static constexpr unsigned v = 1; };\n"
             "template <int N> __device__ unsigned g(unsigned x)\n"
             "{ if constexpr (N > 0) return g<N - 1>(x * F<N>::v + threadIdx.x); else return x; }\n"
             "extern \"C\" __global__ void k(unsigned *x) { x[0] = g<%d>(x[1]); }\n",
             depth);
    return out;
}

/* Some are cancelled while they are compiled, some before: none is ended twice, those after them
 * are compiled, and memory that was given back is used again meanwhile. */
static void cancelling(void)
{
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    char source[600];
    trp_module m[24], last;
    trp_completion c[24] = {{0}};
    int cancelled = 0;
    for (int i = 0; i < 24; i++) {
        trp_jit_compile_request r = jb_compile_of(slow_source(source, sizeof source, 150 + i));
        H_OK(trp_jit_compile(b.jit, &r, &m[i], &c[i]));
    }
    h_sleep(20 * H_MS);
    for (int i = 0; i < 24; i++) {
        H_OK(trp_cancel(c[i].future));
        H_OK(trp_module_free(b.device, m[i]));
    }
    for (int i = 0; i < 24; i++) {
        trp_status status = h_await(c[i].future, NULL);
        H_CHECK(status == TRP_OK || status == TRP_E_CANCELLED);
        cancelled += status == TRP_E_CANCELLED;
    }
    H_CHECK(cancelled > 0);
    trp_jit_compile_request r =
        jb_compile_of("extern \"C\" __global__ void after(int *x) { x[0] = 1; }");
    r.output = TRP_JIT_PTX;
    last = compiled(&b, &r);
    part_says(&b, last, TRP_MODULE_IMAGE, ".entry after(");
    jb_close(&b);
}

/* A request that is not sent makes no module: its handle is none, not one that was freed. */
static void not_sent(void)
{
    enum { MANY_MORE = 100 };
    jb_need_nvrtc();
    trp_device_options o = h_options();
    char source[600];
    trp_module m = {0};
    trp_status status = TRP_OK;
    o.mailbox_size = 1;
    jb_bench b = jb_open(&o);
    for (int i = 0; i < MANY_MORE && status == TRP_OK; i++) {
        trp_jit_compile_request r = jb_compile_of(slow_source(source, sizeof source, 200 + i));
        r.header.wait_ns = TRP_NOWAIT;
        m.id = 1;
        status = trp_jit_compile(b.jit, &r, &m, NULL);
        H_CHECK(status != TRP_OK || m.id != 0);
    }
    H_EQUAL(status, TRP_E_BUSY);
    H_EQUAL(m.id, 0);
    H_IS(trp_module_free(b.device, m), TRP_E_STALE);
    jb_close(&b);
}

/* How many actors the device has beside those of its memory. */
static uint32_t actors_of(trp_device *device)
{
    trp_device_stats stats;
    H_OK(trp_device_get_stats(device, &stats));
    return stats.actor_count - 3;
}

/* Each jit actor takes one place; the compilers, up to eight, are made once and shared. Whichever
 * actors end first, the others still compile, and what an actor has sent is over when it has ended.
 */
static void one_place_each(void)
{
    enum { PLACES = 61 };
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    const uint32_t compilers = actors_of(b.device) - 1;
    trp_actor *more[PLACES] = {NULL}, *none = NULL;
    char source[600];
    H_CHECK(compilers >= 1 && compilers <= 8);
    const uint32_t room = PLACES - compilers - 1;
    for (uint32_t i = 0; i < room; i++)
        more[i] = h_actor(b.device, "jit");
    H_EQUAL(actors_of(b.device), PLACES);
    H_IS(trp_actor_create(b.device, &(trp_actor_options){.kind = "jit"}, &none), TRP_E_BUSY);
    H_SAYS("61 actors");
    trp_completion last = {0};
    for (uint32_t i = 0; i < room; i += 10) {
        trp_jit_compile_request r = jb_compile_of(slow_source(source, sizeof source, 10 + (int)i));
        trp_module m;
        H_OK(trp_jit_compile(more[i], &r, &m, NULL));
    }
    trp_jit_compile_request r = jb_compile_of(slow_source(source, sizeof source, 9));
    trp_module m;
    H_OK(trp_jit_compile(more[room - 1], &r, &m, &last));
    trp_actor_destroy(b.jit); /* the one with which the compilers were made */
    for (uint32_t i = 0; i < room - 1; i++)
        trp_actor_destroy(more[i]);
    H_OK(h_await(last.future, NULL));
    r = jb_compile_of(slow_source(source, sizeof source, 8));
    H_OK(trp_jit_compile(more[room - 1], &r, &m, NULL));
    trp_actor_destroy(more[room - 1]);
    trp_module_info info;
    H_OK(trp_module_get_info(b.device, m, &info));
    H_EQUAL(info.state, TRP_MODULE_READY);
    b.jit = h_actor(b.device, "jit"); /* and anew */
    H_OK(trp_jit_compile(b.jit, &r, &m, NULL));
    H_OK(trp_device_drain(b.device, H_LONG));
    jb_close(&b);
}

/* Fewer places than compilers: those that there are do. */
static void few_places(void)
{
    jb_need_nvrtc();
    h_world w = h_open(NULL);
    trp_actor *jit = NULL, *more = NULL;
    char source[600];
    for (int i = 0; i < 59; i++)
        h_actor(w.device, "probe");
    H_OK(trp_actor_create(w.device, &(trp_actor_options){.kind = "jit"}, &jit));
    H_EQUAL(actors_of(w.device), 61);
    trp_jit_compile_request r = jb_compile_of(slow_source(source, sizeof source, 7));
    trp_module m;
    trp_completion c = {0};
    H_OK(trp_jit_compile(jit, &r, &m, &c));
    H_OK(h_await(c.future, NULL));
    H_IS(trp_actor_create(w.device, &(trp_actor_options){.kind = "jit"}, &more), TRP_E_BUSY);
    trp_actor_destroy(jit);
    jit = h_actor(w.device, "probe"); /* both places are free again */
    more = h_actor(w.device, "probe");
    trp_actor_destroy(more);
    H_IS(trp_actor_create(w.device, &(trp_actor_options){.kind = "jit"}, &more), TRP_E_BUSY);
    h_close(&w);
}

/* Other actors do not wait for a compile, and requests on other modules do not. */
static void others_go_on(void)
{
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    char source[600];
    trp_module m;
    trp_completion slow = {0};
    trp_jit_compile_request r = jb_compile_of(slow_source(source, sizeof source, 180));
    H_OK(trp_jit_compile(b.jit, &r, &m, &slow));
    trp_actor *probe = h_actor(b.device, "probe");
    for (int i = 0; i < 10; i++) {
        trp_completion c = {0};
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await(c.future, NULL));
    }
    trp_module_info info;
    H_OK(trp_module_get_info(b.device, m, &info));
    uint64_t bytes;
    if (info.state == TRP_MODULE_PENDING) /* if not, this machine is quick */
        H_CHECK(trp_module_read(b.device, m, TRP_MODULE_LOG, NULL, 0, &bytes) == TRP_E_BUSY ||
                trp_module_get_info(b.device, m, &info) == TRP_OK);
    H_OK(trp_cancel(slow.future));
    trp_status status = h_await(slow.future, NULL);
    H_CHECK(status == TRP_OK || status == TRP_E_CANCELLED);
    trp_actor_destroy(probe);
    jb_close(&b);
}

/* What the host can't do is refused by the call. */
static void refused_on_the_host(void)
{
    if (h_is_cuda())
        h_skip("for the host only");
    jb_bench b = jb_open(NULL);
    trp_module m = {1}, made;
    trp_kernel_info info;
    float value = 1;
    const trp_kernel_launch_request launch = {.module = m, .grid = {1}, .block = {1}};
    const trp_jit_load_request load = {.image = jit_kernels_ptx, .bytes = sizeof jit_kernels_ptx};
    const trp_module_set_request set = {
        .module = m, .variable = "x", .data = &value, .bytes = sizeof value};
    const trp_kernel_query_request query = {.module = m, .out = &info};
    H_IS(trp_kernel_launch(b.jit, &launch, NULL), TRP_E_UNSUPPORTED);
    H_SAYS("needs a GPU");
    H_IS(trp_jit_load(b.jit, &load, &made, NULL), TRP_E_UNSUPPORTED);
    H_IS(trp_module_set(b.jit, &set, NULL), TRP_E_UNSUPPORTED);
    H_IS(trp_kernel_query(b.jit, &query, NULL), TRP_E_UNSUPPORTED);
    trp_jit_compile_request r = {.source = "__global__ void k() {}"};
    H_IS(trp_jit_compile(b.jit, &r, &made, NULL), TRP_E_ARGUMENT);
    H_SAYS("architecture");
    jb_close(&b);
}

H_CASES(H_CASE(outputs), H_CASE(whole_programs), H_CASE(errors_of_a_compile), H_CASE(headers),
        H_CASE(linking), H_CASE(side_by_side), H_CASE(cancelling), H_CASE(not_sent),
        H_CASE(one_place_each), H_CASE(few_places), H_CASE(others_go_on),
        H_CASE(refused_on_the_host))

/* Actors from libraries of the application's own: what they are given, what they can do, what is
 * refused on the way to them, and that they are unloaded. */
#include "support/plugin.h"

#include <troupe/worker.h>

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 3000, BYTES = WORDS * 4 };

/* Life and work. */

static void work(void)
{
    h_world w = h_open(NULL);
    trp_actor *actor = h_hostile(w.device, NULL);
    trp_buffer a = h_buffer(w.device, BYTES), b = h_buffer(w.device, BYTES);
    uint32_t got[WORDS], value = 0x01020304;
    h_works(w.device, actor, 7);

    /* Ranges: the middle of a buffer. */
    trp_custom_request r = h_custom(HOSTILE_FILL, &value, 1);
    h_add_access(&r, a, TRP_ACCESS_COVER);
    H_OK(trp_custom(actor, &r, NULL));
    value = 5;
    r.access[0] =
        (trp_custom_access){.buffer = a, .offset = 40, .bytes = 80, .mode = TRP_ACCESS_WRITE};
    H_OK(trp_custom(actor, &r, NULL)); /* the payload was copied at the call before */

    /* The order of actors follows from the buffers: through b, by another actor, and back. */
    trp_actor *other = h_hostile(w.device, NULL);
    trp_custom_request copy = h_custom(HOSTILE_COPY, NULL, 0);
    h_add_access(&copy, b, TRP_ACCESS_COVER);
    h_add_access(&copy, a, TRP_ACCESS_READ);
    H_OK(trp_custom(other, &copy, NULL));
    h_read(w.device, b, 0, got, BYTES);
    for (uint32_t i = 0; i < WORDS; i++)
        H_EQUAL(got[i], i >= 10 && i < 30 ? 5 : 0x01020304);

    /* A function of the host runs in the stream, between the work before and after it. */
    trp_custom_request add = h_custom(HOSTILE_ADD, &value, 1);
    h_add_access(&add, b, TRP_ACCESS_DEFAULT);
    for (int i = 0; i < 10; i++)
        H_IS(h_run(actor, &add, NULL), h_is_cuda() ? TRP_E_UNSUPPORTED : TRP_OK);
    h_read(w.device, b, 0, got, BYTES);
    H_EQUAL(got[0], 0x01020304 + (h_is_cuda() ? 0 : 50));
    H_EQUAL(h_info(w.device).restarts, 0);
    h_close(&w);
}

/* What init() and handle() see. */
static void what_is_given(void)
{
    h_world w = h_open(NULL);
    trp_actor *actor = NULL;
    char config[TRP_ACTOR_CONFIG_MAX + 1];
    memset(config, 'c', sizeof config);
    config[sizeof config - 1] = '\0';
    H_OK(trp_actor_create(
        w.device,
        &(trp_actor_options){
            .kind = "custom", .library = h_plugin("hostile"), .config = config, .name = "Xerxes"},
        &actor));
    trp_buffer out = h_buffer(w.device, 4096), in = h_buffer(w.device, 100);
    unsigned char payload[TRP_CUSTOM_PAYLOAD_MAX];
    uint32_t sum = 0;
    h_random_bytes(h_rng(), payload, sizeof payload);
    for (size_t i = 0; i < sizeof payload; i++)
        sum = sum * 31 + payload[i];
    trp_custom_request r = {
        .code = HOSTILE_REPORT, .payload = payload, .payload_bytes = sizeof payload};
    h_add_access(&r, out, TRP_ACCESS_COVER);
    static const trp_access_mode modes[7] = {
        TRP_ACCESS_READ,       TRP_ACCESS_WRITE, TRP_ACCESS_COVER, TRP_ACCESS_DEFAULT,
        TRP_ACCESS_READ_WRITE, TRP_ACCESS_READ,  TRP_ACCESS_WRITE};
    for (int i = 0; i < 7; i++) {
        h_add_access(&r, in, modes[i]);
        r.access[1 + i].offset = (uint64_t)i;
        r.access[1 + i].bytes = i % 2 ? (uint64_t)(50 + i) : 0;
    }
    H_OK(h_run(actor, &r, NULL));
    hostile_report got;
    h_read(w.device, out, 0, &got, sizeof got);
    H_EQUAL(got.backend, h_backend());
    H_EQUAL(got.incarnation, 1);
    H_EQUAL(got.inits, 1);
    H_EQUAL(got.handled, 1);
    H_CHECK(got.state_was_zero);
    H_EQUAL(got.name_length, 6);
    H_EQUAL(got.name_first, 'X');
    H_EQUAL(got.config_length, TRP_ACTOR_CONFIG_MAX);
    H_EQUAL(got.payload_bytes, sizeof payload);
    H_EQUAL(got.payload_sum, sum);
    H_EQUAL(got.access_count, 8);
    H_EQUAL(got.mode[0], TRP_ACCESS_COVER);
    H_EQUAL(got.bytes[0], 4096);
    for (int i = 0; i < 7; i++) {
        H_EQUAL(got.mode[1 + i], modes[i] ? modes[i] : TRP_ACCESS_READ_WRITE);
        H_EQUAL(got.bytes[1 + i], i % 2 ? 50 + i : 100 - i);
    }
    /* Neither payload nor buffers; a name that comes from the file. */
    trp_actor *plain = h_hostile(w.device, NULL);
    hostile_report again = h_report(w.device, plain);
    H_EQUAL(again.payload_bytes, 0);
    H_EQUAL(again.config_length, 0);
    H_EQUAL(again.name_length, strlen("hostile"));
    H_EQUAL(again.inits, 2); /* one library, two actors */
    h_close(&w);
}

/* What handle() refuses is the request's error; statuses that are not for actors are not passed. */
static void refusals(void)
{
    static const struct {
        trp_status given, got;
    } rows[] = {
        {TRP_E_ARGUMENT, TRP_E_ARGUMENT},
        {TRP_E_UNSUPPORTED, TRP_E_UNSUPPORTED},
        {TRP_E_LIBRARY, TRP_E_LIBRARY},
        {TRP_E_MISSING, TRP_E_MISSING},
        {TRP_E_SYSTEM, TRP_E_SYSTEM},
        {TRP_E_INTERNAL, TRP_E_INTERNAL},
        {TRP_E_VERSION, TRP_E_VERSION},
        {TRP_E_STALE, TRP_E_INTERNAL},
        {TRP_E_LOST, TRP_E_INTERNAL},
        {TRP_E_BUSY, TRP_E_INTERNAL},
        {TRP_E_FAULT, TRP_E_INTERNAL},
        {TRP_E_DEVICE_DOWN, TRP_E_INTERNAL},
        {TRP_E_FORKED, TRP_E_INTERNAL},
        {9999, TRP_E_INTERNAL},
        {-5, TRP_E_INTERNAL},
    };
    h_world w = h_open(NULL);
    trp_actor *actor = h_hostile(w.device, NULL);
    trp_buffer b = h_buffer(w.device, BYTES);
    trp_error error;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t payload[2] = {(uint32_t)rows[i].given, (uint32_t)-17};
        trp_custom_request r = h_custom(HOSTILE_REFUSE, payload, 2);
        h_add_access(&r, b, TRP_ACCESS_COVER);
        H_IS(h_run(actor, &r, &error), rows[i].got);
        H_CHECK(strcmp(error.domain, "hostile") == 0);
        H_CHECK(error.code == -17);
        H_CHECK(strstr(error.message, "asked to refuse") != NULL);
        H_CHECK(strcmp(error.actor, "hostile") == 0);
        H_EQUAL(error.incarnation, 1);
        if (rows[i].got != rows[i].given && rows[i].given < TRP_E_INTERNAL && rows[i].given > 0)
            H_CHECK(strstr(error.message, trp_status_name(rows[i].given)) != NULL);
        /* The same without a message. */
        r.code = HOSTILE_MUTE;
        H_IS(h_run(actor, &r, &error), rows[i].got);
        H_CHECK(strstr(error.message, "without a message") != NULL);
        H_CHECK(!h_buffer_info(w.device, b).lost);
    }
    trp_custom_request unknown = h_custom(12345, NULL, 0);
    H_IS(h_run(actor, &unknown, &error), TRP_E_UNSUPPORTED);
    H_EQUAL(error.code, 12345);
    trp_custom_request large = h_custom(HOSTILE_LARGE, NULL, 0);
    H_CHECK(h_run(actor, &large, &error) != TRP_OK);
    h_works(w.device, actor, 3);
    H_EQUAL(h_info(w.device).restarts, 0);
    h_close(&w);
}

/* What the sender's side refuses: nothing of it is queued. */
static void bad_requests(void)
{
    h_world w = h_open(NULL);
    trp_actor *actor = h_hostile(w.device, NULL), *probe = h_actor(w.device, "probe");
    trp_buffer b = h_buffer(w.device, 100);
    const char payload[TRP_CUSTOM_PAYLOAD_MAX + 1] = {0};
    const trp_custom_request good = {
        .code = HOSTILE_COPY, .access_count = 1, .access = {{.buffer = b}}};
    uint64_t before = h_info(w.device).requests_submitted;
#define REFUSED(word, status, ...)                                                                 \
    do {                                                                                           \
        trp_custom_request r = good;                                                               \
        __VA_ARGS__;                                                                               \
        H_IS(trp_custom(actor, &r, NULL), status);                                                 \
        H_SAYS(word);                                                                              \
        H_CHECK(strcmp(trp_error_last()->actor, "hostile") == 0);                                  \
    } while (0)
    REFUSED("payload_bytes", TRP_E_ARGUMENT, r.payload = payload; r.payload_bytes = 161);
    REFUSED("payload:", TRP_E_ARGUMENT, r.payload_bytes = 1);
    REFUSED("access_count", TRP_E_ARGUMENT, r.access_count = TRP_CUSTOM_ACCESSES_MAX + 1);
    REFUSED("access[0].mode", TRP_E_ARGUMENT, r.access[0].mode = (trp_access_mode)4);
    REFUSED("access[0].mode", TRP_E_ARGUMENT, r.access[0].mode = (trp_access_mode)7);
    REFUSED("access[0].mode", TRP_E_ARGUMENT, r.access[0].mode = (trp_access_mode)-1);
    REFUSED("access[0].offset", TRP_E_ARGUMENT, r.access[0].offset = 100);
    REFUSED("access[0].bytes", TRP_E_ARGUMENT, r.access[0].bytes = 101);
    REFUSED("access[0].bytes", TRP_E_ARGUMENT, r.access[0].offset = 1; r.access[0].bytes = 100);
    REFUSED("access[0].bytes", TRP_E_ARGUMENT, r.access[0].offset = 99;
            r.access[0].bytes = UINT64_MAX);
    REFUSED("access[1]", TRP_E_STALE, r.access_count = 2);
#undef REFUSED
    H_EQUAL(h_info(w.device).requests_submitted, before);
    H_IS(trp_custom(probe, &good, NULL), TRP_E_UNSUPPORTED);
    H_IS(trp_probe(actor, &(trp_probe_request){.action = TRP_PROBE_NOP}, NULL), TRP_E_UNSUPPORTED);
    /* A buffer that was held by a refused request is free. */
    H_OK(trp_buffer_free(w.device, b));
    H_EQUAL(h_info(w.device).buffers, 0);
    h_close(&w);
}

/* Work that comes in pieces: other actors go on in between, and requests behind it wait. */
static void pieces(void)
{
    h_world w = h_open(NULL);
    trp_actor *actor = h_hostile(w.device, NULL);
    trp_buffer b = h_buffer(w.device, BYTES);
    uint32_t got[WORDS];
    for (uint32_t round = 1; round <= 20; round++) {
        uint32_t payload[2] = {100, round};
        trp_custom_request r = h_custom(HOSTILE_PIECES, payload, 2);
        h_add_access(&r, b, TRP_ACCESS_COVER);
        H_OK(trp_custom(actor, &r, NULL));
        h_read(w.device, b, 0, got, BYTES);
        for (int i = 0; i < WORDS; i++)
            H_EQUAL(got[i], round);
    }
    H_EQUAL(h_report(w.device, actor).handled, 21);
    h_close(&w);
}

/* Short of memory: all actors give back, and the request is tried once more. */
static void trimming(void)
{
    h_world w = h_open(NULL);
    trp_actor *actor = h_hostile(w.device, NULL), *other = h_hostile(w.device, NULL);
    trp_custom_request r = h_custom(HOSTILE_MEMORY, NULL, 0);
    trp_error error;
    H_EQUAL(h_report(w.device, actor).trims, 0);
    H_OK(h_run(actor, &r, NULL));
    H_EQUAL(h_report(w.device, other).trims, 2); /* each once */
    H_OK(h_run(other, &r, NULL));
    H_EQUAL(h_report(w.device, other).trims, 2);
    /* One that stays short says so. */
    uint32_t payload[2] = {TRP_E_MEMORY, 3};
    r = h_custom(HOSTILE_REFUSE, payload, 2);
    H_IS(h_run(other, &r, &error), TRP_E_MEMORY);
    H_EQUAL(error.code, 3);
    h_close(&w);
}

/* Making actors. */

static void refused_library(trp_device *device, const char *path, trp_status status,
                            const char *word)
{
    trp_actor *actor = NULL;
    H_IS(trp_actor_create(device, &(trp_actor_options){.library = path, .name = "refused"}, &actor),
         status);
    H_SAYS(word);
    H_CHECK(actor == NULL);
}

/* Folders in folders, until the path of the last is too long. */
static void path_too_long(trp_device *device)
{
    enum { DEPTH = 6, NAME = 200 };
    const char *base = getenv("TMPDIR");
    char path[2048];
    size_t length[DEPTH + 1];
    snprintf(path, sizeof path, "%s", base ? base : "/tmp");
    length[0] = strlen(path);
    for (int i = 1; i <= DEPTH; i++) {
        path[length[i - 1]] = '/';
        memset(path + length[i - 1] + 1, 'd', NAME);
        length[i] = length[i - 1] + 1 + NAME;
        path[length[i]] = '\0';
        H_CHECK(mkdir(path, 0700) == 0);
    }
    refused_library(device, path, TRP_E_ARGUMENT, "at most 1023");
    for (int i = DEPTH; i > 0; i--) {
        path[length[i]] = '\0';
        H_CHECK(rmdir(path) == 0);
    }
}

static void bad_libraries(void)
{
    h_world w = h_open(NULL);
    char ours[64];
    refused_library(w.device, "/nowhere/at/all.so", TRP_E_MISSING, "/nowhere/at/all.so");
    refused_library(w.device, "", TRP_E_MISSING, "library");
    refused_library(w.device, "/proc/self/exe", TRP_E_MISSING, "library");
    refused_library(w.device, "/etc/passwd", TRP_E_MISSING, "ELF");
    refused_library(w.device, h_plugin("broken_entry"), TRP_E_MISSING, "trp_actor_entry");
    refused_library(w.device, h_plugin("broken_dependency"), TRP_E_MISSING, "troupe_test_nowhere");
    /* Both versions are named. */
    refused_library(w.device, h_plugin("broken_abi"), TRP_E_VERSION, "9.8.7");
    H_SAYS("ABI 77");
    H_SAYS(TRP_VERSION_STRING);
    snprintf(ours, sizeof ours, "actor ABI %u, %u bytes", TRP_ACTOR_ABI, TRP_ACTOR_BYTES);
    H_SAYS(ours);
    refused_library(w.device, h_plugin("broken_bytes"), TRP_E_VERSION, "9.8.7");
    refused_library(w.device, h_plugin("broken_impl_abi"), TRP_E_VERSION, "77");
    refused_library(w.device, h_plugin("broken_handle"), TRP_E_ARGUMENT, "handle");
    refused_library(w.device, h_plugin("broken_joins"), TRP_E_ARGUMENT, "handle_joined");
    refused_library(w.device, h_plugin("broken_state"), TRP_E_ARGUMENT, "state_bytes");
    refused_library(w.device, h_plugin("broken_backend"), TRP_E_UNSUPPORTED, "nowhere");

    path_too_long(w.device);

    /* After all that, one that works; and there is room for 61. */
    for (int i = 0; i < 70; i++)
        refused_library(w.device, h_plugin("broken_entry"), TRP_E_MISSING, "trp_actor_entry");
    h_works(w.device, h_hostile(w.device, NULL), 9);
    H_EQUAL(h_info(w.device).restarts, 0);
    h_close(&w);
}

static void bad_options(void)
{
    h_world w = h_open(NULL);
    trp_actor *actor = NULL;
    char config[TRP_ACTOR_CONFIG_MAX + 2];
    memset(config, 'c', sizeof config);
    config[sizeof config - 1] = '\0';
    const char *library = h_plugin("hostile");
#define REFUSED(word, ...)                                                                         \
    do {                                                                                           \
        H_IS(trp_actor_create(w.device, &(trp_actor_options){__VA_ARGS__}, &actor),                \
             TRP_E_ARGUMENT);                                                                      \
        H_SAYS(word);                                                                              \
    } while (0)
    REFUSED("kind", .kind = NULL);
    REFUSED("\"custom\"", .kind = "nothing");
    REFUSED("library", .kind = "custom");
    REFUSED("library", .kind = "probe", .library = library);
    REFUSED("config", .kind = "probe", .config = "x");
    REFUSED("kind", .kind = "memory", .library = library);
    REFUSED("config", .library = library, .config = config);
    REFUSED("name", .library = library, .name = "a name of thirty-two bytes, which is too long");
#undef REFUSED
    /* What init() says. */
    H_IS(trp_actor_create(w.device,
                          &(trp_actor_options){.library = library, .config = "refuse", .name = "n"},
                          &actor),
         TRP_E_MISSING);
    H_SAYS("no service today");
    H_EQUAL(trp_error_last()->code, 42);
    H_CHECK(strcmp(trp_error_last()->domain, "hostile") == 0);
    H_CHECK(strcmp(trp_error_last()->actor, "n") == 0);
    static const struct {
        const char *config;
        trp_status status;
    } rows[] = {{"mute", TRP_E_LIBRARY}, {"fault", TRP_E_INTERNAL}, {"again", TRP_E_INTERNAL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        H_IS(trp_actor_create(w.device,
                              &(trp_actor_options){.library = library, .config = rows[i].config},
                              &actor),
             rows[i].status);
        H_SAYS("without a message");
    }
    h_works(w.device, h_hostile(w.device, NULL), 9);
    H_EQUAL(h_info(w.device).restarts, 0);
    h_close(&w);
}

/* A relative path is that of this process when the actor is made. */
static void relative_path(void)
{
    h_world w = h_open(NULL);
    char folder[1024], before[1024];
    trp_actor *actor = NULL;
    H_CHECK(getcwd(before, sizeof before) != NULL);
    snprintf(folder, sizeof folder, "%s", h_plugin("hostile"));
    *strrchr(folder, '/') = '\0';
    H_CHECK(chdir(folder) == 0);
    trp_status status =
        trp_actor_create(w.device, &(trp_actor_options){.library = "./hostile.so"}, &actor);
    H_CHECK(chdir(before) == 0);
    H_OK(status);
    h_works(w.device, actor, 1);
    h_close(&w);
}

/* With its last actor a library goes, in every worker that had it; the next one finds it as new. */
static void unloading(void)
{
    h_world w = h_open(NULL);
    size_t workers = h_isolation() == TRP_ISOLATION_PROCESS ? 2 : 1;
    if (workers == 2)
        h_await_standby(w.device);
    char config[300];
    const char *path = h_note_file(config, sizeof config);
    trp_actor *first = h_hostile(w.device, config), *second = h_hostile(w.device, NULL);
    H_EQUAL(h_report(w.device, second).inits, 2);
    trp_actor_destroy(first);
    h_await_lines(path, "stop", workers);
    h_works(w.device, second, 4);
    H_EQUAL(h_count_lines(path, "unload"), 0);
    trp_actor_destroy(second);
    h_await_lines(path, "unload", workers);
    H_EQUAL(h_count_lines(path, "stop"), 2 * workers);
    trp_actor *third = h_hostile(w.device, NULL);
    H_EQUAL(h_report(w.device, third).inits, 1);
    H_CHECK(unlink(path) == 0);
    for (int i = 0; i < 30; i++) {
        trp_actor *more = h_hostile(w.device, NULL);
        h_works(w.device, more, 2);
        trp_actor_destroy(more);
    }
    h_close(&w);
}

/* The actor of examples/custom, on whatever device this is: bit for bit what plain C gives. */
static void example(void)
{
    struct {
        uint64_t count;
        float scale, shift, low, high;
    } p = {.count = WORDS, .scale = 1.75f, .shift = -0.3f, .low = -20, .high = 30.5f};
    h_world w = h_open(NULL);
    trp_actor *actor = NULL;
    float x[WORDS], got[WORDS];
    for (int i = 0; i < WORDS; i++)
        x[i] = (float)ref_rng_uniform(h_rng(), -50, 50);
    H_OK(trp_actor_create(w.device, &(trp_actor_options){.library = h_plugin("scale_clamp_actor")},
                          &actor));
    trp_buffer in = h_buffer(w.device, BYTES), out = h_buffer(w.device, BYTES);
    h_write(w.device, in, 0, x, BYTES);
    trp_custom_request r = {.code = 1, .payload = &p, .payload_bytes = sizeof p};
    h_add_access(&r, in, TRP_ACCESS_READ);
    h_add_access(&r, out, TRP_ACCESS_COVER);
    H_OK(h_run(actor, &r, NULL));
    h_read(w.device, out, 0, got, BYTES);
    for (int i = 0; i < WORDS; i++) {
        float expected = fminf(fmaxf(fmaf(p.scale, x[i], p.shift), p.low), p.high);
        H_SAME(&got[i], &expected, sizeof expected);
    }
    p.count--;
    H_IS(h_run(actor, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("count");
    r.access[1].mode = TRP_ACCESS_READ;
    H_IS(h_run(actor, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("cover");
    h_close(&w);
}

H_CASES(H_CASE(work), H_CASE(what_is_given), H_CASE(refusals), H_CASE(bad_requests), H_CASE(pieces),
        H_CASE(trimming), H_CASE(bad_libraries), H_CASE(bad_options), H_CASE(relative_path),
        H_CASE(unloading), H_CASE(example))

/* The sender's side of the jit actor: what is refused, and what a record says of what is accepted.
 */
#include "support/unit.h"

#include "actors/jit/jit.h"
#include "actors/jit/jit_wire.h"
#include "base/error.h"
#include "client/memory/heap.h"
#include "compile/blobs.h"
#include "support/label.h"
#include "wire/layout.h"
#include "compile/modules/module.h"

#include <troupe/troupe.h>

#include <sys/mman.h>

TROUPE_TEST("no tsan");

enum { BUFFER_BYTES = 1 << 20, ROOM = 128 << 20 };

static trp__record record;
static trp_error error;
static uint32_t acquired, made;
static char *heap_memory, piece[TRP__SMALL_BYTES]; /* the memory of the heap, and a piece */
static trp__heap heap;
static _Atomic uint32_t incarnation;
static const char *const module_names[] = {"&table", "first", "second<int>"};
static uint32_t module_kind; /* trp_jit_output, of the module that is used */
static trp__object *used[TRP_JIT_CUBIN_LTO], *new_object;
static trp_backend backend;
static uint32_t compute;

/* Buffers are known by their number; 9 is stale. */
static trp_status acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes)
{
    if (buffer.id == 0 || buffer.id == 9)
        return trp__error_set(encoder->error, TRP_E_STALE, "%s: stale", name);
    access->slot = (uint32_t)buffer.id;
    access->generation = 1;
    *bytes = BUFFER_BYTES;
    acquired++;
    return TRP_OK;
}

/* Of objects that are made the last one stays. */
static void forget_object(void)
{
    if (new_object)
        new_object->class->destroy(new_object, false);
    new_object = NULL;
}

static trp_status make_object(trp__encoder *encoder, trp__object *object, uint64_t *handle)
{
    forget_object();
    encoder->record->access[encoder->record->access_count++].mode = TRP__WRITE | TRP__COVER;
    acquired++;
    made++;
    new_object = object;
    *handle = object->handle = 77;
    return TRP_OK;
}

/* Objects are known by their number, too: 9 is stale, 8 has failed. */
static trp_status use_object(trp__encoder *encoder, const trp__object_class *class,
                             const char *name, uint64_t handle, uint32_t mode, trp__object **object)
{
    assert_ptr_equal(class, &trp__module_class);
    if (handle == 0 || handle == 9)
        return trp__error_set(encoder->error, TRP_E_STALE, "%s: stale", name);
    if (handle == 8)
        return trp__error_set(encoder->error, TRP_E_DEPENDENCY, "%s: failed", name);
    encoder->record->access[encoder->record->access_count++].mode = (uint8_t)mode;
    acquired++;
    *object = used[module_kind];
    return TRP_OK;
}

static void shed(trp__encoder *encoder)
{
    (void)encoder;
}

static trp__request_id this_request(trp__encoder *encoder)
{
    (void)encoder;
    return (trp__request_id){0};
}

static bool has_ended(const trp__encoder *encoder, trp__request_id request)
{
    (void)encoder;
    (void)request;
    return false;
}

static const trp__object_ops objects = {.make = make_object,
                                        .use = use_object,
                                        .shed = shed,
                                        .request = this_request,
                                        .has_ended = has_ended};

static trp_status result(trp__encoder *encoder, void *target, uint32_t bytes)
{
    (void)target;
    encoder->record->piece = 1;
    encoder->record->piece_bytes = bytes;
    return TRP_OK;
}

static trp_status input(trp__encoder *encoder, uint32_t bytes, void **room)
{
    assert_true(bytes <= sizeof piece);
    *room = piece;
    return result(encoder, NULL, bytes);
}

static trp_status encode(trp_status (*function)(trp__encoder *, const trp_request *),
                         const void *request)
{
    trp__encoder p = {.record = &record,
                      .error = &error,
                      .backend = backend,
                      .acquire = acquire,
                      .result = result,
                      .input = input,
                      .objects = &objects,
                      .heap = &heap,
                      .compute = compute};
    memset(&record, 0, sizeof record);
    memset(&error, 0, sizeof error);
    acquired = made = 0;
    trp_status status = function(&p, request);
    assert_int_equal(status, error.status);
    /* What was acquired is in the record, so that its owner gives it back. */
    assert_int_equal(record.access_count, acquired);
    return status;
}

static void refused(trp_status (*function)(trp__encoder *, const trp_request *),
                    const void *request, trp_status status, const char *word)
{
    trp_status got = encode(function, request);
    if (got != status || !strstr(error.message, word))
        fail_msg("%s: \"%s\", expected %s saying %s", trp_status_name(got), error.message,
                 trp_status_name(status), word);
}

/* A module of a kind that others can be used by. */
static trp__object *used_module(trp_jit_output kind)
{
    trp__encoder p = {.record = &record, .error = &error, .objects = &objects, .heap = &heap};
    const trp__module_spec spec = {
        .output_bytes = 1000, .output_kind = kind, .name_count = 3, .names = module_names};
    trp__module_layout layout;
    trp_module module;
    memset(&record, 0, sizeof record);
    assert_int_equal(trp__module_make(&p, &spec, &module, &layout), TRP_OK);
    trp__object *object = new_object;
    new_object = NULL;
    return object;
}

static int begin(void **state)
{
    (void)state;
    heap_memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(heap_memory, MAP_FAILED);
    memset(&heap, 0, sizeof heap);
    trp__heap_init(&heap, NULL, &incarnation, NULL);
    assert_true(trp__heap_reserve(&heap));
    trp__heap_begin(&heap, heap_memory, ROOM, 5);
    trp__heap_add_class(&heap, &trp__module_class);
    backend = TRP_BACKEND_CUDA;
    compute = 90;
    module_kind = TRP_JIT_CUBIN;
    for (uint32_t i = 0; i < TRP_JIT_CUBIN_LTO; i++)
        used[i] = used_module((trp_jit_output)i);
    return 0;
}

static int end(void **state)
{
    (void)state;
    forget_object();
    for (uint32_t i = 0; i < TRP_JIT_CUBIN_LTO; i++)
        trp__module_class.destroy(used[i], false);
    trp__heap_end(&heap);
    return munmap(heap_memory, ROOM);
}

static trp_module out_module;

static trp_jit_compile_request compile_request(void)
{
    return (trp_jit_compile_request){.source = "source", .module = &out_module};
}

#define COMPILE(change, status, word)                                                              \
    do {                                                                                           \
        trp_jit_compile_request r = compile_request();                                             \
        change;                                                                                    \
        refused(trp__jit_encode_compile, &r, status, word);                                        \
        assert_int_equal(made, 0);                                                                 \
    } while (0)

static void compile_refused(void **state)
{
    (void)state;
    static const char *strings[TRP_JIT_OPTIONS_MAX + 1];
    static const char *const arch[] = {"-DX", "-arch=sm_90"}, *const inc[] = {"-Ix"},
                             *const dlto[] = {"-dlto"}, *const pch[] = {"--pch-dir=/x"},
                             *const time_option[] = {"--time=x"}, *const null[] = {NULL},
                             *const empty[] = {""};
    static const trp_jit_header nameless[] = {{NULL, "x"}}, textless[] = {{"x", NULL}};
    COMPILE(r.source = NULL, TRP_E_ARGUMENT, "source");
    COMPILE(r.source = "", TRP_E_ARGUMENT, "source");
    COMPILE(r.module = NULL, TRP_E_ARGUMENT, "module");
    COMPILE(r.output = (trp_jit_output)4, TRP_E_ARGUMENT, "output");
    COMPILE(r.output_bytes_max = (UINT64_C(1) << 30) + 1, TRP_E_ARGUMENT, "output_bytes_max");
    COMPILE((r.options = NULL, r.option_count = 1), TRP_E_ARGUMENT, "options");
    COMPILE((r.options = strings, r.option_count = TRP_JIT_OPTIONS_MAX + 1), TRP_E_ARGUMENT,
            "at most");
    COMPILE((r.options = null, r.option_count = 1), TRP_E_ARGUMENT, "options[0]");
    COMPILE((r.names = empty, r.name_count = 1), TRP_E_ARGUMENT, "names[0]");
    COMPILE((r.include_paths = null, r.include_count = 1), TRP_E_ARGUMENT, "include_paths[0]");
    COMPILE((r.headers = nameless, r.header_count = 1), TRP_E_ARGUMENT, "headers[0].name");
    COMPILE((r.headers = textless, r.header_count = 1), TRP_E_ARGUMENT, "headers[0].text");
    COMPILE((r.headers = textless, r.header_count = 1), TRP_E_ARGUMENT, "got NULL");
    COMPILE((r.headers = NULL, r.header_count = 1), TRP_E_ARGUMENT, "headers");
    COMPILE((r.options = arch, r.option_count = 2), TRP_E_ARGUMENT, "options[1]");
    COMPILE((r.options = inc, r.option_count = 1), TRP_E_ARGUMENT, "include_paths");
    COMPILE((r.options = dlto, r.option_count = 1), TRP_E_ARGUMENT, "TRP_JIT_LTOIR");
    COMPILE((r.options = pch, r.option_count = 1), TRP_E_ARGUMENT, "precompiled");
    COMPILE((r.options = time_option, r.option_count = 1), TRP_E_ARGUMENT, "written");
    static const char *const blank[] = {" -Ix", "\t-include=x.h", "-include=x.h ", " ", "-DN\n"};
    for (size_t i = 0; i < sizeof blank / sizeof *blank; i++)
        COMPILE((r.options = &blank[i], r.option_count = 1), TRP_E_ARGUMENT, "blanks");
    static const char *const bad[] = {"sm_9",    "sm_9000", "sm_90x", "compute_90", "native",
                                      "sm_90a ", "sm_",     "",       "90",         "SM_90"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        COMPILE(r.architecture = bad[i], TRP_E_ARGUMENT, "architecture");
    compute = 0;
    COMPILE((void)0, TRP_E_ARGUMENT, "architecture");
    COMPILE(r.architecture = "a", TRP_E_ARGUMENT, "architecture");
}

/* The input that a compile leaves is what the worker reads. */
static void compile_accepted(void **state)
{
    (void)state;
    static const char *const options[] = {"-DA", "-DB"}, *const includes[] = {"/abs", "rel"},
                             *const names[] = {"k<int>"};
    static const trp_jit_header headers[] = {{"h.h", ""}};
    trp_jit_compile_request r = compile_request();
    r.options = options;
    r.option_count = 2;
    r.include_paths = includes;
    r.include_count = 2;
    r.names = names;
    r.name_count = 1;
    r.headers = headers;
    r.header_count = 1;
    r.architecture = "a";
    assert_int_equal(encode(trp__jit_encode_compile, &r), TRP_OK);
    trp__jit_make make;
    memcpy(&make, record.payload, sizeof make);
    trp__jit_blobs b = trp__jit_blobs_begin(heap_memory + trp__storage_input_at(&make.storage),
                                            make.storage.input_bytes);
    trp__jit_compile_head head;
    memcpy(&head, trp__jit_blobs_head(&b, sizeof head), sizeof head);
    assert_true(head.options == 2 && head.includes == 2 && head.headers == 1 && head.names == 1);
    static const char *const expected[] = {"source", "kernel.cu", "sm_90a", "-DA", "-DB", "/abs"};
    for (int i = 0; i < 6; i++)
        assert_string_equal(trp__jit_blob_text(&b), expected[i]);
    const char *relative = trp__jit_blob_text(&b);
    assert_true(relative[0] == '/' && strcmp(relative + strlen(relative) - 4, "/rel") == 0);
    assert_string_equal(trp__jit_blob_text(&b), "h.h");
    assert_string_equal(trp__jit_blob_text(&b), "");
    assert_string_equal(trp__jit_blob_text(&b), "k<int>");
    assert_false(b.bad);
    assert_null(trp__jit_blob_text(&b)); /* and nothing more that is a text */
    static const char *const good[] = {"sm_90", "sm_100f", "sm_120a", "f"};
    for (int i = 0; i < 4; i++) {
        r.architecture = good[i];
        assert_int_equal(encode(trp__jit_encode_compile, &r), TRP_OK);
    }
    r.output = TRP_JIT_PTX;
    r.architecture = "compute_90";
    assert_int_equal(encode(trp__jit_encode_compile, &r), TRP_OK);
}

/* Damaged blobs are never read past their end. */
static void blobs_damaged(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        char bytes[64];
        size_t size = (size_t)rand() % sizeof bytes;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)(rand() % 4 ? 0 : rand());
        char *exact = malloc(size ? size : 1); /* so that a sanitizer sees the end */
        memcpy(exact, bytes, size);
        trp__jit_blobs b = trp__jit_blobs_begin(exact, size);
        uint64_t length;
        while (!b.bad) {
            const char *at = round % 2 ? trp__jit_blob_text(&b) : trp__jit_blob(&b, &length);
            if (at && round % 2)
                assert_true(strlen(at) < size);
        }
        free(exact);
    }
}

static void load_refused(void **state)
{
    (void)state;
    char image[64] = "\x7f"
                     "ELF";
    static const char *const null[] = {NULL}, *const two_lines[] = {"a", "b\nc"};
    trp_jit_load_request good = {.image = image, .bytes = sizeof image, .module = &out_module}, r;
    assert_int_equal(encode(trp__jit_encode_load, &good), TRP_OK);
    r = good, r.image = NULL;
    refused(trp__jit_encode_load, &r, TRP_E_ARGUMENT, "image");
    r = good, r.bytes = 0;
    refused(trp__jit_encode_load, &r, TRP_E_ARGUMENT, "bytes");
    r = good, r.bytes = TRP_JIT_SOURCE_MAX + 1;
    refused(trp__jit_encode_load, &r, TRP_E_ARGUMENT, "at most");
    r = good, r.module = NULL;
    refused(trp__jit_encode_load, &r, TRP_E_ARGUMENT, "module");
    r = good, r.names = null, r.name_count = 1;
    refused(trp__jit_encode_load, &r, TRP_E_ARGUMENT, "names[0]");
    r = good, r.names = two_lines, r.name_count = 2;
    refused(trp__jit_encode_load, &r, TRP_E_ARGUMENT, "names[1]");
    image[0] = 1;
    refused(trp__jit_encode_load, &good, TRP_E_ARGUMENT, "image");
    backend = TRP_BACKEND_HOST;
    refused(trp__jit_encode_load, &good, TRP_E_UNSUPPORTED, "GPU");
}

static void link_refused(void **state)
{
    (void)state;
    const trp_jit_input one = {.module = {1}}, both = {.module = {1}, .data = "x", .bytes = 1},
                        neither = {0}, empty = {.data = "x"},
                        kind = {.data = "x", .bytes = 1, .kind = (trp_jit_input_kind)7},
                        stale = {.module = {9}}, failed = {.module = {8}};
    trp_jit_input many[TRP_JIT_LINK_MODULES_MAX + 1];
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = one;
    trp_jit_link_request good = {.inputs = &one, .input_count = 1, .module = &out_module}, r;
    assert_int_equal(encode(trp__jit_encode_link, &good), TRP_OK);
    r = good, r.input_count = 0;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "input_count");
    r = good, r.input_count = TRP_JIT_LINK_INPUTS_MAX + 1;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "input_count");
    r = good, r.inputs = NULL;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "inputs");
    r = good, r.inputs = &both;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "both");
    r = good, r.inputs = &neither;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "neither");
    r = good, r.inputs = &empty;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "bytes");
    r = good, r.inputs = &kind;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "kind");
    r = good, r.inputs = &stale;
    refused(trp__jit_encode_link, &r, TRP_E_STALE, "inputs[0]");
    r = good, r.inputs = &failed;
    refused(trp__jit_encode_link, &r, TRP_E_DEPENDENCY, "inputs[0]");
    r = good, r.inputs = many, r.input_count = TRP_JIT_LINK_MODULES_MAX + 1;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "modules");
    static const char *const two_lines[] = {"b\nc"};
    r = good, r.names = two_lines, r.name_count = 1;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "names[0]");
    r = good, r.output = TRP_JIT_PTX;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "lto");
    r = good, r.output = TRP_JIT_LTOIR;
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "output");
    r = good, r.architecture = "compute_90";
    refused(trp__jit_encode_link, &r, TRP_E_ARGUMENT, "architecture");
    r = good, r.inputs = many, r.input_count = TRP_JIT_LINK_MODULES_MAX;
    assert_int_equal(encode(trp__jit_encode_link, &r), TRP_OK);
}

static trp_kernel_launch_request launch_request(void)
{
    return (trp_kernel_launch_request){.module = {1}, .grid = {10}, .block = {32}};
}

#define LAUNCH(change, status, word)                                                               \
    do {                                                                                           \
        trp_kernel_launch_request r = launch_request();                                            \
        change;                                                                                    \
        refused(trp__jit_encode_launch, &r, status, word);                                         \
    } while (0)

static void launch_refused(void **state)
{
    (void)state;
    static trp_kernel_arg args[TRP_KERNEL_ARGS_MAX + 1];
    trp_kernel_arg one = trp_arg_u32(1);
    LAUNCH(r.module.id = 0, TRP_E_STALE, "module");
    LAUNCH(r.module.id = 9, TRP_E_STALE, "module");
    LAUNCH(r.module.id = 8, TRP_E_DEPENDENCY, "module");
    LAUNCH(r.kernel = "third", TRP_E_ARGUMENT, "kernel");
    LAUNCH(r.kernel = "&table", TRP_E_ARGUMENT, "kernel");
    LAUNCH(r.grid[0] = 0, TRP_E_ARGUMENT, "grid[0]");
    LAUNCH(r.grid[0] = UINT32_MAX, TRP_E_ARGUMENT, "grid[0]");
    LAUNCH(r.grid[1] = 65536, TRP_E_ARGUMENT, "grid[1]");
    LAUNCH(r.grid[2] = 65536, TRP_E_ARGUMENT, "grid[2]");
    LAUNCH(r.block[0] = 0, TRP_E_ARGUMENT, "block[0]");
    LAUNCH(r.block[0] = 1025, TRP_E_ARGUMENT, "block[0]");
    LAUNCH(r.block[2] = 65, TRP_E_ARGUMENT, "block[2]");
    LAUNCH((r.block[0] = 64, r.block[1] = 32), TRP_E_ARGUMENT, "block: expected at most 1024");
    LAUNCH((r.cluster[0] = 3), TRP_E_ARGUMENT, "grid[0]: expected a multiple");
    LAUNCH((r.cluster[0] = 17), TRP_E_ARGUMENT, "cluster[0]");
    LAUNCH((r.cluster[1] = 2), TRP_E_ARGUMENT, "cluster[0]");
    LAUNCH(r.arg_count = 1, TRP_E_ARGUMENT, "args");
    LAUNCH((r.args = args, r.arg_count = TRP_KERNEL_ARGS_MAX + 1), TRP_E_ARGUMENT, "arg_count");
    one.bytes = 0;
    LAUNCH((r.args = &one, r.arg_count = 1), TRP_E_ARGUMENT, "args[0].bytes");
    one.bytes = 9;
    LAUNCH((r.args = &one, r.arg_count = 1), TRP_E_ARGUMENT, "args[0].bytes");
    one.kind = (trp_arg_kind)3;
    LAUNCH((r.args = &one, r.arg_count = 1), TRP_E_ARGUMENT, "args[0].kind");
    one = trp_arg_bytes(piece, TRP_KERNEL_VALUES_MAX + 1);
    LAUNCH((r.args = &one, r.arg_count = 1), TRP_E_ARGUMENT, "args[0].bytes");
    one = trp_arg_buffer((trp_buffer){9}, TRP_ACCESS_READ);
    LAUNCH((r.args = &one, r.arg_count = 1), TRP_E_STALE, "args[0]");
    one = trp_arg_buffer((trp_buffer){1}, (trp_access_mode)5);
    LAUNCH((r.args = &one, r.arg_count = 1), TRP_E_ARGUMENT, "args[0].mode");
    one = trp_arg_buffer((trp_buffer){1}, TRP_ACCESS_READ);
    one.offset = BUFFER_BYTES;
    LAUNCH((r.args = &one, r.arg_count = 1), TRP_E_ARGUMENT, "args[0].offset");
    one.offset = 8;
    one.buffer_bytes = BUFFER_BYTES;
    LAUNCH((r.args = &one, r.arg_count = 1), TRP_E_ARGUMENT, "args[0].buffer_bytes");
    one.offset = one.buffer_bytes = 0;
    for (int i = 0; i <= TRP_KERNEL_BUFFERS_MAX; i++)
        args[i] = one;
    LAUNCH((r.args = args, r.arg_count = TRP_KERNEL_BUFFERS_MAX + 1), TRP_E_ARGUMENT,
           "name a buffer");
    compute = 80;
    LAUNCH(r.cluster[0] = 2, TRP_E_UNSUPPORTED, "cluster");
    module_kind = TRP_JIT_LTOIR;
    LAUNCH((void)0, TRP_E_ARGUMENT, "LTO-IR");
    backend = TRP_BACKEND_HOST;
    LAUNCH((void)0, TRP_E_UNSUPPORTED, "GPU");
}

static void maps_refused(void **state)
{
    (void)state;
    const trp_tensor_map good = {.type = TRP_F32, .rank = 2, .size = {64, 8}, .box = {32, 8}};
    trp_tensor_map map = good;
    trp_kernel_arg arg = trp_arg_tensor_map((trp_buffer){1}, &map, TRP_ACCESS_READ);
#define MAP(change, word)                                                                          \
    do {                                                                                           \
        map = good;                                                                                \
        change;                                                                                    \
        LAUNCH((r.args = &arg, r.arg_count = 1), TRP_E_ARGUMENT, word);                            \
    } while (0)
    MAP(map.type = TRP_C128, "map.type");
    MAP(map.rank = 0, "map.rank");
    MAP(map.rank = 6, "map.rank");
    MAP(map.size[1] = 0, "map.size");
    MAP(map.box[0] = 0, "map.box");
    MAP(map.box[0] = 257, "map.box");
    MAP(map.step[1] = 9, "map.step");
    MAP(map.stride[0] = 260, "map.stride");
    MAP(map.size[0] = 63, "map.stride");
    MAP(map.interleave = 3, "map.interleave");
    MAP(map.swizzle = 7, "map.swizzle");
    MAP(map.l2 = 4, "map.l2");
    MAP(map.size[1] = BUFFER_BYTES / 256 + 1, "args[0].map");
    map = good;
    arg.map = NULL;
    LAUNCH((r.args = &arg, r.arg_count = 1), TRP_E_ARGUMENT, "args[0].map");
    arg.map = &map;
    trp_kernel_launch_request r = launch_request();
    r.args = &arg;
    r.arg_count = 1;
    assert_int_equal(encode(trp__jit_encode_launch, &r), TRP_OK);
    trp__jit_launch l;
    trp__jit_tensor t;
    memcpy(&l, record.payload, sizeof l);
    assert_true(l.args_bytes == sizeof(trp__jit_arg) + sizeof t && record.access_count == 2);
    memcpy(&t,
           (l.args_bytes > sizeof l.args ? (const unsigned char *)piece : l.args) +
               sizeof(trp__jit_arg),
           sizeof t);
    assert_true(t.type == 7 && t.rank == 2 && t.stride[0] == 256 && t.step[1] == 1);
}

/* In the record as long as they fit, else in staging memory; in their order, with their modes. */
static void launch_accepted(void **state)
{
    (void)state;
    unsigned char large[3000];
    memset(large, 0xab, sizeof large);
    trp_kernel_arg args[] = {trp_arg_buffer((trp_buffer){4}, TRP_ACCESS_DEFAULT), trp_arg_f64(2.5),
                             trp_arg_buffer((trp_buffer){5}, TRP_ACCESS_COVER), trp_arg_i32(-7)};
    trp_kernel_launch_request r = launch_request();
    trp__jit_launch l;
    r.args = args;
    r.arg_count = 4;
    r.kernel = "second<int>";
    r.cooperative = true;
    assert_int_equal(encode(trp__jit_encode_launch, &r), TRP_OK);
    memcpy(&l, record.payload, sizeof l);
    assert_true(l.name == 2 && l.cooperative == 1 && l.arg_count == 4 && record.piece == 0);
    assert_true(l.grid[0] == 10 && l.grid[1] == 1 && l.grid[2] == 1 && l.block[2] == 1);
    assert_true(record.access[0].mode == TRP__READ);
    assert_true(record.access[1].mode == (TRP__READ | TRP__WRITE) && record.access[1].slot == 4);
    assert_true(record.access[2].mode == (TRP__WRITE | TRP__COVER));
    assert_true(record.access[2].bytes == BUFFER_BYTES);
    trp__jit_arg a;
    memcpy(&a, l.args + 8, sizeof a);
    assert_true(a.kind == TRP_ARG_VALUE && a.bytes == 8);
    args[1] = trp_arg_bytes(large, sizeof large);
    r.kernel = NULL;
    assert_int_equal(encode(trp__jit_encode_launch, &r), TRP_OK);
    memcpy(&l, record.payload, sizeof l);
    assert_true(l.name == 1 && record.piece == 1 && l.args_bytes > sizeof large);
    assert_memory_equal(piece + 16, large, sizeof large);
}

/* The name of the variable that the encoded set has noted for the workers to come. */
static const char *noted_variable(void)
{
    trp__jit_set s;
    memcpy(&s, record.payload, sizeof s);
    const trp__storage_head *head =
        (const trp__storage_head *)(void *)(heap_memory + s.storage.offset);
    return heap_memory + head->set[s.set].data;
}

static void set_and_query(void **state)
{
    (void)state;
    trp_module_set_request good = {.module = {1}, .variable = "x", .data = "abcd", .bytes = 4}, r;
    assert_int_equal(encode(trp__jit_encode_set, &good), TRP_OK);
    assert_true(record.access[0].mode == TRP__WRITE); /* so that it can run again */
    assert_string_equal(noted_variable(), "x");
    r = good, r.variable = "table"; /* by its number among the names */
    assert_int_equal(encode(trp__jit_encode_set, &r), TRP_OK);
    assert_string_equal(noted_variable(), "#0");
    r = good, r.variable = NULL;
    refused(trp__jit_encode_set, &r, TRP_E_ARGUMENT, "variable");
    r = good, r.variable = "";
    refused(trp__jit_encode_set, &r, TRP_E_ARGUMENT, "variable");
    r = good, r.bytes = 0;
    refused(trp__jit_encode_set, &r, TRP_E_ARGUMENT, "bytes");
    r = good, r.bytes = TRP_MODULE_SET_MAX + 1;
    refused(trp__jit_encode_set, &r, TRP_E_ARGUMENT, "bytes");
    r = good, r.data = NULL;
    refused(trp__jit_encode_set, &r, TRP_E_ARGUMENT, "data");
    r = good, r.offset = UINT64_MAX;
    refused(trp__jit_encode_set, &r, TRP_E_ARGUMENT, "offset");
    r = good, r.module.id = 9;
    refused(trp__jit_encode_set, &r, TRP_E_STALE, "module");
    trp_kernel_info info;
    trp_kernel_query_request q = {.module = {1}, .out = &info};
    assert_int_equal(encode(trp__jit_encode_query, &q), TRP_OK);
    assert_int_equal(record.piece_bytes, sizeof info);
    q.block_threads = 1025;
    refused(trp__jit_encode_query, &q, TRP_E_ARGUMENT, "block_threads");
    q.block_threads = 0, q.out = NULL;
    refused(trp__jit_encode_query, &q, TRP_E_ARGUMENT, "out");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_MAIN(TEST(compile_refused), TEST(compile_accepted), TEST(blobs_damaged), TEST(load_refused),
          TEST(link_refused), TEST(launch_refused), TEST(maps_refused), TEST(launch_accepted),
          TEST(set_and_query))

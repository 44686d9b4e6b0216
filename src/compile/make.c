#include "compile/make.h"

#include "base/error.h"
#include "base/text.h"
#include "compile/blobs.h"
#include "compile/headers.h"
#include "compile/cached.h"
#include "compile/lines.h"
#include "compile/make_key.h"
#include "libs/nvjitlink/nvjitlink.h"
#include "libs/nvrtc/nvrtc.h"
#include "compile/modules/storage.h"

#include <troupe/jit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a request's options and our own. */
enum { OPTIONS = 2 * TRP_JIT_OPTIONS_MAX + 8 };

void trp__jit_made_free(trp__jit_made *made)
{
    if (made->hit.payload) {
        trp__store_hit_end(&made->hit);
    } else {
        free(made->image);
        free(made->log);
        free(made->names);
    }
    free(made->headers);
    free(made->stamps);
    *made = (trp__jit_made){0};
}

static trp_status no_memory(trp_error *error)
{
    return trp__error_set(error, TRP_E_MEMORY, "no memory for a compile");
}

/* Logs. */

/* Tells whether a line reports an error (rather than the number of errors). */
static bool tells(const char *line, size_t length)
{
    const char *at = memmem(line, length, "error", 5);
    return at && (at[5] == ':' || at[5] == ' ') && !memmem(line, length, "errors detected", 15) &&
           !memmem(line, length, "error detected", 14);
}

void trp__jit_error_lines(const char *log, const char *what, char *message, size_t size)
{
    trp__text text = {.out = message, .size = size};
    const char *line = log ? log : "";
    for (int taken = 0; *line && taken < 3;) {
        size_t length = strcspn(line, "\n");
        if (tells(line, length)) {
            trp__text_add(&text, "%s%.*s", taken ? "; " : "", (int)length, line);
            taken++;
        }
        line += length + (line[length] == '\n');
    }
    trp__text_add(&text, "%s%s", text.length > 0 ? "; " : "", what);
}

/* Compile. */

typedef trp__jit_compile_input compile;

/* NVRTC's output: LTO-IR where a link of its own follows. */
static uint32_t compiled_output(const compile *c)
{
    return c->head.output == TRP_JIT_CUBIN_LTO ? TRP_JIT_LTOIR : c->head.output;
}

static trp_status read_compile(compile *c, const char *input, uint64_t bytes, trp_error *error)
{
    trp__jit_blobs b = trp__jit_blobs_begin(input, bytes);
    const void *head = trp__jit_blobs_head(&b, sizeof c->head);
    if (head)
        memcpy(&c->head, head, sizeof c->head);
    if (b.bad || c->head.options > TRP_JIT_OPTIONS_MAX || c->head.includes > TRP_JIT_OPTIONS_MAX ||
        c->head.headers > TRP_JIT_OPTIONS_MAX || c->head.names > TRP_JIT_OPTIONS_MAX ||
        c->head.output > TRP_JIT_CUBIN_LTO || c->head.portable > 1)
        return trp__jit_blobs_damaged(error);
    c->source = trp__jit_blob_text(&b);
    c->name = trp__jit_blob_text(&b);
    c->architecture = trp__jit_blob_text(&b);
    trp__jit_blob_texts(&b, c->options, c->head.options);
    trp__jit_blob_texts(&b, c->includes, c->head.includes);
    for (uint32_t i = 0; i < c->head.headers; i++) {
        c->header_names[i] = trp__jit_blob_text(&b);
        c->header_texts[i] = trp__jit_blob_text(&b);
    }
    trp__jit_blob_texts(&b, c->names, c->head.names);
    return b.bad ? trp__jit_blobs_damaged(error) : TRP_OK;
}

/* Lists NVRTC's options; the request's options keep their order. */
static trp_status list_options(compile *c, const char *options[OPTIONS], int *count,
                               trp_error *error)
{
    int n = 0;
    snprintf(c->architecture_option, sizeof c->architecture_option, "--gpu-architecture=%.31s",
             c->architecture);
    options[n++] = c->architecture_option;
    if (compiled_output(c) == TRP_JIT_LTOIR)
        options[n++] = "-dlto";
    if (!strchr(c->name, '/') && !c->placed_source)
        options[n++] = "--no-source-include"; /* else NVRTC searches the worker's current folder */
    for (uint32_t i = 0; i < c->head.includes; i++) {
        size_t size = strlen(c->includes[i]) + 16;
        c->include_options[i] = malloc(size);
        if (!c->include_options[i])
            return no_memory(error);
        snprintf(c->include_options[i], size, "--include-path=%s", c->includes[i]);
        options[n++] = c->include_options[i];
    }
    for (uint32_t i = 0; i < c->head.options; i++)
        options[n++] = c->options[i];
    *count = n;
    return TRP_OK;
}

/* Gives a source without a folder a path in /dev/null, where no file can be: otherwise NVRTC looks
 * for its includes in the worker's current folder. (--no-source-include would also keep headers
 * from finding those beside them; seen with NVRTC 13.0.) #line restores the name in messages. A
 * name that can't stand in #line uses the option instead. */
static trp_status place_source(compile *c, trp_error *error)
{
    for (const char *at = c->name; *at; at++) {
        if (*at == '/' || *at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            return TRP_OK;
    }
    if (asprintf(&c->placed_name, "/dev/null/%s", c->name) < 0)
        c->placed_name = NULL;
    if (asprintf(&c->placed_source, "#line 1 \"%s\"\n%s", c->name, c->source) < 0)
        c->placed_source = NULL;
    return c->placed_name && c->placed_source ? TRP_OK : no_memory(error);
}

static trp_status trace(const compile *c, trp__jit_headers *out, trp_error *error)
{
    trp__jit_text headers[TRP_JIT_OPTIONS_MAX];
    for (uint32_t i = 0; i < c->head.headers; i++)
        headers[i] = (trp__jit_text){c->header_names[i], c->header_texts[i]};
    const trp__jit_program program = {.source = {c->name, c->source},
                                      .headers = headers,
                                      .header_count = c->head.headers,
                                      .includes = c->includes,
                                      .include_count = c->head.includes,
                                      .options = c->options,
                                      .option_count = c->head.options};
    return trp__jit_headers_trace(&program, out, error);
}

static bool same_headers(const trp__jit_headers *a, const trp__jit_headers *b)
{
    bool same = a->count == b->count && a->unsure == b->unsure;
    for (size_t i = 0; i < a->count && same; i++)
        same = a->row[i].kind == b->row[i].kind && a->row[i].same_as == b->row[i].same_as &&
               trp__hash_equal(&a->row[i].content, &b->row[i].content) &&
               strcmp(a->row[i].name, b->row[i].name) == 0;
    return same;
}

/* Writes the list of headers as text. */
static trp_status set_headers(const trp__jit_headers *headers, bool sure, trp__jit_made *made,
                              trp_error *error)
{
    trp__jit_lines l = {0};
    for (size_t i = 0; i < headers->count; i++) {
        const trp__jit_header_row *row = &headers->row[i];
        trp__jit_add_line(&l, trp__jit_found_text(row->kind), row->path ? row->path : row->name);
        made->header_count += row->kind != TRP__JIT_FOUND_NONE;
    }
    if (!sure)
        trp__jit_add_line(&l, "unsure", "");
    made->headers = l.text;
    made->headers_bytes = l.bytes;
    return l.no_memory ? no_memory(error) : TRP_OK;
}

/* Stores the stamps by which the application sees whether a header has changed. A relative path
 * would refer to the worker's current folder: then there are none. */
static trp_status set_stamps(const trp__jit_headers *headers, trp__jit_made *made, trp_error *error)
{
    size_t bytes = 0;
    for (size_t i = 0; i < headers->count; i++) {
        const char *path = headers->row[i].path;
        if (path && path[0] != '/')
            return TRP_OK;
        bytes += path ? sizeof(trp__storage_stamp) + strlen(path) + 1 : 0;
    }
    char *at = malloc(bytes + 1);
    if (!at)
        return no_memory(error);
    made->stamps = at;
    made->stamps_bytes = bytes;
    made->keepable = true;
    for (size_t i = 0; i < headers->count; i++) {
        const trp__jit_header_row *row = &headers->row[i];
        if (!row->path)
            continue;
        trp__storage_stamp s = {.exists = row->kind == TRP__JIT_FOUND_FILE,
                                .path_bytes = (uint32_t)strlen(row->path) + 1};
        if (s.exists) {
            s.device = row->stamp.device;
            s.inode = row->stamp.inode;
            s.bytes = row->stamp.bytes;
            s.modified_ns = row->stamp.modified_ns;
            s.changed_ns = row->stamp.changed_ns;
        }
        memcpy(at, &s, sizeof s);
        memcpy(at + sizeof s, row->path, s.path_bytes);
        at += sizeof s + s.path_bytes;
    }
    return TRP_OK;
}

trp_status trp__jit_nvrtc_failed(const trp__nvrtc *rtc, trp__nvrtc_result result, const char *call,
                                 const char *log, trp_error *error)
{
    char what[128], message[sizeof error->message];
    snprintf(what, sizeof what, "%s (%d), in %s", rtc->nvrtcGetErrorString(result), result, call);
    trp__jit_error_lines(log, what, message, sizeof message);
    return trp__error_set_code(error, TRP_E_LIBRARY, "nvrtc", result, "%s", message);
}

static int flow(void *argument, void *reserved)
{
    const trp__jit_stop *stop = argument;
    (void)reserved;
    return stop->wanted(stop->argument);
}

trp_status trp__jit_read_log(const trp__nvrtc *rtc, trp__nvrtc_program program, trp__jit_made *made,
                             trp_error *error)
{
    size_t bytes = 0;
    if (rtc->nvrtcGetProgramLogSize(program, &bytes) != TRP__NVRTC_SUCCESS || bytes <= 1)
        return TRP_OK;
    made->log = malloc(bytes + 1);
    if (!made->log)
        return no_memory(error);
    made->log[0] = made->log[bytes] = '\0';
    rtc->nvrtcGetProgramLog(program, made->log);
    made->log_bytes = strlen(made->log);
    return TRP_OK;
}

trp_status trp__jit_read_image(const trp__nvrtc *rtc, trp__nvrtc_program program, uint32_t output,
                               trp__jit_made *made, trp_error *error)
{
    static const char *const calls[] = {"nvrtcGetCUBIN", "nvrtcGetPTX", "nvrtcGetLTOIR"};
    trp__nvrtc_result (*const size_of[])(trp__nvrtc_program, size_t *) = {
        rtc->nvrtcGetCUBINSize, rtc->nvrtcGetPTXSize, rtc->nvrtcGetLTOIRSize};
    trp__nvrtc_result (*const get[])(trp__nvrtc_program, char *) = {
        rtc->nvrtcGetCUBIN, rtc->nvrtcGetPTX, rtc->nvrtcGetLTOIR};
    if (output > TRP_JIT_LTOIR)
        return trp__jit_blobs_damaged(error);
    trp__nvrtc_result result = size_of[output](program, &made->image_bytes);
    if (result == TRP__NVRTC_SUCCESS && made->image_bytes > 0) {
        made->image = malloc(made->image_bytes);
        if (!made->image) {
            made->image_bytes = 0;
            return no_memory(error);
        }
        result = get[output](program, made->image);
    }
    return result == TRP__NVRTC_SUCCESS && made->image_bytes > 0
               ? TRP_OK
               : trp__jit_nvrtc_failed(rtc, result, calls[output], NULL, error);
}

static trp_status read_names(const trp__nvrtc *rtc, trp__nvrtc_program program, const compile *c,
                             trp__jit_made *made, trp_error *error)
{
    trp__jit_lines l = {0};
    for (uint32_t i = 0; i < c->head.names; i++) {
        const char *lowered = "";
        trp__nvrtc_result result = rtc->nvrtcGetLoweredName(program, c->names[i], &lowered);
        if (result != TRP__NVRTC_SUCCESS) {
            free(l.text);
            return trp__error_set_code(error, TRP_E_LIBRARY, "nvrtc", result,
                                       "names[%u]: \"%.100s\": %s (%d), in nvrtcGetLoweredName", i,
                                       c->names[i], rtc->nvrtcGetErrorString(result), result);
        }
        trp__jit_add_line(&l, lowered, "");
    }
    made->names = l.text;
    made->names_bytes = l.bytes;
    made->name_count = c->head.names;
    return l.no_memory ? no_memory(error) : TRP_OK;
}

static trp_status run_nvrtc(const trp__nvrtc *rtc, compile *c, trp__jit_made *made,
                            trp_error *error)
{
    trp__nvrtc_program program = NULL;
    const char *options[OPTIONS];
    const char *call = "nvrtcCreateProgram";
    int count = 0;
    trp_status status = place_source(c, error);
    if (status == TRP_OK)
        status = list_options(c, options, &count, error);
    if (status != TRP_OK)
        return status;
    trp__nvrtc_result result =
        rtc->nvrtcCreateProgram(&program, c->placed_source ? c->placed_source : c->source,
                                c->placed_name ? c->placed_name : c->name, (int)c->head.headers,
                                c->header_texts, c->header_names);
    for (uint32_t i = 0; i < c->head.names && result == TRP__NVRTC_SUCCESS; i++) {
        call = "nvrtcAddNameExpression";
        result = rtc->nvrtcAddNameExpression(program, c->names[i]);
    }
    if (result == TRP__NVRTC_SUCCESS && rtc->nvrtcSetFlowCallback)
        rtc->nvrtcSetFlowCallback(program, flow, (void *)(uintptr_t)c->stop);
    if (result == TRP__NVRTC_SUCCESS) {
        call = "nvrtcCompileProgram";
        result = rtc->nvrtcCompileProgram(program, count, options);
        status = trp__jit_read_log(rtc, program, made, error);
    }
    if (status == TRP_OK && result != TRP__NVRTC_SUCCESS)
        status = trp__jit_nvrtc_failed(rtc, result, call, made->log, error);
    if (status == TRP_OK)
        status = read_names(rtc, program, c, made, error);
    if (status == TRP_OK)
        status = trp__jit_read_image(rtc, program, compiled_output(c), made, error);
    if (program)
        rtc->nvrtcDestroyProgram(&program);
    if (status == TRP_OK && c->head.output == TRP_JIT_CUBIN_LTO)
        status = trp__jit_link_alone(c->architecture, c->names, c->head.names, made, error);
    return status;
}

/* The kernel cache. */

/* Tells whether the image contains paths of folders; "/a/b/." is looked for as "/a/b". */
static bool has_paths(const compile *c, const trp__jit_made *made)
{
    bool any = false;
    for (uint32_t i = 0; i < c->head.includes && !any; i++) {
        const char *path = c->includes[i];
        size_t length = strlen(path);
        while (length > 1 &&
               (path[length - 1] == '/' || (path[length - 1] == '.' && path[length - 2] == '/')))
            length--;
        any = memmem(made->image, made->image_bytes, path, length) != NULL;
    }
    return any;
}

/* Room for the identities of compiler and linker. */
enum { COMPILER = TRP__NVRTC_IDENTITY + TRP__NVJITLINK_IDENTITY + 4 };

typedef struct compiling {
    compile *c;
    const trp__jit_headers *headers;
    char compiler[COMPILER]; /* part of the key; empty: irrelevant */
    bool mistaken; /* another compiler was loaded than the key names: nothing was compiled */
    bool changed;  /* headers changed while the compiler ran */
    bool placed;   /* the request says portable, but the image contains paths */
} compiling;

/* Identifies NVRTC, and nvJitLink where it takes part. */
static trp_status identify(const compile *c, char out[COMPILER], trp_error *error)
{
    char compiler[TRP__NVRTC_IDENTITY], linker[TRP__NVJITLINK_IDENTITY];
    bool links = c->head.output == TRP_JIT_CUBIN_LTO;
    trp_status status = trp__nvrtc_identity(compiler, error);
    if (status == TRP_OK && links)
        status = trp__nvjitlink_identity(linker, error);
    if (status == TRP_OK)
        snprintf(out, COMPILER, "%s%s%s", compiler, links ? ", " : "", links ? linker : "");
    return status;
}

/* Loads the compiler and checks that it is the one in the key. */
static trp_status load_compiler(compiling *x, const trp__nvrtc **rtc, trp_error *error)
{
    char loaded[COMPILER];
    const trp__nvjitlink *jl;
    trp_status status = trp__nvrtc_load(rtc, error);
    if (status == TRP_OK && x->c->head.output == TRP_JIT_CUBIN_LTO)
        status = trp__nvjitlink_load(&jl, error);
    if (status != TRP_OK || !*x->compiler)
        return status;
    status = identify(x->c, loaded, error);
    x->mistaken = status == TRP_OK && strcmp(loaded, x->compiler) != 0;
    return x->mistaken
               ? trp__error_set(error, TRP_E_INTERNAL, "the compiler was taken for another one")
               : status;
}

static trp_status compile_now(void *context, trp__jit_made *made, bool *keep, trp_error *error)
{
    compiling *x = context;
    const trp__nvrtc *rtc;
    trp__jit_headers after = {0};
    trp_status status = load_compiler(x, &rtc, error);
    if (status == TRP_OK)
        status = run_nvrtc(rtc, x->c, made, error);
    if (status == TRP_OK)
        status = trace(x->c, &after, error);
    x->changed = status == TRP_OK && !same_headers(x->headers, &after);
    x->placed = status == TRP_OK && trp__jit_is_portable(x->c) && has_paths(x->c, made);
    *keep = !x->changed && !x->placed;
    trp__jit_headers_free(&after);
    return status;
}

/* Finds an entry of a pack without NVRTC, whichever compiler made it. */
static bool find_packed(const compile *c, const trp__jit_headers *headers, trp__jit_made *made)
{
    const char *compiler;
    bool found = false;
    for (size_t i = 0; !found && (compiler = trp__jit_packed_compiler(i)); i++) {
        trp__key key = {0};
        trp__jit_make_key(compiler, c, headers, &key);
        found = trp__jit_find_cached(&key, made);
        trp__key_end(&key);
    }
    return found;
}

static trp_status find_or_make(compiling *x, trp__jit_made *made, trp_error *error)
{
    trp__key key = {0};
    trp_status status = identify(x->c, x->compiler, error);
    x->mistaken = false;
    if (status == TRP_OK) {
        trp__jit_make_key(x->compiler, x->c, x->headers, &key);
        status = trp__jit_find_or_make(&key, x->c->stop, compile_now, x, made, error);
        trp__key_end(&key);
    }
    return status;
}

/* Loads NVRTC only to compile. A program that may depend on unknown headers is compiled each
 * time. */
static trp_status find_or_compile(compile *c, const trp__jit_headers *headers, trp__jit_made *made,
                                  trp_error *error)
{
    compiling x = {.c = c, .headers = headers};
    bool ignored;
    trp_status status;
    if (headers->unsure) {
        status = compile_now(&x, made, &ignored, error);
    } else {
        status = find_or_make(&x, made, error);
        if (x.mistaken) /* the compiler is loaded now, so its identity is certain */
            status = find_or_make(&x, made, error);
        if (status == TRP_E_MISSING && find_packed(c, headers, made))
            status = TRP_OK;
    }
    bool sure = !headers->unsure && !x.changed && !x.placed;
    if (status == TRP_OK)
        status = set_headers(headers, sure, made, error);
    if (status == TRP_OK && sure && headers->settled)
        status = set_stamps(headers, made, error);
    return status;
}

trp_status trp__jit_compile(const char *input, uint64_t bytes, const trp__jit_stop *stop,
                            trp__jit_made *made, trp_error *error)
{
    trp__jit_headers headers = {0};
    compile *c = calloc(1, sizeof *c);
    if (!c)
        return no_memory(error);
    c->stop = stop;
    trp_status status = read_compile(c, input, bytes, error);
    if (status == TRP_OK)
        status = trace(c, &headers, error);
    if (status == TRP_OK)
        status = find_or_compile(c, &headers, made, error);
    trp__jit_headers_free(&headers);
    for (uint32_t i = 0; i < c->head.includes && i < TRP_JIT_OPTIONS_MAX; i++)
        free(c->include_options[i]);
    free(c->placed_source);
    free(c->placed_name);
    free(c);
    return status;
}

void trp__jit_prepare(void)
{
    char compiler[TRP__NVRTC_IDENTITY];
    trp__jit_headers headers = {0};
    trp__jit_made made = {0};
    trp_error ignored;
    compile *c = calloc(1, sizeof *c);
    if (!c)
        return;
    /* Looks up a program that nobody compiles, so that folders, memory and code are warm for the
     * first real one. */
    c->source = "";
    c->name = "nothing";
    c->architecture = "sm_0";
    bool known = trp__nvrtc_look(compiler);
    if (trace(c, &headers, &ignored) == TRP_OK) {
        if (known) {
            trp__key key = {0};
            trp__jit_make_key(compiler, c, &headers, &key);
            (void)trp__jit_find_cached(&key, &made);
            trp__key_end(&key);
        } else {
            (void)find_packed(c, &headers, &made);
        }
    }
    trp__jit_made_free(&made);
    trp__jit_headers_free(&headers);
    free(c);
}

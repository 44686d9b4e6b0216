/* troupe cache warm, pack: compile ahead, as programs would. */
#include "cache.h"

#include "make.h"
#include "ui/ui.h"

#include "actors/jit/encode.h"
#include "cache/prune.h"
#include "tuning/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Compiles in flight: more than the actor has threads, to keep all of them busy. */
enum { FLIGHT = 32 };

/* A compile that was sent. */
typedef struct flight {
    trp_module module;
    trp_completion done;
    trp_status sent;
    char error[512]; /* of a request that could not be sent */
} flight;

/* Compiling. */

/* Compiles are numbered from 0: each line for each architecture. */
static const kernel *kernel_of(const making *m, size_t index)
{
    return &m->kernels[index / m->architectures.count];
}

static const char *architecture_of(const making *m, size_t index)
{
    return m->architectures.text[index % m->architectures.count];
}

static void send(making *m, size_t index, flight *f)
{
    trp_jit_compile_request r = kernel_request(kernel_of(m, index), architecture_of(m, index));
    *f = (flight){0};
    f->sent = trp_jit_compile(m->run.actor, &r, &f->module, &f->done);
    if (f->sent != TRP_OK)
        snprintf(f->error, sizeof f->error, "%s", trp_error_message());
}

bool making_is_unsure(trp_device *device, trp_module module, const char **why)
{
    static const char word[] = "unsure\n";
    uint64_t bytes = 0;
    bool unsure = false;
    *why =
        "it can't be cached: it says when it is compiled, or an #include of a macro, an #embed or "
        "an option hides what it reads, or it is said to be portable and has paths of folders";
    if (trp_module_read(device, module, TRP_MODULE_HEADERS, NULL, 0, &bytes) != TRP_OK)
        return false;
    char *text = malloc(bytes + 1);
    if (text && trp_module_read(device, module, TRP_MODULE_HEADERS, text, bytes, &bytes) == TRP_OK)
        unsure = bytes >= sizeof word - 1 &&
                 memcmp(text + bytes - (sizeof word - 1), word, sizeof word - 1) == 0;
    free(text);
    return unsure;
}

static void show_progress(const making *m)
{
    const char *architecture = architecture_of(m, m->ended), *text = kernel_of(m, m->ended)->text;
    uint64_t left = m->ended ? (ui_now() - m->began) / m->ended * (m->all - m->ended) : 0;
    if (m->ended == 0)
        ui_progress("1 of %zu: %s %s", m->all, architecture, text);
    else
        ui_progress("%zu of %zu, about %s left: %s %s", m->ended + 1, m->all, ui_duration(left).s,
                    architecture, text);
}

static void show_end(making *m, const flight *f, trp_status status, const char *message)
{
    const char *architecture = architecture_of(m, m->ended);
    const kernel *k = kernel_of(m, m->ended);
    char label[48];
    trp_module_info info = {0};
    snprintf(label, sizeof label, "%zu of %zu", m->ended + 1, m->all);
    if (status != TRP_OK) {
        ui_step(UI_BAD, label, 0, "%s %s", architecture, k->text);
        ui_error("%s:%d: %s: %s (%s)", m->path, k->line, architecture, message,
                 trp_status_name(status));
        return;
    }
    (void)trp_module_get_info(m->run.device, f->module, &info);
    m->largest = info.image_bytes > m->largest ? info.image_bytes : m->largest;
    ui_step(UI_GOOD, label, 0, "%s %s: %s", architecture, k->text, ui_bytes(info.image_bytes).s);
}

trp_status making_await(const trp_completion *done, trp_error *error)
{
    enum { LOOK_MS = 100 };
    trp_status status = TRP_E_TIMEOUT;
    while (status == TRP_E_TIMEOUT) {
        if (making_interrupted())
            trp_cancel(done->future);
        status = trp_await(done->future, LOOK_MS * INT64_C(1000000), error);
    }
    return status;
}

/* Waits for a compile and reports it. A missing compiler is reported once. */
static void end(making *m, flight *f)
{
    trp_error error = {0};
    const char *message = f->error;
    trp_status status = f->sent;
    show_progress(m);
    if (status == TRP_OK) {
        status = making_await(&f->done, &error);
        message = error.message;
    }
    if (status == TRP_OK && making_is_unsure(m->run.device, f->module, &message))
        status = TRP_E_UNSUPPORTED;
    bool reported = (m->given_up && status == TRP_E_MISSING) ||
                    (making_interrupted() && status == TRP_E_CANCELLED);
    if (!reported)
        show_end(m, f, status, message);
    m->ended++;
    m->failed += status != TRP_OK;
    m->given_up = m->given_up || status == TRP_E_MISSING;
    if (f->module.id)
        trp_module_free(m->run.device, f->module);
}

bool making_run(making *m)
{
    const run_choice host = {.backend = TRP_BACKEND_HOST};
    flight *flights = calloc(FLIGHT, sizeof *flights);
    size_t sent = 0;
    ui_progress("starting the worker");
    bool open = flights && run_open(&m->run, &host, "jit", NULL);
    if (!flights)
        ui_error("out of memory");
    m->began = ui_now();
    if (open)
        m->all = m->count * m->architectures.count;
    while (open) {
        for (; sent < m->all && sent - m->ended < FLIGHT && !m->given_up && !making_interrupted();
             sent++)
            send(m, sent, &flights[sent % FLIGHT]);
        if (m->ended == sent)
            break;
        end(m, &flights[m->ended % FLIGHT]);
    }
    if (open)
        run_close(&m->run);
    free(flights);
    if (making_interrupted())
        ui_error("interrupted");
    return open && m->failed == 0 && !making_interrupted();
}

bool making_check(const making *m, const struct command *command, int *exit_status)
{
    for (size_t i = 0; i < m->architectures.count; i++) {
        const char *text = m->architectures.text[i];
        if (trp__jit_is_architecture(text, true))
            continue;
        *exit_status =
            options_reject(command, "--arch: expected one such as sm_90 or sm_90a, got '%s'", text);
        return false;
    }
    return true;
}

static bool read_input(making *m, const struct command *command, int argc, char **argv,
                       int *exit_status)
{
    if (!options_parse(command, argc, argv, exit_status))
        return false;
    m->path = argv[1];
    if (!m->path && !m->tuning) {
        *exit_status = options_reject(command, "expected FILE, or --tuning");
        return false;
    }
    if ((m->architectures.count > 0) != (m->path != NULL)) {
        *exit_status = options_reject(command, m->path ? "expected at least one --arch, as in "
                                                         "--arch sm_90a"
                                                       : "--arch belongs to FILE");
        return false;
    }
    if (!making_check(m, command, exit_status))
        return false;
    *exit_status = EXIT_FAILED;
    ui_set_quiet(m->quiet);
    return !m->path || kernels_read_file(m->path, &m->kernels, &m->count);
}

/* warm */

/* Checks first that there is a folder to write to: kernels would be lost without one. */
static bool check_folder(trp__store *store)
{
    trp_error error;
    int folder;
    trp_status status = trp__disk_folder(&store->disk, true, &folder, &error);
    if (status == TRP_OK)
        close(folder);
    else
        ui_error("kernels can't be stored: %s; TROUPE_CACHE_DIR names another folder",
                 error.message);
    return status == TRP_OK;
}

/* The worker ignores a cache that it can't write to. So this tests, by a synced file of the size of
 * the largest image, whether the disk has room. */
static bool check_room(trp__store *store, uint64_t bytes)
{
    enum { PIECE = 4096 };
    char piece[PIECE], name[TRP__DISK_NAME];
    trp_error error;
    int folder, fd = -1;
    trp_status status = trp__disk_folder(&store->disk, true, &folder, &error);
    if (status != TRP_OK) {
        ui_error("%s", error.message);
        return false;
    }
    snprintf(name, sizeof name, TRP__TEMPORARY "%d-room", (int)getpid());
    fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0;
    for (uint64_t done = 0; good && done < bytes + PIECE; done += PIECE) {
        memset(piece, (int)(done / PIECE % 251) + 1, sizeof piece);
        good = write(fd, piece, sizeof piece) == (ssize_t)sizeof piece;
    }
    good = good && fsync(fd) == 0;
    if (!good)
        ui_error("%s: not all kernels were stored: %s", store->disk.place.path,
                 errno ? strerror(errno) : "the disk is full");
    if (fd >= 0) {
        close(fd);
        unlinkat(folder, name, 0);
    }
    close(folder);
    return good;
}

static size_t count_entries(trp__store *store)
{
    trp__disk_list list;
    trp_error error;
    int folder;
    size_t count = 0;
    if (trp__disk_folder(&store->disk, false, &folder, &error) != TRP_OK)
        return 0;
    if (trp__disk_list_all(folder, &list, &error) == TRP_OK) {
        count = list.count;
        trp__disk_list_end(&list);
    }
    close(folder);
    return count;
}

static bool warm(making *m)
{
    trp__store *store;
    if (!cache_open(&store, true))
        return false;
    bool ok = check_folder(store);
    if (ok) {
        size_t before = count_entries(store);
        ok = making_run(m);
        size_t after = count_entries(store);
        if (m->all > 0 && !m->given_up)
            ui_line("%zu of %s found or made in %s, %zu of them new in %s", m->all - m->failed,
                    ui_plural(m->all, "kernel").s, ui_duration(ui_now() - m->began).s,
                    after > before ? after - before : 0, store->disk.place.path);
        ok = check_room(store, m->largest) && ok;
    }
    trp__store_close(store);
    return ok;
}

int cache_warm(int argc, char **argv)
{
    making m = {0};
    int exit_status;
    const option options[] = {
        MAKING_ARCHITECTURES(m),
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &m.quiet, NULL},
    };
    const struct command command = {
        .name = "cache warm",
        .operands = "FILE --arch sm_90a",
        .about = "Compiles the kernels in a text file, for each architecture, into the kernel "
                 "cache: so\n"
                 "that programs of this user find it. Needs NVRTC, and no GPU.\n\n" KERNELS_HELP,
        OPTIONS_OF(options),
        .operand_count = 1,
    };
    if (read_input(&m, &command, argc, argv, &exit_status)) {
        if (m.count == 0) {
            ui_line("%s: no kernels", m.path);
            exit_status = EXIT_DONE;
        } else {
            exit_status = warm(&m) ? EXIT_DONE : EXIT_FAILED;
        }
    }
    kernels_end(m.kernels, m.count);
    return exit_status;
}

/* pack */

typedef struct folding {
    trp__cache_pack_writer *writer;
    trp__store *programs; /* the cache of programs; NULL: no records wanted */
    size_t count, records;
    uint64_t bytes;
    trp_status status;
    trp_error error;
} folding;

void cache_copy_key(const trp__entry *entry, trp__key *key)
{
    char kind[32];
    trp__key_field field;
    trp__inspect_field(entry, TRP__KEY_KIND, kind, sizeof kind);
    *key = (trp__key){0};
    trp__key_begin(key, kind);
    for (size_t at = 0; trp__key_next(entry->key, entry->key_bytes, &at, &field);) {
        if (field.tag != TRP__KEY_FORMAT && field.tag != TRP__KEY_KIND)
            trp__key_add(key, (trp__key_tag)field.tag, field.content, field.bytes);
    }
}

static bool fold_one(void *context, const trp__inspected *one)
{
    folding *f = context;
    trp__key key;
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD) {
        f->status = TRP_E_INTERNAL;
        snprintf(f->error.message, sizeof f->error.message, "an entry that was just made: %s",
                 one->wrong ? one->wrong : "it is no kernel");
        return false;
    }
    const trp__store_entry entry = {.payload = one->entry.payload,
                                    .bytes = one->entry.bytes,
                                    .note = one->entry.note,
                                    .note_bytes = one->entry.note_bytes};
    cache_copy_key(&one->entry, &key);
    f->status =
        trp__cache_pack_add(f->writer, &(trp__store_request){.key = &key}, &entry, &f->error);
    trp__key_end(&key);
    f->count++;
    f->bytes += one->entry.bytes;
    return f->status == TRP_OK;
}

/* Tells whether a record of programs goes into packs: tuning records and final verdicts. A mark of
 * a proof in progress would hide its verdict. */
static bool is_record(const char *kind, const trp__store_hit *hit)
{
    trp__verdict verdict;
    if (trp__verdict_is_kind(kind))
        return trp__verdict_read(hit->payload, hit->bytes, &verdict) &&
               (verdict.state == TRP__VERDICT_PROVEN || verdict.state == TRP__VERDICT_REJECTED);
    return true;
}

/* Adds a record from the cache of programs. */
static bool fold_record(void *context, const trp__inspected *one)
{
    folding *f = context;
    char kind[32];
    trp__key key;
    trp__store_hit hit;
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD)
        return true;
    trp__inspect_field(&one->entry, TRP__KEY_KIND, kind, sizeof kind);
    if (strcmp(kind, TRP__KIND_MATMUL_TUNING) != 0 && strcmp(kind, TRP__KIND_CUTLASS_TUNING) != 0 &&
        !trp__verdict_is_kind(kind))
        return true;
    cache_copy_key(&one->entry, &key);
    const trp__store_request request = {.key = &key};
    if (trp__store_find(f->programs, &request, &hit) ==
            TRP_OK && /* otherwise it was removed meanwhile */
        is_record(kind, &hit)) {
        const trp__store_entry entry = {.payload = hit.payload, .bytes = hit.bytes};
        f->status = trp__cache_pack_add(f->writer, &request, &entry, &f->error);
        f->records++;
        f->bytes += hit.bytes;
    }
    trp__store_hit_end(&hit);
    trp__key_end(&key);
    return f->status == TRP_OK;
}

static trp_status fold_compiled(folding *f)
{
    trp__store *store;
    if (!cache_open(&store, true)) {
        snprintf(f->error.message, sizeof f->error.message,
                 "the compiled kernel was removed from the cache");
        return TRP_E_INTERNAL;
    }
    trp_status status = trp__inspect_all(store, true, fold_one, f, &f->error);
    trp__store_close(store);
    return status;
}

static bool fold(folding *f, const char *pack, bool compiled)
{
    ui_progress("writing %s", pack);
    f->status = trp__cache_pack_begin(pack, &f->writer, &f->error);
    if (f->status == TRP_OK) {
        trp_status status = compiled ? fold_compiled(f) : TRP_OK;
        if (status == TRP_OK && f->status == TRP_OK && f->programs)
            status = trp__inspect_all(f->programs, false, fold_record, f, &f->error);
        f->status = status != TRP_OK ? status : f->status;
        if (f->status == TRP_OK)
            f->status = trp__cache_pack_finish(f->writer, &f->error);
        else
            trp__cache_pack_abandon(f->writer);
    }
    if (f->status != TRP_OK)
        ui_error("%s: %s", pack, f->error.message);
    return f->status == TRP_OK;
}

bool making_try(const char *pack)
{
    trp__cache_pack_writer *writer;
    trp_error error;
    if (trp__cache_pack_begin(pack, &writer, &error) == TRP_OK) {
        trp__cache_pack_abandon(writer);
        return true;
    }
    ui_error("%s: %s", pack, error.message);
    return false;
}

bool making_fold(const char *pack, size_t *kernels, uint64_t *bytes)
{
    folding f = {0};
    bool ok = fold(&f, pack, true);
    *kernels = f.count;
    *bytes = f.bytes;
    return ok;
}

static bool fold_and_show(const making *m, trp__store *programs, const char *pack)
{
    folding f = {.programs = programs};
    if (!fold(&f, pack, m->path != NULL))
        return false;
    if (m->path)
        ui_line("%s of %s, for %s, in %s: %s", ui_plural(f.count, "kernel").s,
                ui_plural(m->count, "line").s, ui_plural(m->architectures.count, "architecture").s,
                pack, ui_bytes(f.bytes).s);
    if (programs)
        ui_line("%s of searches in %s", ui_plural(f.records, "record").s, pack);
    return true;
}

/* Opens the cache of programs, before the environment names another one, and without packs, which
 * stay separate. */
static bool open_programs(const making *m, trp__store **programs)
{
    const trp__store_options options = {.packs = ""};
    trp_error error;
    *programs = NULL;
    if (!m->tuning || trp__store_open(&options, programs, &error) == TRP_OK)
        return true;
    ui_error("the cache can't be opened: %s", error.message);
    return false;
}

static bool pack(making *m, const char *path)
{
    char folder[PATH_MAX] = "";
    trp__store *programs;
    if (m->path && m->count == 0) {
        ui_error("%s: expected at least one kernel; no pack is written", m->path);
        return false;
    }
    if (!making_try(path))
        return false;
    bool ok = open_programs(m, &programs) && (!m->path || making_folder_make(folder));
    if (ok && m->path && !making_run(m)) {
        ui_error("no pack is written");
        ok = false;
    }
    ok = ok && fold_and_show(m, programs, path);
    trp__store_close(programs);
    making_folder_remove(folder);
    return ok;
}

int cache_pack(int argc, char **argv)
{
    making m = {0};
    const char *path = NULL;
    int exit_status;
    const option options[] = {
        MAKING_ARCHITECTURES(m),
        {0, "tuning", NULL, "also the records of searches (troupe tune) in the cache on disk",
         OPTION_FLAG, &m.tuning, NULL},
        {'o', "output", "PACK", "the file to write", OPTION_TEXT, &path, NULL},
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &m.quiet, NULL},
    };
    const struct command command = {
        .name = "cache pack",
        .operands = "[FILE --arch sm_90a] -o PACK",
        .about =
            "Compiles the kernels in a text file, for each architecture, into one file that an\n"
            "application ships: a program for which TROUPE_CACHE_PACKS names it finds the\n"
            "kernels there. Needs NVRTC, and no GPU. With --tuning the pack has the\n"
            "algorithms that searches on this machine have found, too, or, without FILE,\n"
            "just these.\n\n" KERNELS_HELP,
        OPTIONS_OF(options),
        .optional_count = 1,
    };
    if (read_input(&m, &command, argc, argv, &exit_status)) {
        if (!path)
            exit_status = options_reject(&command, "expected -o PACK, the file to write");
        else
            exit_status = pack(&m, path) ? EXIT_DONE : EXIT_FAILED;
    }
    kernels_end(m.kernels, m.count);
    return exit_status;
}

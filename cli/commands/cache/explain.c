/* troupe cache explain: why an entry or a compile missed the cache. */
#include "cache.h"

#include "make.h"
#include "ui/options.h"
#include "ui/ui.h"

#include "cache/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An entry to explain. */
typedef struct explaining {
    const char *wanted; /* first digits of its hash; NULL: the newest entry */
    bool older;         /* prefer older entries as the nearest */
    trp__hash hash, other;
    uint64_t made, subject;
    unsigned char *key, *nearest;
    size_t key_bytes, nearest_bytes;
    uint64_t distance;
    unsigned matches;
} explaining;

static void keep_key(unsigned char **to, size_t *bytes, const trp__entry *e)
{
    unsigned char *copy = malloc(e->key_bytes);
    if (!copy)
        return;
    memcpy(copy, e->key, e->key_bytes);
    free(*to);
    *to = copy;
    *bytes = e->key_bytes;
}

static bool find_wanted(void *context, const trp__inspected *one)
{
    explaining *x = context;
    char text[TRP__HASH_TEXT];
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD)
        return true;
    trp__hash_text(&one->hash, text);
    if (x->wanted ? strncmp(text, x->wanted, strlen(x->wanted)) != 0
                  : x->key && one->entry.made <= x->made)
        return true;
    if (x->key && trp__hash_equal(&x->hash, &one->hash)) /* the same entry in a pack and on disk */
        return true;
    x->matches++;
    x->hash = one->hash;
    x->made = one->entry.made;
    x->subject = one->entry.subject;
    keep_key(&x->key, &x->key_bytes, &one->entry);
    return true;
}

static bool find_nearest(void *context, const trp__inspected *one)
{
    explaining *x = context;
    const trp__entry *e = &one->entry;
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD || e->subject != x->subject ||
        trp__hash_equal(&x->hash, &one->hash) || (x->older && e->made > x->made))
        return true;
    uint64_t distance = trp__key_distance(x->key, x->key_bytes, e->key, e->key_bytes, true);
    if (!x->nearest || distance < x->distance) {
        keep_key(&x->nearest, &x->nearest_bytes, e);
        x->distance = distance;
        x->other = one->hash;
    }
    return true;
}

/* Shows the lines of an explanation; `length` is its whole length, `size` the buffer's. */
static void show_lines(char *text, size_t length, size_t size)
{
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        ui_line("  %s", line);
    }
    if (length >= size)
        ui_line("  ...");
}

static void show_difference(const explaining *x)
{
    char text[8192];
    size_t length = trp__key_differences(x->key, x->key_bytes, x->nearest, x->nearest_bytes, true,
                                         text, sizeof text);
    ui_line("%s is another entry than %s, the nearest of its kind and name, by:",
            cache_short(&x->hash).s, cache_short(&x->other).s);
    show_lines(text, length, sizeof text);
}

static bool explain(trp__store *store, explaining *x)
{
    trp_error error;
    trp_status status = trp__inspect_all(store, false, find_wanted, x, &error);
    if (status == TRP_OK && x->matches > 1 && x->wanted) {
        ui_error("%u entries begin with %s", x->matches, x->wanted);
        return false;
    }
    if (status == TRP_OK && !x->key) {
        ui_error(x->wanted ? "there is no entry %s" : "there are no entries",
                 x->wanted ? x->wanted : "");
        return false;
    }
    x->older = true;
    for (int i = 0; i < 2 && status == TRP_OK && !x->nearest; i++) {
        status = trp__inspect_all(store, false, find_nearest, x, &error);
        x->older = false;
    }
    if (status != TRP_OK)
        ui_error("%s", error.message);
    else if (x->nearest)
        show_difference(x);
    else
        ui_line("%s is the only entry of its kind and name", cache_short(&x->hash).s);
    return status == TRP_OK;
}

/* Explains a line of a file: compiles it into a temporary cache and looks its entries up in the
 * cache of programs. */

typedef struct comparing {
    trp__store *store; /* the cache of programs */
    const char *text;  /* the line */
} comparing;

static void show_miss(trp__store *store, const trp__key *key, const char *target, const char *text)
{
    char reasons[8192];
    const trp__store_header none = {0}; /* non-NULL: headers are part of the key and are compared */
    size_t length = trp__store_explain(store, key, &none, 0, reasons, sizeof reasons);
    ui_line("%s %s: not there; what it differs in from the nearest entry:", target, text);
    show_lines(reasons, length, sizeof reasons);
}

static bool compare_one(void *context, const trp__inspected *one)
{
    const comparing *c = context;
    char target[64];
    trp__key key;
    trp__store_hit hit;
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD)
        return true;
    trp__inspect_field(&one->entry, TRP__KEY_TARGET, target, sizeof target);
    cache_copy_key(&one->entry, &key);
    if (trp__store_find(c->store, &(trp__store_request){.key = &key}, &hit) == TRP_OK)
        ui_line("%s %s: %s has it, as %s", target, c->text,
                hit.layer == TRP__STORE_PACK ? "a pack" : "the cache", cache_short(&hit.hash).s);
    else
        show_miss(c->store, &key, target, c->text);
    trp__store_hit_end(&hit);
    trp__key_end(&key);
    return true;
}

static bool compile_and_compare(making *m, comparing *c)
{
    char folder[PATH_MAX] = "";
    trp__store *own = NULL;
    trp_error error;
    bool ok = making_folder_make(folder) && making_run(m) && cache_open(&own, true);
    if (ok && trp__inspect_all(own, false, compare_one, c, &error) != TRP_OK) {
        ui_error("%s", error.message);
        ok = false;
    }
    if (own)
        trp__store_close(own);
    making_folder_remove(folder);
    return ok;
}

/* Splits "FILE:LINE"; false: it has another form. */
static bool split_place(char *place, int64_t *line)
{
    char *colon = strrchr(place, ':');
    if (!colon || colon == place || !options_number(colon + 1, line))
        return false;
    *colon = '\0';
    return true;
}

static bool explain_line(trp__store *store, making *m, int64_t line)
{
    kernel *all;
    size_t count;
    bool ok = kernels_read_file(m->path, &all, &count);
    for (size_t i = 0; i < count; i++) {
        if (all[i].line == line) {
            m->kernels = &all[i];
            m->count = 1;
        }
    }
    if (ok && m->count == 0) {
        ui_error("%s:%lld: there is no kernel in this line", m->path, (long long)line);
        ok = false;
    }
    if (ok)
        ok = compile_and_compare(m, &(comparing){store, m->kernels->text});
    kernels_end(all, count);
    return ok;
}

int cache_explain(int argc, char **argv)
{
    explaining x = {0};
    making m = {0};
    trp__store *store;
    int64_t line = 0;
    int exit_status;
    const option options[] = {MAKING_ARCHITECTURES(m)};
    const struct command command = {
        .name = "cache explain",
        .operands = "[HASH|FILE:LINE]",
        .about =
            "Shows why an entry had to be made: in what its key differs from the nearest one of\n"
            "the same kind and name, of those that were made before it, if there are any.\n"
            "HASH is the beginning of an entry's hash, as 'troupe cache ls' shows it; without\n"
            "it, the entry that was made last.\n\n"
            "With FILE:LINE it shows whether what a line of a file for 'troupe cache warm' "
            "compiles\n"
            "is there for each --arch, and if not, why. It is compiled for that, and not kept.",
        OPTIONS_OF(options),
        .optional_count = 1,
    };
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    x.wanted = argv[1];
    bool is_line = x.wanted && split_place(argv[1], &line);
    if (x.wanted && !is_line &&
        (!*x.wanted || strspn(x.wanted, "0123456789abcdef") != strlen(x.wanted)))
        return options_reject(&command, "expected hexadecimal digits or FILE:LINE, got '%s'",
                              x.wanted);
    if (is_line != (m.architectures.count > 0))
        return options_reject(&command, is_line
                                            ? "expected at least one --arch, as in --arch sm_90a"
                                            : "--arch belongs to FILE:LINE");
    if (!making_check(&m, &command, &exit_status))
        return exit_status;
    if (!cache_open(&store, false))
        return EXIT_FAILED;
    m.path = argv[1];
    bool good = is_line ? explain_line(store, &m, line) : explain(store, &x);
    free(x.key);
    free(x.nearest);
    trp__store_close(store);
    return good ? EXIT_DONE : EXIT_FAILED;
}

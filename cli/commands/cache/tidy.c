/* troupe cache verify, prune, clear. */
#include "cache.h"

#include "ui/options.h"
#include "ui/ui.h"

#include "cache/prune.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* verify */

typedef struct verifying {
    bool remove, json;
    int folder; /* -1: none */
    uint64_t good, bad, removed, in_packs;
} verifying;

static void show_bad(const verifying *v, const trp__inspected *one, bool removed)
{
    char hash[TRP__HASH_TEXT];
    trp__hash_text(&one->hash, hash);
    if (v->json) {
        printf("%s\n    {\"hash\": \"%s\", \"what\": \"%s\", \"removed\": %s, \"pack\": ",
               v->bad > 1 ? "," : "", hash, one->wrong, removed ? "true" : "false");
        if (one->pack)
            ui_json_string(one->pack);
        else
            printf("null");
        putchar('}');
        return;
    }
    if (one->pack)
        ui_line("%s an entry of %s: %s", ui_mark_text(UI_BAD), one->pack, one->wrong);
    else
        ui_line("%s %s%s: %s%s", ui_mark_text(UI_BAD), hash,
                one->type == TRP__ENTRY_HEADERS ? ".headers" : ".entry", one->wrong,
                removed ? "; removed" : "");
}

static bool verify_one(void *context, const trp__inspected *one)
{
    verifying *v = context;
    if (!one->wrong) {
        v->good++;
        return true;
    }
    char name[TRP__DISK_NAME];
    bool removed = false;
    v->bad++;
    v->in_packs += one->pack != NULL;
    if (!one->pack && v->remove && v->folder >= 0) {
        trp__disk_name(name, &one->hash, one->type);
        removed = unlinkat(v->folder, name, 0) == 0 || unlinkat(v->folder, name, AT_REMOVEDIR) == 0;
        v->removed += removed;
    }
    show_bad(v, one, removed);
    return true;
}

static int verify(trp__store *store, verifying *v)
{
    trp_error error;
    v->folder = -1;
    if (v->remove && trp__disk_folder(&store->disk, false, &v->folder, NULL) != TRP_OK)
        v->folder = -1;
    if (v->json)
        printf("{\n  \"bad\": [");
    else
        ui_progress("reading every entry");
    trp_status status = trp__inspect_all(store, true, verify_one, v, &error);
    if (v->json)
        printf("],\n  \"bad_count\": %" PRIu64 ",\n  \"removed_count\": %" PRIu64
               ",\n  \"good_count\": %" PRIu64 "\n}\n",
               v->bad, v->removed, v->good);
    else
        ui_line("%" PRIu64 " good, %" PRIu64 " damaged%s", v->good, v->bad,
                v->removed ? ", and removed what was not in packs" : "");
    if (v->folder >= 0)
        close(v->folder);
    if (status != TRP_OK)
        ui_error("%s", error.message);
    return status == TRP_OK && v->bad == v->removed ? EXIT_DONE : EXIT_FAILED;
}

int cache_verify(int argc, char **argv)
{
    verifying v = {0};
    trp__store *store;
    int exit_status;
    const option options[] = {
        {0, "remove", NULL, "remove damaged entries (packs stay as they are)", OPTION_FLAG,
         &v.remove, NULL},
        {0, "json", NULL, "the same as JSON", OPTION_FLAG, &v.json, NULL},
    };
    const struct command command = {
        .name = "cache verify",
        .operands = "",
        .about = "Reads every entry on disk and in packs, and lists the damaged ones. Those do no\n"
                 "harm: they are never loaded, and replaced when they are wanted again.\n"
                 "Exit status 1 if any is left.",
        OPTIONS_OF(options),
    };
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (!cache_open(&store, false))
        return EXIT_FAILED;
    exit_status = verify(store, &v);
    trp__store_close(store);
    return exit_status;
}

/* prune, clear */

static int prune(uint64_t limit, bool own_limit, bool json)
{
    trp__store *store;
    trp_error error;
    trp__disk_pruned p;
    if (!cache_open(&store, true))
        return EXIT_FAILED;
    trp_status status =
        trp__disk_prune(&store->disk, own_limit ? limit : store->disk.max_bytes, &p, &error);
    trp__store_close(store);
    if (status != TRP_OK && status != TRP_E_MISSING) {
        ui_error("the cache was not pruned: %s", error.message);
        return EXIT_FAILED;
    }
    if (json)
        printf("{\"removed\": %" PRIu64 ", \"removed_bytes\": %" PRIu64
               ", \"temporary_files_removed\": %" PRIu64 ", \"left\": %" PRIu64
               ", \"left_bytes\": %" PRIu64 "}\n",
               p.removed, p.removed_bytes, p.reaped, p.left, p.left_bytes);
    else
        ui_line("removed %s of %s, and %s that a write had left; %s stay, %s",
                ui_plural(p.removed, "file").s, ui_bytes(p.removed_bytes).s,
                ui_plural(p.reaped, "file").s, ui_plural(p.left, "file").s,
                ui_bytes(p.left_bytes).s);
    return EXIT_DONE;
}

int cache_prune(int argc, char **argv)
{
    const char *size = NULL;
    bool json = false;
    uint64_t limit = 0;
    int exit_status;
    const option options[] = {
        {0, "size", "BYTES", "down to this, as in 500M or 2G (default: the bound of the cache)",
         OPTION_TEXT, &size, NULL},
        {0, "json", NULL, "the result as JSON", OPTION_FLAG, &json, NULL},
    };
    const struct command command = {
        .name = "cache prune",
        .operands = "",
        .about =
            "Removes the entries that were not used for longest until the cache is within its\n"
            "bound (TROUPE_CACHE_SIZE), and what processes left that died while they wrote.\n"
            "Programs do both by themselves.",
        OPTIONS_OF(options),
    };
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (size && !trp__store_parse_bytes(size, &limit))
        return options_reject(&command, "--size: expected BYTES, as in 500M or 2G, got '%s'", size);
    return prune(limit, size != NULL, json);
}

int cache_clear(int argc, char **argv)
{
    int exit_status;
    const struct command command = {
        .name = "cache clear",
        .operands = "",
        .about = "Removes all entries, also what 'troupe tune' has found. Packs stay. Programs "
                 "that run\n"
                 "keep what they have loaded.",
    };
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    return prune(0, true, false);
}

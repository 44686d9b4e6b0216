/* troupe cache ls, stat. */
#include "cache.h"

#include "ui/options.h"
#include "ui/ui.h"

#include "cache/key.h"
#include "cache/prune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Returns how long ago something was, in one unit: "3 hours". */
static ui_text age(int64_t then_s)
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    int64_t seconds = (int64_t)time(NULL) - then_s;
    size_t i = 0;
    seconds = seconds > 0 ? seconds : 0;
    while (units[i].seconds > 1 && seconds < units[i].seconds)
        i++;
    return ui_plural((uint64_t)(seconds / units[i].seconds), units[i].name);
}

/* ls */

typedef struct listing {
    bool json;
    uint64_t entries, bytes;
} listing;

static const struct {
    const char *name;
    uint32_t tag;
} columns[] = {{"kind", TRP__KEY_KIND},
               {"name", TRP__KEY_NAME},
               {"target", TRP__KEY_TARGET},
               {"output", TRP__KEY_OUTPUT},
               {"compiler", TRP__KEY_COMPILER}};

enum { COLUMNS = sizeof columns / sizeof *columns, COLUMN_ROOM = 256 };

static void list_json(const trp__inspected *one, char (*text)[COLUMN_ROOM], bool first)
{
    char hash[TRP__HASH_TEXT];
    trp__hash_text(&one->hash, hash);
    printf("%s\n  {\"hash\": \"%s\", \"bytes\": %" PRIu64 ", \"payload_bytes\": %zu, "
           "\"made\": %" PRIu64 ", \"used\": %" PRId64,
           first ? "" : ",", hash, one->size, one->entry.bytes, one->entry.made,
           one->used_ns / 1000000000);
    for (size_t i = 0; i < COLUMNS; i++) {
        printf(", \"%s\": ", columns[i].name);
        ui_json_string(text[i]);
    }
    if (one->pack) {
        printf(", \"pack\": ");
        ui_json_string(one->pack);
    }
    putchar('}');
}

static void list_line(const trp__inspected *one, char (*text)[COLUMN_ROOM])
{
    char used[64] = "in a pack";
    if (!one->pack)
        snprintf(used, sizeof used, "%s ago", age(one->used_ns / 1000000000).s);
    ui_line("%s  %10s  %-14s  %-13s %-24s %-8s %s", cache_short(&one->hash).s,
            ui_bytes(one->entry.bytes).s, used, text[0], *text[1] ? text[1] : "-",
            *text[2] ? text[2] : "-", text[3]);
}

static bool list_one(void *context, const trp__inspected *one)
{
    listing *l = context;
    char text[COLUMNS][COLUMN_ROOM];
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD)
        return true;
    for (size_t i = 0; i < COLUMNS; i++)
        trp__inspect_field(&one->entry, columns[i].tag, text[i], sizeof text[i]);
    if (l->json)
        list_json(one, text, l->entries == 0);
    else
        list_line(one, text);
    l->entries++;
    l->bytes += one->size;
    return true;
}

int cache_ls(int argc, char **argv)
{
    listing l = {0};
    trp__store *store;
    trp_error error;
    int exit_status;
    const option options[] = {
        {0, "json", NULL, "as JSON, with whole hashes", OPTION_FLAG, &l.json, NULL},
    };
    const struct command command = {
        .name = "cache ls",
        .operands = "",
        .about =
            "Lists the entries: hash, bytes of the image, time of last use, kind,\n"
            "name, target and output; those of packs first, then those on disk, the last used\n"
            "first. Damaged ones are left out ('troupe cache verify' lists them).",
        OPTIONS_OF(options),
    };
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (!cache_open(&store, false))
        return EXIT_FAILED;
    if (l.json)
        printf("[");
    trp_status status = trp__inspect_all(store, false, list_one, &l, &error);
    if (l.json)
        printf("\n]\n");
    else
        ui_line("%" PRIu64 " %s, %s", l.entries, l.entries == 1 ? "entry" : "entries",
                ui_bytes(l.bytes).s);
    trp__store_close(store);
    if (status != TRP_OK)
        ui_error("%s", error.message);
    return status == TRP_OK ? EXIT_DONE : EXIT_FAILED;
}

/* stat */

typedef struct figures {
    uint64_t entries, lists, temporaries;
    uint64_t bytes; /* of all files */
    int64_t oldest_ns, newest_ns;
} figures;

static bool count_files(trp__store *store, figures *f)
{
    trp__disk_list list;
    trp_error error;
    int folder;
    *f = (figures){0};
    trp_status status = trp__disk_folder(&store->disk, false, &folder, &error);
    if (status == TRP_E_MISSING)
        return true;
    if (status == TRP_OK) {
        status = trp__disk_list_all(folder, &list, &error);
        close(folder);
    }
    if (status != TRP_OK) {
        ui_error("%s", error.message);
        return false;
    }
    f->temporaries = list.temporaries;
    f->bytes = list.bytes + list.temporary_bytes;
    for (size_t i = 0; i < list.count; i++)
        ++*(list.file[i].type == TRP__ENTRY_PAYLOAD ? &f->entries : &f->lists);
    if (list.count > 0) {
        f->oldest_ns = list.file[0].used_ns;
        f->newest_ns = list.file[list.count - 1].used_ns;
    }
    trp__disk_list_end(&list);
    return true;
}

static void stat_json(const trp__store *store, const figures *f)
{
    printf("{\n  \"folder\": ");
    if (store->disk.absent)
        printf("null");
    else
        ui_json_string(store->disk.place.path);
    printf(",\n  \"bytes\": %" PRIu64 ",\n  \"max_bytes\": %" PRIu64 ",\n  \"entries\": %" PRIu64
           ",\n  \"header_lists\": %" PRIu64 ",\n  \"temporary_files\": %" PRIu64
           ",\n  \"oldest_use\": %" PRId64 ",\n  \"newest_use\": %" PRId64 ",\n  \"packs\": [",
           f->bytes, store->disk.max_bytes, f->entries, f->lists, f->temporaries,
           f->oldest_ns / 1000000000, f->newest_ns / 1000000000);
    for (size_t i = 0; i < store->pack_count; i++) {
        printf("%s{\"path\": ", i ? ", " : "");
        ui_json_string(trp__cache_pack_path(store->pack[i]));
        printf(", \"entries\": %" PRIu64 "}", trp__cache_pack_count(store->pack[i]));
    }
    printf("]\n}\n");
}

static void stat_text(const trp__store *store, const figures *f)
{
    if (store->disk.absent)
        ui_line("folder   none: TROUPE_CACHE_DIR is empty, or no full path");
    else
        ui_line("folder   %s", store->disk.place.path);
    ui_line("size     %s of at most %s", ui_bytes(f->bytes).s, ui_bytes(store->disk.max_bytes).s);
    ui_line("entries  %" PRIu64 ", with %s of headers", f->entries, ui_plural(f->lists, "list").s);
    if (f->temporaries > 0)
        ui_line("         %s being written, or left by one that died",
                ui_plural(f->temporaries, "file").s);
    if (f->entries + f->lists > 0)
        ui_line("used     last %s ago, the oldest %s ago", age(f->newest_ns / 1000000000).s,
                age(f->oldest_ns / 1000000000).s);
    for (size_t i = 0; i < store->pack_count; i++)
        ui_line("pack     %s: %" PRIu64 " in its index", trp__cache_pack_path(store->pack[i]),
                trp__cache_pack_count(store->pack[i]));
}

int cache_stat(int argc, char **argv)
{
    bool json = false;
    figures f;
    trp__store *store;
    int exit_status;
    const option options[] = {
        {0, "json", NULL, "the same as JSON", OPTION_FLAG, &json, NULL},
    };
    const struct command command = {
        .name = "cache stat",
        .operands = "",
        .about = "Shows where the cache is, how much is in it and how much may be\n"
                 "(TROUPE_CACHE_SIZE), and the packs that are laid over it.",
        OPTIONS_OF(options),
    };
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (!cache_open(&store, false))
        return EXIT_FAILED;
    bool good = count_files(store, &f);
    if (good && json)
        stat_json(store, &f);
    else if (good)
        stat_text(store, &f);
    trp__store_close(store);
    return good ? EXIT_DONE : EXIT_FAILED;
}

/* troupe cache: finds the subcommand; what all of them share. */
#include "cache.h"

#include "commands.h"
#include "options.h"
#include "ui.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} subcommands[] = {
    {"ls", "list the entries, the last used first", cache_ls},
    {"stat", "where it is, and how much is in it", cache_stat},
    {"verify", "read every entry and pack, and tell what is damaged", cache_verify},
    {"prune", "remove what was not used for longest", cache_prune},
    {"clear", "remove all entries", cache_clear},
    {"warm", "compile what a file lists into the cache", cache_warm},
    {"pack", "compile what a file lists into one file, to be shipped", cache_pack},
    {"explain", "what made an entry another one than its nearest", cache_explain},
};

enum { COUNT = sizeof subcommands / sizeof *subcommands };

bool cache_open(trp__store **store, bool need_folder)
{
    trp_error error;
    if (trp__store_open(NULL, store, &error) != TRP_OK) {
        ui_error("the cache can't be opened: %s", error.message);
        return false;
    }
    if (!need_folder || !(*store)->disk.absent)
        return true;
    ui_error("there is no cache folder: TROUPE_CACHE_DIR is empty, or no full path");
    trp__store_close(*store);
    return false;
}

cache_name cache_short(const trp__hash *hash)
{
    cache_name name;
    trp__hash_text(hash, name.s);
    name.s[CACHE_SHORT] = '\0';
    return name;
}

void cache_print_string(const char *text)
{
    putchar('"');
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            putchar('\\');
        putchar((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p);
    }
    putchar('"');
}

static int show_help(void)
{
    printf("usage: troupe cache SUBCOMMAND [options]\n\n"
           "The kernel cache: what was compiled once, by any process of this user, and the packs\n"
           "that TROUPE_CACHE_PACKS names.\n\nsubcommands:\n");
    for (size_t i = 0; i < COUNT; i++)
        printf("  %-8s  %s\n", subcommands[i].name, subcommands[i].summary);
    printf("\n'troupe help cache SUBCOMMAND' shows its options, as does --help after it.\n");
    return EXIT_DONE;
}

int command_cache(int argc, char **argv)
{
    static const struct command self = {.name = "cache"};
    if (argc < 2)
        return options_reject(&self, "expected a subcommand");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return show_help();
    for (size_t i = 0; i < COUNT; i++)
        if (!strcmp(argv[1], subcommands[i].name))
            return subcommands[i].run(argc - 1, argv + 1);
    return options_reject(&self, "unknown %s '%s'", argv[1][0] == '-' ? "option" : "subcommand",
                          argv[1]);
}

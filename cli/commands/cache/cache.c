/* troupe cache: the table of subcommands, and what they share. */
#include "cache.h"

#include "commands/commands.h"
#include "ui/ui.h"

#include <stdio.h>
#include <string.h>

const command_entry cache_commands[] = {
    {"ls", "list the entries, the last used first", cache_ls, NULL, NULL},
    {"stat", "where it is, and how much is in it", cache_stat, NULL, NULL},
    {"verify", "read every entry and pack, and list the damaged ones", cache_verify, NULL, NULL},
    {"prune", "remove what was not used for longest", cache_prune, NULL, NULL},
    {"clear", "remove all entries", cache_clear, NULL, NULL},
    {"warm", "compile the kernels of a list into the cache", cache_warm, NULL, NULL},
    {"pack", "compile the kernels of a list into one file, to be shipped", cache_pack, NULL, NULL},
    {"explain", "why an entry differs from its nearest", cache_explain, NULL, NULL},
    {0},
};

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

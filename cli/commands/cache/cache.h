/* troupe cache: the subcommands, each with its own options. argv[0] is "cache NAME". */
#ifndef TRP_CLI_COMMANDS_CACHE_CACHE_H
#define TRP_CLI_COMMANDS_CACHE_CACHE_H

#include "cache/inspect.h"
#include "cache/store.h"
#include "cache/store_parts.h"

#include <stdbool.h>

int cache_ls(int argc, char **argv);
int cache_stat(int argc, char **argv);
int cache_explain(int argc, char **argv);
int cache_verify(int argc, char **argv);
int cache_prune(int argc, char **argv);
int cache_clear(int argc, char **argv);
int cache_warm(int argc, char **argv);
int cache_pack(int argc, char **argv);

/* Opens the store as programs do, by the environment; prints an error. `need_folder` makes a
 * missing folder an error. */
bool cache_open(trp__store **store, bool need_folder);

/* The first digits of a hash, as in lists and options. */
enum { CACHE_SHORT = 12 };
typedef struct cache_name {
    char s[TRP__HASH_TEXT];
} cache_name;
cache_name cache_short(const trp__hash *hash);

#endif

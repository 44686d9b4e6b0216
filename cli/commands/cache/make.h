/* troupe cache warm, pack, explain: compiling as programs would, in a worker without a GPU. */
#ifndef TRP_CLI_COMMANDS_CACHE_MAKE_H
#define TRP_CLI_COMMANDS_CACHE_MAKE_H

#include "kernels.h"
#include "ui/options.h"
#include "data/run.h"

#include "cache/inspect.h"
#include "cache/key.h"

#include <limits.h>

typedef struct making {
    const char *path; /* of the file; NULL: none */
    option_texts architectures;
    bool quiet, tuning; /* tuning: a pack gets the records of searches, too */
    kernel *kernels;
    size_t count;
    size_t all, ended, failed; /* compiles: lines times architectures */
    uint64_t largest;          /* image that was made or found */
    uint64_t began;
    bool given_up; /* there is no compiler */
    struct run run;
} making;

/* A row of an option table. */
#define MAKING_ARCHITECTURES(m)                                                                    \
    {                                                                                              \
        0, "arch", "sm_90a", "compile for it; may be given several times", OPTION_TEXTS,           \
            &(m).architectures, NULL                                                               \
    }

/* Whether each is one; else that is told, as a wrong value of the command line. */
bool making_check(const making *m, const struct command *command, int *exit_status);

/* Compiles all kernels for all architectures, into the cache that the environment names. Tells of
 * each; false if one failed. */
bool making_run(making *m);

/* A cache for this command alone, empty and without packs: the environment names it from then on.
 * Removes what such commands have left that were killed. False: an error was told, and `folder` is
 * "". */
bool making_folder_make(char folder[PATH_MAX]);
/* With all that is in it; "" is ignored. */
void making_folder_remove(const char *folder);

/* Whether the command was told to end; from making_folder_make() on. */
bool making_interrupted(void);

/* Whether a module that was made could not be kept; `why` is then for people. */
bool making_is_unsure(trp_device *device, trp_module module, const char **why);

/* Whether a pack can be written there, before there is anything to write; false: an error was told.
 */
bool making_try(const char *pack);

/* Puts all that is in the cache of the environment into a pack; false: an error was told. */
bool making_fold(const char *pack, size_t *kernels, uint64_t *bytes);

/* The key that an entry was written with, which the caller ends. */
void cache_copy_key(const trp__entry *entry, trp__key *key);

#endif

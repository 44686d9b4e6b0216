/* Compiles as programs would, in a worker without a GPU, for troupe cache warm, pack and
 * explain. */
#ifndef TRP_CLI_COMMANDS_CACHE_MAKE_H
#define TRP_CLI_COMMANDS_CACHE_MAKE_H

#include "kernels.h"
#include "ui/options.h"
#include "data/run.h"

#include "cache/inspect.h"
#include "cache/key.h"

#include <limits.h>

typedef struct making {
    const char *path; /* the file; NULL: none */
    option_texts architectures;
    bool quiet, tuning; /* tuning: a pack gets the records of searches, too */
    kernel *kernels;
    size_t count;
    size_t all, ended, failed; /* compiles: lines times architectures */
    uint64_t largest;          /* largest image */
    uint64_t began;
    bool given_up; /* the compiler is missing */
    struct run run;
} making;

/* A row of an option table. */
#define MAKING_ARCHITECTURES(m)                                                                    \
    {                                                                                              \
        0, "arch", "sm_90a", "compile for it; may be given several times", OPTION_TEXTS,           \
            &(m).architectures, NULL                                                               \
    }

/* Checks all architectures; reports a wrong one as a mistake in the command line. */
bool making_check(const making *m, const struct command *command, int *exit_status);

/* Compiles all kernels for all architectures into the cache that the environment names. Reports
 * each; false if one failed. */
bool making_run(making *m);

/* Creates an empty cache without packs for this command, and names it in the environment. Removes
 * caches of killed commands. False: reports an error, and `folder` is "". */
bool making_folder_make(char folder[PATH_MAX]);
/* Removes the folder with its content; "" is ignored. */
void making_folder_remove(const char *folder);

/* Waits for a compile, which may take minutes, and cancels it on an interrupt. */
trp_status making_await(const trp_completion *done, trp_error *error);

/* Tells whether the command was interrupted since making_folder_make(). */
bool making_interrupted(void);

/* Tells whether a made module could not be cached; *why is the reason. */
bool making_is_unsure(trp_device *device, trp_module module, const char **why);

/* Checks that a pack can be written, before any work; false: reports an error. */
bool making_try(const char *pack);

/* Writes the content of the environment's cache into a pack; false: reports an error. */
bool making_fold(const char *pack, size_t *kernels, uint64_t *bytes);

/* Rebuilds the key of an entry; the caller ends it. */
void cache_copy_key(const trp__entry *entry, trp__key *key);

#endif

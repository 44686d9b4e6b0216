/* Caches which folders exist. Most paths that an #include may stand for lie in folders that do not;
 * one stat() per path would take most of the time of a scan whose files are cached. */
#ifndef TRP_COMPILE_FOLDERS_H
#define TRP_COMPILE_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise. One thread at a time. */
typedef struct trp__jit_folders {
    struct trp__jit_folder {
        char *path; /* NULL: a free slot */
        bool exists;
    } * place;
    size_t count, places; /* a power of two */
} trp__jit_folders;

/* Tells whether the folder of a file at `path` does not exist. False if unknown. */
bool trp__jit_folders_lack(trp__jit_folders *folders, const char *path);
void trp__jit_folders_free(trp__jit_folders *folders);

#endif

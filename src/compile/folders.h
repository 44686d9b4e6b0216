/* Which folders there are, looked up once each. Most names that an #include may stand for lie in
 * folders that do not exist; asking for each file by itself is most of what following includes
 * takes once their contents are known, and dear where a system call is. */
#ifndef TRP_COMPILE_FOLDERS_H
#define TRP_COMPILE_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: nothing is known. One thread at a time. */
typedef struct trp__jit_folders {
    struct trp__jit_folder {
        char *path; /* NULL: a free place */
        bool exists;
    } * place;
    size_t count, places; /* a power of two */
} trp__jit_folders;

/* Whether there is no folder for a file at `path` to lie in. False too if that is not known. */
bool trp__jit_folders_lack(trp__jit_folders *folders, const char *path);
void trp__jit_folders_free(trp__jit_folders *folders);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/io_bed.h"

#include "support/folder.h"

#include <dirent.h>

char io_folder[256];

const char *io_path(const char *name)
{
    static char path[4][512];
    static unsigned turn;
    char *to = path[turn++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", io_folder, name);
    return to;
}

int io_count(void)
{
    int count = 0;
    DIR *dir = opendir(io_folder);
    H_CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

void io_put(const char *path, const void *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");
    H_CHECK(f && fwrite(bytes, 1, length, f) == length && fclose(f) == 0);
}

void io_begin(void)
{
    h_folder_make(io_folder, sizeof io_folder, "io-test");
}

void io_end(void)
{
    h_folder_remove(io_folder);
}

trp_io_item io_item(const char *name, trp_dtype type, uint32_t rank, const int64_t *dim,
                    const void *data)
{
    trp_io_item item = {.array = {.name = name, .type = type, .rank = rank}, .data = data};
    for (uint32_t i = 0; i < rank; i++)
        item.array.dim[i] = dim[i];
    return item;
}

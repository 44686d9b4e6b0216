#include "support/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void require(bool good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

void h_folder_make(char *path, size_t size, const char *name)
{
    const char *above = getenv("TMPDIR");
    snprintf(path, size, "%s/%s-XXXXXX", above ? above : "/tmp", name);
    require(mkdtemp(path) != NULL, path);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s;
    (void)type;
    (void)where;
    return remove(path);
}

void h_folder_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool fits(const char *name, const char *begin, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return strncmp(name, begin, strlen(begin)) == 0 && length >= tail &&
           strcmp(name + length - tail, end) == 0;
}

size_t h_folder_count(const char *path, const char *begin, const char *end)
{
    size_t count = 0;
    DIR *names = opendir(path);
    for (struct dirent *e; names && (e = readdir(names));)
        count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && fits(e->d_name, begin, end);
    if (names)
        closedir(names);
    return count;
}

bool h_folder_find(const char *path, const char *end, char *out, size_t size)
{
    bool found = false;
    DIR *names = opendir(path);
    for (struct dirent *e; names && !found && (e = readdir(names));) {
        found = fits(e->d_name, "", end);
        if (found)
            snprintf(out, size, "%s/%s", path, e->d_name);
    }
    if (names)
        closedir(names);
    return found;
}

void h_file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    require(file && fputs(text, file) >= 0 && fclose(file) == 0, path);
}

void h_file_flip(const char *path, long at)
{
    unsigned char byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    require(fd >= 0 && pread(fd, &byte, 1, at) == 1, path);
    byte = (unsigned char)~byte;
    require(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0, path);
}

long h_file_size(const char *path)
{
    struct stat s;
    require(stat(path, &s) == 0, path);
    return (long)s.st_size;
}

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* dlinfo, secure_getenv */
#endif

#include "base/os/ldpath.h"

#include "base/os/descriptor.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The cache of glibc 2.32 and later: a head, rows of 24 bytes, texts; in the machine's byte order.
 * Offsets of texts in a row count from the beginning of the file. */
static const char magic[] = "glibc-ld.so.cache1.1";
enum { HEAD = 48, ROWS = 20, ROW = 24, FLAGS = 0, NAME = 4, PLACE = 8, HWCAP = 16 }; /* offsets */

/* The kind of libraries that this program can load; 0: not known. */
#if defined(__x86_64__) && defined(__LP64__)
enum { OUR_FLAGS = 0x0303 };
#elif defined(__aarch64__)
enum { OUR_FLAGS = 0x0a03 };
#else
enum { OUR_FLAGS = 0 };
#endif

static uint32_t number(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Returns a text of the file; "" if its offset is outside. */
static const char *text_at(const unsigned char *bytes, size_t size, uint32_t at)
{
    return at < size && memchr(bytes + at, '\0', size - at) ? (const char *)bytes + at : "";
}

static bool copy_path(const char *path, char *out, size_t size)
{
    size_t length = strlen(path);
    if (path[0] != '/' || length >= size)
        return false;
    memcpy(out, path, length + 1);
    return true;
}

trp__ldpath_result trp__ldpath_find_in_cache(const void *bytes, size_t size, const char *soname,
                                             char *out, size_t out_size)
{
    const unsigned char *file = bytes;
    if (OUR_FLAGS == 0 || size < HEAD || memcmp(file, magic, sizeof magic - 1) != 0)
        return TRP__LDPATH_UNKNOWN;
    uint32_t rows = number(file + ROWS);
    if (rows > (size - HEAD) / ROW)
        return TRP__LDPATH_UNKNOWN;
    for (uint32_t i = 0; i < rows; i++) {
        const unsigned char *row = file + HEAD + (size_t)i * ROW;
        /* A row for special processors comes before the others, and is rare. */
        if (number(row + FLAGS) == OUR_FLAGS && number(row + HWCAP) == 0 &&
            number(row + HWCAP + 4) == 0 &&
            strcmp(text_at(file, size, number(row + NAME)), soname) == 0)
            return copy_path(text_at(file, size, number(row + PLACE)), out, out_size)
                       ? TRP__LDPATH_FOUND
                       : TRP__LDPATH_UNKNOWN;
    }
    return TRP__LDPATH_ABSENT;
}

static trp__ldpath_result find_in_cache(const char *soname, char *out, size_t size)
{
    struct stat s;
    trp__ldpath_result result = TRP__LDPATH_UNKNOWN;
    int fd = trp__descriptor_apart(open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return errno == ENOENT ? TRP__LDPATH_ABSENT : TRP__LDPATH_UNKNOWN;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0) {
        /* ldconfig renames a new one over it, and never writes to this one. */
        void *file = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            result = trp__ldpath_find_in_cache(file, (size_t)s.st_size, soname, out, size);
            munmap(file, (size_t)s.st_size);
        }
    }
    close(fd);
    return result;
}

/* Finds a loaded library of that soname, which the loader would use again. */
static trp__ldpath_result find_loaded(const char *soname, char *out, size_t size)
{
    struct link_map *map = NULL;
    void *handle = dlopen(soname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!handle)
        return TRP__LDPATH_ABSENT;
    bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && copy_path(map->l_name, out, size);
    dlclose(handle);
    return known ? TRP__LDPATH_FOUND : TRP__LDPATH_UNKNOWN;
}

/* The loader accepts a semicolon in place of a colon. */
static trp__ldpath_result find_in_folders(const char *list, const char *soname, char *out,
                                          size_t size)
{
    while (list) {
        size_t length = strcspn(list, ":;");
        if (list[0] != '/')
            return TRP__LDPATH_UNKNOWN;
        int written = snprintf(out, size, "%.*s/%s", (int)length, list, soname);
        if (written < 0 || (size_t)written >= size)
            return TRP__LDPATH_UNKNOWN;
        if (access(out, F_OK) == 0)
            return TRP__LDPATH_FOUND;
        list = list[length] ? list + length + 1 : NULL;
    }
    return TRP__LDPATH_ABSENT;
}

trp__ldpath_result trp__ldpath_find(const char *soname, char *out, size_t size)
{
    const char *folders = secure_getenv("LD_LIBRARY_PATH");
    trp__ldpath_result result = find_loaded(soname, out, size);
    if (result == TRP__LDPATH_ABSENT && folders && *folders)
        result = find_in_folders(folders, soname, out, size);
    if (result == TRP__LDPATH_ABSENT)
        result = find_in_cache(soname, out, size);
    return result;
}

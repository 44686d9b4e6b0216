#include "cache/folder.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

trp_status trp__cache_folder_path(char *path, size_t size, trp_error *error)
{
    const char *own = secure_getenv("TROUPE_CACHE_DIR");
    const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int length = 0;
    if (own)
        length = snprintf(path, size, "%s", own);
    else if (base && base[0] == '/')
        length = snprintf(path, size, "%s/troupe", base);
    else if (home && home[0] == '/')
        length = snprintf(path, size, "%s/.cache/troupe", home);
    if (length > 0 && (size_t)length < size && path[0] == '/')
        return TRP_OK;
    return trp__error_set(error, TRP_E_MISSING,
                          "there is no cache folder: expected a full path in TROUPE_CACHE_DIR, or "
                          "without that variable in XDG_CACHE_HOME or HOME");
}

/* The folder and the one above it, as far as they are not there. */
static void make_folder(const char *path)
{
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = '\0';
        mkdir(parent, 0700);
    }
    mkdir(path, 0700);
}

/* Whether nobody else can have written what is there. */
static trp_status check_owner(int fd, const char *path, mode_t type, trp_error *error)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return trp__error_set_errno(error, path);
    if ((s.st_mode & S_IFMT) != type)
        return trp__error_set(error, TRP_E_SYSTEM, "%s: expected a %s", path,
                              type == S_IFDIR ? "folder" : "regular file");
    if (s.st_uid != geteuid() && s.st_uid != 0)
        return trp__error_set(error, TRP_E_SYSTEM,
                              "%s: expected to belong to user %u or to root, not to user %u", path,
                              (unsigned)geteuid(), (unsigned)s.st_uid);
    if (s.st_mode & (S_IWGRP | S_IWOTH))
        return trp__error_set(error, TRP_E_SYSTEM,
                              "%s: expected that only its owner can write to it, got mode %o", path,
                              (unsigned)(s.st_mode & 07777));
    return TRP_OK;
}

trp_status trp__cache_folder_open(bool make, int *fd, trp_error *error)
{
    char path[PATH_MAX];
    trp_status status = trp__cache_folder_path(path, sizeof path, error);
    if (status != TRP_OK)
        return status;
    if (make)
        make_folder(path);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return errno == ENOENT
                   ? trp__error_set(error, TRP_E_MISSING, "%s: there is no such folder", path)
                   : trp__error_set_errno(error, path);
    status = check_owner(folder, path, S_IFDIR, error);
    if (status != TRP_OK) {
        close(folder);
        return status;
    }
    *fd = folder;
    return TRP_OK;
}

trp_status trp__cache_file_open(int folder, const char *name, int flags, int *fd, trp_error *error)
{
    int file = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (file < 0)
        return errno == ENOENT
                   ? trp__error_set(error, TRP_E_MISSING, "%s: there is no such file", name)
                   : trp__error_set_errno(error, name);
    trp_status status = check_owner(file, name, S_IFREG, error);
    if (status != TRP_OK) {
        close(file);
        return status;
    }
    *fd = file;
    return TRP_OK;
}

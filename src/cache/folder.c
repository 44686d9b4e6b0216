#include "cache/folder.h"

#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/os/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Tells whether the folder exists or make_folder() can create it. */
static bool is_possible(const char *path)
{
    char above[PATH_MAX];
    snprintf(above, sizeof above, "%s", path);
    for (int level = 0; level < 3; level++) {
        if (faccessat(AT_FDCWD, above, level == 0 ? F_OK : W_OK | X_OK, AT_EACCESS) == 0)
            return true;
        char *slash = strrchr(above, '/');
        if (errno != ENOENT || !slash || slash == above)
            return false;
        *slash = '\0';
    }
    return false;
}

/* The fallback without a usable home: a folder in $TMPDIR or /tmp. */
static int temporary_path(char *path, size_t size)
{
    const char *folder = secure_getenv("TMPDIR");
    return snprintf(path, size, "%s/troupe-%u", folder && folder[0] == '/' ? folder : "/tmp",
                    (unsigned)geteuid());
}

trp_status trp__cache_place_find(trp__cache_place *place, trp_error *error)
{
    const char *own = secure_getenv("TROUPE_CACHE_DIR");
    const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    size_t size = sizeof place->path;
    int length = 0;
    place->shared = false;
    if (own)
        length = snprintf(place->path, size, "%s", own);
    else if (base && base[0] == '/')
        length = snprintf(place->path, size, "%s/troupe", base);
    else if (home && home[0] == '/')
        length = snprintf(place->path, size, "%s/.cache/troupe", home);
    if (!own && (length <= 0 || (size_t)length >= size || !is_possible(place->path))) {
        length = temporary_path(place->path, size);
        place->shared = true;
    }
    if (length > 0 && (size_t)length < size && place->path[0] == '/')
        return TRP_OK;
    return trp__error_set(error, TRP_E_MISSING,
                          "there is no cache folder: expected a full path in TROUPE_CACHE_DIR, "
                          "got '%.100s'",
                          own ? own : "");
}

trp_status trp__cache_folder_path(char *path, size_t size, trp_error *error)
{
    trp__cache_place place;
    trp_status status = trp__cache_place_find(&place, error);
    if (status == TRP_OK && (size_t)snprintf(path, size, "%s", place.path) >= size)
        status = trp__error_set(error, TRP_E_MISSING, "the path of the cache folder is too long");
    return status;
}

/* Creates the folder and its parent where they are missing. */
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

/* Checks that no other user can have written the file or folder. */
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

/* Takes an opened file or folder if it can be trusted, else closes it. */
static trp_status take(int opened, const char *name, mode_t type, int *fd, trp_error *error)
{
    if (opened < 0)
        return errno == ENOENT ? trp__error_set(error, TRP_E_MISSING, "%s: there is no such %s",
                                                name, type == S_IFDIR ? "folder" : "file")
                               : trp__error_set_errno(error, name);
    trp_status status = check_owner(opened, name, type, error);
    if (status == TRP_OK)
        *fd = opened;
    else
        close(opened);
    return status;
}

trp_status trp__cache_place_open(const trp__cache_place *place, bool make, int *fd,
                                 trp_error *error)
{
    if (make)
        make_folder(place->path);
    /* In a shared folder the name may be another user's symbolic link. */
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (place->shared ? O_NOFOLLOW : 0);
    return take(trp__descriptor_apart(open(place->path, flags)), place->path, S_IFDIR, fd, error);
}

trp_status trp__cache_folder_open_in(int folder, const char *name, bool make, int *fd,
                                     trp_error *error)
{
    if (make)
        mkdirat(folder, name, 0700);
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    return take(trp__descriptor_apart(openat(folder, name, flags)), name, S_IFDIR, fd, error);
}

trp_status trp__cache_file_open(int folder, const char *name, int flags, int *fd, trp_error *error)
{
    int file = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    return take(trp__descriptor_apart(file), name, S_IFREG, fd, error);
}

trp_status trp__cache_open_path(const char *path, int *fd, trp_error *error)
{
    return take(trp__descriptor_apart(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)), path, S_IFREG,
                fd, error);
}

bool trp__cache_read_at(int fd, void *to, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t some = pread(fd, (char *)to + done, bytes - done, (off_t)(at + done));
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return false;
        done += (size_t)some;
    }
    return true;
}

bool trp__cache_write_at(int fd, const void *data, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        trp__writing writing = trp__writing_begin();
        ssize_t some = pwrite(fd, (const char *)data + done, bytes - done, (off_t)(at + done));
        trp__writing_end(&writing, some < 0 ? errno : 0);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return false;
        done += (size_t)some;
    }
    return true;
}

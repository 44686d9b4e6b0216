/* Replaces a file whole or not at all: the new file is written under a temporary name in the same
 * folder, synced, and renamed over the old one. */
#include "io/file.h"

#include "base/os/descriptor.h"
#include "base/os/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TEMPORARY_ATTEMPTS = 100
}; /* names of temporary files that killed processes left behind are skipped */

/* Finds the path to replace. The target must be a regular file or not exist, since a rename would
 * replace even /dev/null. *mode gets the permissions of the old file, or -1. */
static trp_status find_target(trp__io_replacement *r, const char *path, int *mode, trp_error *error)
{
    struct stat status;
    *mode = -1;
    if (lstat(path, &status) == 0) {
        r->path = S_ISLNK(status.st_mode) ? realpath(path, NULL) : strdup(path);
        if (!r->path || lstat(r->path, &status) != 0)
            return trp__io_errno(error, NULL);
        if (!S_ISREG(status.st_mode))
            return trp__error_set(error, TRP_E_ARGUMENT, "it exists and is not a regular file");
        *mode = (int)(status.st_mode & 0777);
    } else if (errno == ENOENT) {
        r->path = strdup(path);
        if (!r->path)
            return trp__error_set(error, TRP_E_MEMORY, "out of memory");
    } else {
        return trp__io_errno(error, NULL);
    }
    const char *slash = strrchr(r->path, '/');
    r->folder = slash ? (size_t)(slash + 1 - r->path) : 0;
    if (r->path[r->folder] == '\0')
        return trp__error_set(error, TRP_E_ARGUMENT, "expected the name of a file");
    return TRP_OK;
}

/* Creates the temporary file; on failure r->fd is -1 and errno is set. */
static void open_temporary(trp__io_replacement *r)
{
    errno = EEXIST;
    for (int i = 0; i < TEMPORARY_ATTEMPTS && r->fd < 0 && errno == EEXIST; i++) {
        char *name;
        if (asprintf(&name, "%.*s.troupe-%ld-%d.tmp", (int)r->folder, r->path, (long)getpid(), i) <
            0) {
            errno = ENOMEM;
            return;
        }
        r->fd = trp__descriptor_apart(open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (r->fd >= 0) {
            r->temporary = name;
        } else {
            const int cause = errno;
            free(name);
            errno = cause;
        }
    }
}

trp_status trp__io_replace_begin(trp__io_replacement *r, const char *path, trp_error *error)
{
    int mode;
    *r = (trp__io_replacement){.fd = -1};
    trp_status status = find_target(r, path, &mode, error);
    if (status != TRP_OK)
        return status;
    open_temporary(r);
    if (r->fd < 0)
        return trp__io_errno(error, "making a temporary file in its folder");
    if (mode >= 0 && fchmod(r->fd, (mode_t)mode) != 0)
        return trp__io_errno(error, NULL);
    return TRP_OK;
}

trp_status trp__io_replace_write(trp__io_replacement *r, const void *data, uint64_t bytes,
                                 trp_error *error)
{
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t left = bytes - done;
        trp__writing writing = trp__writing_begin();
        ssize_t put = write(r->fd, (const char *)data + done,
                            left < TRP__IO_CALL_BYTES ? left : TRP__IO_CALL_BYTES);
        trp__writing_end(&writing, put < 0 ? errno : 0);
        if (put > 0) {
            done += (uint64_t)put;
        } else if (put == 0 || errno != EINTR) {
            errno = put == 0 ? EIO : errno;
            return trp__io_errno(error, NULL);
        }
    }
    return TRP_OK;
}

/* Makes the rename survive a loss of power, if the file system supports it. Errors are ignored: the
 * file is complete and in its place either way. */
static void sync_folder(const trp__io_replacement *r)
{
    char *folder = r->folder == 0 ? strdup(".") : strndup(r->path, r->folder);
    int fd = folder ? trp__descriptor_apart(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

trp_status trp__io_replace_commit(trp__io_replacement *r, trp_error *error)
{
    if (fsync(r->fd) != 0)
        return trp__io_errno(error, NULL);
    const int closed = close(r->fd);
    r->fd = -1;
    if (closed != 0 || rename(r->temporary, r->path) != 0)
        return trp__io_errno(error, NULL);
    free(r->temporary);
    r->temporary = NULL;
    sync_folder(r);
    return TRP_OK;
}

void trp__io_replace_end(trp__io_replacement *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->temporary)
        unlink(r->temporary);
    free(r->temporary);
    free(r->path);
    *r = (trp__io_replacement){.fd = -1};
}

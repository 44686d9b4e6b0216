/* Writing .npy files: whole or not at all. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "npy_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMPORARY_ATTEMPTS = 100 }; /* names of temporaries that were left behind are passed over */

/* errno tells why not. */
static bool write_all(int fd, const void *data, uint64_t bytes)
{
    uint64_t done = 0;
    while (done < bytes) {
        size_t chunk = bytes - done < NPY_IO_CHUNK ? (size_t)(bytes - done) : (size_t)NPY_IO_CHUNK;
        ssize_t put = write(fd, (const char *)data + done, chunk);
        if (put > 0) {
            done += (uint64_t)put;
        } else if (put == 0) {
            errno = EIO;
            return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* What is at `path` now. A rename would replace even /dev/null, so this refuses all but regular
 * files and nothing at all. */
typedef struct target {
    char *path;    /* symbolic links followed; owned */
    size_t folder; /* length of the part up to and with the last slash; 0: none */
    bool exists;
    mode_t mode;
} target;

static bool find_target(const char *path, target *out, npy_error error)
{
    struct stat status;
    *out = (target){0};
    if (lstat(path, &status) == 0) {
        out->exists = true;
        out->path = S_ISLNK(status.st_mode) ? realpath(path, NULL) : strdup(path);
        if (out->path == NULL || lstat(out->path, &status) != 0) {
            return refuse(error, "writing %s: %m", path);
        }
        if (!S_ISREG(status.st_mode)) {
            return refuse(error, "writing %s: it exists and is not a regular file", path);
        }
        out->mode = status.st_mode & 0777;
    } else if (errno == ENOENT) {
        out->path = strdup(path);
        if (out->path == NULL) {
            return refuse(error, "writing %s: out of memory", path);
        }
    } else {
        return refuse(error, "writing %s: %m", path);
    }
    const char *slash = strrchr(out->path, '/');
    out->folder = slash == NULL ? 0 : (size_t)(slash + 1 - out->path);
    if (out->path[out->folder] == '\0') {
        return refuse(error, "writing %s: expected the name of a file", path);
    }
    return true;
}

/* A new file next to the target, open, with its name in *name, which the caller owns; or -1, errno.
 */
static int open_temporary(const target *to, char **name)
{
    for (int attempt = 0; attempt < TEMPORARY_ATTEMPTS; attempt++) {
        if (asprintf(name, "%.*s.npy-%ld-%d.tmp", (int)to->folder, to->path, (long)getpid(),
                     attempt) < 0) {
            *name = NULL;
            errno = ENOMEM;
            return -1;
        }
        int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            return fd;
        }
        int cause = errno;
        free(*name);
        *name = NULL;
        errno = cause;
        if (cause != EEXIST) {
            return -1;
        }
    }
    return -1;
}

/* Makes the rename last through a loss of power, where the file system can. The file is whole and
 * in its place whatever comes of this, so there is nothing to report. */
static void sync_folder(const target *to)
{
    char *folder = to->folder == 0 ? strdup(".") : strndup(to->path, to->folder);
    int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

static bool check_written(const char *path, const npy_array *shape, const void *data,
                          uint64_t *bytes, npy_error error)
{
    if (!npy_is_taken(shape->kind, shape->item_size)) {
        return refuse(error, "writing %s: dtype %s%u: expected f8, f4, f2, c16, c8, i4, i1 or u1",
                      path, npy_quote((const unsigned char *)&shape->kind, 1).text,
                      shape->item_size);
    }
    if (shape->rank < 1 || shape->rank > NPY_RANK_MAX) {
        return refuse(error, "writing %s: %u-D array: expected %s", path, shape->rank,
                      npy_array_ranks.expected);
    }
    bool good = npy_count_bytes(shape, bytes);
    for (uint32_t i = 0; i < shape->rank; i++) {
        good = good && shape->dim[i] <= INT64_MAX;
    }
    if (!good) {
        return refuse(error, "writing %s: shape %s is more than 2^63 - 1 bytes", path,
                      npy_format_shape(shape).text);
    }
    if (data == NULL && *bytes != 0) {
        return refuse(error, "writing %s: no data for %" PRIu64 " bytes", path, *bytes);
    }
    return true;
}

bool npy_write_array(const char *path, const npy_array *shape, const void *data, char *error_buf,
                     size_t error_size)
{
    const npy_error error = {error_buf, error_size};
    uint64_t bytes = 0;
    if (!check_written(path, shape, data, &bytes, error)) {
        return false;
    }

    bool ok = false;
    int fd = -1;
    char *temporary = NULL;
    const npy_header_bytes header = npy_format_header(shape);
    target to;
    if (!find_target(path, &to, error)) {
        goto out;
    }
    fd = open_temporary(&to, &temporary);
    if (fd < 0) {
        npy_set_error(error, "writing %s: making a temporary file in its folder: %m", path);
        goto out;
    }
    if ((to.exists && fchmod(fd, to.mode) != 0) || !write_all(fd, header.bytes, header.len) ||
        !write_all(fd, data, bytes) || fsync(fd) != 0) {
        npy_set_error(error, "writing %s: %m", path);
        goto out;
    }
    int closed = close(fd);
    fd = -1;
    if (closed != 0 || rename(temporary, to.path) != 0) {
        npy_set_error(error, "writing %s: %m", path);
        goto out;
    }
    ok = true;
    sync_folder(&to);
out:
    if (fd >= 0) {
        close(fd);
    }
    if (temporary != NULL && !ok) {
        unlink(temporary);
    }
    free(temporary);
    free(to.path);
    return ok;
}

bool npy_write(const char *path, const npy_info *shape, const void *data, char *error,
               size_t error_size)
{
    if (shape->vector && shape->cols != 1) {
        return refuse(((npy_error){error, error_size}),
                      "writing %s: a vector of %" PRIu64 " columns: expected 1", path, shape->cols);
    }
    const npy_array array = npy_array_of(shape);
    return npy_write_array(path, &array, data, error, error_size);
}

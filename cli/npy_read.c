/* Reading .npy files: the header first, then the elements. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "npy_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads `bytes` bytes at `offset`. `what` is for messages. */
static bool read_at(int fd, uint64_t offset, void *dst, uint64_t bytes, const char *what,
                    npy_error error)
{
    uint64_t done = 0;
    while (done < bytes) {
        size_t chunk = bytes - done < NPY_IO_CHUNK ? (size_t)(bytes - done) : (size_t)NPY_IO_CHUNK;
        ssize_t got = pread(fd, (char *)dst + done, chunk, (off_t)(offset + done));
        if (got > 0) {
            done += (uint64_t)got;
        } else if (got == 0) {
            return refuse(error,
                          "truncated %s: the file ends after %" PRIu64 " bytes, expected %" PRIu64,
                          what, offset + done, offset + bytes);
        } else if (errno != EINTR) {
            return refuse(error, "reading the %s: %m", what);
        }
    }
    return true;
}

static bool read_header(int fd, const npy_ranks *taken, npy_array *out, npy_error error)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return refuse(error, "reading the header: %m");
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse(error, "not a regular file");
    }
    const uint64_t file_size = (uint64_t)status.st_size;
    unsigned char first[NPY_PREAMBLE_V2];
    size_t len = file_size < sizeof(first) ? (size_t)file_size : sizeof(first);
    npy_preamble pre;
    if (!read_at(fd, 0, first, len, "header", error) ||
        !npy_parse_preamble(first, len, file_size, &pre, error)) {
        return false;
    }
    /* At most NPY_PREAMBLE_V2 + NPY_HEADER_LIMIT, and no more than the file has. */
    len = pre.begin + pre.len;
    unsigned char *header = malloc(len);
    if (header == NULL) {
        return refuse(error, "reading the header: out of memory");
    }
    bool ok = read_at(fd, 0, header, len, "header", error) &&
              npy_parse_file(header, len, file_size, taken, out, error);
    free(header);
    return ok;
}

bool npy_read_array(int fd, npy_array *out, char *error, size_t error_size)
{
    return read_header(fd, &npy_array_ranks, out, (npy_error){error, error_size});
}

bool npy_read_info(int fd, npy_info *out, char *error, size_t error_size)
{
    npy_array array;
    if (!read_header(fd, &npy_matrix_ranks, &array, (npy_error){error, error_size})) {
        return false;
    }
    *out = npy_info_of(&array);
    return true;
}

bool npy_read_data(int fd, const npy_info *info, void *dst, char *error, size_t error_size)
{
    return read_at(fd, info->data_offset, dst, info->data_bytes, "data",
                   (npy_error){error, error_size});
}

bool npy_read_array_data(int fd, const npy_array *array, void *dst, char *error, size_t error_size)
{
    return read_at(fd, array->data_offset, dst, array->data_bytes, "data",
                   (npy_error){error, error_size});
}

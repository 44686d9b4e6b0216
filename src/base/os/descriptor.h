/* Keeps descriptors of the library off the numbers of standard streams. In a program that was
 * started with a standard stream closed, the next file that is opened gets its number, and later
 * output goes into that file: a log line into the memory of a buffer. */
#ifndef TRP_BASE_OS_DESCRIPTOR_H
#define TRP_BASE_OS_DESCRIPTOR_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* Returns `fd`, or in its place a duplicate above the standard streams, closed on exec. -1, errno:
 * `fd` was -1, or no other number is free; `fd` is closed then, too. */
static inline int trp__descriptor_apart(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int apart = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int code = errno;
    close(fd);
    errno = code;
    return apart;
}

/* fopen() to read, and opendir(), with such a descriptor. */
static inline FILE *trp__file_apart(const char *path)
{
    int fd = trp__descriptor_apart(open(path, O_RDONLY | O_CLOEXEC));
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

static inline DIR *trp__folder_apart(const char *path)
{
    int fd = trp__descriptor_apart(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !folder)
        close(fd);
    return folder;
}

/* Opens something for each standard stream that is closed, so that its use fails as it did: for
 * programs of our own, whose libraries open files, too. At the beginning, while there is one
 * thread.
 */
static inline void trp__descriptor_fill_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest */
    }
}

#endif

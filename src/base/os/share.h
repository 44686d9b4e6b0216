/* Files that are installed with the library: PREFIX/share/troupe. */
#ifndef TRP_BASE_OS_SHARE_H
#define TRP_BASE_OS_SHARE_H

#include <limits.h>
#include <stdbool.h>

/* Finds the path of share/troupe/NAME, without links and dots: beside this library, or the program
 * that it is part of, as it is installed or built; otherwise where it should be installed. False:
 * it was not found, or has no file `file`. `file` NULL: NAME is a file itself. */
bool trp__share_find(const char *name, const char *file, char out[PATH_MAX]);

#endif

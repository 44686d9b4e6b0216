/* The build ID that the linker writes into a library: identifies the build without running it. */
#ifndef TRP_BASE_BUILD_ID_H
#define TRP_BASE_BUILD_ID_H

#include <stdbool.h>
#include <stddef.h>

/* Room for a build ID as hexadecimal digits, terminated. Longer IDs count as missing. */
enum { TRP__BUILD_ID_BYTES_MAX = 64, TRP__BUILD_ID_TEXT = 2 * TRP__BUILD_ID_BYTES_MAX + 1 };

/* Reads the build ID of an ELF file for this machine, by a few reads of its head. The file may be
 * anything. False: it has none, or can't be read; the text is empty then. */
bool trp__build_id_of_file(const char *path, char out[TRP__BUILD_ID_TEXT]);

/* Returns whether a file looks like a library that can be loaded here: of this machine's kind, and
 * not truncated. Reads its head only; the file may be anything. */
bool trp__is_library_file(const char *path);

/* Reads the build ID of a loaded library, by its handle of dlopen(): from the copy in memory, even
 * if its file has changed since. */
bool trp__build_id_of_loaded(void *handle, char out[TRP__BUILD_ID_TEXT]);

#endif

/* The build ID that a library's linker has left in it: which build of it this is, without a run of
 * it. */
#ifndef TRP_BASE_BUILD_ID_H
#define TRP_BASE_BUILD_ID_H

#include <stdbool.h>
#include <stddef.h>

/* Room for any build ID as hexadecimal digits, with its end. Longer ones are none. */
enum { TRP__BUILD_ID_BYTES_MAX = 64, TRP__BUILD_ID_TEXT = 2 * TRP__BUILD_ID_BYTES_MAX + 1 };

/* Of an ELF file of this machine's kind, by a few reads of its head. The file may be anything.
 * False: it has none, or can't be read; then the text is empty. */
bool trp__build_id_of_file(const char *path, char out[TRP__BUILD_ID_TEXT]);

/* Whether a file looks like a library that can be loaded here: of this machine's kind, and none of
 * it cut off. By a few reads of its head; the file may be anything. */
bool trp__is_library_file(const char *path);

/* Of a library that is loaded, by its handle of dlopen(): what is in memory, whatever its file is
 * by now. */
bool trp__build_id_of_loaded(void *handle, char out[TRP__BUILD_ID_TEXT]);

#endif

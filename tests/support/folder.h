/* Folders for tests, with the kernels that are stored in them. SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Creates an empty folder in $TMPDIR or /tmp that only its owner may access. */
void h_folder_make(char *path, size_t size, const char *name);

/* Removes a folder and its contents. */
void h_folder_remove(const char *path);

/* Returns how many names in a folder have this beginning and end. */
size_t h_folder_count(const char *path, const char *begin, const char *end);

/* Finds the path of the only name in a folder with this end; false: there is none. */
bool h_folder_find(const char *path, const char *end, char *out, size_t size);

/* Writes a text file. */
void h_file_write(const char *path, const char *text);

/* Inverts a byte of a file. */
void h_file_flip(const char *path, long at);

long h_file_size(const char *path);

#endif

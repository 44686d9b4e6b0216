/* Folders for tests, and kernels to be kept in them. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes an empty folder for its owner alone, in $TMPDIR or /tmp. */
void h_folder_make(char *path, size_t size, const char *name);

/* Removes a folder and all that is in it. */
void h_folder_remove(const char *path);

/* How many names in a folder begin and end so. */
size_t h_folder_count(const char *path, const char *begin, const char *end);

/* The path of the one name in a folder that ends so; false if there is none. */
bool h_folder_find(const char *path, const char *end, char *out, size_t size);

/* Writes a text file. */
void h_file_write(const char *path, const char *text);

/* Inverts a byte of a file. */
void h_file_flip(const char *path, long at);

long h_file_size(const char *path);

#endif

/* A folder of files of arrays. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_IO_IO_BED_H
#define TESTS_UNIT_IO_IO_BED_H

#include "support/harness.h"

extern char io_folder[256];
const char *io_path(const char *name);
int io_count(void);
void io_put(const char *path, const void *bytes, size_t length);
void io_begin(void);
void io_end(void);
trp_io_item io_item(const char *name, trp_dtype type, uint32_t rank, const int64_t *dim,
                    const void *data);

#endif

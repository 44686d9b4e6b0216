/* Where the headers lie that kernels are compiled with: our templates, CUTLASS's and CUDA's. */
#ifndef TRP_ACTORS_CUTLASS_PLAN_HEADERS_H
#define TRP_ACTORS_CUTLASS_PLAN_HEADERS_H

#include <troupe/status.h>

#include <stdint.h>

enum {
    TRP__CUTLASS_FOLDER_CUTLASS = 2, /* CUTLASS's own; before it ours, behind it CUDA's */
    TRP__CUTLASS_FOLDERS_MAX = 5,
};

/* Folders in the order in which they are searched; looked for once, valid for the life of the
 * process. TRP_E_MISSING says what is not there and where it was looked for. Any thread. */
trp_status trp__cutlass_folders(const char *const **folders, uint32_t *count, trp_error *error);

#endif

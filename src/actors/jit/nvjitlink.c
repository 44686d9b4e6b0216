#include "actors/jit/nvjitlink.h"

#include "base/error.h"
#include "driver/toolkit.h"

#include <stdio.h>

static const trp__dynlib_symbol symbols[] = {
#define SYMBOL_ROW(result, name, parameters, required)                                             \
    {#name, offsetof(trp__nvjitlink, name), required},
    TRP__NVJITLINK_FUNCTIONS(SYMBOL_ROW)
#undef SYMBOL_ROW
};

/* One for all actors of a process. */
static trp__nvjitlink functions;
static trp__toolkit_library library = {
    .name = "nvJitLink",
    .env = "TROUPE_NVJITLINK",
    .soname_13 = "libnvJitLink.so.13",
    .soname_12 = "libnvJitLink.so.12",
    .package_hint = "install nvJitLink 12 or 13 (CUDA toolkit, or pip install nvidia-nvjitlink)",
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols,
    .table = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

trp_status trp__nvjitlink_load(const trp__nvjitlink **out, trp_error *error)
{
    *out = &functions;
    return trp__toolkit_load(&library, error);
}

const char *trp__nvjitlink_path(void)
{
    return library.library.path;
}

void trp__nvjitlink_version(const trp__nvjitlink *lib, char *out, size_t size)
{
    unsigned int part[2] = {0};
    lib->nvJitLinkVersion(&part[0], &part[1]);
    snprintf(out, size, "%u.%u", part[0], part[1]);
}

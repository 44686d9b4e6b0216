#include "actors/jit/nvrtc.h"

#include "base/error.h"
#include "driver/toolkit.h"

#include <stdio.h>

static const trp__dynlib_symbol symbols[] = {
#define SYMBOL_ROW(result, name, parameters, required)                                             \
    {#name, offsetof(trp__nvrtc, name), required},
    TRP__NVRTC_FUNCTIONS(SYMBOL_ROW)
#undef SYMBOL_ROW
};

/* One for all actors of a process. */
static trp__nvrtc functions;
static trp__toolkit_library library = {
    .name = "NVRTC",
    .env = "TROUPE_NVRTC",
    .soname_13 = "libnvrtc.so.13",
    .soname_12 = "libnvrtc.so.12",
    .package_hint = "install NVRTC 12 or 13 (CUDA toolkit, or pip install nvidia-cuda-nvrtc)",
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols,
    .table = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

trp_status trp__nvrtc_load(const trp__nvrtc **out, trp_error *error)
{
    *out = &functions;
    return trp__toolkit_load(&library, error);
}

const char *trp__nvrtc_path(void)
{
    return library.library.path;
}

void trp__nvrtc_version(const trp__nvrtc *lib, char *out, size_t size)
{
    int part[2] = {0};
    lib->nvrtcVersion(&part[0], &part[1]);
    snprintf(out, size, "%d.%d", part[0], part[1]);
}

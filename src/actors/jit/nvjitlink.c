#include "actors/jit/nvjitlink.h"

#include <stdio.h>

TRP__TOOLKIT_DEFINE(
    trp__nvjitlink, TRP__NVJITLINK_FUNCTIONS(TRP__TOOLKIT_SYMBOL), .name = "nvJitLink",
    .env = "TROUPE_NVJITLINK", .soname_13 = "libnvJitLink.so.13", .soname_12 = "libnvJitLink.so.12",
    .package_hint = "install nvJitLink 12 or 13 (CUDA toolkit, or pip install nvidia-nvjitlink)")

void trp__nvjitlink_version(const trp__nvjitlink *lib, char *out, size_t size)
{
    unsigned int part[2] = {0};
    lib->nvJitLinkVersion(&part[0], &part[1]);
    snprintf(out, size, "%u.%u", part[0], part[1]);
}

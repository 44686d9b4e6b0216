/* The operations of the jit actor. */
#include "actors/jit/jit.h"
#include "compile/modules/module.h"

#define ROW(number, request, label, function, elsewhere)                                           \
    {                                                                                              \
        .op = number, .request_bytes = sizeof(request), .name = label, .encode = function,         \
        .apart = elsewhere                                                                         \
    }

static const trp__op_class ops[] = {
    ROW(TRP_OP_JIT_COMPILE, trp_jit_compile_request, "compile", trp__jit_encode_compile, true),
    ROW(TRP_OP_JIT_LINK, trp_jit_link_request, "link", trp__jit_encode_link, true),
    ROW(TRP_OP_JIT_LOAD, trp_jit_load_request, "load", trp__jit_encode_load, false),
    ROW(TRP_OP_KERNEL_LAUNCH, trp_kernel_launch_request, "launch", trp__jit_encode_launch, false),
    ROW(TRP_OP_MODULE_SET, trp_module_set_request, "set", trp__jit_encode_set, false),
    ROW(TRP_OP_KERNEL_QUERY, trp_kernel_query_request, "query", trp__jit_encode_query, false),
};
#undef ROW

const trp__actor_class trp__jit_compile_class = {
    .kind = "jit-compile",
    .name = "compiler",
    .internal = true,
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__jit_compile_actor,
    .host = &trp__jit_compile_actor,
};

const trp__actor_class trp__jit_class = {
    .kind = "jit",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__jit_cuda,
    .host = &trp__jit_host,
    .companion = &trp__jit_compile_class,
    .objects = &trp__module_class,
    .deep = true,
};

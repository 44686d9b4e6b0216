/* The loops of ops.h in AVX2: this file alone is compiled for it (src/CMakeLists.txt). */
#if defined(__AVX2__)

#define OPS trp__chain_table_avx2
#define LINKAGE
#include "actors/dnn/host/arrays/ops_table.h"

#include "actors/dnn/host/arrays/ops_body.h"

#else

typedef int trp__chain_has_no_avx2;

#endif

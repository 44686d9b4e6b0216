/* The kernels of node.h. NVRTC compiles them on the machine that they run on; tests compile them as
 * C and run one thread after the other. The including file defines
 *
 *     TRP__KERNEL                   what stands before a kernel
 *     TRP__SHARED                   and before what the threads of a block share
 *     TRP__SYNC()                   they wait for each other
 *     TRP__THREAD, TRP__THREADS     this one, and how many a block has: a power of two
 *     TRP__BLOCK, TRP__BLOCKS
 */
#ifndef TRP_ACTORS_DNN_REFERENCE_KERNELS_H
#define TRP_ACTORS_DNN_REFERENCE_KERNELS_H

#include "actors/dnn/reference/node.h"
#include "actors/dnn/math/dropout.h"
#include "actors/dnn/math/functions.h"
#include "base/numbers/elements.h"

#include <math.h>
#include <string.h>

enum { DIMS = TRP__DNN_SPATIAL };

#include "actors/dnn/reference/elements.h"
#include "actors/dnn/reference/moves.h"
#include "actors/dnn/reference/sums.h"
#include "actors/dnn/reference/conv.h"
#include "actors/dnn/reference/pool.h"
#include "actors/dnn/reference/norm.h"

#include "actors/dnn/reference/blocks.h"
#include "actors/dnn/reference/random.h"

#include "actors/dnn/reference/attention.h"
#include "actors/dnn/reference/paged.h"

#include "actors/dnn/reference/gather.h"
#include "actors/dnn/reference/loss.h"
#include "actors/dnn/reference/optimizer.h"
#include "actors/dnn/reference/pick.h"
#include "actors/dnn/reference/rotary.h"

#undef FOR_THREADS
#undef FOR_BLOCKS
#undef FOR_IN_BLOCK

#endif

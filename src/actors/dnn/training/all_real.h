/* All training nodes in one real type. f32.c and f64.c include this, with macros: T, the type;
 * NAME(x), x with a suffix of the type's own; VIEW and PUT, see parts.h; IS_F32. */
#include "actors/dnn/training/gather.h"
#include "actors/dnn/math/loss.h"
#include "actors/dnn/math/optimizer.h"
#include "actors/dnn/training/real.h"
#include "actors/dnn/math/rotary.h"

#include "base/numbers/half.h"

#include <math.h>
#include <string.h>

#include "actors/dnn/training/cross_entropy_real.h"
#include "actors/dnn/training/gather_real.h"
#include "actors/dnn/training/loss_real.h"
#include "actors/dnn/training/optimizer_real.h"
#include "actors/dnn/training/rotary_real.h"

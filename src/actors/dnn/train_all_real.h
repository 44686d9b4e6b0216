/* All nodes of training in one real type. train_f32.c and train_f64.c include this, with macros: T,
 * the type; NAME(x), x with a suffix of the type's own; VIEW and PUT, see train_op.h; IS_F32. */
#include "actors/dnn/train_gather.h"
#include "actors/dnn/train_loss.h"
#include "actors/dnn/train_optimizer.h"
#include "actors/dnn/train_real.h"
#include "actors/dnn/train_rotary.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

#include "actors/dnn/train_cross_entropy_real.h"
#include "actors/dnn/train_gather_real.h"
#include "actors/dnn/train_loss_real.h"
#include "actors/dnn/train_optimizer_real.h"
#include "actors/dnn/train_rotary_real.h"

/* Troupe: NVIDIA's GPU libraries as supervised actors. Includes every public header
 * but <troupe/worker.h>, which is for authors of actors.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_TROUPE_H
#define TROUPE_TROUPE_H

#include <troupe/version.h>
#include <troupe/types.h>
#include <troupe/status.h>
#include <troupe/convert.h>
#include <troupe/device.h>
#include <troupe/watch.h>
#include <troupe/observe.h>
#include <troupe/submit.h>
#include <troupe/buffer.h>
#include <troupe/io.h>
#include <troupe/blas.h>
#include <troupe/matmul.h>
#include <troupe/cutlass.h>
#include <troupe/dnn.h>
#include <troupe/layers.h>
#include <troupe/training.h>
#include <troupe/rnn.h>
#include <troupe/jit.h>
#include <troupe/probe.h>
#include <troupe/custom.h>

#endif

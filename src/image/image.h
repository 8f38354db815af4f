// SPDX-License-Identifier: Apache-2.0
// Everything that other rooms use of this one. Kernels are pure functions on views, callers own the memory.
#pragma once

#include "image/decode.h"        // IWYU pragma: export
#include "image/normalize.h"     // IWYU pragma: export
#include "image/resize.h"        // IWYU pragma: export
#include "image/resized_crop.h"  // IWYU pragma: export
#include "image/view.h"          // IWYU pragma: export
#include "image/workspace.h"     // IWYU pragma: export

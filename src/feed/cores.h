// SPDX-License-Identifier: Apache-2.0
// How much CPU this process may use: what its affinity, its control group and its instance allow. Any thread.
#pragma once

namespace stoker::feed {

double allowed_cpu();  // cores, not rounded, above 0: an instance may have 0.32 of one
int allowed_cores();   // the same rounded up: how many threads have work

}  // namespace stoker::feed

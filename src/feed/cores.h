// SPDX-License-Identifier: Apache-2.0
// How much CPU this process may use: what its affinity, its control group and its instance allow. Any thread.
#pragma once

#include <string>

namespace stoker::feed {

double allowed_cpu();  // cores, not rounded, above 0: an instance may have 0.32 of one
int allowed_cores();   // the same rounded up: how many threads have work
// Vendor and widest vectors, as "amd avx2": what decides which code numerical libraries run, and with it the
// last bits of floating point results.
std::string cpu_class();

}  // namespace stoker::feed

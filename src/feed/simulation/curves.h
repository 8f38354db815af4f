// SPDX-License-Identifier: Apache-2.0
// What decisions cost: runs without faults and without checks, as large as jobs get.
#pragma once

namespace stoker::feed::simulation {

// Prints the CPU time of a rank's decisions for each request, over numbers of workers and of open ranges, and
// then one run of 1,000 workers and 512 ranks.
void print_curves();

}  // namespace stoker::feed::simulation

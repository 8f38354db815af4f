// SPDX-License-Identifier: Apache-2.0
// The feed's subcommands of the `stoker` program. argv[0] is the subcommand's name; the result is the exit
// code.
#pragma once

namespace stoker::feed {

int feed_worker_main(int argc, char** argv);
int feed_dispatcher_main(int argc, char** argv);

}  // namespace stoker::feed

// SPDX-License-Identifier: Apache-2.0
// `stoker agent`: one instance, from assignment to nothing left.
//
//   stoker agent --assignment FILE | --assignment-fd N   [--server SOCKET --id ID]
//                [--program PATH] [--clear]
//
// Without --server, events are JSON lines on standard output and TERM or INT stop the instance (a second one
// kills it).
// --clear only removes what a killed agent left of the assignment. Exit code 0 when everything was said and
// done, 64 for wrong usage, 125 otherwise.
#pragma once

namespace stoker::agent {

int agent_main(int argc, char** argv);  // argv[0] is "agent"

}  // namespace stoker::agent

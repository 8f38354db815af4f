// SPDX-License-Identifier: Apache-2.0
// Root without capabilities still owns root's files. In a user namespace of its own it would get the
// capability to mount, and with it the machine's control groups, whose files are root's: its quota lifted,
// groups left behind.
#pragma once

namespace stoker::agent {

// From now on this process and what it starts cannot make user namespaces (EPERM); clone3, whose flags a
// filter cannot read, is told not to be there (ENOSYS), as container engines do: the C library takes clone.
// False, with errno, where the kernel cannot do that. Needs no_new_privs.
bool refuse_user_namespaces();

}  // namespace stoker::agent

// SPDX-License-Identifier: Apache-2.0
// System calls that lead out of an instance, which no namespace and no capability stands for. As container
// engines have it.
//
// Keys: keyrings are the machine's. A job would read those of its user, and leave its own behind.
// User namespaces, of root alone: without capabilities root still owns root's files. In a namespace of its
// own it would have the capability to mount, and with it the machine's control groups, whose files are
// root's: its quota lifted, groups left behind. clone3, whose flags a filter cannot read, is told not to be
// there (ENOSYS): the C library takes clone.
#pragma once

namespace stoker::agent {

// From now on this process and what it starts have them refused (EPERM). False, with errno, where the kernel
// cannot do that. Needs no_new_privs.
bool refuse_calls(bool is_root);

}  // namespace stoker::agent

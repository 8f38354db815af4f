// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace stoker {

const char* code_name(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not_found";
    case Code::kExists:
      return "exists";
    case Code::kDenied:
      return "denied";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDeadline:
      return "deadline";
    case Code::kNoSpace:
      return "no_space";
    case Code::kNoMemory:
      return "no_memory";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kData:
      return "data";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

Error errno_error(const std::string& what, int err) {
  Code code = Code::kUnavailable;
  switch (err) {
    case ENOENT:
    case ENOTDIR:
      code = Code::kNotFound;
      break;
    case EEXIST:
      code = Code::kExists;
      break;
    case EACCES:
    case EPERM:
      code = Code::kDenied;
      break;
    case ENOSPC:
    case EDQUOT:
      code = Code::kNoSpace;
      break;
    case EINVAL:
    case ENAMETOOLONG:
      code = Code::kInvalid;
      break;
    case ETIMEDOUT:
      code = Code::kDeadline;
      break;
    default:
      break;
  }
  const char* remedy =
      err == EMFILE ? " (this process may have no more: `ulimit -n` in its shell raises that)" : "";
  return {code, what + ": " + std::strerror(err) + remedy, {}};
}

void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "stoker: bug at %s:%d: %s does not hold\n", file, line, what);
  std::abort();
}

}  // namespace stoker

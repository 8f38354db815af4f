// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value, or an Error that says what was tried and why it failed. Expected failures are returned;
// CHECK stops the program on what only a bug can break. Values; may be passed between threads.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace stoker {

enum class Code {
  kInvalid,  // the caller's input is wrong; trying again cannot help
  kNotFound,
  kExists,
  kDenied,       // no permission, or a token that does not match
  kUnavailable,  // gone, closed or not there yet; trying again may help
  kDeadline,
  kNoSpace,  // of a disk, or of a limit on it
  kNoMemory,
  kUnsupported,
  kData,  // stored bytes are damaged; DataFault says where
  kCancelled,
  kInternal,
};

const char* code_name(Code code);

// Where stored bytes are wrong. `kind` is one of: empty, not_image, unsupported, truncated, corrupt,
// too_large, no_classes, empty_class, link_loop, unreadable, python.
struct DataFault {
  std::string kind;
  std::string path;
  int64_t offset = -1;  // byte offset in the file, -1 where it has no meaning
};

struct [[nodiscard]] Error {
  Code code = Code::kInternal;
  std::string message;
  std::optional<DataFault> fault;

  // The same error with what was being tried put before it: "reading plan: no such file".
  Error during(const std::string& what) && {
    message = what + ": " + message;
    return std::move(*this);
  }
};

inline Error invalid(std::string message) { return {Code::kInvalid, std::move(message), {}}; }
inline Error unavailable(std::string message) { return {Code::kUnavailable, std::move(message), {}}; }
inline Error internal(std::string message) { return {Code::kInternal, std::move(message), {}}; }
// "open /x: No such file or directory", with the code that fits errno.
Error errno_error(const std::string& what, int err);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

struct Ok {};
using Status = Result<Ok>;
inline Status ok() { return Ok{}; }

[[noreturn]] void check_failed(const char* file, int line, const char* what);

}  // namespace stoker

// STOKER_TRY(expr): returns the error of a Status from the enclosing function.
#define STOKER_TRY(expr)                                                                           \
  do {                                                                                             \
    if (auto stoker_status = (expr); !stoker_status.ok()) return std::move(stoker_status).error(); \
  } while (0)
// STOKER_ASSIGN(declaration, expr): declaration = value of expr, or returns its error.
#define STOKER_CONCAT_(a, b) a##b
#define STOKER_CONCAT(a, b) STOKER_CONCAT_(a, b)
#define STOKER_ASSIGN_(tmp, declaration, expr)  \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  declaration = std::move(tmp).value()
#define STOKER_ASSIGN(declaration, expr) \
  STOKER_ASSIGN_(STOKER_CONCAT(stoker_result_, __LINE__), declaration, expr)

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) ::stoker::check_failed(__FILE__, __LINE__, #condition); \
  } while (0)

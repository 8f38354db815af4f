// SPDX-License-Identifier: Apache-2.0
// The connection to the user's server, which is started if it isn't there, and how errors end a command.
#pragma once

#include <string>
#include <vector>

#include "http/client.h"

namespace stoker::cli {

enum ExitCode {
  kDone = 0,
  kUsage = 64,
  kTryLater = 75,
  kNotAllowed = 77,
  kPlatform = 125,
  kNotRunnable = 126,
  kMissing = 127
};

struct Session {
  std::string home;
  std::string socket;
};

Result<Session> locate();

// A client whose server answers: the one that runs, or one started now, detached.
Result<http::Client> connect(const Session& session);
// A client whose server runs already; kUnavailable otherwise.
Result<http::Client> connect_running(const Session& session);

// Prints "stoker: what happened", as JSON {"error":{"kind":…,"message":…}} on wish, to standard error.
// Returns the exit code that fits.
int fail(const Error& error, bool json = false);
int exit_code_of(const Error& error);

bool is_over(const Json& job);  // as the server describes it
std::string job_target(const std::string& job, const std::string& rest = "");
std::string jobs_target(const std::string& route, const std::vector<std::string>& jobs);  // ROUTE?job=A&job=B

}  // namespace stoker::cli

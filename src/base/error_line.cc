// SPDX-License-Identifier: Apache-2.0
#include "base/error_line.h"

#include "base/json.h"

namespace stoker {

std::string error_line(const std::string& program, const Error& error, bool json) {
  if (!json) return program + ": " + error.message + "\n";
  Json out;
  out.set("error", Json(Json::Object{{"kind", code_name(error.code)}, {"message", error.message}}));
  return out.dump() + "\n";
}

}  // namespace stoker

// SPDX-License-Identifier: Apache-2.0
#include <jconfig.h>  // of libjpeg-turbo: its version
#include <png.h>
#include <webp/decode.h>

#include "pipeline/plan.h"

namespace stoker::pipeline {
namespace {

#define STOKER_TEXT_(x) #x
#define STOKER_TEXT(x) STOKER_TEXT_(x)

std::string webp_version() {
  int version = WebPGetDecoderVersion();  // a byte each
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255) + "." +
         std::to_string(version & 255);
}

}  // namespace

Json native_libraries(std::string_view pillow_major) {
  Json out;
  out.set("stoker", STOKER_VERSION);
  out.set("libjpeg", "turbo-" STOKER_TEXT(LIBJPEG_TURBO_VERSION));
  out.set("libpng", png_get_libpng_ver(nullptr));
  out.set("libwebp", webp_version());
  out.set("pillow", std::string(pillow_major));
  return out;
}

Status check_libraries(const Plan& plan) {
  if (plan.is_python()) return ok();  // the Python worker compares those that it imports
  if (plan.is_arrays() && !plan.arrays().pictures) return ok();  // copied bytes depend on none
  const std::string& pillow = plan.libraries()["pillow"].as_string();
  Json here = native_libraries(pillow);
  std::string differences;
  auto differ = [&](const std::string& name, const std::string& wanted, const std::string& found) {
    differences += (differences.empty() ? "" : ", ") + name + " " + wanted + " (here " + found + ")";
  };
  for (const auto& [name, version] : plan.libraries().as_object()) {
    if (!here.has(name)) {
      differ(name, version.as_string(), "none");
    } else if (here[name] != version) {
      differ(name, version.as_string(), here[name].as_string());
    }
  }
  for (const auto& [name, version] : here.as_object())
    if (!plan.libraries().has(name)) differ(name, "unnamed", version.as_string());
  if (pillow != "12" && pillow != "13")
    differ("pillow", pillow.empty() ? "unnamed" : pillow, "the rules of 12 and 13");
  if (differences.empty()) return ok();
  return Error{
      Code::kUnsupported, "the plan names libraries that this program does not have: " + differences, {}};
}

}  // namespace stoker::pipeline

// SPDX-License-Identifier: Apache-2.0
// adjust_hue(): RGB to Pillow's HSV of bytes, the hue turned, and back. Floats and doubles stand where
// Pillow's do; every of the 2^24 colours was compared.
#include <algorithm>
#include <array>
#include <cmath>

#include "image/colour.h"

namespace stoker::image {
namespace {

struct Hsv {
  uint8_t hue, saturation, value;
};

uint8_t hue_of(const uint8_t* rgb, int highest, float span) {
  float from_r = float(highest - rgb[0]) / span;
  float from_g = float(highest - rgb[1]) / span;
  float from_b = float(highest - rgb[2]) / span;
  float sixth;
  if (rgb[0] == highest) {
    sixth = from_b - from_g;
  } else if (rgb[1] == highest) {
    sixth = float(2.0 + from_r - from_b);
  } else {
    sixth = float(4.0 + from_g - from_r);
  }
  double turn = sixth / 6.0 + 1.0;  // in (0, 2)
  auto hue = float(turn >= 1.0 ? turn - 1.0 : turn);
  return uint8_t(std::clamp(int(hue * 255.0), 0, 255));
}

Hsv to_hsv(const uint8_t* rgb) {
  int highest = std::max({rgb[0], rgb[1], rgb[2]});
  int lowest = std::min({rgb[0], rgb[1], rgb[2]});
  if (highest == lowest) return {0, 0, uint8_t(highest)};
  auto span = float(highest - lowest);
  float saturation = span / float(highest);
  return {hue_of(rgb, highest, span), uint8_t(std::clamp(int(saturation * 255.0), 0, 255)), uint8_t(highest)};
}

// Which of (value, p, q, t) goes to red, green and blue in each sixth of the circle, and how far in it a hue
// is.
struct Sector {
  uint8_t red, green, blue;
  float into;
};
constexpr uint8_t kValue = 0, kP = 1, kQ = 2, kT = 3;

std::array<Sector, 256> make_sectors() {
  constexpr uint8_t kOrder[6][3] = {{kValue, kT, kP}, {kQ, kValue, kP}, {kP, kValue, kT},
                                    {kP, kQ, kValue}, {kT, kP, kValue}, {kValue, kP, kQ}};
  std::array<Sector, 256> sectors;
  for (int hue = 0; hue < 256; ++hue) {
    double sixths = float(hue) * 6.0 / 255.0;
    int sector = int(std::floor(sixths));
    const auto& order = kOrder[sector % 6];
    sectors[size_t(hue)] = {order[0], order[1], order[2], float(sixths - sector)};
  }
  return sectors;
}

uint8_t rounded(double value) { return uint8_t(std::clamp(int(value + 0.5), 0, 255)); }

void to_rgb(const Hsv& hsv, uint8_t* rgb) {
  static const std::array<Sector, 256> kSectors = make_sectors();
  if (hsv.saturation == 0) {
    rgb[0] = rgb[1] = rgb[2] = hsv.value;
    return;
  }
  const Sector& sector = kSectors[hsv.hue];
  float saturation = float(hsv.saturation / 255.0);
  float value = hsv.value;
  uint8_t of[4];
  of[kValue] = hsv.value;
  of[kP] = rounded(value * (1.0 - saturation));
  of[kQ] = rounded(value * (1.0 - saturation * sector.into));
  of[kT] = rounded(value * (1.0 - saturation * (1.0 - sector.into)));
  rgb[0] = of[sector.red];
  rgb[1] = of[sector.green];
  rgb[2] = of[sector.blue];
}

}  // namespace

void adjust_hue(const MutableImageView& picture, int steps) {
  for (int y = 0; y < picture.height; ++y) {
    uint8_t* at = picture.row(y);
    for (int x = 0; x < picture.width; ++x, at += 3) {
      Hsv hsv = to_hsv(at);
      hsv.hue = uint8_t(hsv.hue + steps);
      to_rgb(hsv, at);
    }
  }
}

}  // namespace stoker::image

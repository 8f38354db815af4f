// SPDX-License-Identifier: Apache-2.0
#include "base/fixed_math.h"

#include <cmath>
#include <cstdint>

namespace stoker {
namespace {

// sin and cos of |r| <= pi/4.
double sin_near_zero(double r) {
  double r2 = r * r, sum = 1;
  for (int k = 18; k >= 2; k -= 2) sum = 1 - sum * r2 / (k * (k + 1));
  return r * sum;
}
double cos_near_zero(double r) {
  double r2 = r * r, sum = 1;
  for (int k = 19; k >= 1; k -= 2) sum = 1 - sum * r2 / (k * (k + 1));
  return sum;
}

// sin of x + quarters * pi/2.
double sin_turned(double x, int64_t quarters) {
  double k = std::nearbyint(x * 0.63661977236758134);
  // pi/2 in three parts, of which k times the first two are exact.
  double r =
      ((x - k * 1.57079632673412561417) - k * 6.07710050630396597660e-11) - k * 2.02226624879595063154e-21;
  switch ((static_cast<int64_t>(k) + quarters) & 3) {
    case 0:
      return sin_near_zero(r);
    case 1:
      return cos_near_zero(r);
    case 2:
      return -sin_near_zero(r);
    default:
      return -cos_near_zero(r);
  }
}

}  // namespace

double fixed_log(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  double s = (m - 1) / (m + 1);  // |s| < 0.172
  double s2 = s * s, sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

double fixed_exp(double x) {
  double k = std::nearbyint(x * 1.4426950408889634);
  double r = x - k * 0.69314718036912382 - k * 1.9082149292705877e-10;  // ln 2 in two parts
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = sum * r / i + 1;
  return std::ldexp(sum, static_cast<int>(k));
}

double fixed_sin(double x) { return sin_turned(x, 0); }
double fixed_cos(double x) { return sin_turned(x, 1); }

}  // namespace stoker

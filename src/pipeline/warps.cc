// SPDX-License-Identifier: Apache-2.0
#include "pipeline/warps.h"

#include <algorithm>
#include <cmath>

#include "base/fixed_math.h"

namespace stoker::pipeline {
namespace {

double radians(double degrees) { return degrees * 0.017453292519943295; }

double fixed_tan(double x) { return fixed_sin(x) / fixed_cos(x); }

double to_15_places(double x) { return std::nearbyint(x * 1e15) / 1e15; }

struct Point {
  double x, y;
};

Point mapped(const Matrix& m, double x, double y) {
  return {m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
}

// Eight equations, solved by elimination with the largest pivot of each column.
void solve(double (&rows)[8][9], Matrix& solution) {
  for (int k = 0; k < 8; ++k) {
    int pivot = k;
    for (int i = k + 1; i < 8; ++i)
      if (std::abs(rows[i][k]) > std::abs(rows[pivot][k])) pivot = i;
    std::swap(rows[k], rows[pivot]);
    for (int i = k + 1; i < 8; ++i) {
      double share = rows[i][k] / rows[k][k];
      for (int j = k; j < 9; ++j) rows[i][j] -= share * rows[k][j];
    }
  }
  for (int k = 7; k >= 0; --k) {
    double rest = rows[k][8];
    for (int j = k + 1; j < 8; ++j) rest -= rows[k][j] * solution[static_cast<size_t>(j)];
    solution[static_cast<size_t>(k)] = rest / rows[k][k];
  }
}

}  // namespace

Matrix affine_matrix(const AffineValues& values, const std::array<double, 2>& center) {
  double turn = radians(values.angle), shear_x = radians(values.shear[0]), shear_y = radians(values.shear[1]);
  double a = fixed_cos(turn - shear_y) / fixed_cos(shear_y);
  double b = -fixed_cos(turn - shear_y) * fixed_tan(shear_x) / fixed_cos(shear_y) - fixed_sin(turn);
  double c = fixed_sin(turn - shear_y) / fixed_cos(shear_y);
  double d = -fixed_sin(turn - shear_y) * fixed_tan(shear_x) / fixed_cos(shear_y) + fixed_cos(turn);
  Matrix m{d, -b, 0, -c, a, 0, 0, 0};
  for (double& value : m) value /= values.scale;
  double x = -center[0] - values.translate[0], y = -center[1] - values.translate[1];
  m[2] += m[0] * x + m[1] * y;
  m[5] += m[3] * x + m[4] * y;
  m[2] += center[0];
  m[5] += center[1];
  return m;
}

std::pair<Matrix, image::Size> rotation(double angle, bool expand, const std::array<double, 2>& center,
                                        image::Size picture) {
  double turn = std::fmod(angle, 360.0);
  turn = -radians(turn < 0 ? turn + 360.0 : turn);
  double cosine = to_15_places(fixed_cos(turn)), sine = to_15_places(fixed_sin(turn));
  Matrix m{cosine, sine, 0, -sine, cosine, 0, 0, 0};
  Point start = mapped(m, -center[0], -center[1]);
  m[2] = start.x + center[0];
  m[5] = start.y + center[1];
  if (!expand) return {m, picture};
  double low_x = 1e300, high_x = -1e300, low_y = 1e300, high_y = -1e300;
  for (double x : {0.0, double(picture.width)}) {
    for (double y : {0.0, double(picture.height)}) {
      Point corner = mapped(m, x, y);
      low_x = std::min(low_x, corner.x), high_x = std::max(high_x, corner.x);
      low_y = std::min(low_y, corner.y), high_y = std::max(high_y, corner.y);
    }
  }
  image::Size size{static_cast<int>(std::ceil(high_x) - std::floor(low_x)),
                   static_cast<int>(std::ceil(high_y) - std::floor(low_y))};
  Point moved = mapped(m, -(size.width - picture.width) / 2.0, -(size.height - picture.height) / 2.0);
  m[2] = moved.x;
  m[5] = moved.y;
  return {m, size};
}

Matrix perspective_matrix(image::Size picture, const Corners& ends) {
  double right = picture.width - 1, bottom = picture.height - 1;
  const Point starts[4] = {{0, 0}, {right, 0}, {right, bottom}, {0, bottom}};
  double rows[8][9] = {};
  for (int i = 0; i < 4; ++i) {
    double x = ends[static_cast<size_t>(i)][0], y = ends[static_cast<size_t>(i)][1];
    auto [to_x, to_y] = starts[i];
    double first[9] = {x, y, 1, 0, 0, 0, -to_x * x, -to_x * y, to_x};
    double second[9] = {0, 0, 0, x, y, 1, -to_y * x, -to_y * y, to_y};
    std::copy(first, first + 9, rows[2 * i]);
    std::copy(second, second + 9, rows[2 * i + 1]);
  }
  Matrix m{};
  solve(rows, m);
  for (double& value : m) value = static_cast<float>(value);
  return m;
}

}  // namespace stoker::pipeline

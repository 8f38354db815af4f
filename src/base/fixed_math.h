// SPDX-License-Identifier: Apache-2.0
// log, exp, sin and cos of a fixed order of double operations: within 1e-14, and equal on every machine,
// where libm's choice of instructions may differ in the last bit. Pure.
#pragma once

namespace stoker {

double fixed_log(double x);  // x > 0, normal
double fixed_exp(double x);  // |x| < 700
double fixed_sin(double x);  // |x| < 1e5
double fixed_cos(double x);

}  // namespace stoker

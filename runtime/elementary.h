// Elementary functions of one double whose bits are the same with every C library, compiler and processor: +, -, ×, ÷
// and √ of IEEE 754 alone, each rounded once. Whatever decides a number of a run takes them from here; the C library's
// differ between its versions. Vectors have their own (kernels/functions-inl.h).
#pragma once

namespace crosstalk {

// e^x, within 1 ulp. Infinity above 709.78, 0 below -745.13.
double Exp(double x);

// log x, within 1 ulp. log 0 = -infinity; NaN below.
double Log(double x);

// x^y for x ≥ 0, within 1.5 ulp (2 where the result is subnormal); NaN for x < 0. x^0 = 1^y = 1, also where the other
// is NaN.
double Pow(double x, double y);

// cos(πx), within 2.5 ulp; exact where it is 0 or ±1.
double CosPi(double x);

// The x with Φ(x) = p, the normal distribution's function: within 1e-15 · max(1, |x|). -infinity at 0, infinity at 1,
// NaN outside.
double InverseNormal(double p);

}  // namespace crosstalk

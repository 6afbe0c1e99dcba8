// ninepoint's arithmetic for the text of a GPU's kernels: the rules of NumPy at the edges.
//
// Includes nothing, so that NVRTC needs no path, and is plain C++17 but for CUDA's own words.
// Compile it without contracting products and sums (--fmad=false): bits are those of the CPU.
#ifndef NPT_DEVICE
#define NPT_DEVICE

// The type of positions and of distances inside a frame, in elements.
#ifndef NPT_INDEX
#define NPT_INDEX int
#endif

#define NPT __device__ __forceinline__

typedef NPT_INDEX npt_index;
typedef long long npt_int64;
typedef unsigned long long npt_uint64;

#define NPT_NAN32 __int_as_float(0x7fc00000)
#define NPT_INF32 __int_as_float(0x7f800000)
#define NPT_NAN64 __longlong_as_double(0x7ff8000000000000ll)
#define NPT_INF64 __longlong_as_double(0x7ff0000000000000ll)

// What a launch is told of its arrays: see `patches.py`.
template <int axes, int arrays> struct npt_geometry {
  npt_int64 length[axes], stack[3], core[arrays][axes], frame[arrays][3];
};
// How far the frame of this number is from the first one.
template <int axes, int arrays>
NPT npt_int64 npt_frame(const npt_geometry<axes, arrays> &g, int array, unsigned frame) {
  if (frame == 0) return 0;
  const unsigned last = unsigned(g.stack[2]), middle = unsigned(g.stack[1]), rest = frame / last;
  return npt_int64(frame % last) * g.frame[array][2] +
         npt_int64(rest % middle) * g.frame[array][1] +
         npt_int64(rest / middle) * g.frame[array][0];
}

// Where a thread begins: with which points of its block's tile, of those from `low` to the lengths
// plus `high`, and of which frame; with `none` where the tile has none for it.
template <int N> struct npt_patch { int tile[N], own[N], low[N], high[N]; };
template <int N> struct npt_place {
  npt_index at[N], length[N];
  unsigned frame;
  bool none;
};
template <int N, int arrays>
NPT npt_place<N> npt_start(const npt_geometry<N, arrays> &g, const npt_patch<N> p) {
  npt_place<N> here = {};
  unsigned block = blockIdx.x, frame = 0;
#pragma unroll
  for (int a = N - 1; a >= 0; a--) {
    const npt_index n = npt_index(g.length[a]);
    const unsigned m0 = unsigned((n + (p.high[a] - p.low[a] + p.tile[a] - 1)) / p.tile[a]);
    const unsigned rest = a > 0 ? block / m0 : 0;
    if (a > 0) block -= rest * m0;
    else {
      // Most often there is one frame, and nothing to divide.
      if (block >= m0) frame = block / m0, block -= frame * m0;
    }
    const unsigned thread = a == N - 1 ? threadIdx.x : a == N - 2 ? threadIdx.y : 0;
    here.at[a] = npt_index(block) * p.tile[a] + npt_index(thread) * p.own[a] + p.low[a];
    here.length[a] = n;
    here.none |= p.tile[a] > 1 && here.at[a] >= n + p.high[a];
    block = rest;
  }
  here.frame = frame;
  return here;
}

// Where the element beyond the ends of an axis of length n comes from; -1 for the constant.

NPT npt_index npt_nearest(npt_index i, npt_index n) { return i < 0 ? 0 : n - 1; }
NPT npt_index npt_constant(npt_index, npt_index) { return -1; }
NPT npt_index npt_wrap(npt_index i, npt_index n) {
  const npt_index rest = i % n;
  return rest < 0 ? rest + n : rest;
}
NPT npt_index npt_reflect(npt_index i, npt_index n) {
  const npt_index rest = npt_wrap(i, 2 * n);
  return rest < n ? rest : 2 * n - 1 - rest;
}
NPT npt_index npt_mirror(npt_index i, npt_index n) {
  if (n == 1) return 0;
  const npt_index rest = npt_wrap(i, 2 * n - 2);
  return rest < n ? rest : 2 * n - 2 - rest;
}
// The same for any position, by the rules before and after an axis.
typedef npt_index npt_find(npt_index, npt_index);
template <npt_find before, npt_find after> NPT npt_index npt_at(npt_index i, npt_index n) {
  return i < 0 ? before(i, n) : i < n ? i : after(i, n);
}
// The same of an axis that goes from `low` to below `high`.
template <npt_find before, npt_find after>
NPT npt_index npt_found(npt_index i, npt_index low, npt_index high) {
  return npt_at<before, after>(i - low, high - low) + low;
}

// Integers.

// -x for a minimum or maximum. ptxas of CUDA 13.0 makes one instruction of two of these on compute
// capability 9.0 and 10.0, and forgets there that an operand was negated: it sees no negation here.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define NPT_NEGATIVE(type, bits, constraint) \
  NPT type npt_negative(type x) { \
    type negative; \
    asm("{ .reg .b" bits " t; not.b" bits " t, %1; add.s" bits " %0, t, 1; }" \
        : "=" constraint(negative) : constraint(x)); \
    return negative; \
  }
NPT_NEGATIVE(int, "32", "r")
NPT_NEGATIVE(npt_int64, "64", "l")
#else
NPT int npt_negative(int x) { return int(0u - unsigned(x)); }
NPT npt_int64 npt_negative(npt_int64 x) { return npt_int64(npt_uint64(0) - npt_uint64(x)); }
#endif
// a // b; 0 where b is 0.
template <class T> NPT T npt_integer_divide(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return T(npt_uint64(0) - npt_uint64(a));
  const T quotient = a / b, rest = a - quotient * b;
  return rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
}
// a % b, of the sign of b; 0 where b is 0.
template <class T> NPT T npt_integer_modulo(T a, T b) {
  if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
  const T rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
// a ** n for n >= 0, wrapping at 64 bits.
template <class T> NPT npt_uint64 npt_integer_power(T a, T n) {
  npt_uint64 base = npt_uint64(a), result = 1;
  while (n > 0) {
    if (n & 1) result *= base;
    base *= base;
    n >>= 1;
  }
  return result;
}
template <class T> NPT T npt_shift_left(T a, T n) {
  return n >= 0 && n < 64 ? T(npt_uint64(a) << n) : T(0);
}
template <class T> NPT T npt_shift_right(T a, T n) {
  return n >= 0 && n < 64 ? T(a >> n) : a < 0 ? T(-1) : T(0);
}
// The multiple of `step` nearest to an integer, the even one of two; wraps at 64 bits.
template <class T> NPT npt_uint64 npt_nearest_multiple(T a, T step) {
  const T half = step / 2;
  npt_uint64 whole = npt_uint64(npt_integer_divide(a, step));
  const T rest = T(npt_uint64(a) - whole * npt_uint64(step));
  if (rest > half || (rest == half && step % 2 == 0 && (whole & 1) == 1)) whole += 1;
  return whole * npt_uint64(step);
}

// Floats.

#include "functions.h"

// The bits of a number, as those of a number of the other kind.
NPT int npt_bits(float x) { return __float_as_int(x); }
NPT npt_int64 npt_bits(double x) { return __double_as_longlong(x); }
NPT float npt_bits(int x) { return __int_as_float(x); }
NPT double npt_bits(npt_int64 x) { return __longlong_as_double(x); }

NPT bool npt_signbit(float x) { return __float_as_int(x) < 0; }
NPT bool npt_signbit(double x) { return __double_as_longlong(x) < 0; }
template <class T> NPT T npt_sign(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x; }

// a // b as NumPy's: from the remainder, which is exact; rounded at each step.
template <class T> NPT T npt_floor_divide(T a, T b, T nan) {
  if (b == 0) return a / b;
  if (a - a != 0 || b != b) return nan;
  const T rest = npt_fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= T(1);
  if (quotient == 0) return npt_copysign(T(0), a / b);
  const T whole = npt_floor(quotient);
  return quotient - whole > T(0.5) ? whole + T(1) : whole;
}
NPT float npt_floor_divide(float a, float b) { return npt_floor_divide(a, b, NPT_NAN32); }
NPT double npt_floor_divide(double a, double b) {
  return npt_floor_divide(a, b, NPT_NAN64);
}
// a % b as NumPy's: of the sign of b.
NPT double npt_remainder(double a, double b) {
  if (b == 0 || a - a != 0 || b != b) return NPT_NAN64;
  const double rest = fmod(a, b);
  if (rest == 0) return copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}
// A float cut to whole numbers and to low .. high; NaN is 0.
template <class T> NPT T npt_saturate(double value, T low, T high) {
  if (value != value) return 0;
  if (value <= double(low)) return low;
  if (value >= double(high)) return high;
  return T(value);
}
// e**x to about one unit in the last place, after Cody and Waite, and Cephes.
NPT float npt_exp_float32(float x) {
  float y = x < 89.0f ? x : 89.0f;
  y = y > -104.0f ? y : -104.0f;
  const float n = floorf(y * float(1.44269504088896341) + 0.5f);
  float r = y - n * float(0.693359375);
  r = r - n * float(-2.12194440e-4);
  float p = float(1.9875691500e-4) * r + float(1.3981999507e-3);
  p = p * r + float(8.3334519073e-3);
  p = p * r + float(4.1665795894e-2);
  p = p * r + float(1.6666665459e-1);
  p = p * r + float(5.0000001201e-1);
  p = p * r * r + r + 1.0f;
  if (x != x) return x;
  const int whole = int(n), half = whole >> 1;
  return p * __int_as_float(int(unsigned(half + 127) << 23)) *
         __int_as_float(int(unsigned(whole - half + 127) << 23));
}
NPT double npt_exp_float64(double x) {
  double y = x < 710.0 ? x : 710.0;
  y = y > -746.0 ? y : -746.0;
  const double n = floor(y * 1.4426950408889634 + 0.5);
  double r = y - n * 6.93145751953125e-1;
  r = r - n * 1.42860682030941723212e-6;
  const double s = r * r;
  const double p =
      r * ((1.26177193074810590878e-4 * s + 3.02994407707441961300e-2) * s + 1.0);
  double q = 3.00198505138664455042e-6 * s + 2.52448340349684104192e-3;
  q = (q * s + 2.27265548208155028766e-1) * s + 2.0;
  const double e = 1.0 + 2.0 * (p / (q - p));
  if (x != x) return x;
  const npt_int64 whole = npt_int64(n), half = whole >> 1;
  return e * __longlong_as_double(npt_int64(npt_uint64(half + 1023) << 52)) *
         __longlong_as_double(npt_int64(npt_uint64(whole - half + 1023) << 52));
}

// The lesser and the greater of two, NaN where one is; of zeros either. GPUs before compute
// capability 8.0 have no instruction that lets NaN through.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define NPT_EXTREME(name, instruction, op) \
  NPT float name(float a, float b) { \
    float chosen; \
    asm(instruction ".NaN.f32 %0, %1, %2;" : "=f"(chosen) : "f"(a), "f"(b)); \
    return chosen; \
  }
#else
#define NPT_EXTREME(name, instruction, op) \
  NPT float name(float a, float b) { return a != a ? a : b != b ? b : b op a ? b : a; }
#endif
NPT_EXTREME(npt_lesser, "min", <)
NPT_EXTREME(npt_greater, "max", >)

// Floats of 16 bits, by how many of these are the exponent: stored only, computed with as float32.

template <int N> struct npt_short {
  unsigned short bits;
};
typedef npt_short<5> npt_half;
typedef npt_short<8> npt_bfloat;

// A float64 rounded to float16, once, to the even of two; as a float32.
NPT float npt_round_to_half(double x) {
  const double size = fabs(x);
  if (size < 0x1p-14) return float(rint(x * 0x1p24) * 0x1p-24);
  if (size < 65520.0) {
    const npt_int64 bits = __double_as_longlong(x);
    const npt_int64 up = ((bits >> 42) & 1) + ((1ll << 41) - 1);
    return float(__longlong_as_double((bits + up) & ~((1ll << 42) - 1)));
  }
  return x != x ? float(x) : copysignf(NPT_INF32, float(x));
}
NPT float npt_widened(npt_half x) {
  const unsigned sign = unsigned(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
  if (rest >= 0x7c00) return __int_as_float(int(sign | 0x7f800000 | (rest & 0x3ff) << 13));
  if (rest >= 0x400) return __int_as_float(int(sign | ((rest << 13) + 0x38000000)));
  return copysignf(float(rest) * 0x1p-24f, __int_as_float(int(sign | 0x3f800000)));
}
NPT npt_half npt_halved(double x) {
  const unsigned bits = unsigned(__float_as_int(npt_round_to_half(x)));
  const unsigned sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  unsigned made = (rest - 0x38000000) >> 13;
  if (rest > 0x7f800000) made = 0x7e00;
  else if (rest == 0x7f800000) made = 0x7c00;
  else if (rest < 0x38800000) made = unsigned(__int_as_float(int(rest)) * 0x1p24f);
  return npt_half{(unsigned short)(sign | made)};
}

// A bfloat16 is the first half of a float32, which is rounded to the even of two; of NaN a bit stays.

NPT float npt_widened(npt_bfloat x) { return __int_as_float(int(unsigned(x.bits) << 16)); }

NPT void npt_store_short(npt_half &to, double x) { to = npt_halved(x); }
NPT void npt_store_short(npt_bfloat &to, double x) {
  const unsigned bits = unsigned(__float_as_int(float(x)));
  const unsigned kept = x == x ? bits + 0x7fff + ((bits >> 16) & 1) : bits | 0x400000;
  to.bits = (unsigned short)(kept >> 16);
}

// Complex numbers.

template <class T> struct npt_complex {
  T real, imag;
  NPT npt_complex operator-() const { return {-real, -imag}; }
};
typedef npt_complex<float> npt_complex64;
typedef npt_complex<double> npt_complex128;

template <class T> NPT npt_complex<T> operator+(npt_complex<T> a, npt_complex<T> b) {
  return {a.real + b.real, a.imag + b.imag};
}
template <class T> NPT npt_complex<T> operator-(npt_complex<T> a, npt_complex<T> b) {
  return {a.real - b.real, a.imag - b.imag};
}
template <class T> NPT npt_complex<T> operator*(npt_complex<T> a, npt_complex<T> b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
template <class T> NPT bool operator==(npt_complex<T> a, npt_complex<T> b) {
  return a.real == b.real && a.imag == b.imag;
}
template <class T> NPT bool operator!=(npt_complex<T> a, npt_complex<T> b) { return !(a == b); }
template <class T> NPT bool operator!=(npt_complex<T> a, int b) {
  return a.real != T(b) || a.imag != 0;
}
// Source: R. L. Smith, "Algorithm 116: Complex division", Communications of the ACM 5 (8), 1962.
template <class T> NPT npt_complex<T> operator/(npt_complex<T> a, npt_complex<T> b) {
  const T real = npt_fabs(b.real), imag = npt_fabs(b.imag);
  if (real >= imag) {
    if (real == 0 && imag == 0) return {a.real / real, a.imag / imag};
    const T ratio = b.imag / b.real, scale = T(1) / (b.real + b.imag * ratio);
    return {(a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale};
  }
  const T ratio = b.real / b.imag, scale = T(1) / (b.imag + b.real * ratio);
  return {(a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale};
}
template <class T> NPT T npt_multiply(T a, T b) { return a * b; }
template <class T> NPT T npt_divide(T a, T b) { return a / b; }
template <class T> NPT npt_complex<T> npt_pair(T real, T imag) { return {real, imag}; }
template <class T> NPT T npt_real(npt_complex<T> a) { return a.real; }
template <class T> NPT T npt_imag(npt_complex<T> a) { return a.imag; }
template <class T> NPT T npt_abs(npt_complex<T> a) { return npt_hypot(a.real, a.imag); }
template <class T> NPT npt_complex<T> npt_conj(npt_complex<T> a) { return {a.real, -a.imag}; }
template <class T> NPT bool npt_isnan(npt_complex<T> a) {
  return a.real != a.real || a.imag != a.imag;
}
template <class T> NPT bool npt_isfinite(npt_complex<T> a) {
  return a.real - a.real == 0 && a.imag - a.imag == 0;
}
template <class T> NPT bool npt_infinite(T x) { return x == x && x - x != 0; }
template <class T> NPT bool npt_isinf(npt_complex<T> a) {
  return npt_infinite(a.real) || npt_infinite(a.imag);
}
// Functions of complex numbers, with the values of C99 (annex G) at infinities.
template <class T> NPT T npt_no_number(T) { return T(NPT_NAN64); }
template <class T> NPT bool npt_finite(T x) { return x - x == 0; }
NPT float npt_exp(float x) { return expf(x); }
NPT double npt_exp(double x) { return exp(x); }
template <class T> NPT npt_complex<T> npt_exp(npt_complex<T> a) {
  const T size = npt_exp(a.real);
  if (a.imag == 0) return {size, a.imag};
  if (!npt_finite(a.imag) && npt_infinite(a.real)) {
    return {size, a.real > 0 ? npt_no_number(size) : T(0)};
  }
  return {size * npt_cos(a.imag), size * npt_sin(a.imag)};
}
template <class T> NPT npt_complex<T> npt_log(npt_complex<T> a) {
  return {npt_log(npt_hypot(a.real, a.imag)), npt_arctan2(a.imag, a.real)};
}
template <class T> NPT npt_complex<T> npt_sqrt(npt_complex<T> a) {
  if (a.real == 0 && a.imag == 0) return {T(0), a.imag};
  if (npt_infinite(a.imag)) return {npt_fabs(a.imag), a.imag};
  if (npt_infinite(a.real)) {
    const T rest = npt_finite(a.imag) ? T(0) : npt_no_number(a.imag);
    if (a.real > 0) return {a.real, npt_copysign(rest, a.imag)};
    return {rest, npt_copysign(a.real, a.imag)};
  }
  // Half of each part: their sum is finite then.
  const T real = npt_fabs(a.real) / T(2);
  const T size = npt_sqrt(real + npt_hypot(real, a.imag / T(2)));
  if (a.real >= 0) return {size, a.imag / (T(2) * size)};
  return {npt_fabs(a.imag) / (T(2) * size), npt_copysign(size, a.imag)};
}
template <class T> NPT npt_complex<T> npt_sinh(npt_complex<T> a) {
  if (a.imag == 0) return {npt_sinh(a.real), a.imag};
  if (!npt_finite(a.imag) && (a.real == 0 || npt_infinite(a.real))) {
    return {a.real, npt_no_number(a.imag)};
  }
  return {npt_sinh(a.real) * npt_cos(a.imag), npt_cosh(a.real) * npt_sin(a.imag)};
}
template <class T> NPT npt_complex<T> npt_cosh(npt_complex<T> a) {
  if (a.imag == 0) return {npt_cosh(a.real), a.real != a.real ? T(0) : a.imag * npt_sign(a.real)};
  if (!npt_finite(a.imag) && a.real == 0) return {npt_no_number(a.imag), T(0)};
  if (!npt_finite(a.imag) && npt_infinite(a.real)) {
    return {npt_fabs(a.real), npt_no_number(a.imag)};
  }
  if (a.real == 0) return {npt_cos(a.imag), a.real * npt_sin(a.imag)};
  return {npt_cosh(a.real) * npt_cos(a.imag), npt_sinh(a.real) * npt_sin(a.imag)};
}
template <class T> NPT npt_complex<T> npt_tanh(npt_complex<T> a) {
  // For a large real part the quotient would be that of two infinities.
  if (npt_fabs(a.real) > T(22) && (npt_finite(a.imag) || npt_infinite(a.real))) {
    const T rest = npt_finite(a.imag) ? npt_sin(T(2) * a.imag) : T(0);
    return {npt_copysign(T(1), a.real), npt_copysign(T(0), rest)};
  }
  if (a.imag == 0) return {npt_tanh(a.real), a.imag};
  return npt_sinh(a) / npt_cosh(a);
}
// sin(a) = -i sinh(i a), and so on.
template <class T> NPT npt_complex<T> npt_sin(npt_complex<T> a) {
  const npt_complex<T> turned = npt_sinh(npt_complex<T>{-a.imag, a.real});
  return {turned.imag, -turned.real};
}
template <class T> NPT npt_complex<T> npt_cos(npt_complex<T> a) {
  return npt_cosh(npt_complex<T>{-a.imag, a.real});
}
template <class T> NPT npt_complex<T> npt_tan(npt_complex<T> a) {
  const npt_complex<T> turned = npt_tanh(npt_complex<T>{-a.imag, a.real});
  return {turned.imag, -turned.real};
}
// Small whole powers by products, as NumPy's; others in double precision.
template <class T> NPT npt_complex<T> npt_power(npt_complex<T> a, npt_complex<T> b) {
  const npt_complex<T> one = {T(1), T(0)};
  if (b.real == 0 && b.imag == 0) return one;
  if (a.real == 0 && a.imag == 0) {
    if (b.real > 0) return {T(0), T(0)};
    return {npt_no_number(b.real), npt_no_number(b.real)};
  }
  if (b.imag == 0 && npt_fabs(b.real) < T(100) && b.real == npt_trunc(b.real)) {
    npt_complex<T> power = a, result = one;
    bool first = true;
    for (int n = int(npt_fabs(b.real)); n > 0; n >>= 1) {
      if (n & 1) {
        result = first ? power : result * power;
        first = false;
      }
      power = power * power;
    }
    return b.real < 0 ? one / result : result;
  }
  const double size = log(hypot(double(a.real), double(a.imag)));
  const double angle = atan2(double(a.imag), double(a.real));
  const npt_complex<double> made = npt_exp(npt_complex<double>{
      double(b.real) * size - double(b.imag) * angle,
      double(b.imag) * size + double(b.real) * angle});
  return {T(made.real), T(made.imag)};
}

// A value as it is computed with, from how it is stored, or from one of another type.

template <class T> struct npt_as {
  template <class S> static NPT T from(S x) { return T(x); }
  template <int N> static NPT T from(npt_short<N> x) { return T(npt_widened(x)); }
};
template <> struct npt_as<bool> {
  template <class S> static NPT bool from(S x) { return x != 0; }
};
template <int N> struct npt_as<npt_short<N>> {
  template <class S> static NPT npt_short<N> from(S x) {
    npt_short<N> made;
    npt_store_short(made, double(x));
    return made;
  }
  static NPT npt_short<N> from(npt_short<N> x) { return x; }
};
template <class T> struct npt_as<npt_complex<T>> {
  template <class S> static NPT npt_complex<T> from(S x) { return {T(x), T(0)}; }
  template <int N> static NPT npt_complex<T> from(npt_short<N> x) {
    return {T(npt_widened(x)), T(0)};
  }
  template <class S> static NPT npt_complex<T> from(npt_complex<S> x) {
    return {T(x.real), T(x.imag)};
  }
};

// Whole numbers in the order of floats, and back.

NPT unsigned npt_key_float32(float x) {
  const unsigned bits = unsigned(__float_as_int(x));
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
NPT npt_uint64 npt_key_float64(double x) {
  const npt_uint64 bits = npt_uint64(__double_as_longlong(x));
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
NPT float npt_keyed_float32(unsigned key) {
  return __int_as_float(int(key >> 31 ? key & 0x7fffffffu : ~key));
}
NPT double npt_keyed_float64(npt_uint64 key) {
  return __longlong_as_double(npt_int64(key >> 63 ? key & ~(1ull << 63) : ~key));
}

#endif

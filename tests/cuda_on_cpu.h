// CUDA C++ on a CPU, for tests of values on machines without a GPU: what a text of CUDA needs to be
// compiled by g++ -std=c++17.  What runs its threads is cuda_on_cpu.cpp, a library of its own that
// all texts share.
//
// Each thread of a block is a fiber; it runs until it reaches a barrier, of its block or of its
// warp, and then gives way.  The order in which fibers run is `npt_order`: 0 forward, 1 backward,
// and shuffled by the number above that; so a kernel that lacks a barrier gives other results in
// another order.  Shared memory is filled with bytes of 0xC3 before each block.  Threads of a block
// that meets no barrier run without fibers.
//
// Not emulated: the order of memory between blocks, atomics, textures, assembly.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// Each text has a section of its own, which is filled before each block.
#define __shared__ static __attribute__((section(NPT_SECTION)))
// Shared memory of a size known at the launch: on the device `extern __shared__`.
#define NPT_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(npt::dynamic)

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {} };
#define NPT_VECTOR(T, N) \
  struct alignas(2 * sizeof(T)) N##2 { T x, y; }; \
  struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) N##4 { T x, y, z, w; }; \
  inline N##2 make_##N##2(T x, T y) { return {x, y}; } \
  inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
NPT_VECTOR(float, float) NPT_VECTOR(double, double) NPT_VECTOR(int, int) NPT_VECTOR(unsigned, uint)
NPT_VECTOR(short, short) NPT_VECTOR(unsigned short, ushort) NPT_VECTOR(signed char, char)
NPT_VECTOR(unsigned char, uchar) NPT_VECTOR(long long, longlong) NPT_VECTOR(unsigned long long, ulonglong)

extern "C" {
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
extern unsigned npt_order;
}
static const int warpSize = 32;

namespace npt {
enum State { READY, AT_WARP, AT_BLOCK, DONE };
// The shared memory whose size is known at the launch, and the thread that runs.
extern char *dynamic;
extern unsigned current;
// Give way at a barrier.
void leave(State state);
// What all lanes of a warp give, seen by all.
unsigned long long *exchange(unsigned long long bits);
// Calls `call`, which calls the kernel, for every thread.
void launch(const unsigned *shape, size_t shared, char *first, char *last, void (*call)());
template <class T> inline unsigned long long *exchanged(T value) {
  static_assert(sizeof(T) <= 8, "");
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return exchange(bits);
}
template <class T> inline T taken(unsigned long long bits) { T value; std::memcpy(&value, &bits, sizeof(T)); return value; }
template <class L> inline unsigned lanes(unsigned a, unsigned b, int bits, L each) {
  unsigned result = 0, mask = (1u << bits) - 1;
  for (int k = 0; k < 32; k += bits) {
    unsigned x = a >> k & mask, y = b >> k & mask;
    result |= (unsigned(each(int(x), int(y))) & mask) << k;
  }
  return result;
}
inline int sign(int x, int bits) { return x >= 1 << (bits - 1) ? x - (1 << bits) : x; }
}  // namespace npt

inline void __syncthreads() { npt::leave(npt::AT_BLOCK); }
inline void __syncwarp(unsigned = ~0u) { npt::leave(npt::AT_WARP); }
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T> inline T __shfl_sync(unsigned, T v, int lane, int = 32) { return npt::taken<T>(npt::exchanged(v)[lane & 31]); }
template <class T> inline T __shfl_up_sync(unsigned, T v, unsigned d, int = 32) { int own = npt::current % 32; auto *b = npt::exchanged(v); return npt::taken<T>(b[own >= int(d) ? own - d : own]); }
template <class T> inline T __shfl_down_sync(unsigned, T v, unsigned d, int = 32) { int own = npt::current % 32; auto *b = npt::exchanged(v); return npt::taken<T>(b[own + d < 32 ? own + d : own]); }
template <class T> inline T __shfl_xor_sync(unsigned, T v, int m, int = 32) { int own = npt::current % 32; return npt::taken<T>(npt::exchanged(v)[own ^ m]); }
inline unsigned __ballot_sync(unsigned, int p) { auto *b = npt::exchanged(unsigned(p != 0)); unsigned r = 0; for (int k = 0; k < 32; k++) r |= (unsigned(b[k]) & 1) << k; return r; }
inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
inline int __all_sync(unsigned m, int p) { return __ballot_sync(m, p) == ~0u; }

template <class T> inline T __ldg(const T *p) { return *p; }
template <class T> inline T __ldcs(const T *p) { return *p; }
template <class T> inline T __ldcg(const T *p) { return *p; }
template <class T> inline T __ldca(const T *p) { return *p; }
template <class T> inline void __stcs(T *p, T v) { *p = v; }
template <class T> inline void __stcg(T *p, T v) { *p = v; }
template <class T> inline void __stwt(T *p, T v) { *p = v; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline unsigned __float_as_uint(float v) { unsigned b; std::memcpy(&b, &v, 4); return b; }
inline int __float_as_int(float v) { int b; std::memcpy(&b, &v, 4); return b; }
inline float __uint_as_float(unsigned v) { float b; std::memcpy(&b, &v, 4); return b; }
inline float __int_as_float(int v) { float b; std::memcpy(&b, &v, 4); return b; }
inline long long __double_as_longlong(double v) { long long b; std::memcpy(&b, &v, 8); return b; }
inline double __longlong_as_double(long long v) { double b; std::memcpy(&b, &v, 8); return b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned long long both = (unsigned long long)b << 32 | a; unsigned r = 0;
  for (int k = 0; k < 4; k++) { unsigned n = s >> 4 * k & 15, v = unsigned(both >> 8 * (n & 7)) & 255; if (n & 8) v = v & 128 ? 255 : 0; r |= v << 8 * k; }
  return r;
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return unsigned(((unsigned long long)hi << 32 | lo) >> (n & 31)); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { return unsigned(((unsigned long long)hi << 32 | lo) << (n & 31) >> 32); }
inline int __dp4a(int a, int b, int c) { for (int k = 0; k < 32; k += 8) c += npt::sign(a >> k & 255, 8) * npt::sign(b >> k & 255, 8); return c; }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) { for (int k = 0; k < 32; k += 8) c += (a >> k & 255) * (b >> k & 255); return c; }
#define NPT_LANES(NAME, BITS, EXPR) inline unsigned NAME(unsigned a, unsigned b) { return npt::lanes(a, b, BITS, [](int x, int y) -> int { (void)y; return EXPR; }); }
NPT_LANES(__vadd2, 16, x + y) NPT_LANES(__vsub2, 16, x - y) NPT_LANES(__vadd4, 8, x + y) NPT_LANES(__vsub4, 8, x - y)
NPT_LANES(__vminu2, 16, x < y ? x : y) NPT_LANES(__vmaxu2, 16, x > y ? x : y)
NPT_LANES(__vminu4, 8, x < y ? x : y) NPT_LANES(__vmaxu4, 8, x > y ? x : y)
NPT_LANES(__vmins2, 16, npt::sign(x, 16) < npt::sign(y, 16) ? x : y) NPT_LANES(__vmaxs2, 16, npt::sign(x, 16) > npt::sign(y, 16) ? x : y)
NPT_LANES(__vmins4, 8, npt::sign(x, 8) < npt::sign(y, 8) ? x : y) NPT_LANES(__vmaxs4, 8, npt::sign(x, 8) > npt::sign(y, 8) ? x : y)
NPT_LANES(__vavgu4, 8, (x + y + 1) >> 1) NPT_LANES(__vhaddu4, 8, (x + y) >> 1) NPT_LANES(__vabsdiffu4, 8, x > y ? x - y : y - x)
#undef NPT_LANES
inline unsigned __vimin3_u16x2(unsigned a, unsigned b, unsigned c) { return __vminu2(__vminu2(a, b), c); }
inline unsigned __vimax3_u16x2(unsigned a, unsigned b, unsigned c) { return __vmaxu2(__vmaxu2(a, b), c); }
inline unsigned __vimin3_s16x2(unsigned a, unsigned b, unsigned c) { return __vmins2(__vmins2(a, b), c); }
inline unsigned __vimax3_s16x2(unsigned a, unsigned b, unsigned c) { return __vmaxs2(__vmaxs2(a, b), c); }
inline int __float2int_rz(float v) { return v != v ? 0 : v >= 2147483648.f ? 2147483647 : v < -2147483648.f ? -2147483647 - 1 : int(v); }
inline unsigned __popc(unsigned v) { return unsigned(__builtin_popcount(v)); }
inline int __clz(unsigned v) { return v ? __builtin_clz(v) : 32; }
template <class T> inline T min(T a, T b) { return b < a ? b : a; }
template <class T> inline T max(T a, T b) { return a < b ? b : a; }
template <class T> inline T __saturatef(T v) { return v < 0 ? 0 : v > 1 ? 1 : v; }
using std::fmin; using std::fmax;

// A kernel as it is launched: from addresses of its arguments, like the driver's.
template <auto kernel> struct Launched;
template <class... Types, void (*kernel)(Types...)> struct Launched<kernel> {
  static inline void **given;
  template <size_t... K> static void with(std::index_sequence<K...>) {
    kernel(*reinterpret_cast<std::remove_const_t<Types> *>(given[K])...);
  }
  static void once() { with(std::index_sequence_for<Types...>()); }
  // The sizes of its parameters; how many there are.
  static int sizes(int *found) {
    int all[] = {int(sizeof(Types))..., 0};
    std::copy_n(all, sizeof...(Types), found);
    return int(sizeof...(Types));
  }
  static void run(const unsigned *shape, size_t shared, char *first, char *last, void **arguments) {
    given = arguments;
    npt::launch(shape, shared, first, last, once);
  }
};

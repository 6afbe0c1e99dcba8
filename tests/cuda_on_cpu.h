// CUDA C++ on a CPU, for tests of values on machines without a GPU: what a text of ours needs to be
// compiled by g++ -std=c++17.  Its threads share nothing, so they run one after the other.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct uint3 { unsigned x, y, z; };
static thread_local uint3 threadIdx, blockIdx;

template <class To, class From> inline To npt_same_bits(From v) { To found; std::memcpy(&found, &v, sizeof(found)); return found; }
inline int __float_as_int(float v) { return npt_same_bits<int>(v); }
inline float __int_as_float(int v) { return npt_same_bits<float>(v); }
inline long long __double_as_longlong(double v) { return npt_same_bits<long long>(v); }
inline double __longlong_as_double(long long v) { return npt_same_bits<double>(v); }
// Four of the eight bytes of two words.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  const unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int k = 0; k < 4; k++) r |= (unsigned(both >> 8 * (s >> 4 * k & 7)) & 255) << 8 * k;
  return r;
}

// A kernel as it is launched: from addresses of its arguments, like the driver's.
template <auto kernel> struct Launched;
template <class... Types, void (*kernel)(Types...)> struct Launched<kernel> {
  template <size_t... K> static void with(void **given, std::index_sequence<K...>) {
    kernel(*reinterpret_cast<std::remove_const_t<Types> *>(given[K])...);
  }
  // The sizes of its parameters; how many there are.
  static int sizes(int *found) {
    int all[] = {int(sizeof(Types))..., 0};
    std::copy_n(all, sizeof...(Types), found);
    return int(sizeof...(Types));
  }
  // For every thread of every block; the lengths of the grid are before those of a block.
  static void run(const unsigned *shape, void **given) {
    for (unsigned block = 0; block < shape[0] * shape[1] * shape[2]; block++)
      for (unsigned thread = 0; thread < shape[3] * shape[4] * shape[5]; thread++) {
        blockIdx = {block % shape[0], block / shape[0] % shape[1], block / (shape[0] * shape[1])};
        threadIdx = {thread % shape[3], thread / shape[3] % shape[4], thread / (shape[3] * shape[4])};
        with(given, std::index_sequence_for<Types...>());
      }
  }
};

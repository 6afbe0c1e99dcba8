// CUDA C++ on a CPU, for tests of values on machines without a GPU: g++ -std=c++17 -include this.
//
// Each thread of a block is a fiber; it runs until it reaches a barrier, of its block or of its
// warp, and then gives way.  The order in which fibers run is `npt_order`: 0 forward, 1 backward,
// and shuffled by the number above that; so a kernel that lacks a barrier gives other results in
// another order.  Shared memory is filled with bytes of 0xC3 before each block.  Kernels without
// barriers run without fibers.
//
// Not emulated: the order of memory between blocks, atomics, textures, assembly.
#pragma once
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <tuple>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

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
#define __shared__ static __attribute__((section("npt_shared")))
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

// A section must hold something for the linker to give it a begin and an end.
static char npt_shared_anchor __attribute__((section("npt_shared"), used)) = 0;
extern "C" { extern char __start_npt_shared, __stop_npt_shared; }

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;
extern "C" { unsigned npt_order = 0; }

namespace npt {
enum State { READY, AT_WARP, AT_BLOCK, DONE };
struct Fiber { ucontext_t context; jmp_buf place; bool begun = false; State state = READY; uint3 index; unsigned turn = 0; };
static const size_t STACK = 256 << 10;
static std::vector<Fiber> fibers;
inline void fail(const char *what) { std::fprintf(stderr, "cuda_on_cpu: %s\n", what); std::abort(); }
// A text is a library of its own, and many are loaded at once: pages that were never touched take no
// memory, and none are kept after a launch.
struct Stacks {
  char *memory;
  size_t size;
  explicit Stacks(size_t size) : size(size) {
    void *found = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) fail("there is no memory for the stacks of fibers");
    memory = static_cast<char *>(found);
  }
  ~Stacks() { munmap(memory, size); }
};
static char *stacks;
static char *dynamic = nullptr;
static unsigned current;
static jmp_buf scheduler;
static void (*entry)();
struct Slot { unsigned long long value[2][32]; };
static std::vector<Slot> slots;

inline void leave(State state) {
  Fiber &own = fibers[current];
  own.state = state;
  if (!_setjmp(own.place)) _longjmp(scheduler, 1);
}
inline void begin() {
  entry();
  fibers[current].state = DONE;
  _longjmp(scheduler, 1);
}
inline void resume(unsigned k) {
  current = k;
  threadIdx = fibers[k].index;
  if (_setjmp(scheduler)) return;
  if (fibers[k].begun) _longjmp(fibers[k].place, 1);
  fibers[k].begun = true;
  setcontext(&fibers[k].context);
}
inline void block(size_t count) {
  if (&__stop_npt_shared > &__start_npt_shared)
    std::memset(&__start_npt_shared, 0xC3, &__stop_npt_shared - &__start_npt_shared);
  for (size_t k = 0; k < count; k++) {
    Fiber &one = fibers[k];
    one.begun = false; one.state = READY; one.turn = 0;
    one.index = {unsigned(k % blockDim.x), unsigned(k / blockDim.x % blockDim.y), unsigned(k / (blockDim.x * blockDim.y))};
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = &stacks[k * STACK];
    one.context.uc_stack.ss_size = STACK;
    one.context.uc_link = nullptr;
    makecontext(&one.context, begin, 0);
  }
  std::vector<unsigned> order(count);
  for (size_t k = 0; k < count; k++) order[k] = npt_order == 1 ? count - 1 - k : k;
  if (npt_order > 1) { std::mt19937 random(npt_order); std::shuffle(order.begin(), order.end(), random); }
  for (;;) {
    bool ran = false;
    for (unsigned k : order)
      if (fibers[k].state == READY) { resume(k); ran = true; }
    bool all_done = true, all_block = true, released = false;
    for (size_t w = 0; w < count; w += 32) {
      size_t end = std::min(count, w + 32), at = 0, live = 0;
      for (size_t k = w; k < end; k++) { live += fibers[k].state != DONE; at += fibers[k].state == AT_WARP; }
      if (live && at == live) {
        if (live != end - w) fail("a lane ended before a warp's barrier");
        for (size_t k = w; k < end; k++) fibers[k].state = READY;
        released = true;
      }
    }
    for (size_t k = 0; k < count; k++) { all_done &= fibers[k].state == DONE; all_block &= fibers[k].state == AT_BLOCK; }
    if (all_done) return;
    if (all_block) { for (size_t k = 0; k < count; k++) fibers[k].state = READY; released = true; }
    if (!released && !ran) fail("threads wait at different barriers, or some ended before one");
    if (!released) {
      bool ready = false;
      for (size_t k = 0; k < count; k++) ready |= fibers[k].state == READY;
      if (!ready) fail("threads wait at different barriers, or some ended before one");
    }
  }
}
// Calls `call`, which calls the kernel, for every thread; in fibers where it has barriers.
inline void launch(dim3 grid, dim3 threads, size_t shared, bool barriers, void (*call)()) {
  gridDim = grid; blockDim = threads; entry = call;
  size_t count = size_t(threads.x) * threads.y * threads.z;
  std::vector<char> memory(shared + 128);
  dynamic = memory.data() + (128 - reinterpret_cast<uintptr_t>(memory.data()) % 128) % 128;
  Stacks own(barriers ? count * STACK : 1);
  stacks = own.memory;
  if (barriers) {
    if (fibers.size() < count) fibers.resize(count);
    slots.assign((count + 31) / 32, Slot());
  }
  for (unsigned z = 0; z < grid.z; z++) for (unsigned y = 0; y < grid.y; y++) for (unsigned x = 0; x < grid.x; x++) {
    blockIdx = {x, y, z};
    std::memset(dynamic, 0xC3, shared);
    if (barriers) { block(count); continue; }
    for (unsigned c = 0; c < threads.z; c++) for (unsigned b = 0; b < threads.y; b++) for (unsigned a = 0; a < threads.x; a++) {
      threadIdx = {a, b, c};
      call();
    }
  }
}
// What all lanes of a warp give, seen by all: two buffers in turn need one barrier each time.
template <class T> inline unsigned long long *exchange(T value) {
  static_assert(sizeof(T) <= 8, "");
  Fiber &own = fibers[current];
  unsigned long long *buffer = slots[current / 32].value[own.turn++ % 2];
  std::memcpy(&buffer[current % 32], &value, sizeof(T));
  leave(AT_WARP);
  return buffer;
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
template <class T> inline T __shfl_sync(unsigned, T v, int lane, int = 32) { return npt::taken<T>(npt::exchange(v)[lane & 31]); }
template <class T> inline T __shfl_up_sync(unsigned, T v, unsigned d, int = 32) { int own = npt::current % 32; auto *b = npt::exchange(v); return npt::taken<T>(b[own >= int(d) ? own - d : own]); }
template <class T> inline T __shfl_down_sync(unsigned, T v, unsigned d, int = 32) { int own = npt::current % 32; auto *b = npt::exchange(v); return npt::taken<T>(b[own + d < 32 ? own + d : own]); }
template <class T> inline T __shfl_xor_sync(unsigned, T v, int m, int = 32) { int own = npt::current % 32; return npt::taken<T>(npt::exchange(v)[own ^ m]); }
inline unsigned __ballot_sync(unsigned, int p) { auto *b = npt::exchange(unsigned(p != 0)); unsigned r = 0; for (int k = 0; k < 32; k++) r |= (unsigned(b[k]) & 1) << k; return r; }
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
  static void run(const unsigned *shape, size_t shared, bool barriers, void **arguments) {
    given = arguments;
    npt::launch(dim3(shape[0], shape[1], shape[2]), dim3(shape[3], shape[4], shape[5]), shared,
                barriers, once);
  }
};

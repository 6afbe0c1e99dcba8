// What runs the threads of a text of CUDA on a CPU: see cuda_on_cpu.h.
#include "cuda_on_cpu.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
unsigned npt_order = 0;

namespace npt {
struct Fiber {
  ucontext_t context;
  jmp_buf place;
  bool begun = false;
  State state = READY;
  uint3 index;
  unsigned turn = 0;
};
struct Slot { unsigned long long value[2][32]; };

char *dynamic = nullptr;
unsigned current;
static const size_t STACK = 256 << 10;
static std::vector<Fiber> fibers;
static std::vector<Slot> slots;
static char *stacks;
static size_t room;
static bool in_fibers;
static jmp_buf scheduler;
static void (*entry)();

static void fail(const char *what) {
  std::fprintf(stderr, "cuda_on_cpu: %s\n", what);
  std::abort();
}

void leave(State state) {
  // The block begins again, with a fiber for each thread: what it has written it writes again.
  if (!in_fibers) _longjmp(scheduler, 1);
  Fiber &own = fibers[current];
  own.state = state;
  if (!_setjmp(own.place)) _longjmp(scheduler, 1);
}

unsigned long long *exchange(unsigned long long bits) {
  if (!in_fibers) _longjmp(scheduler, 1);
  // Two buffers in turn need one barrier each time.
  unsigned long long *buffer = slots[current / 32].value[fibers[current].turn++ % 2];
  buffer[current % 32] = bits;
  leave(AT_WARP);
  return buffer;
}

static void begin() {
  entry();
  fibers[current].state = DONE;
  _longjmp(scheduler, 1);
}

static void resume(unsigned k) {
  current = k;
  threadIdx = fibers[k].index;
  if (_setjmp(scheduler)) return;
  if (fibers[k].begun) _longjmp(fibers[k].place, 1);
  fibers[k].begun = true;
  setcontext(&fibers[k].context);
}

// The threads that wait at a barrier of their warp go on once all do; whether any did.
static bool release_warps(size_t count) {
  bool released = false;
  for (size_t w = 0; w < count; w += 32) {
    size_t end = std::min(count, w + 32), at = 0, live = 0;
    for (size_t k = w; k < end; k++) {
      live += fibers[k].state != DONE;
      at += fibers[k].state == AT_WARP;
    }
    if (!live || at != live) continue;
    if (live != end - w) fail("a lane ended before a warp's barrier");
    for (size_t k = w; k < end; k++) fibers[k].state = READY;
    released = true;
  }
  return released;
}

static void block_in_fibers(size_t count) {
  // Pages that were never touched take no memory.
  if (room < count) {
    if (stacks) munmap(stacks, room * STACK);
    room = count;
    void *found = mmap(nullptr, room * STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) fail("there is no memory for the stacks of fibers");
    stacks = static_cast<char *>(found);
    fibers.resize(count);
    slots.resize((count + 31) / 32);
  }
  for (size_t k = 0; k < count; k++) {
    Fiber &one = fibers[k];
    one.begun = false; one.state = READY; one.turn = 0;
    one.index = {unsigned(k % blockDim.x), unsigned(k / blockDim.x % blockDim.y),
                 unsigned(k / (blockDim.x * blockDim.y))};
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = &stacks[k * STACK];
    one.context.uc_stack.ss_size = STACK;
    one.context.uc_link = nullptr;
    makecontext(&one.context, begin, 0);
  }
  std::vector<unsigned> order(count);
  for (size_t k = 0; k < count; k++) order[k] = npt_order == 1 ? count - 1 - k : k;
  if (npt_order > 1) {
    std::mt19937 random(npt_order);
    std::shuffle(order.begin(), order.end(), random);
  }
  for (;;) {
    for (unsigned k : order)
      if (fibers[k].state == READY) resume(k);
    bool released = release_warps(count), all_done = true, all_block = true, ready = false;
    for (size_t k = 0; k < count; k++) {
      all_done &= fibers[k].state == DONE;
      all_block &= fibers[k].state == AT_BLOCK;
      ready |= fibers[k].state == READY;
    }
    if (all_done) return;
    if (all_block) for (size_t k = 0; k < count; k++) fibers[k].state = READY;
    if (!all_block && !released && !ready)
      fail("threads wait at different barriers, or some ended before one");
  }
}

static void fill(size_t shared, char *first, char *last) {
  if (last > first) std::memset(first, 0xC3, last - first);
  std::memset(dynamic, 0xC3, shared);
}

// Whether the block met no barrier.
static bool block_without_fibers() {
  in_fibers = false;
  if (_setjmp(scheduler)) return false;
  for (unsigned c = 0; c < blockDim.z; c++)
    for (unsigned b = 0; b < blockDim.y; b++)
      for (unsigned a = 0; a < blockDim.x; a++) {
        threadIdx = {a, b, c};
        entry();
      }
  return true;
}

void launch(const unsigned *shape, size_t shared, char *first, char *last, void (*call)()) {
  gridDim = dim3(shape[0], shape[1], shape[2]);
  blockDim = dim3(shape[3], shape[4], shape[5]);
  entry = call;
  size_t count = size_t(blockDim.x) * blockDim.y * blockDim.z;
  std::vector<char> memory(shared + 128);
  dynamic = memory.data() + (128 - reinterpret_cast<uintptr_t>(memory.data()) % 128) % 128;
  bool barriers = false;
  for (unsigned z = 0; z < gridDim.z; z++)
    for (unsigned y = 0; y < gridDim.y; y++)
      for (unsigned x = 0; x < gridDim.x; x++) {
        blockIdx = {x, y, z};
        fill(shared, first, last);
        if (!barriers && block_without_fibers()) continue;
        if (!barriers) fill(shared, first, last);
        barriers = in_fibers = true;
        block_in_fibers(count);
      }
}
}  // namespace npt

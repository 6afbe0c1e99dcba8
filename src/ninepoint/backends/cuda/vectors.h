// Elements that stand side by side in a row, read and written at once.
#ifndef NPT_VECTORS
#define NPT_VECTORS

// Narrow elements are kept in words of 32 bits; as many bits as an element has, from the lowest.
template <class T> struct npt_narrow {
  static NPT T of(unsigned bits) { return T(bits); }
  static NPT unsigned bits(T x) { return unsigned(x) & ((1u << 8 * sizeof(T)) - 1); }
};
template <int N> struct npt_narrow<npt_short<N>> {
  static NPT npt_short<N> of(unsigned bits) { return npt_short<N>{(unsigned short)bits}; }
  static NPT unsigned bits(npt_short<N> x) { return x.bits; }
};

// N elements. To `put` one it must be 0 before. Where one is pushed behind the others the first one
// goes: a loop that does this N times needs no registers for N elements on their way.
template <class T, int N, bool words = (sizeof(T) < 4 && N * sizeof(T) >= 4)>
struct alignas(N == 1 ? alignof(T) : N * sizeof(T)) npt_chunk {
  T e[N];
  NPT T get(int k) const { return e[k]; }
  NPT void put(int k, T x) { e[k] = x; }
  NPT void push(T x) {
#pragma unroll
    for (int k = 1; k < N; k++) e[k - 1] = e[k];
    e[N - 1] = x;
  }
};
template <class T, int N> struct alignas(N * sizeof(T)) npt_chunk<T, N, true> {
  unsigned w[N * sizeof(T) / 4];
  NPT T get(int k) const {
    return npt_narrow<T>::of(w[k * sizeof(T) / 4] >> 8 * (k * sizeof(T) % 4));
  }
  NPT void put(int k, T x) {
    w[k * sizeof(T) / 4] |= npt_narrow<T>::bits(x) << 8 * (k * sizeof(T) % 4);
  }
  NPT void push(T x) {
    const int bits = 8 * sizeof(T), last = N * sizeof(T) / 4 - 1;
#pragma unroll
    for (int k = 0; k < last; k++) w[k] = w[k] >> bits | w[k + 1] << (32 - bits);
    w[last] = w[last] >> bits | npt_narrow<T>::bits(x) << (32 - bits);
  }
};

// One word of the lowest bytes, or the lowest halves, of several.
NPT unsigned npt_word(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }
NPT unsigned npt_word(unsigned a, unsigned b, unsigned c, unsigned d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// N elements from an address that is a multiple of their size, and one after the other.
template <int N, class T> NPT npt_chunk<T, N> npt_together(const T *p) {
  return *reinterpret_cast<const npt_chunk<T, N> *>(p);
}
template <int N, class T> NPT void npt_together(T *p, const npt_chunk<T, N> &x) {
  *reinterpret_cast<npt_chunk<T, N> *>(p) = x;
}
template <int N, class T> NPT npt_chunk<T, N> npt_apart(const T *p) {
  npt_chunk<T, N> x = {};
#pragma unroll
  for (int k = 0; k < N; k++) x.put(k, p[k]);
  return x;
}
template <int N, class T> NPT void npt_apart(T *p, const npt_chunk<T, N> &x) {
#pragma unroll
  for (int k = 0; k < N; k++) p[k] = x.get(k);
}

// The same where elements are `step` apart.
template <int N, class T> NPT npt_chunk<T, N> npt_strided(const T *p, npt_index step) {
  npt_chunk<T, N> x = {};
#pragma unroll
  for (int k = 0; k < N; k++) x.put(k, p[k * step]);
  return x;
}

#endif

// Elements that stand side by side in a row, read and written at once.
#ifndef NPT_VECTORS
#define NPT_VECTORS

#define NPT_EACH(e, n) _Pragma("unroll") for (int e = 0; e < (n); e++)

// Narrow elements are kept in words of 32 bits; as many bits as an element has, from the lowest.
template <class T> struct npt_narrow {
  static NPT T of(unsigned bits) { return T(bits); }
  static NPT unsigned bits(T x) { return unsigned(x) & ((1u << 8 * sizeof(T)) - 1); }
};
template <int N> struct npt_narrow<npt_short<N>> {
  static NPT npt_short<N> of(unsigned bits) { return npt_short<N>{(unsigned short)bits}; }
  static NPT unsigned bits(npt_short<N> x) { return x.bits; }
};

// How elements are aligned that are read at once: as far as one load goes, if they are several.
template <class T> NPT constexpr int npt_aligned(int n) {
  return n == 1 ? alignof(T) : n * sizeof(T) > 16 ? 16 : n * sizeof(T);
}

// Whether n elements are kept in words.
template <class T> NPT constexpr bool npt_in_words(int n) {
  return sizeof(T) < 4 && n * sizeof(T) >= 4;
}

// N elements. To `put` one it must be 0 before. Where one is pushed behind the others the first one
// goes: a loop that does this N times needs no registers for N elements on their way.
template <class T, int N, bool words = npt_in_words<T>(N)>
struct alignas(npt_aligned<T>(N)) npt_chunk {
  T e[N];
  NPT T get(int k) const { return e[k]; }
  NPT void put(int k, T x) { e[k] = x; }
  NPT void push(T x) {
#pragma unroll
    for (int k = 1; k < N; k++) e[k - 1] = e[k];
    e[N - 1] = x;
  }
};
template <class T, int N> struct alignas(npt_aligned<T>(N)) npt_chunk<T, N, true> {
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

// Fill a chunk with values that its elements hold.
template <class T> NPT unsigned npt_lowest(T x) { return unsigned(x); }
template <int N> NPT unsigned npt_lowest(npt_short<N> x) { return x.bits; }
template <class T, int N, class V>
NPT void npt_fill(npt_chunk<T, N, false> &to, const V (&values)[N]) {
  NPT_EACH(k, N) to.e[k] = T(values[k]);
}
template <class T, int N, class V>
NPT void npt_fill(npt_chunk<T, N, true> &to, const V (&values)[N]) {
  unsigned bits[N];
  NPT_EACH(k, N) bits[k] = npt_lowest(values[k]);
  NPT_EACH(w, N * int(sizeof(T)) / 4) {
    if constexpr (sizeof(T) == 2) to.w[w] = npt_word(bits[2 * w], bits[2 * w + 1]);
    else to.w[w] = npt_word(bits[4 * w], bits[4 * w + 1], bits[4 * w + 2], bits[4 * w + 3]);
  }
}

// Whether narrow elements stand side by side, and begin where a word of memory does.
template <class T> NPT bool npt_is_words(const T *p, npt_index step) {
  return step == 1 && reinterpret_cast<npt_uint64>(p) % 4 == 0;
}

// N elements: all at once, from an address that is a multiple of their size, or each word, or each
// element, by itself, `step` apart.
template <bool wide, int N, class T> NPT npt_chunk<T, N> npt_load(const T *p, npt_index step) {
  if constexpr (wide) return *reinterpret_cast<const npt_chunk<T, N> *>(p);
  npt_chunk<T, N> x = {};
  if constexpr (npt_in_words<T>(N)) {
    if (npt_is_words(p, step)) {
      NPT_EACH(w, N * int(sizeof(T)) / 4) x.w[w] = reinterpret_cast<const unsigned *>(p)[w];
      return x;
    }
  }
#pragma unroll
  for (int k = 0; k < N; k++) x.put(k, p[k * step]);
  return x;
}
template <bool wide, int N, class T>
NPT void npt_store(T *p, npt_index step, const npt_chunk<T, N> &x) {
  if constexpr (wide) {
    *reinterpret_cast<npt_chunk<T, N> *>(p) = x;
    return;
  }
  if constexpr (npt_in_words<T>(N)) {
    if (npt_is_words(p, step)) {
      NPT_EACH(w, N * int(sizeof(T)) / 4) reinterpret_cast<unsigned *>(p)[w] = x.w[w];
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < N; k++) p[k * step] = x.get(k);
}

// N columns from `first` on of a row that goes from `low` to below `high`, and by the rules of a
// border beyond; all are the constant where there is no such row.
template <npt_find before, npt_find after, bool wide, class T, int N>
NPT void npt_row(npt_chunk<T, N> &to, const T *row, bool there, npt_index first, npt_index low,
                 npt_index high, npt_index step, T constant = T()) {
  if (N > 1 && there && first >= low && first + N <= high) {
    to = npt_load<wide, N>(row + (wide ? first : first * step), step);
  } else {
#pragma unroll 4
    for (int k = 0; k < N; k++) {
      const npt_index place = npt_found<before, after>(first + k, low, high);
      to.push(there && place >= low ? row[place * step] : constant);
    }
  }
}

// Where rows, or columns, begin, between which ends an array has some, and how far apart they are.
struct npt_span {
  npt_index first, low, high, step;
};

// Some rows that a thread loads: V columns of its own, and L before and R behind them.
template <class T, int ROWS, int L, int V, int R> struct npt_tile {
  npt_chunk<T, L ? L : 1> left[ROWS];
  npt_chunk<T, V> own[ROWS];
  npt_chunk<T, R ? R : 1> right[ROWS];
  NPT T at(int row, int column) const {
    if (column < 0) return left[row].get(column + L);
    return column < V ? own[row].get(column) : right[row].get(column - V);
  }
  // Rows that lie inside, of which the first has the first of the own columns at p.
  template <bool wide> NPT void load(const T *p, npt_index down) {
    NPT_EACH(r, ROWS) {
      const T *const row = p + r * down;
      if constexpr (L > 0) left[r] = npt_load<wide, L>(row - L, 1);
      own[r] = npt_load<wide, V>(row, 1);
      if constexpr (R > 0) right[r] = npt_load<wide, R>(row + V, 1);
    }
  }
  // Rows of a plane by the rules of borders; all is the constant where there is no such plane.
  template <npt_find above, npt_find below, npt_find before, npt_find after, bool wide>
  NPT void map(const T *plane, bool there, npt_span rows, npt_span columns, T constant = T()) {
    NPT_EACH(r, ROWS) {
      const npt_index place = npt_found<above, below>(rows.first + r, rows.low, rows.high);
      const T *const row = plane + place * rows.step;
      const bool has = there && place >= rows.low;
      const npt_index first = columns.first;
      const npt_index low = columns.low, high = columns.high, step = columns.step;
      if constexpr (L > 0)
        npt_row<before, after, wide>(left[r], row, has, first - L, low, high, step, constant);
      npt_row<before, after, wide>(own[r], row, has, first, low, high, step, constant);
      if constexpr (R > 0)
        npt_row<before, after, wide>(right[r], row, has, first + V, low, high, step, constant);
    }
  }
};

#endif

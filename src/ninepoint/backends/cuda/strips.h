// What a warp does that rolls down a strip: V columns a lane, rows in registers.
#ifndef NPT_STRIPS
#define NPT_STRIPS

#define NPT_EACH(e, n) _Pragma("unroll") for (int e = 0; e < (n); e++)

// How many frames there are.
template <int axes, int arrays> NPT unsigned npt_frames(const npt_geometry<axes, arrays> &g) {
  return unsigned(g.stack[0] * g.stack[1] * g.stack[2]);
}

// V elements as they lie in memory, in vectors of 16 bytes at most.
template <class T, int V> struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) npt_vector {
  T at[V];
};
template <class T, int V> NPT void npt_load(T (&to)[V], const T *from) {
  const npt_vector<T, V> all = *reinterpret_cast<const npt_vector<T, V> *>(from);
  NPT_EACH(e, V) to[e] = all.at[e];
}
template <class T, int V> NPT void npt_store(T *to, const T (&from)[V]) {
  npt_vector<T, V> all;
  NPT_EACH(e, V) all.at[e] = from[e];
  *reinterpret_cast<npt_vector<T, V> *>(to) = all;
}
// The same where elements are `step` apart.
template <class T, int V> NPT void npt_load(T (&to)[V], const T *from, npt_index step) {
  NPT_EACH(e, V) to[e] = from[e * step];
}
template <class T, int V> NPT void npt_store(T *to, const T (&from)[V], npt_index step) {
  NPT_EACH(e, V) to[e * step] = from[e];
}
// Columns from j on of a row of m, by the rule of a border where they lie beyond it.
template <class ENDS, class T, int V>
NPT void npt_load_ends(T (&to)[V], const T *row, npt_index j, npt_index m, npt_index step,
                       T constant = T()) {
  NPT_EACH(e, V) {
    const npt_index from = ENDS::from(j + e, m);
    to[e] = from < 0 ? constant : row[from * step];
  }
}

// Values of the lanes before and after.
template <class T> NPT T npt_up(T x, int lanes) { return __shfl_up_sync(~0u, x, lanes); }
template <class T> NPT T npt_down(T x, int lanes) { return __shfl_down_sync(~0u, x, lanes); }
NPT bool npt_up(bool x, int lanes) { return __shfl_up_sync(~0u, int(x), lanes) != 0; }
NPT bool npt_down(bool x, int lanes) { return __shfl_down_sync(~0u, int(x), lanes) != 0; }
template <class T> NPT npt_complex<T> npt_up(npt_complex<T> x, int lanes) {
  return {npt_up(x.real, lanes), npt_up(x.imag, lanes)};
}
template <class T> NPT npt_complex<T> npt_down(npt_complex<T> x, int lanes) {
  return {npt_down(x.real, lanes), npt_down(x.imag, lanes)};
}
// Fetch the columns beside a lane's own V, which stand in a row from element BEFORE on.
template <int V, int BEFORE, int AFTER, class T> NPT void npt_fetch(T (&row)[BEFORE + V + AFTER]) {
  NPT_EACH(e, BEFORE) {
    const int far = BEFORE - e, lanes = (far + V - 1) / V;
    row[e] = npt_up(row[BEFORE + lanes * V - far], lanes);
  }
  NPT_EACH(e, AFTER) {
    const int lanes = e / V + 1;
    row[BEFORE + V + e] = npt_down(row[BEFORE + e - (lanes - 1) * V], lanes);
  }
}
template <int COUNT, int N, class T> NPT void npt_shift(T (&ring)[COUNT][N]) {
  NPT_EACH(c, COUNT - 1) {
    NPT_EACH(e, N) ring[c][e] = ring[c + 1][e];
  }
}
template <int V, int BEFORE, class T, int N> NPT void npt_copy(T (&to)[N], const T (&from)[N]) {
  NPT_EACH(e, V) to[BEFORE + e] = from[BEFORE + e];
}

// Put beyond the ends of a row of m columns what a border's rule has there; `held` is memory of the
// warp, for 32 * V elements, and `start` the column of its first.
template <class ENDS, int V, int BEFORE, class T, int N>
NPT void npt_columns(T (&row)[N], T *held, npt_index start, npt_index m, T constant = T()) {
  __syncwarp();
  NPT_EACH(e, V) held[threadIdx.x * V + e] = row[BEFORE + e];
  __syncwarp();
  NPT_EACH(e, V) {
    const npt_index column = start + npt_index(threadIdx.x * V + e);
    if (column < 0 || column >= m) {
      const npt_index from = ENDS::from(column, m), at = from - start;
      if (from < 0) row[BEFORE + e] = constant;
      else if (at >= 0 && at < 32 * V) row[BEFORE + e] = held[at];
    }
  }
}
// The same for whole rows: the newest of a ring is row `at` of n.
template <class ENDS, int V, int BEFORE, int AFTER, int FETCHED, class T, int COUNT, int N>
NPT void npt_rows(T (&ring)[COUNT][N], npt_index at, npt_index n, T constant = T()) {
  if (at < 0 || at >= n) {
    const npt_index from = ENDS::from(at, n);
    if (from < 0) {
      NPT_EACH(e, V) ring[COUNT - 1][BEFORE + e] = constant;
    } else if (at >= n) {
      const npt_index back = ENDS::NEAR ? 1 : at - from;
      NPT_EACH(c, COUNT - 1) {
        if (back == COUNT - 1 - c) npt_copy<V, BEFORE>(ring[COUNT - 1], ring[c]);
      }
    }
  } else if (at < COUNT - 1) {
    NPT_EACH(c, COUNT - 1) {
      const npt_index row = at - (COUNT - 1 - c);
      if (row < 0 && ENDS::from(row, n) == at) {
        npt_copy<V, BEFORE>(ring[c], ring[COUNT - 1]);
        if (c <= FETCHED) npt_fetch<V, BEFORE, AFTER>(ring[c]);
      }
    }
  }
}

#endif

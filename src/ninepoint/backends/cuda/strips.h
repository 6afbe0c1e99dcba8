// What a warp does that rolls down a strip: V columns a lane, rows in registers.
#ifndef NPT_STRIPS
#define NPT_STRIPS

#define NPT_EACH(e, n) _Pragma("unroll") for (int e = 0; e < (n); e++)

// How many frames there are.
template <int axes, int arrays> NPT unsigned npt_frames(const npt_geometry<axes, arrays> &g) {
  return unsigned(g.stack[0] * g.stack[1] * g.stack[2]);
}

// The lengths m of rows and n of columns, the first column and the rows from i0 to below i1 of the
// result that a warp does, and of which frame; or whether there are none for it.
struct npt_strip {
  npt_index m, n, first, i0, i1;
  unsigned frame;
  bool none;
};
template <int WARPS, int WIDTH, int N, int arrays>
NPT npt_strip npt_roll(const npt_geometry<N, arrays> &g) {
  npt_strip s = {npt_index(g.length[N - 1]), N > 1 ? npt_index(g.length[0]) : 1, 0, 0, 1, 0, false};
  const unsigned across = unsigned((s.m + WARPS * WIDTH - 1) / (WARPS * WIDTH));
  unsigned block = blockIdx.x;
  s.first = (npt_index(block % across) * WARPS + npt_index(threadIdx.y)) * WIDTH;
  block /= across;
  if (N > 1) {
    const unsigned parts = gridDim.x / across / npt_frames(g);
    const npt_index rows = (s.n + npt_index(parts) - 1) / npt_index(parts);
    s.i0 = npt_index(block % parts) * rows;
    s.i1 = s.i0 + rows < s.n ? s.i0 + rows : s.n;
    block /= parts;
  }
  s.frame = block;
  s.none = s.first >= s.m || s.i0 >= s.i1;
  return s;
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
template <npt_find before, npt_find after, int V, int BEFORE, class T, int N>
NPT void npt_columns(T (&row)[N], T *held, npt_index start, npt_index m, T constant = T()) {
  __syncwarp();
  NPT_EACH(e, V) held[threadIdx.x * V + e] = row[BEFORE + e];
  __syncwarp();
  NPT_EACH(e, V) {
    const npt_index column = start + npt_index(threadIdx.x * V + e);
    if (column < 0 || column >= m) {
      const npt_index from = npt_at<before, after>(column, m), at = from - start;
      if (from < 0) row[BEFORE + e] = constant;
      else if (at >= 0 && at < 32 * V) row[BEFORE + e] = held[at];
    }
  }
}
// The same for whole rows: the newest of a ring is row `at` of n.
template <npt_find before, npt_find after, int V, int BEFORE, int AFTER, int FETCHED, class T, int COUNT, int N>
NPT void npt_rows(T (&ring)[COUNT][N], npt_index at, npt_index n, T constant = T()) {
  if (at < 0 || at >= n) {
    const npt_index from = npt_at<before, after>(at, n);
    if (from < 0) {
      NPT_EACH(e, V) ring[COUNT - 1][BEFORE + e] = constant;
    } else if (at >= n) {
      const npt_index back = after == npt_nearest ? 1 : at - from;
      NPT_EACH(c, COUNT - 1) {
        if (back == COUNT - 1 - c) npt_copy<V, BEFORE>(ring[COUNT - 1], ring[c]);
      }
    }
  } else if (at < COUNT - 1) {
    NPT_EACH(c, COUNT - 1) {
      const npt_index row = at - (COUNT - 1 - c);
      if (row < 0 && npt_at<before, after>(row, n) == at) {
        npt_copy<V, BEFORE>(ring[c], ring[COUNT - 1]);
        if (c <= FETCHED) npt_fetch<V, BEFORE, AFTER>(ring[c]);
      }
    }
  }
}

#endif

// What a warp does that rolls down a strip: V columns a lane, rows in registers.
#ifndef NPT_STRIPS
#define NPT_STRIPS

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
// COUNT rows of columns that a lane keeps, the newest of which is the last: V columns of its own,
// and those beside them.
template <class T, int COUNT, int BEFORE, int V, int AFTER> struct npt_ring {
  T rows[COUNT][BEFORE + V + AFTER];
  // A column, counted from the lane's first, of a row that is so far from the newest.
  NPT T &at(int row, int column) { return rows[COUNT - 1 + row][BEFORE + column]; }
  // The oldest row goes.
  NPT void shift() {
    NPT_EACH(c, COUNT - 1) {
      NPT_EACH(e, BEFORE + V + AFTER) rows[c][e] = rows[c + 1][e];
    }
  }
  // Fetch the columns beside a lane's own of a row.
  NPT void fetch(int row) {
    NPT_EACH(e, BEFORE) {
      const int far = BEFORE - e, lanes = (far + V - 1) / V;
      at(row, -far) = npt_up(at(row, lanes * V - far), lanes);
    }
    NPT_EACH(e, AFTER) {
      const int lanes = e / V + 1;
      at(row, V + e) = npt_down(at(row, e - (lanes - 1) * V), lanes);
    }
  }
  // Put beyond the ends of the newest row, of m columns, what a border's rule has there; `held` is
  // memory of the warp, for 32 * V elements, and `start` the column of its first.
  template <npt_find before, npt_find after>
  NPT void columns(npt_uint64 *memory, npt_index start, npt_index m, T constant = T()) {
    T *const held = reinterpret_cast<T *>(memory);
    __syncwarp();
    NPT_EACH(e, V) held[threadIdx.x * V + e] = at(0, e);
    __syncwarp();
    NPT_EACH(e, V) {
      const npt_index column = start + npt_index(threadIdx.x * V + e);
      if (column < 0 || column >= m) {
        const npt_index from = npt_at<before, after>(column, m), place = from - start;
        if (from < 0) at(0, e) = constant;
        else if (place >= 0 && place < 32 * V) at(0, e) = held[place];
      }
    }
  }
  NPT void copy(int to, int from) {
    NPT_EACH(e, V) at(to, e) = at(from, e);
  }
  // The same for whole rows: the newest is row `place` of n.  Rows from FETCHED on back have what
  // lies beside them.
  template <npt_find before, npt_find after, int FETCHED>
  NPT void beyond(npt_index place, npt_index n, T constant = T()) {
    if (place < 0 || place >= n) {
      const npt_index from = npt_at<before, after>(place, n);
      if (from < 0) {
        NPT_EACH(e, V) at(0, e) = constant;
      } else if (place >= n) {
        const npt_index back = after == npt_nearest ? 1 : place - from;
        NPT_EACH(c, COUNT - 1) {
          if (back == COUNT - 1 - c) copy(0, c + 1 - COUNT);
        }
      }
    } else if (place < COUNT - 1) {
      NPT_EACH(c, COUNT - 1) {
        const npt_index row = place - (COUNT - 1 - c);
        if (row < 0 && npt_at<before, after>(row, n) == place) {
          copy(c + 1 - COUNT, 0);
          if (c + 1 - COUNT <= FETCHED) fetch(c + 1 - COUNT);
        }
      }
    }
  }
};

#endif

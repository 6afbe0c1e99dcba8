NPT npt_index at0(npt_index i, npt_index n) {
  return i < 0 ? npt_reflect(i, n) : i < n ? i : npt_reflect(i, n);
}
NPT npt_index at1(npt_index i, npt_index n) {
  return i < 0 ? npt_reflect(i, n) : i < n ? i : npt_reflect(i, n);
}

extern "C" __global__ void __launch_bounds__(256) npt_median63_float32_1(
    const float *__restrict__ f0,
    float *__restrict__ v0,
    const npt_geometry<2, 2> g) {
  const npt_index n0 = npt_index(g.length[0]);
  const npt_index n1 = npt_index(g.length[1]);
  unsigned block = blockIdx.x;
  const unsigned m1 = unsigned((n1 + 31) / 32);
  const npt_index i1 = npt_index(block % m1) * 32 + npt_index(threadIdx.x);
  block /= m1;
  const unsigned m0 = unsigned((n0 + 7) / 8);
  const npt_index i0 = npt_index(block % m0) * 8 + npt_index(threadIdx.y);
  block /= m0;
  if (i1 >= n1 || i0 >= n0) return;
  f0 += npt_frame(g, 0, block);
  v0 += npt_frame(g, 1, block);
  const npt_index f0_0 = npt_index(g.core[0][0]);
  const npt_index f0_1 = npt_index(g.core[0][1]);
  const npt_index v0_0 = npt_index(g.core[1][0]);
  const npt_index v0_1 = npt_index(g.core[1][1]);
  unsigned t3 = 0;
  for (int bit = 31; bit >= 0; bit--) {
    const unsigned t4 = t3 | unsigned(1) << bit;
    int t5 = 0;
    for (int d0 = 0; d0 < 7; d0++) {
      for (int d1 = 0; d1 < 9; d1++) {
        const npt_index t0 = at0(i0 - 3 + d0, n0);
        const npt_index t1 = at1(i1 - 4 + d1, n1);
        const float t2 = f0[t0 * f0_0 + t1 * f0_1];
        t5 += npt_key(t2) < t4;
      }
    }
    if (t5 <= 31) t3 = t4;
  }
  const float t6 = npt_keyed(t3);
  bool t7 = false;
  for (int d0 = 0; d0 < 7; d0++) {
    for (int d1 = 0; d1 < 9; d1++) {
      const npt_index t0 = at0(i0 - 3 + d0, n0);
      const npt_index t1 = at1(i1 - 4 + d1, n1);
      const float t2 = f0[t0 * f0_0 + t1 * f0_1];
      t7 = t7 | (t2 != t2);
    }
  }
  v0[i0 * v0_0 + i1 * v0_1] = (t7 ? NPT_NAN32 : t6);
}

extern "C" __global__ void __launch_bounds__(256) npt_median63_float32(
    const float *__restrict__ v0,
    float *__restrict__ o0,
    const npt_geometry<2, 2> g) {
  const npt_index n0 = npt_index(g.length[0]);
  const npt_index n1 = npt_index(g.length[1]);
  unsigned block = blockIdx.x;
  const unsigned m1 = unsigned((n1 + 31) / 32);
  const npt_index i1 = npt_index(block % m1) * 32 + npt_index(threadIdx.x);
  block /= m1;
  const unsigned m0 = unsigned((n0 + 7) / 8);
  const npt_index i0 = npt_index(block % m0) * 8 + npt_index(threadIdx.y);
  block /= m0;
  if (i1 >= n1 || i0 >= n0) return;
  v0 += npt_frame(g, 0, block);
  o0 += npt_frame(g, 1, block);
  const npt_index v0_0 = npt_index(g.core[0][0]);
  const npt_index v0_1 = npt_index(g.core[0][1]);
  const npt_index o0_0 = npt_index(g.core[1][0]);
  const npt_index o0_1 = npt_index(g.core[1][1]);
  const float t0 = v0[i0 * v0_0 + i1 * v0_1];
  o0[i0 * o0_0 + i1 * o0_1] = t0;
}

NPT npt_index at0(npt_index i, npt_index n) {
  return i < 0 ? npt_nearest(i, n) : i < n ? i : npt_nearest(i, n);
}
NPT npt_index at1(npt_index i, npt_index n) {
  return i < 0 ? npt_nearest(i, n) : i < n ? i : npt_nearest(i, n);
}

extern "C" __global__ void __launch_bounds__(256) npt_branches_int16(
    const short *__restrict__ f0,
    short *__restrict__ o0,
    npt_int64 k0,
    short b0,
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
  o0 += npt_frame(g, 1, block);
  const npt_index f0_0 = npt_index(g.core[0][0]);
  const npt_index f0_1 = npt_index(g.core[0][1]);
  const npt_index o0_0 = npt_index(g.core[1][0]);
  const npt_index o0_1 = npt_index(g.core[1][1]);
  const npt_index a1m1 = at1(i1 - 1, n1);
  const npt_index a1p1 = at1(i1 + 1, n1);
  const int t0 = f0[i0 * f0_0 + i1 * f0_1];
  const int t1 = f0[i0 * f0_0 + a1m1 * f0_1];
  const int t2 = t0 - t1;
  const int t3 = int(t2 < 0 ? -t2 : t2);
  const bool t4 = npt_int64(t3) > k0;
  const int t5 = f0[i0 * f0_0 + a1p1 * f0_1];
  const int t6 = t1 + t5;
  const int t7 = int(t6 >> 1);
  const int t8 = t4 ? t7 : t0;
  if (!(i1 < 1)) {
    if (i1 >= n1 - 1) o0[i0 * o0_0 + i1 * o0_1] = f0[i0 * f0_0 + i1 * f0_1];
    else o0[i0 * o0_0 + i1 * o0_1] = t8;
  }
}

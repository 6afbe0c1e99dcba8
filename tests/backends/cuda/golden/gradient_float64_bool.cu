NPT npt_index at0(npt_index i, npt_index n) {
  return i < 0 ? npt_constant(i, n) : i < n ? i : npt_constant(i, n);
}
NPT npt_index at1(npt_index i, npt_index n) {
  return i < 0 ? npt_constant(i, n) : i < n ? i : npt_constant(i, n);
}
NPT npt_index at2(npt_index i, npt_index n) {
  return i < 0 ? npt_constant(i, n) : i < n ? i : npt_constant(i, n);
}

extern "C" __global__ void __launch_bounds__(256) npt_gradient_float64_bool(
    const double *__restrict__ f0,
    const unsigned char *__restrict__ f1,
    double *__restrict__ o0,
    unsigned char *__restrict__ o1,
    double b0,
    unsigned char b1,
    const npt_geometry<3, 4> g) {
  const npt_index n0 = npt_index(g.length[0]);
  const npt_index n1 = npt_index(g.length[1]);
  const npt_index n2 = npt_index(g.length[2]);
  unsigned block = blockIdx.x;
  const unsigned m2 = unsigned((n2 + 31) / 32);
  const npt_index i2 = npt_index(block % m2) * 32 + npt_index(threadIdx.x);
  block /= m2;
  const unsigned m1 = unsigned((n1 + 7) / 8);
  const npt_index i1 = npt_index(block % m1) * 8 + npt_index(threadIdx.y);
  block /= m1;
  const unsigned m0 = unsigned(n0);
  const npt_index i0 = npt_index(block % m0);
  block /= m0;
  if (i2 >= n2 || i1 >= n1) return;
  f0 += npt_frame(g, 0, block);
  f1 += npt_frame(g, 1, block);
  o0 += npt_frame(g, 2, block);
  o1 += npt_frame(g, 3, block);
  const npt_index f0_0 = npt_index(g.core[0][0]);
  const npt_index f0_1 = npt_index(g.core[0][1]);
  const npt_index f0_2 = npt_index(g.core[0][2]);
  const npt_index f1_0 = npt_index(g.core[1][0]);
  const npt_index f1_1 = npt_index(g.core[1][1]);
  const npt_index f1_2 = npt_index(g.core[1][2]);
  const npt_index o0_0 = npt_index(g.core[2][0]);
  const npt_index o0_1 = npt_index(g.core[2][1]);
  const npt_index o0_2 = npt_index(g.core[2][2]);
  const npt_index o1_0 = npt_index(g.core[3][0]);
  const npt_index o1_1 = npt_index(g.core[3][1]);
  const npt_index o1_2 = npt_index(g.core[3][2]);
  const npt_index a0m1 = at0(i0 - 1, n0);
  const npt_index a0p1 = at0(i0 + 1, n0);
  const npt_index a2p2 = at2(i2 + 2, n2);
  const double t0 = a0p1 < 0 ? b0 : f0[a0p1 * f0_0 + i1 * f0_1 + i2 * f0_2];
  const double t1 = a0m1 < 0 ? b0 : f0[a0m1 * f0_0 + i1 * f0_1 + i2 * f0_2];
  const double t2 = t0 - t1;
  const double t3 = a2p2 < 0 ? b0 : f0[i0 * f0_0 + i1 * f0_1 + a2p2 * f0_2];
  const double t4 = double(npt_hypot(t2, t3));
  const bool t5 = f1[i0 * f1_0 + i1 * f1_1 + i2 * f1_2] != 0;
  const int t6 = int(t5);
  const bool t7 = t6 > 0;
  o0[i0 * o0_0 + i1 * o0_1 + i2 * o0_2] = t4;
  o1[i0 * o1_0 + i1 * o1_1 + i2 * o1_2] = t7;
}

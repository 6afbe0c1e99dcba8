NPT npt_index at0(npt_index i, npt_index n) {
  return i < 0 ? npt_mirror(i, n) : i < n ? i : npt_mirror(i, n);
}

extern "C" __global__ void __launch_bounds__(256) npt_smooth_line_float16(
    const npt_half *__restrict__ f0,
    double *__restrict__ o0,
    const double *__restrict__ c0,
    const npt_geometry<1, 2> g) {
  const npt_index n0 = npt_index(g.length[0]);
  unsigned block = blockIdx.x;
  const unsigned m0 = unsigned((n0 + 255) / 256);
  const npt_index i0 = npt_index(block % m0) * 256 + npt_index(threadIdx.x);
  block /= m0;
  if (i0 >= n0) return;
  f0 += npt_frame(g, 0, block);
  o0 += npt_frame(g, 1, block);
  const npt_index f0_0 = npt_index(g.core[0][0]);
  const npt_index o0_0 = npt_index(g.core[1][0]);
  const npt_index a0m1 = at0(i0 - 1, n0);
  const npt_index a0p1 = at0(i0 + 1, n0);
  const float t0 = npt_widened(f0[a0m1 * f0_0]);
  const double t1 = c0[0];
  const double t2 = double(t0);
  const double t3 = t2 * t1;
  const float t4 = npt_widened(f0[i0 * f0_0]);
  const double t5 = c0[1];
  const double t6 = double(t4);
  const double t7 = t6 * t5;
  const double t8 = t3 + t7;
  const float t9 = npt_widened(f0[a0p1 * f0_0]);
  const double t10 = c0[2];
  const double t11 = double(t9);
  const double t12 = t11 * t10;
  const double t13 = t8 + t12;
  o0[i0 * o0_0] = t13;
}

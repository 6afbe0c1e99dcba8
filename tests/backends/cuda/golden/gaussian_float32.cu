NPT npt_index at0(npt_index i, npt_index n) {
  return i < 0 ? npt_reflect(i, n) : i < n ? i : npt_reflect(i, n);
}
NPT npt_index at1(npt_index i, npt_index n) {
  return i < 0 ? npt_nearest(i, n) : i < n ? i : npt_constant(i, n);
}

extern "C" __global__ void __launch_bounds__(256) npt_gaussian_float32(
    const float *__restrict__ f0,
    float *__restrict__ o0,
    float b0,
    float b1,
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
  const npt_index a0m1 = at0(i0 - 1, n0);
  const npt_index a0p1 = at0(i0 + 1, n0);
  const npt_index a1m1 = at1(i1 - 1, n1);
  const npt_index a1p1 = at1(i1 + 1, n1);
  const float t0 = a1m1 < 0 ? b0 : f0[a0m1 * f0_0 + a1m1 * f0_1];
  const float t1 = t0 / 0x1p+4f;
  const float t2 = f0[a0m1 * f0_0 + i1 * f0_1];
  const float t3 = t2 * 0x1p+1f;
  const float t4 = t3 / 0x1p+4f;
  const float t5 = a1p1 < 0 ? b0 : f0[a0m1 * f0_0 + a1p1 * f0_1];
  const float t6 = t5 / 0x1p+4f;
  const float t7 = a1m1 < 0 ? b0 : f0[i0 * f0_0 + a1m1 * f0_1];
  const float t8 = t7 * 0x1p+1f;
  const float t9 = t8 / 0x1p+4f;
  const float t10 = f0[i0 * f0_0 + i1 * f0_1];
  const float t11 = t10 * 0x1p+2f;
  const float t12 = t11 / 0x1p+4f;
  const float t13 = a1p1 < 0 ? b0 : f0[i0 * f0_0 + a1p1 * f0_1];
  const float t14 = t13 * 0x1p+1f;
  const float t15 = t14 / 0x1p+4f;
  const float t16 = a1m1 < 0 ? b0 : f0[a0p1 * f0_0 + a1m1 * f0_1];
  const float t17 = t16 / 0x1p+4f;
  const float t18 = f0[a0p1 * f0_0 + i1 * f0_1];
  const float t19 = t18 * 0x1p+1f;
  const float t20 = t19 / 0x1p+4f;
  const float t21 = a1p1 < 0 ? b0 : f0[a0p1 * f0_0 + a1p1 * f0_1];
  const float t22 = t21 / 0x1p+4f;
  const float t23 = t1 + t4;
  const float t24 = t6 + t9;
  const float t25 = t12 + t15;
  const float t26 = t17 + t20;
  const float t27 = t23 + t24;
  const float t28 = t25 + t26;
  const float t29 = t27 + t28;
  const float t30 = t29 + t22;
  if (i1 < 1) o0[i0 * o0_0 + i1 * o0_1] = b1;
  else o0[i0 * o0_0 + i1 * o0_1] = t30;
}

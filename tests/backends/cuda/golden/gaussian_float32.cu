NPT npt_index at0(npt_index i, npt_index n) {
  return i < 0 ? npt_reflect(i, n) : i < n ? i : npt_reflect(i, n);
}
NPT npt_index at1(npt_index i, npt_index n) {
  return i < 0 ? npt_nearest(i, n) : i < n ? i : npt_constant(i, n);
}

extern "C" __global__ void __launch_bounds__(256) npt_gaussian_float32_1(
    const float *__restrict__ f0,
    float *__restrict__ v0,
    float *__restrict__ v1,
    float b0,
    float b1,
    const npt_geometry<2, 3> g) {
  const npt_index n0 = npt_index(g.length[0]);
  const npt_index n1 = npt_index(g.length[1]);
  unsigned block = blockIdx.x;
  const unsigned m1 = unsigned((n1 + 33) / 32);
  const npt_index i1 = npt_index(block % m1) * 32 + npt_index(threadIdx.x) - 1;
  block /= m1;
  const unsigned m0 = unsigned((n0 + 9) / 8);
  const npt_index i0 = npt_index(block % m0) * 8 + npt_index(threadIdx.y) - 1;
  block /= m0;
  if (i1 >= n1 + 1 || i0 >= n0 + 1) return;
  f0 += npt_frame(g, 0, block);
  v0 += npt_frame(g, 1, block);
  v1 += npt_frame(g, 2, block);
  const npt_index f0_0 = npt_index(g.core[0][0]);
  const npt_index f0_1 = npt_index(g.core[0][1]);
  const npt_index v0_0 = npt_index(g.core[1][0]);
  const npt_index v0_1 = npt_index(g.core[1][1]);
  const npt_index v1_0 = npt_index(g.core[2][0]);
  const npt_index v1_1 = npt_index(g.core[2][1]);
  const npt_index a0p0 = at0(i0, n0);
  const npt_index a1p0 = at1(i1, n1);
  const float t0 = a1p0 < 0 ? b0 : f0[a0p0 * f0_0 + a1p0 * f0_1];
  const float t1 = t0 * 0x1p+1f;
  const float t2 = t1 / 0x1p+4f;
  const float t3 = t0 / 0x1p+4f;
  v0[i0 * v0_0 + i1 * v0_1] = t2;
  v1[i0 * v1_0 + i1 * v1_1] = t3;
}

extern "C" __global__ void __launch_bounds__(256) npt_gaussian_float32(
    const float *__restrict__ v1,
    const float *__restrict__ v0,
    const float *__restrict__ f0,
    float *__restrict__ o0,
    float b0,
    float b1,
    const npt_geometry<2, 4> g) {
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
  v1 += npt_frame(g, 0, block);
  v0 += npt_frame(g, 1, block);
  f0 += npt_frame(g, 2, block);
  o0 += npt_frame(g, 3, block);
  const npt_index v1_0 = npt_index(g.core[0][0]);
  const npt_index v1_1 = npt_index(g.core[0][1]);
  const npt_index v0_0 = npt_index(g.core[1][0]);
  const npt_index v0_1 = npt_index(g.core[1][1]);
  const npt_index f0_0 = npt_index(g.core[2][0]);
  const npt_index f0_1 = npt_index(g.core[2][1]);
  const npt_index o0_0 = npt_index(g.core[3][0]);
  const npt_index o0_1 = npt_index(g.core[3][1]);
  const float t0 = v1[(i0 - 1) * v1_0 + (i1 - 1) * v1_1];
  const float t1 = v0[(i0 - 1) * v0_0 + i1 * v0_1];
  const float t2 = v1[(i0 - 1) * v1_0 + (i1 + 1) * v1_1];
  const float t3 = v0[i0 * v0_0 + (i1 - 1) * v0_1];
  const float t4 = f0[i0 * f0_0 + i1 * f0_1];
  const float t5 = t4 * 0x1p+2f;
  const float t6 = t5 / 0x1p+4f;
  const float t7 = v0[i0 * v0_0 + (i1 + 1) * v0_1];
  const float t8 = v1[(i0 + 1) * v1_0 + (i1 - 1) * v1_1];
  const float t9 = v0[(i0 + 1) * v0_0 + i1 * v0_1];
  const float t10 = v1[(i0 + 1) * v1_0 + (i1 + 1) * v1_1];
  const float t11 = t0 + t1;
  const float t12 = t2 + t3;
  const float t13 = t6 + t7;
  const float t14 = t8 + t9;
  const float t15 = t11 + t12;
  const float t16 = t13 + t14;
  const float t17 = t15 + t16;
  const float t18 = t17 + t10;
  if (i1 < 1) o0[i0 * o0_0 + i1 * o0_1] = b1;
  else o0[i0 * o0_0 + i1 * o0_1] = t18;
}

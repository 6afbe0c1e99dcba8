NPT npt_index at0(npt_index i, npt_index n) {
  return i < 0 ? npt_nearest(i, n) : i < n ? i : npt_nearest(i, n);
}
NPT npt_index at1(npt_index i, npt_index n) {
  return i < 0 ? npt_nearest(i, n) : i < n ? i : npt_nearest(i, n);
}

extern "C" __global__ void __launch_bounds__(256) npt_max31_uint8_1(
    const unsigned char *__restrict__ f0,
    unsigned char *__restrict__ v0,
    const npt_geometry<2, 2> g) {
  const npt_index n0 = npt_index(g.length[0]);
  const npt_index n1 = npt_index(g.length[1]);
  unsigned block = blockIdx.x;
  const unsigned m1 = unsigned((n1 + 49) / 32);
  const npt_index i1 = npt_index(block % m1) * 32 + npt_index(threadIdx.x) - 9;
  block /= m1;
  const unsigned m0 = unsigned((n0 + 36) / 8);
  const npt_index i0 = npt_index(block % m0) * 8 + npt_index(threadIdx.y) - 15;
  block /= m0;
  if (i1 >= n1 + 9 || i0 >= n0 + 14) return;
  f0 += npt_frame(g, 0, block);
  v0 += npt_frame(g, 1, block);
  const npt_index f0_0 = npt_index(g.core[0][0]);
  const npt_index f0_1 = npt_index(g.core[0][1]);
  const npt_index v0_0 = npt_index(g.core[1][0]);
  const npt_index v0_1 = npt_index(g.core[1][1]);
  const npt_index a0p0 = at0(i0, n0);
  const npt_index a0p1 = at0(i0 + 1, n0);
  const npt_index a1p0 = at1(i1, n1);
  const int t0 = f0[a0p0 * f0_0 + a1p0 * f0_1];
  const int t1 = f0[a0p1 * f0_0 + a1p0 * f0_1];
  const int t2 = t0 > t1 ? t0 : t1;
  v0[i0 * v0_0 + i1 * v0_1] = t2;
}

extern "C" __global__ void __launch_bounds__(256) npt_max31_uint8_2(
    const unsigned char *__restrict__ v0,
    unsigned char *__restrict__ v1,
    const npt_geometry<2, 2> g) {
  const npt_index n0 = npt_index(g.length[0]);
  const npt_index n1 = npt_index(g.length[1]);
  unsigned block = blockIdx.x;
  const unsigned m1 = unsigned((n1 + 49) / 32);
  const npt_index i1 = npt_index(block % m1) * 32 + npt_index(threadIdx.x) - 9;
  block /= m1;
  const unsigned m0 = unsigned((n0 + 30) / 8);
  const npt_index i0 = npt_index(block % m0) * 8 + npt_index(threadIdx.y) - 15;
  block /= m0;
  if (i1 >= n1 + 9 || i0 >= n0 + 8) return;
  v0 += npt_frame(g, 0, block);
  v1 += npt_frame(g, 1, block);
  const npt_index v0_0 = npt_index(g.core[0][0]);
  const npt_index v0_1 = npt_index(g.core[0][1]);
  const npt_index v1_0 = npt_index(g.core[1][0]);
  const npt_index v1_1 = npt_index(g.core[1][1]);
  const int t0 = v0[i0 * v0_0 + i1 * v0_1];
  const int t1 = v0[(i0 + 2) * v0_0 + i1 * v0_1];
  const int t2 = v0[(i0 + 4) * v0_0 + i1 * v0_1];
  const int t3 = v0[(i0 + 6) * v0_0 + i1 * v0_1];
  const int t4 = t0 > t1 ? t0 : t1;
  const int t5 = t2 > t3 ? t2 : t3;
  const int t6 = t4 > t5 ? t4 : t5;
  v1[i0 * v1_0 + i1 * v1_1] = t6;
}

extern "C" __global__ void __launch_bounds__(256) npt_max31_uint8_3(
    const unsigned char *__restrict__ v1,
    unsigned char *__restrict__ v2,
    const npt_geometry<2, 2> g) {
  const npt_index n0 = npt_index(g.length[0]);
  const npt_index n1 = npt_index(g.length[1]);
  unsigned block = blockIdx.x;
  const unsigned m1 = unsigned((n1 + 49) / 32);
  const npt_index i1 = npt_index(block % m1) * 32 + npt_index(threadIdx.x) - 9;
  block /= m1;
  const unsigned m0 = unsigned((n0 + 7) / 8);
  const npt_index i0 = npt_index(block % m0) * 8 + npt_index(threadIdx.y) - 15;
  block /= m0;
  if (i1 >= n1 + 9 || i0 >= n0 - 15) return;
  v1 += npt_frame(g, 0, block);
  v2 += npt_frame(g, 1, block);
  const npt_index v1_0 = npt_index(g.core[0][0]);
  const npt_index v1_1 = npt_index(g.core[0][1]);
  const npt_index v2_0 = npt_index(g.core[1][0]);
  const npt_index v2_1 = npt_index(g.core[1][1]);
  const int t0 = v1[i0 * v1_0 + i1 * v1_1];
  const int t1 = v1[(i0 + 8) * v1_0 + i1 * v1_1];
  const int t2 = v1[(i0 + 16) * v1_0 + i1 * v1_1];
  const int t3 = v1[(i0 + 23) * v1_0 + i1 * v1_1];
  const int t4 = t0 > t1 ? t0 : t1;
  const int t5 = t2 > t3 ? t2 : t3;
  const int t6 = t4 > t5 ? t4 : t5;
  v2[i0 * v2_0 + i1 * v2_1] = t6;
}

extern "C" __global__ void __launch_bounds__(256) npt_max31_uint8_4(
    const unsigned char *__restrict__ v2,
    unsigned char *__restrict__ v3,
    const npt_geometry<2, 2> g) {
  const npt_index n0 = npt_index(g.length[0]);
  const npt_index n1 = npt_index(g.length[1]);
  unsigned block = blockIdx.x;
  const unsigned m1 = unsigned((n1 + 46) / 32);
  const npt_index i1 = npt_index(block % m1) * 32 + npt_index(threadIdx.x) - 9;
  block /= m1;
  const unsigned m0 = unsigned((n0 + 7) / 8);
  const npt_index i0 = npt_index(block % m0) * 8 + npt_index(threadIdx.y) - 15;
  block /= m0;
  if (i1 >= n1 + 6 || i0 >= n0 - 15) return;
  v2 += npt_frame(g, 0, block);
  v3 += npt_frame(g, 1, block);
  const npt_index v2_0 = npt_index(g.core[0][0]);
  const npt_index v2_1 = npt_index(g.core[0][1]);
  const npt_index v3_0 = npt_index(g.core[1][0]);
  const npt_index v3_1 = npt_index(g.core[1][1]);
  const int t0 = v2[i0 * v2_0 + i1 * v2_1];
  const int t1 = v2[i0 * v2_0 + (i1 + 1) * v2_1];
  const int t2 = v2[i0 * v2_0 + (i1 + 2) * v2_1];
  const int t3 = v2[i0 * v2_0 + (i1 + 3) * v2_1];
  const int t4 = t0 > t1 ? t0 : t1;
  const int t5 = t2 > t3 ? t2 : t3;
  const int t6 = t4 > t5 ? t4 : t5;
  v3[i0 * v3_0 + i1 * v3_1] = t6;
}

extern "C" __global__ void __launch_bounds__(256) npt_max31_uint8(
    const unsigned char *__restrict__ v3,
    unsigned char *__restrict__ o0,
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
  v3 += npt_frame(g, 0, block);
  o0 += npt_frame(g, 1, block);
  const npt_index v3_0 = npt_index(g.core[0][0]);
  const npt_index v3_1 = npt_index(g.core[0][1]);
  const npt_index o0_0 = npt_index(g.core[1][0]);
  const npt_index o0_1 = npt_index(g.core[1][1]);
  const int t0 = v3[(i0 - 15) * v3_0 + (i1 - 9) * v3_1];
  const int t1 = v3[(i0 - 15) * v3_0 + (i1 - 5) * v3_1];
  const int t2 = v3[(i0 - 15) * v3_0 + (i1 - 1) * v3_1];
  const int t3 = v3[(i0 - 15) * v3_0 + (i1 + 3) * v3_1];
  const int t4 = v3[(i0 - 15) * v3_0 + (i1 + 6) * v3_1];
  const int t5 = t0 > t1 ? t0 : t1;
  const int t6 = t2 > t3 ? t2 : t3;
  const int t7 = t5 > t6 ? t5 : t6;
  const int t8 = t7 > t4 ? t7 : t4;
  if (!(i0 < 15 || i0 >= n0 - 15 || i1 < 9 || i1 >= n1 - 9)) {
    o0[i0 * o0_0 + i1 * o0_1] = t8;
  }
}

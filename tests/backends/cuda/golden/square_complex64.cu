NPT npt_index at0(npt_index i, npt_index n) {
  return i < 0 ? npt_wrap(i, n) : i < n ? i : npt_wrap(i, n);
}

extern "C" __global__ void __launch_bounds__(256) npt_square_complex64(
    const npt_complex64 *__restrict__ f0,
    npt_complex64 *__restrict__ o0,
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
  const npt_complex64 t0 = f0[a0m1 * f0_0];
  const npt_complex64 t1 = f0[i0 * f0_0];
  const npt_complex64 t2 = t0 * t1;
  const npt_complex64 t3 = f0[a0p1 * f0_0];
  const npt_complex64 t4 = t3 + npt_complex64{0x0p+0f, 0x1p-1f};
  const npt_complex64 t5 = npt_as<npt_complex64>::from(npt_divide(t2, t4));
  o0[i0 * o0_0] = t5;
}

"""Kernels as text that LLVM compiles, and functions of users that Numba compiles."""

"""What is measured on a GPU: `python -m benchmarks.gpu`, on a machine that has one and CuPy.

    problems    the rows: ours on arrays of a GPU, and the others'
    peers       cupyx, torch, JAX, Triton, numba.cuda, a copy of as many bytes, and our own CPU
    host        what the processor does for a call, and how long the first one takes
    report      the tables, for the terminal and for docs/gpu.md

Results are compared first, ours with those of the CPU to the last bit; then all take turns.
"""

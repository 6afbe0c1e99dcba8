"""From generated loops to machine code: LLVM's IR is written here, and LLVM alone compiles it."""

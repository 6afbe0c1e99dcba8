"""Iterations: a state that is taken through steps, in memory, on a GPU, in chunks, or in parts."""

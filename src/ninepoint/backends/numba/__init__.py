"""The back end of Numba: loops as text, what that text calls, and its machine code on disk."""

"""Machine code: the pipeline that asks for it, Numba that makes it, the cache, the threads."""

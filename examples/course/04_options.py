# %% [markdown]
# # The options of a compiler
#
# `nopython`, `nogil`, `cache` and `parallel` are options of `numba.jit`. Here they are no
# options: machine code is always made without objects of Python, runs without the interpreter's
# lock, is kept on disk, and is shared among threads. `fastmath` remains a choice, because it
# changes numbers.

# %% No objects of Python
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from timing import compare

import ninepoint as npt


@npt.gufunc("(n)->()")
def texts(x):
    return str(x[0]) + object()


try:
    texts(np.ones(3))
except npt.StencilError as error:
    print(error)
else:
    raise AssertionError("what cannot be compiled is an error")


# %% Without the interpreter's lock
def repeated(x):
    total = 0.0
    for value in x:
        for _ in range(300):
            value = 3.7 * value * (1 - value)
        total += value
    return total


def by_hand(function, stack):
    """Call a function for each member of a stack, in threads of our own."""
    with ThreadPoolExecutor(len(stack)) as pool:
        return list(pool.map(function, stack))


logistic = npt.gufunc("(n)->()")(repeated)
logistic_of_numba = numba.njit(nogil=True)(repeated)
stack = np.random.default_rng(0).random((4, 5000))
assert np.array_equal(by_hand(logistic, stack), by_hand(logistic_of_numba, stack))
assert np.array_equal(logistic(stack), by_hand(logistic, stack))
compare(
    one_after_the_other=lambda: [logistic(row) for row in stack],
    Numba_and_our_threads=lambda: by_hand(logistic_of_numba, stack),
    ninepoint_our_threads=lambda: by_hand(logistic, stack),
    ninepoint_alone=lambda: logistic(stack),
)

# %% [markdown]
# What is compiled is kept in a folder of the user (`ninepoint info` names it). The program below
# is run by two new processes, with a folder that is empty at first.

# %% Kept for the next process
PROGRAM = """
import time
import numpy as np
import ninepoint as npt

@npt.ufunc
def wave(x):
    return np.sin(x) * np.exp(-x * x)

x = np.linspace(-1, 1, 1000)
start = time.perf_counter()
wave(x)
print(time.perf_counter() - start)
"""
with tempfile.TemporaryDirectory() as folder:
    program = os.path.join(folder, "wave.py")
    with open(program, "w") as file:
        file.write(PROGRAM)
    environment = {**os.environ, "NINEPOINT_CACHE_DIR": os.path.join(folder, "cache")}
    cold, warm = (
        float(subprocess.check_output([sys.executable, program], env=environment, text=True))
        for _ in range(2)
    )
print(f"the first call of the first process {cold:.3f} s, of the second {warm:.3f} s")
assert warm < cold


# %% The sum of square roots
def roots(A):
    total = 0.0
    for value in A:
        total += np.sqrt(value)
    return total


do_sum = npt.gufunc("(n)->()")(roots)
do_sum_fast = npt.gufunc("(n)->()", fastmath=True)(roots)
in_order = numba.njit(roots)
in_any_order = numba.njit(fastmath=True)(roots)

D = np.random.default_rng(0).random(200)
long = np.random.default_rng(0).random(1_000_000)
assert do_sum(D) == in_order(D)
assert do_sum(long) == in_order(long)
assert np.isclose(do_sum_fast(long), do_sum(long), rtol=1e-9)
for numbers in (D, long):
    print(len(numbers), "numbers")
    compare(
        Numba=lambda x=numbers: in_order(x),
        ninepoint=lambda x=numbers: do_sum(x),
        Numba_fastmath=lambda x=numbers: in_any_order(x),
        ninepoint_fastmath=lambda x=numbers: do_sum_fast(x),
    )

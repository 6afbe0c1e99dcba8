# %% [markdown]
# # Columns of pandas
#
# A column goes in and a column comes out, with its index: there is no `to_numpy()`, and nothing
# to put back.

# %% A table
from pathlib import Path

import matplotlib.pyplot as plt
import numba
import numpy as np
import pandas as pd
from timing import compare, measured, show

import ninepoint as npt

rng = np.random.default_rng(0)
df = pd.DataFrame(rng.integers(0, 100, (100_000, 4)), columns=["a", "b", "c", "d"])
print(df.head())


# %% A column times five
def times_five(x):
    return x * 5


multiply = npt.ufunc(times_five)
multiply_numba = numba.vectorize(times_five)

df["applied"] = df["a"].apply(times_five)
df["pandas"] = df["a"] * 5
df["numba"] = multiply_numba(df["a"].to_numpy())
df["ninepoint"] = multiply(df["a"])
for name in ("pandas", "numba", "ninepoint"):
    assert df[name].equals(df["applied"])
column = df["a"].to_numpy()
compare(
    apply=lambda: df["a"].apply(times_five),
    pandas=lambda: df["a"] * 5,
    Numba_on_a_column=lambda: multiply_numba(df["a"].to_numpy()),
    ninepoint=lambda: multiply(df["a"]),
    Numba_on_an_array=lambda: multiply_numba(column),
    ninepoint_on_an_array=lambda: multiply(column),
)


# %% [markdown]
# The mean of the squares of each row: the columns are the core axis, the rows are a stack. The
# squares of a row are not kept, so no array is made for them.


# %% A number for each row
@npt.gufunc("(n)->()")
def square_mean(row):
    total = 0.0
    for value in row:
        total += value**2
    return total / len(row)


@numba.njit
def square_mean_numba(table):
    means = np.empty(len(table))
    squares = table**2
    for i in range(len(table)):
        means[i] = np.mean(squares[i])
    return means


def square_mean_plain(row):
    return np.mean(np.power(row, 2))


rows = [10, 100, 1000, 10_000, 100_000]
times = []
for count in rows:
    table = df.loc[: count - 1, ["a", "b"]]
    made = square_mean(table)
    assert made.index.equals(table.index)
    assert np.array_equal(made, square_mean_numba(table.to_numpy()))
    calls = {
        "Numba": lambda table=table: square_mean_numba(table.to_numpy()),
        "ninepoint": lambda table=table: square_mean(table),
    }
    if count <= 1000:
        assert np.array_equal(made, table.apply(square_mean_plain, axis=1))
        calls = {"apply": lambda table=table: table.apply(square_mean_plain, axis=1), **calls}
    print(f"{count} rows")
    times.append(measured(**calls))
    show(times[-1])

# %% A picture of the times
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name in ("apply", "Numba", "ninepoint"):
    known = [(count, one[name]) for count, one in zip(rows, times, strict=True) if name in one]
    axes.loglog(*zip(*known, strict=True), "o-", label=name)
axes.set_xlabel("rows")
axes.set_ylabel("seconds")
axes.set_title("The mean of the squares of each row")
axes.legend()
output = Path("course-output")
output.mkdir(exist_ok=True)
figure.savefig(output / "rows.png", dpi=100)

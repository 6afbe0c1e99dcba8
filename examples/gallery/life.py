"""
The game of life
================

Conway's game on a torus, from a random start.
"""

import matplotlib.pyplot as plt
import numpy as np

import ninepoint as npt


# %%
# Sums of integers are exact, and so is the comparison; the result is said to be a byte again.
@npt.stencil(boundary="wrap", dtype="uint8")
def life(x):
    n = x[-1:2, -1:2].sum() - x[0, 0]
    return 1 if n == 3 or (n == 2 and x[0, 0] == 1) else 0


# %%
# A callback is shown every state: it counts the cells, and keeps a few states for the picture.
start = (np.random.default_rng(4).random((240, 240)) < 0.3).astype("uint8")
alive = {0: start}
counts = []


def look(step, state):
    counts.append(int(state.sum()))
    if step in (20, 200, 1500):
        alive[step] = state


life.iterate(start, steps=1500, every=1, callback=look)
print(f"{start.sum()} cells at first, {counts[-1]} after {len(counts)} steps")

figure, axes = plt.subplots(1, 4, figsize=(16, 4.4), layout="constrained")
for one, (step, state) in zip(axes, alive.items(), strict=True):
    one.imshow(state, cmap="binary", interpolation="nearest")
    one.set_title(f"step {step}: {state.sum()} cells")
    one.set_axis_off()
plt.show()

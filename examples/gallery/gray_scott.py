"""
Patterns of Gray and Scott
==========================

Two substances that diffuse, and react with each other.
"""

import matplotlib.pyplot as plt
import numpy as np

import ninepoint as npt


# %%
# The kernel gives both states of the next step; ``feed`` and ``kill`` are numbers of the call,
# so that four kinds of patterns need one compilation.
@npt.stencil(boundary="wrap")
def react(u, v, feed, kill):
    spread_u = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]
    spread_v = v[-1, 0] + v[1, 0] + v[0, -1] + v[0, 1] - 4 * v[0, 0]
    made = u[0, 0] * v[0, 0] * v[0, 0]
    return (
        u[0, 0] + 0.16 * spread_u - made + feed * (1 - u[0, 0]),
        v[0, 0] + 0.08 * spread_v + made - (feed + kill) * v[0, 0],
    )


# %%
# ``iterate`` does the 8000 steps, several in one pass over memory.
def patterns(feed, kill, n=256, steps=8000):
    """Let a few drops of the second substance grow."""
    rng = np.random.default_rng(1)
    u, v = np.ones((n, n), "float32"), np.zeros((n, n), "float32")
    for row, column in rng.integers(0, n - 12, (20, 2)):
        u[row : row + 12, column : column + 12] = 0.5
        v[row : row + 12, column : column + 12] = 0.25
    return react.iterate(u, v, feed, kill, steps=steps)


# %%
# Only the two numbers differ from picture to picture.
kinds = {
    "spots": (0.030, 0.0625),
    "maze": (0.037, 0.060),
    "worms": (0.046, 0.063),
    "holes": (0.039, 0.058),
}
figure, axes = plt.subplots(1, 4, figsize=(16, 4.4), layout="constrained")
for one, (title, (feed, kill)) in zip(axes, kinds.items(), strict=True):
    u, v = patterns(feed, kill)
    print(f"{title}: v between {v.min():.3f} and {v.max():.3f}")
    one.imshow(v, cmap="inferno")
    one.set_title(f"{title}: feed {feed}, kill {kill}")
    one.set_axis_off()
plt.show()

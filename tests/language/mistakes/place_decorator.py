import functools

import ninepoint as npt


@npt.stencil(
    boundary="nearest",
    neighborhood=((-1, 1),),
)
def smooth(
    x,
    weight=2,
):
    return x[-3] * weight

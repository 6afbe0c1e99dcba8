import ninepoint as npt


@npt.stencil
async def later(x):
    return x[-1]

import ninepoint as npt


@npt.stencil
async def later(x):
    return await x[-1]

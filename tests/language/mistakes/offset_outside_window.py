import ninepoint as npt


@npt.stencil(neighborhood=((-1, 1), (-1, 1)))
def far(image):
    return image[-1:2, -1:3].sum()

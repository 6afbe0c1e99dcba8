import ninepoint as npt


@npt.stencil
def column(image):
    return image[:, 0].sum()

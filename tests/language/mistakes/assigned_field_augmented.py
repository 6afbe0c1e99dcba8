import ninepoint as npt


@npt.stencil
def grow(image):
    image[0, 0] += 1
    return image[0, 0]

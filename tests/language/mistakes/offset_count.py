import ninepoint as npt


@npt.stencil
def mixed(image):
    return image[0, 1] + image[1]

import ninepoint as npt


@npt.stencil
def mixed(image, profile):
    return image[0, 1] + profile[1]

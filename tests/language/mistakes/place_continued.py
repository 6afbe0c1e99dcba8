# The carets end with the line where a piece goes on to the next.
import ninepoint as npt


@npt.stencil
def smooth(image):
    return image[-1:2, -1:2] + image[
        0,
        0.5,
    ]

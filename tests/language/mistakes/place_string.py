import ninepoint as npt


@npt.stencil
def smooth(x):
    """Smooth.

It has a text
without indentation.
    """
    return x[-1] + x[1.5]

import ninepoint as npt


def note(value):
    value + 1


@npt.stencil
def smooth(x):
    return note(x[0])

import ninepoint as npt


@npt.stencil
def smooth(x):
    def note(value):
        value = value + 1

    return note(x[0])

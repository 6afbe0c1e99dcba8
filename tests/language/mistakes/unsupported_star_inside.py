import ninepoint as npt


@npt.stencil
def first(x):
    def choose(*values):
        return values[0]

    return choose(x[-1], x[1])

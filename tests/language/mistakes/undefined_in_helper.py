import ninepoint as npt


def weigh(value):
    return value * weight


@npt.stencil
def smooth(x):
    return weigh(x[-1]) + weigh(x[1])

import ninepoint as npt

names = {}
exec("def half(value):\n    return value / 2\n", names)
half = names["half"]


@npt.stencil
def smooth(x):
    return half(x[-1] + x[1])

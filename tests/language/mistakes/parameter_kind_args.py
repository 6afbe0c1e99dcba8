import ninepoint as npt


@npt.stencil
def total(*fields):
    return fields[0][0] + fields[1][0]

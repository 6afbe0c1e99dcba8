import ninepoint as npt


@npt.stencil
def sorted_out(x):
    match x[0]:
        case 0:
            return 1
        case _:
            return 0

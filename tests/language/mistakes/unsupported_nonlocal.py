import ninepoint as npt


def make():
    count = 0

    @npt.stencil
    def counted(x):
        nonlocal count
        count += 1
        return x[0]

    return counted


make()

import ninepoint as npt


@npt.stencil
class Smooth:
    def __call__(self, x):
        return x[-1] + x[1]

import ninepoint as npt


class Smooth:
    def __call__(self, x):
        return x[-1] + x[1]


npt.stencil(Smooth())

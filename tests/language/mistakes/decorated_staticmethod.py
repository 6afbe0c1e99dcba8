import ninepoint as npt


class Model:
    @npt.stencil
    @staticmethod
    def smooth(x):
        return x[-1] + x[1]

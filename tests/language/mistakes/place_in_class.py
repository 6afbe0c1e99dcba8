# A kernel inside a function inside a class: the place is that of the file.
import ninepoint as npt


class Model:
    def build(self):
        @npt.stencil
        def smooth(x):
            if x[0] > 0:
                total = x[-1] + x[1]
            return total / 2

        return smooth


Model().build()

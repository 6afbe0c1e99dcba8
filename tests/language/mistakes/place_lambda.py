import ninepoint as npt

smooth = npt.stencil(lambda x: x[-1] + x[0.5])

import ninepoint as npt

npt.stencil(3)

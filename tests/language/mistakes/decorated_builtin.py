import ninepoint as npt

npt.stencil(abs)

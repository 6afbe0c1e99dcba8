import ninepoint as npt

npt.stencil(npt.filters.gaussian)

import ninepoint as npt


@npt.stencil(standard_indexing=("w",))
def weighted(w):
    return w[0] + w[1]

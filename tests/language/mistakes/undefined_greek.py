# The carets count characters, not bytes.
import ninepoint as npt

σ = 0.5


@npt.stencil
def smooth(αβγ):
    return σ * αβγ[-1] + σ * αβγ[1] + δ

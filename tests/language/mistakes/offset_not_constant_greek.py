import ninepoint as npt

σ = 0.5


@npt.stencil
def shifted(μ, k):
    return σ * μ[0, k] - μ[0, 0]

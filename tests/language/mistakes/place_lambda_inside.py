import ninepoint as npt

ΔΔ = dict(
    left=npt.stencil(lambda x: x[-1]), right=npt.stencil(lambda größe: größe[1] * größe[2.5])
)

import ninepoint as npt

smooth = npt.stencil(
    lambda x: (
        x[-1]
        + x[1.5]
    ),
)

import ninepoint as npt


@npt.stencil
def total(x, **options):
    return x[0] + options["bias"]

# Made by exec(), which keeps no text.
import ninepoint as npt

names = {}
exec("def smooth(x):\n    return x[-1] + x[1]\n", names)
npt.stencil(names["smooth"])

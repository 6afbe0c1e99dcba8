import numpy as np

import ninepoint as npt


@npt.stencil
def spectrum(x):
    return np.fft.fft(x[-1:2])[0]


spectrum(np.zeros(5))

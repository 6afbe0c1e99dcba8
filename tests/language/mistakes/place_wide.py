# Two columns for a letter of Chinese.
import ninepoint as npt

权重 = 2


@npt.stencil
def 平滑(图像):
    return 权重 * 图像[0, 0] + 图像[0, 0.5]

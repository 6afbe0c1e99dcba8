# A kernel indented with tabs.
import ninepoint as npt


def build():
	@npt.stencil
	def smooth(x):
		return x[-1] +	wieght * x[1]

	return smooth


build()

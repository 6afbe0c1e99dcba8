"""The methods that look inside a stencil: its meaning, its texts, how it is computed, how fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.remembered import Remembered
from ..base.tracebacks import door
from ..base.undisturbed import Later
from ..language.signature import OPTIONS, Explanation, Page
from ..lowering.schedule import Schedule
from ..program.definition import Definition
from ..shapes import whole

if TYPE_CHECKING:
    from . import debugging, explaining, measuring
    from .measuring import Measurement, Tuning
else:
    # What is called only needs none of these.
    debugging = Later(".debugging", __package__)
    explaining = Later(".explaining", __package__)
    measuring = Later(".measuring", __package__)

# The options of a call that say what its definition gives, not where it is computed.
_DEBUGGED = {*OPTIONS, "axes", "dims"}


class Inspected:
    """The methods that look inside of what a definition makes."""

    definition: Definition
    _bound_calls: Remembered[Any]

    @door
    def debug(self, /, *args: Any, **named: Any) -> Any:
        """Compute the result by calling the function itself at every point, in Python.

        Slow and exact: prints, breakpoints and the debugger work inside the kernel.  The
        result is the definition that every back end is tested against.

        Parameters
        ----------
        *args, **named
            As for a call, NumPy arrays only; also `boundary`, `cval`, `axes`, `dtype`,
            `overflow`, `every` and `upsample`.

        Returns
        -------
        array or tuple of arrays
            As a call gives.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil(boundary="wrap")
        ... def difference(x):
        ...     print("at", x[0])
        ...     return x[0] - x[-1]
        >>> difference.debug(np.array([1, 4]))
        at 1
        at 4
        array([-3,  3])
        """
        call, fields, options = measuring.called_with(self.definition, args, named, _DEBUGGED)
        return debugging.by_definition(call, fields, options.get("axes"))

    @door
    def source(self, *types: Any, target: str = "cpu") -> str:
        """Give the texts that are compiled for fields of given types, one for each pass.

        Parameters
        ----------
        *types : dtype or array
            One for each field; one alone serves for all.
        target : {"cpu", "cuda"}, optional
            What the texts are for; that of a GPU, which has the border's rule in it, is there on
            machines without one too.

        Returns
        -------
        str
            Python modules, or texts of CUDA C++, one after the other.

        Raises
        ------
        StencilError
            If a GPU cannot compute the kernel.
        ValueError
            If `target` is unknown.

        Examples
        --------
        >>> import ninepoint as npt
        >>> pair = npt.stencil(lambda x: x[0] + x[1])
        >>> "def " in pair.source("uint8")
        True
        >>> "__global__ void" in pair.source("uint8", target="cuda")
        True
        """
        return Page(explaining.texts(measuring.asked(self.definition, types), target))

    @door
    def ir(self, *types: Any) -> str:
        """Give the intermediate form, of a kernel without stages with the range of every value.

        Parameters
        ----------
        *types : dtype or array
            One for each field; one alone serves for all.

        Returns
        -------
        str
            An assignment a line.

        Examples
        --------
        >>> import ninepoint as npt
        >>> print(npt.stencil(lambda x: (x[0] + x[1]) // 2).ir("uint8"))
        kernel (x: uint8), 1 axis
          t0 = x[0]                                      0 .. 255
          t1 = x[1]                                      0 .. 255
          t2 = t0 + t1                                   0 .. 510
          t3 = t2 // 2                                   0 .. 255
          return t3
        """
        return Page(explaining.intermediate(measuring.asked(self.definition, types)))

    @door
    def schedule(self, *types: Any) -> Schedule:
        """Give the choices with which the kernel is compiled.

        Parameters
        ----------
        *types : dtype or array
            One for each field, for what `tune` may have found for them; one alone serves for
            all.

        Returns
        -------
        Schedule
            Change it with `dataclasses.replace`, and give it to ``@stencil(schedule=...)``.

        Examples
        --------
        >>> import ninepoint as npt
        >>> npt.stencil(lambda x: x[0] + x[1]).schedule().rows
        3
        """
        if not types:
            return self.definition.options.schedule
        return self.definition.schedule_for(measuring.asked(self.definition, types).types)

    @door
    def tune(self, /, *args: Any, seconds: float = 60.0, **named: Any) -> Tuning:
        """Measure other schedules on real arrays, and keep the fastest for this machine.

        From then on calls with fields of these types use it, in this process and in others.
        Only what leaves every bit of the result is tried.

        Parameters
        ----------
        *args, **named
            As for a call, with NumPy arrays; a ufunc takes numbers, too.
        seconds : float, optional
            After so long nothing new is tried; most of it is spent compiling.

        Returns
        -------
        Tuning
            Prints what was tried; `schedule` is the fastest, `gain` how many times faster it
            is than what the compiler chose.

        Raises
        ------
        TypeError
            If a field is no NumPy array.
        ValueError
            If an array is empty, or the stencil was decorated with a schedule.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil
        ... def difference(x):
        ...     return x[1] - x[-1]
        >>> difference.tune(np.zeros(1000), seconds=0).gain
        1.0
        """
        found = measuring.tuned(self, args, named, seconds)
        # What is prepared is of the schedule before.
        self._bound_calls.clear()
        return found

    @door
    def explain(self, /, *arrays: Any, **named: Any) -> str:
        """Tell how the kernel is understood and computed, and with arrays, how fast.

        With types only, nothing is compiled or run, and the text depends on the kernel alone.
        With NumPy arrays the kernel is compiled and measured as `bench` does it, which takes
        about half a second; of large arrays a part is taken.

        Parameters
        ----------
        *arrays : array or dtype
            The fields, or their types; one alone serves for all.
        **named
            Values of scalars without a default, and options of a call such as `boundary`; with
            ``device="cuda"`` the text says what a GPU does, and no GPU is needed for it.

        Returns
        -------
        str
            Lines of text: in the first one what to do to make it faster; then where the kernel
            looks, its border rule, the proved ranges, the algorithm of each window and sum with
            why it is no other, the types of the lanes, operations and bytes for each point; then
            how long compiling took, and how fast a call is beside a copy.

        Examples
        --------
        >>> import ninepoint as npt
        >>> def corner(x):
        ...     return x[0, 0] + x[1, 1]
        >>> print(npt.stencil(corner).explain("uint8"))
        Nothing stands in the way: give arrays to see how fast it is beside a copy.
          kernel      corner: x uint8 -> uint16
          path        understood: analysed, its inner loop can become vectors
          looks       offsets 0..1 x 0..1 (4 elements in the box)
          border      fill with 0
          result      whole numbers from 0 to 510
          algorithm   as written:
                        no window, and nothing to share
          lanes       16 bits at the widest: 1 in uint16
          operations  1 operation, 2 loads and 1 store a point
          memory      3 bytes a point: 1 read once, 2 written once
        """
        one = measuring.asked(self.definition, arrays, named)
        return Explanation(explaining.explained(self, one))

    @door
    def bench(self, /, *args: Any, repeat: int = 20, **named: Any) -> Measurement:
        """Measure a call, honestly: compiled before, warm, in turn with a copy of its fields.

        The calls write to arrays that are there already, as the copy does. Ends after 5
        seconds if there are 3 samples by then.  On a GPU a sample ends when the GPU is done, and
        the copy is one on it; with ``device="cuda"`` a call is there and back.

        Parameters
        ----------
        *args, **named
            As for a call, with NumPy arrays, or arrays of a GPU; a ufunc takes numbers, too.
        repeat : int, optional
            How many samples are taken; one is many calls where a call is short.

        Returns
        -------
        Measurement
            Prints as one line; `points_per_second`, `bytes_per_second` and `copy_ratio` are
            the figures, from medians.

        Raises
        ------
        TypeError
            If a field is no array of NumPy or of a GPU, or `repeat` no whole number.
        ValueError
            If `repeat` is less than 1, or an array is empty.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil
        ... def difference(x):
        ...     return x[1] - x[-1]
        >>> found = difference.bench(np.zeros(1000), repeat=3)
        >>> found.points, found.bytes
        (1000, 16000)
        """
        repeat = whole("repeat", repeat, 1)
        one = measuring.real(self.definition, args, named, "bench()", gpu=True)
        return measuring.measured(self, one, repeat, 5.0)

    def _repr_svg_(self) -> str | None:
        """Draw for a notebook what the kernel reads of float64 fields; None if it cannot."""
        return explaining.drawn(self.definition)

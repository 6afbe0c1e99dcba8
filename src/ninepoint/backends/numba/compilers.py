"""The compiler of functions of core arrays: Numba's own, whose checks of bounds say where."""

from __future__ import annotations

import copy
from typing import Any

from numba.core import cgutils, types
from numba.core.callconv import CPUCallConv
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.ir import Expr
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import signature

from ..outside import Outside


class _Telling(CPUCallConv):
    """Numba's way to leave a function, which says where it was if an index is wrong."""

    def return_user_exc(self, builder, exc, exc_args=None, loc=None, func_name=None):
        lower = self.context.lower
        # What Numba itself raises has no place, and in functions of its own there is none.
        if exc is IndexError and loc is None and builder.function is lower.builder.function:
            exc, exc_args = Outside, lower.place()
        super().return_user_exc(builder, exc, exc_args, loc, func_name)


class _TellingContext(CPUContext):
    call_conv = property(_Telling)


class _BoundedLower(Lower):
    """Numba's own lowering, whose checks of bounds say at which line and in which array."""

    def init(self):
        super().init()
        self._inst: Any = None
        self.context = copy.copy(self.context)
        self.context.__class__ = _TellingContext
        self.context.lower = self

    def lower_inst(self, inst):
        self._inst = inst
        super().lower_inst(inst)

    def place(self):
        """The function, the row below its `def`, and the name of the array that is indexed."""
        value = getattr(self._inst, "value", None)
        array = getattr(self._inst, "target", None)
        if isinstance(value, Expr):
            array = value.value if "getitem" in value.op else None
        name = "" if array is None else array.name.partition(".")[0]
        row = self._inst.loc.line - self.func_ir.loc.line
        return self.func_ir.func_id.func_name, row, "" if name.startswith("$") else name

    # Numba does not check `x.flat[i]`.

    def lower_getitem(self, resty, expr, value, index, told):
        self._check_flat(value, index)
        return super().lower_getitem(resty, expr, value, index, told)

    def lower_setitem(self, target_var, index_var, value_var, told):
        self._check_flat(target_var, index_var)
        return super().lower_setitem(target_var, index_var, value_var, told)

    def _check_flat(self, variable, index):
        kind = self.typeof(variable.name)
        if isinstance(kind, types.NumpyFlatType):
            length = self.context.get_function(len, signature(types.intp, kind))
            size = length(self.builder, (self.loadvar(variable.name),))
            place = self._cast_var(index, types.intp)
            cgutils.do_boundscheck(self.context, self.builder, place, size)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """The pass that lowers so."""

    _name = "lowering_with_places"
    lowering_class = property(lambda self: _BoundedLower)


class BoundedCompiler(CompilerBase):
    """How functions of core arrays are compiled, unless they ask for no checks of bounds."""

    def define_pipelines(self):
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_Lowering, NativeLowering)
        passes.passes = [one for one in passes.passes if one[0] is not NativeLowering]
        passes.finalize()
        return [passes]

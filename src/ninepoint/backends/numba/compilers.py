"""The compilers: how Numba turns generated text into LLVM's, save where it is changed here.

rows                narrow sums, promises about single arguments, last columns that overlap
the general path    sums that wrap
core arrays         checks of bounds that say where
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from llvmlite.ir import IRBuilder, PointerType
from numba.core import cgutils, types
from numba.core.callconv import CPUCallConv
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.ir import Expr, Return
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import signature
from numba.np.arrayobj import make_array

from ..outside import Outside

# Operations whose lowest bits depend on nothing but the lowest bits of their operands.
_MODULAR = {
    "add": IRBuilder.add,
    "sub": IRBuilder.sub,
    "mul": IRBuilder.mul,
    "and": IRBuilder.and_,
    "or": IRBuilder.or_,
    "xor": IRBuilder.xor,
}


# Passes of Numba for what a user's function may hold and generated rows never do: closures,
# `with`, branches that fall away, loops over tuples of several types.  Each looks through all of
# the function, and so does Numba after each: without them five random kernels are compiled in 7 %
# less time (Zen 3, under load), and twenty to the same bytes.
_FOR_USERS = frozenset({
    "WithLifting", "InlineClosureLikes", "RewriteSemanticConstants", "DeadBranchPrune",
    "MakeFunctionToJitFunction", "FindLiterallyCalls", "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
})  # fmt: skip


class _RowLower(Lower):
    """Numba's own lowering, with narrow arithmetic and promises about single arguments.

    Numba computes `u16(a + b)` in 64 bits and cuts the result.  LLVM finds out that 16 bits
    would do, but only where the sum is used once: a 3 x 3 sum of bytes, four rows at once, ran
    at 3.8 instead of 16 Gpixel/s (Zen 4).
    """

    def setup_function(self, fndesc):
        super().setup_function(fndesc)
        for argument in self.function.args:
            # The pointers of an array are called "arg.<name>.<number>".
            name = argument.name.removeprefix("arg.").rpartition(".")[0]
            if name in self.metadata["apart"] and isinstance(argument.type, PointerType):
                argument.add_attribute("noalias")

    def extract_function_arguments(self):
        """The arguments; of rows that overlap, those of the turn: whole vectors, then the last.

        All rows begin later in the second turn, which is no other loop: LLVM has that one loop
        to make fast, and its index still begins at 0.
        """
        arguments = super().extract_function_arguments()
        if not self.metadata["overlap"]:
            return arguments
        builder, at = self.builder, self.fndesc.args.index("n")
        word, n = arguments[at].type, arguments[at]
        columns, least = self.metadata["overlap"]
        rest = builder.and_(n, word(columns - 1))
        twice = builder.and_(
            builder.icmp_signed(">=", n, word(columns)),
            builder.icmp_signed(">=", rest, word(least)),
        )
        whole = builder.select(twice, builder.sub(n, rest), n)
        last = builder.sub(n, word(columns))
        before, self._turn = builder.basic_block, builder.append_basic_block("turn")
        builder.branch(self._turn)
        builder.position_at_end(self._turn)
        self._changing = []
        for now, then in [(word(0), last), (whole, word(columns)), (twice, twice.type(0))]:
            value = builder.phi(now.type)
            value.add_incoming(now, before)
            self._changing.append((value, then))
        first, count = (value for value, _ in self._changing[:2])
        moved = list(arguments)
        for k, kind in enumerate(self.fndesc.argtypes[:at]):
            view = make_array(kind)(self.context, builder, arguments[k])
            view.data = builder.gep(view.data, [first], inbounds=True)
            moved[k] = view._getvalue()
        moved[at] = count
        self.fnargs = moved
        return moved

    def lower_inst(self, inst):
        if self.metadata["overlap"] and isinstance(inst, Return):
            builder, (again, _) = self.builder, self._changing[-1]
            for value, then in self._changing:
                value.add_incoming(then, builder.basic_block)
            end = builder.append_basic_block("end")
            builder.cbranch(again, self._turn, end)
            builder.position_at_end(end)
        super().lower_inst(inst)

    def lower_call(self, resty, expr):
        return _wrapping(_narrowed(self.builder, super().lower_call(resty, expr)))


def _wrapping(value):
    """The value, which wraps where its type ends.

    Numba promises LLVM that signed sums, differences and products never do: a number plus 1
    would always be more than the number, and the least plus the least be the least.
    """
    if getattr(value, "opname", "") in ("add", "sub", "mul"):
        value.flags = [flag for flag in value.flags if flag != "nsw"]
    return value


def _narrowed(builder, value):
    """`value`, computed in its own width if it is a wider operation's result that was cut."""
    if getattr(value, "opname", "") != "trunc":
        return value
    (wide,) = value.operands
    operation = getattr(wide, "opname", "")
    if operation not in _MODULAR:
        return value
    left, right = (_cut(builder, operand, value.type) for operand in wide.operands)
    return _MODULAR[operation](builder, left, right)


def _cut(builder, value, kind):
    """The lowest bits of an integer; those of what it was widened from, if it was."""
    if getattr(value, "opname", "") in ("zext", "sext"):
        (narrow,) = value.operands
        if narrow.type.width <= kind.width:
            return getattr(builder, value.opname)(narrow, kind)
    return builder.trunc(value, kind)


class _WrappingLower(Lower):
    """Numba's own lowering, with sums that wrap."""

    def lower_binop(self, resty, expr, op):
        return _wrapping(super().lower_binop(resty, expr, op))


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


class RowCompiler(CompilerBase):
    """How rows are compiled.

    `noalias` promises LLVM that no two array arguments overlap, `apart` names those that
    overlap no other.  Of rows that `overlap` by (64, 9), the last 64 columns are computed by
    themselves where at least 9 of them are not among the multiple of 64 before.
    """

    noalias = False
    apart: tuple[str, ...] = ()
    overlap: tuple[int, ...] = ()

    def define_pipelines(self):
        self.state.flags.noalias = self.noalias
        self.state.metadata["apart"] = self.apart
        self.state.metadata["overlap"] = self.overlap
        passes = _lowered_by(_RowLower, self.state)
        passes.passes = [one for one in passes.passes if one[0].__name__ not in _FOR_USERS]
        passes.finalize()
        return [passes]


class WrappingCompiler(CompilerBase):
    """How kernels of the general path are compiled."""

    def define_pipelines(self):
        return [_lowered_by(_WrappingLower, self.state)]


class BoundedCompiler(CompilerBase):
    """How functions of core arrays are compiled, unless they ask for no checks of bounds."""

    def define_pipelines(self):
        return [_lowered_by(_BoundedLower, self.state)]


def _lowered_by(lower, state):
    """Numba's own pipeline, but for the class that lowers."""
    passes = DefaultPassBuilder.define_nopython_pipeline(state)
    passes.add_pass_after(_lowering(lower), NativeLowering)
    passes.passes = [one for one in passes.passes if one[0] is not NativeLowering]
    passes.finalize()
    return passes


@functools.cache
def _lowering(lower):
    """The pass that lowers by this class; Numba knows each pass once."""

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = f"lowering_by{lower.__name__.lower()}"
        lowering_class = property(lambda self: lower)

    return Lowering

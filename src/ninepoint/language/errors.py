"""What the user did wrong, where, and what to do instead.

A mistake in a user's kernel is a `StencilError` that points at the smallest piece of source
that is wrong.  Every message of the compiler is written in this file, one function for each
mistake, so that its whole voice can be read in one sitting.  Callers pass facts, never prose.
"""

from __future__ import annotations

import difflib
import threading
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field

from ..base.frozen import frozen


@frozen
class Span:
    """A piece of one line of the user's source.

    Columns count characters from 0 and `end` is exclusive.  The text of the line travels
    along: an error may be printed in a process that has no such file.
    """

    file: str
    line: int
    start: int
    end: int
    text: str


class _Here(threading.local):
    """Where this thread reads a text: what is wrong there needs to name no place."""

    span: Span


here = _Here()


@frozen
class Diagnostic:
    """The facts of one mistake; `str` lays them out."""

    code: str
    message: str
    span: Span
    label: str
    help: str

    def __str__(self) -> str:
        at, gutter = self.span, len(str(self.span.line))
        carets = _blank(at.text[: at.start]) + "^" * max(1, _width(at.text[at.start : at.end]))
        return "\n".join(
            [
                f"{self.message} [{self.code}]",
                f'  File "{at.file}", line {at.line}',
                f"    {at.line} | {at.text}",
                f"    {'':{gutter}} | {carets} {self.label}",
                f"  Help: {self.help}",
            ]
        )


def _width(text: str) -> int:
    """Count the columns that a terminal gives to `text`: two for a wide letter."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _blank(text: str) -> str:
    """Give space as wide as `text`; a tab is as wide as the tab above it."""
    return "\t".join(" " * _width(part) for part in text.split("\t"))


class StencilError(ValueError):
    """The kernel cannot be compiled as it is written.

    Holds exactly one `Diagnostic` as its only argument, which also makes it picklable.

    Attributes
    ----------
    diagnostic : Diagnostic
        Its `code`, `message`, `span` (the file, the line, the columns and the text of the place),
        `label` and `help`; `str` of the error lays them out.

    Examples
    --------
    >>> import ninepoint as npt
    >>> try:
    ...     npt.stencil(lambda x: x[0.5])
    ... except npt.StencilError as error:
    ...     print(error.diagnostic.span.text.strip())
    npt.stencil(lambda x: x[0.5])
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


@frozen
class Mistake:
    """A kind of mistake: called with a place and with facts it is the error.

    Without a place the mistake is where the text is being read.  The words name the facts in
    braces; the facts are given in the order in which the words name them first.  Where a fact
    begins with one of `cures`, that is said in the place of `help`.
    """

    code: str
    message: str
    label: str
    help: str
    cures: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *facts: object) -> StencilError:
        first = facts[0] if facts else None
        span = first if isinstance(first, Span) else None
        rest = iter(facts[1:] if span else facts)
        known = defaultdict[str, object](lambda: next(rest))
        words = (self.message, self.label, self.cure(*facts))
        message, label, cure = (text.format_map(known) for text in words)
        assert next(rest, known) is known, facts
        return StencilError(Diagnostic(self.code, message, span or here.span, label, cure))

    def cure(self, *facts: object) -> str:
        """What helps, by the first words of one of the facts."""
        told = (
            cure
            for start, cure in self.cures.items()
            for one in facts
            if str(one).startswith(start)
        )
        return next(told, self.help)


# Where it is computed.


gpu_general = Mistake(
    "gpu-general",
    "'{name}' holds {reason}, so it cannot be computed on a GPU.",
    "only the CPU computes this",
    "Write it without, or give it arrays of NumPy, as cupy.asnumpy(x) makes them.",
)

general_position = Mistake(
    "general-position",
    "'{name}' asks where it is or how long its arrays are, and holds {reason}.",
    "a kernel with this is not analysed, and is told neither",
    "Write it without, or give it a field of positions, or the length as a number.",
)


# The function as a whole.


source_missing = Mistake(
    "source-missing",
    "The source of '{name}' cannot be found, and a stencil is compiled from its source.",
    "no text is stored for this function",
    "Define it with 'def' in a file or a notebook cell, or at the prompt of IPython or of Python "
    "3.13 or later; exec() keeps no source, nor does a cell that is measured.",
)

source_changed = Mistake(
    "source-changed",
    "The source of '{name}' has changed since Python read it.",
    "this is not the text that the function was made from",
    "Restart Python, or reload the module, so that the function and its file agree.",
)

lambda_ambiguous = Mistake(
    "lambda-ambiguous",
    "This line holds several lambdas that cannot be told apart.",
    "which one is meant is not known",
    "Put each lambda on a line of its own, or write it with 'def'.",
)

parameter_kind = Mistake(
    "parameter-kind",
    "A kernel takes a fixed list of parameters.",
    "'{name}' can hold any number of arguments",
    "Name each field and each scalar as a parameter of its own.",
)

generator = Mistake(
    "generator",
    "A kernel is a plain function: it cannot be a generator or a coroutine.",
    "'{word}' makes it one",
    "Return the value of the point with 'return'.",
)

recursion = Mistake(
    "recursion",
    "A kernel cannot call itself.",
    "'{name}' is being read already",
    "Write the repetition as a 'for' loop over a constant range.",
)

method = Mistake(
    "method",
    "A stencil is no method: it is given arrays and numbers, never an object.",
    "'{name}' waits for '{first}' as the first of its arguments",
    "Leave '{first}' out and pass what the kernel needs as scalars, or define it outside "
    "the class.",
)


undefined_name = Mistake(
    "undefined-name",
    "The name '{name}' is not defined.",
    "neither a parameter, a local, a global, a builtin nor in its module",
    "Define it before the stencil is decorated; names are read once, at decoration.{close}",
)

maybe_undefined = Mistake(
    "maybe-undefined",
    "The local '{name}' may have no value here.",
    "not assigned on every path that leads here",
    "Give '{name}' a value before the branch, or in each of its sides.",
)

no_field = Mistake(
    "no-field",
    "The kernel '{name}' looks at no neighbour, so it is no stencil.",
    "no parameter is indexed with offsets",
    "Read a field relative to the point, such as x[0, 0] or x[-1]; a function of single "
    "elements is decorated with @npt.ufunc.",
)

ufunc_no_field = Mistake(
    "ufunc-no-field",
    "The ufunc '{name}' takes no array.",
    "every parameter is a scalar: it is given by name, or its default is a number",
    "Make the parameters that arrays are given for positional ones without a default.",
)

ufunc_index = Mistake(
    "ufunc-index",
    "A ufunc sees one element of each array, so '{name}' is a number here.",
    "'{name}' has no neighbours to be indexed",
    "Write '{name}' without an index, or look at neighbours in a stencil: @stencil.",
)

ufunc_whole = Mistake(
    "ufunc-whole",
    "A ufunc sees one element of each array, so '{name}' is a number here, without a shape.",
    "is not known of a number",
    "Give it as a number, 'def f(x, *, n)' and f(x, n=len(x)), or write a function of whole "
    "arrays: @gufunc.",
)

ufunc_stage = Mistake(
    "ufunc-stage",
    "The stencil '{name}' looks at neighbours, and a ufunc sees one element of each array.",
    "makes whole arrays, not numbers",
    "Call '{name}' before, and give the ufunc what it makes.",
)

too_deep = Mistake(
    "too-deep",
    "The kernel '{name}' holds an expression that is too long to be read.",
    "thousands of terms or parentheses, one inside the other",
    "Write it as a loop over a constant range, as the sum of a window, or in several statements.",
)

no_return = Mistake(
    "no-return",
    "The kernel '{name}' does not return a value on every path.",
    "a path through it ends without 'return'",
    "End every path with 'return' and the value of the point.",
)

return_mismatch = Mistake(
    "return-mismatch",
    "Every 'return' of a kernel must give the same number of values.",
    "{second} here, {first} elsewhere",
    "Return the same outputs on every path.",
)

choice_mismatch = Mistake(
    "choice-mismatch",
    "Both sides of a choice must be of one kind.",
    "{first} on one side, {second} on the other",
    "Give both sides a number, or tuples of the same length.",
)

not_a_number = Mistake(
    "not-a-number",
    "The value of a point must be a number.",
    "this is {words}",
    "Reduce a window with .sum(), .mean() and the like, or return the numbers as a tuple.",
)


# Fields and their offsets.


assigned_field = Mistake(
    "assigned-field",
    "A kernel cannot assign to its fields.",
    "'{name}' is an input",
    "Keep the value in a local and return it: the result is a new array.",
)

assigned_constant = Mistake(
    "assigned-constant",
    "A kernel cannot change what was made outside it.",
    "'{name}' is a constant of the kernel",
    "Keep the value in a local, or change the array before the stencil is decorated.",
)

offset_not_constant = Mistake(
    "offset-not-constant",
    "The offset of a neighbour must be known when the stencil is compiled.",
    "'{words}' can differ from point to point or from call to call",
    "A kernel is one point of the result: write offsets as numbers, x[0, -1], without loops "
    "over the array; npt.index(x) is the position of the point. If an offset does vary, "
    "declare how far it goes: '@stencil(neighborhood=((-1, 1), ...))'.",
)

offset_position = Mistake(
    "offset-position",
    "The offset of a neighbour counts from the point, not from the beginning of the array.",
    "'{words}' depends on the position of the point",
    "The element at the point itself is x[0], with a 0 for each axis; one at a fixed place is "
    "given as a scalar.",
)

position_field = Mistake(
    "position-field",
    "npt.index gives the position in a field.",
    "this is {words}",
    "Give it a parameter that the kernel reads relative to the point, as in npt.index(x), or "
    "nothing, npt.index(), for the position among the results.",
)

ufunc_position = Mistake(
    "ufunc-position",
    "A function of numbers does not know where its elements stand.",
    "this asks for the position of the point",
    "Decorate it with @npt.stencil, and read its arrays as x[0, 0].",
)


index_factor = Mistake(
    "index-factor",
    "An index of a field goes on by one from each of its elements to the next.",
    "'{words}' does not",
    "Divide npt.index() by the factor, upsample={factors} here, as in x[i // {factor}].",
)

offset_outside = Mistake(
    "offset-outside",
    "The kernel reads outside its declared neighborhood.",
    "offset {offset} on axis {axis} is not in {low}..{high}",
    "Widen 'neighborhood', or remove it: constant offsets are found by themselves.",
)

offset_far = Mistake(
    "offset-far",
    "The offset of a neighbour is larger than any array.",
    "offset {offset} is beyond {farthest}",
    "Count from the point: x[-1] is the element before it, x[1] the one after it.",
)

offset_type = Mistake(
    "offset-type",
    "The offset of a neighbour must be an integer.",
    "this is {words}",
    "Write whole steps, such as x[-1, 0].",
)


offset_count = Mistake(
    "offset-count",
    "Every read of a kernel must have the same number of offsets.",
    "'{name}' has {found} here, {expected} elsewhere or in neighborhood=",
    "Write one offset for each core axis, 0 where the neighbour is in line, and one (least, "
    "greatest) pair of neighborhood= for each of them.",
)

window_open = Mistake(
    "window-open",
    "A window needs both its ends.",
    "an open end would reach to the edge of the array",
    "Write the first offset and one past the last, such as x[-1:2].",
)

window_step = Mistake(
    "window-step",
    "A window takes every element between its ends.",
    "a step is not supported",
    "Weight the window with a constant array that is zero where it should not look.",
)

window_empty = Mistake(
    "window-empty",
    "A window must hold at least one element.",
    "no offset lies in {start}:{stop}",
    "As in Python, the end is exclusive: x[-1:2] holds the offsets -1, 0 and 1.",
)

window_shape = Mistake(
    "window-shape",
    "Windows and arrays can be combined only when their shapes are equal.",
    "shapes {first} and {second}",
    "Give both the same shape; nothing is broadcast inside a kernel.",
)

mask_shape = Mistake(
    "mask-shape",
    "A mask needs an element for each element of its window.",
    "the window has the shape {window}, the mask {mask}",
    "Give both the same shape.",
)

where_type = Mistake(
    "where-type",
    "The elements that 'where=' takes are told by truths.",
    "this is {words}",
    "Give a window of bools, such as m[-1:2, -1:2] != 0, or a constant array of them.",
)


where_initial = Mistake(
    "where-initial",
    "'{name}' of a part of a window needs to know what it is where the part is empty.",
    "'where=' without 'initial='",
    "Add initial=, such as initial=-np.inf for a maximum, or write np.nanmax(np.where(mask, w, "
    "np.nan)) or its like.",
)

mask_empty = Mistake(
    "mask-empty",
    "No element of the window '{name}' is taken.",
    "this picks nothing, so there is nothing to compute with",
    "Let at least one element of the mask be true.",
)

mask_type = Mistake(
    "mask-type",
    "Elements of the window '{name}' are picked by integers, slices or a mask of truths.",
    "this is {words}",
    "Make a mask with a comparison or with .astype(bool); for elements in another order "
    "write a tuple of reads.",
)

window_index = Mistake(
    "window-index",
    "'{name}' has no such element.",
    "{reason}",
    "Write whole numbers that count from 0, one for each axis, or a mask of the same shape.",
)


array_for_scalar = Mistake(
    "array-for-scalar",
    "'{name}' is used as a number, but an array of shape {shape} was given for it.",
    "no index, so it is one number for all points",
    "Give a number. For what differs from point to point, read '{name}' with an index, as a "
    "field; in a ufunc, make it a parameter by position that has no default.",
)

fraction = Mistake(
    "fraction",
    "The fraction of '{name}' is a number from 0 to {most:g}.",
    "this is {words}",
    "Write one number; for several fractions, call it once for each.",
)


foreign_function = Mistake(
    "foreign-function",
    "'{name}' cannot be compiled in a kernel.",
    "the text that {module} has for it: {reason}",
    "Write what it does with Python's, math's or NumPy's functions of numbers (np.isnan is "
    "pandas.isna), or call it on the whole arrays and give the result as a field.",
)


# Expressions and statements.


unknown_method = Mistake(
    "unknown-method",
    "'{name}' is not known of {words} in a kernel.",
    "not known here",
    "A window has sum, mean, min, max, median, any, all, std, var, argmin, argmax and ptp; a "
    "number has real and imag; of a field take a window, such as x[-1:2].mean(). Compute anything "
    "else outside the kernel.",
)

unknown_function = Mistake(
    "unknown-function",
    "'{name}' cannot be called in a kernel.",
    "not a function that can be compiled",
    "Use Python's or NumPy's scalar functions, the functions of 'math', or a function of "
    "your own whose source can be found.",
)

shape_varies = Mistake(
    "shape-varies",
    "The shape of a window must be known when the kernel is compiled.",
    "its arguments can differ from call to call",
    "Call '{name}' with numbers, or outside the kernel, and use the array that it makes.",
)

wrong_arguments = Mistake(
    "wrong-arguments",
    "'{name}' is called with arguments that it does not take.",
    "{reason}",
    "Compare the call with the signature of '{name}'.",
)


bad_operand = Mistake(
    "bad-operand",
    "{operation} has no meaning for {words}.",
    "the operands do not fit",
    "Give it numbers; int(), float() and NumPy's types convert them.",
    {
        "Unpacking": "Unpack a tuple, a window or a constant array.",
        "Indexing": "Index a field once, with all its offsets together, such as x[0, 1].",
        "the field": "Index the field: x[0] is a number of it, x[-1:2] a window.",
        "complex": "Take a real number first: .real, .imag or abs().",
        "floats": "Convert the operands first, with int() or an integer type of NumPy.",
        "a window": "Reduce the window first, such as .any(), .all(), .sum() or .max().",
        "an array": "Index the array, or combine it with a window of its shape.",
        "a function": "Call the function, or leave it out.",
    },
)


literal_range = Mistake(
    "literal-range",
    "A number of {bits} bits does not fit beside what it is computed with.",
    "neither int64, nor uint64 beside uint64, nor a float beside floats holds it",
    "Compute with floats, such as float(x[0]), or write the number as one, such as 1e19.",
)

choice_sign = Mistake(
    "choice-sign",
    "One value of this choice is of uint64 and the other is {value}.",
    "no integer type holds both",
    "Convert the first with int() if it is below 2**63, or both with float().",
)

unpacking = Mistake(
    "unpacking",
    "Unpacking needs as many names as there are values.",
    "{wanted} names for {found} values",
    "Write one name for each value.",
)

bad_constant = Mistake(
    "bad-constant",
    "'{name}' cannot be used in a kernel.",
    "it is {words}",
    "A kernel can use numbers, tuples, NumPy arrays of numbers, and functions whose source "
    "can be found.",
)


# Stages: stencils that a kernel calls.


stage_use = Mistake(
    "stage-use",
    "'{name}' is a stencil: it makes whole arrays, not numbers.",
    "neither a number nor a call in the text of the kernel itself",
    "Call it in the kernel on a field, as in 's = {name}(x)', and read that as 's[0, 1]'.",
)

stage_field = Mistake(
    "stage-field",
    "The stencil '{callee}' reads the neighbours of '{parameter}', so it needs a field.",
    "'{parameter}' is neither a field of this kernel nor what another stencil made",
    "Give it the name of a field, without an index.",
)

stage_scalar = Mistake(
    "stage-scalar",
    "The argument '{parameter}' of the stencil '{callee}' must be the same at every point.",
    "'{parameter}' differs from point to point",
    "Compute it from scalars and constants only, or pass it as a scalar of the kernel.",
)

stage_place = Mistake(
    "stage-place",
    "The stencil '{callee}' is called once for the whole array, before any point is done.",
    "it cannot depend on how often a loop runs",
    "Call it before, give what it makes a name, and choose between values at the point.",
)

stage_general = Mistake(
    "stage-general",
    "'{name}' calls stencils, and holds {reason}.",
    "this is not analysed, and no stencil can be called beside it",
    "Call the stencils before, and give '{name}' what they make as fields.",
)

stage_arguments = Mistake(
    "stage-arguments",
    "The stencil '{callee}' cannot be called like this in a kernel.",
    "{reason}",
    "Give it the arguments of '{callee}' and, where they differ from its own, boundary=, "
    "cval=, dtype=, overflow=, every= and upsample=.",
)


stage_outputs = Mistake(
    "stage-outputs",
    "The stencil '{callee}' gives {found} results, and {wanted} names wait for them.",
    "results and names are not as many",
    "Write one name for each result, as in 'a, b = gradients(x)'.",
)

unsupported = Mistake(
    "unsupported",
    "A kernel cannot contain {words}.",
    "not part of the language",
    "Keep to numbers, tuples, branches and loops; what is the same for all points is done outside "
    "the kernel, and given as a scalar.",
)

not_compiled = Mistake(
    "not-compiled",
    "This kernel cannot be compiled.",
    "{reason}",
    "Use numbers, loops, branches and small NumPy buffers, or keep to the constructs of "
    "the reference page.",
)


# Functions of core arrays.


no_result = Mistake(
    "no-result",
    "'{name}' gives no result.",
    "it returns no value, and has no parameter for each result to write into",
    "Return the results, as many as the signature has behind '->'.",
)

result_missing = Mistake(
    "result-missing",
    "'{name}' does not return its results on every path.",
    "a path through it ends without 'return'",
    "End every path with 'return' and the results.",
)


result_count = Mistake(
    "result-count",
    "The signature {signature} has another number of results: {wanted}.",
    "this gives {found}",
    "Return one value for each array behind '->', as a tuple if there are several.",
)


result_axes = Mistake(
    "result-axes",
    "Result {number} is {core} in the signature, so it has {wanted} axes; a number has none.",
    "this has {found}",
    "Return what the signature says, or change the signature.",
)

result_type = Mistake(
    "result-type",
    "Result {number} must be a number or an array of numbers.",
    "this gives {words}",
    "Return numbers or arrays, as many as the signature has behind '->'.",
)

result_unknown = Mistake(
    "result-unknown",
    "The type of the result '{name}' cannot be found.",
    "nothing that is stored in it is seen here",
    "Say it with @gufunc(..., dtype=...), or return the result.",
)

input_changed = Mistake(
    "input-changed",
    "A function of core arrays cannot change its inputs.",
    "an input is written to",
    "Change a copy of it, x.copy(), and return that.",
)

core_number = Mistake(
    "core-number",
    "A parameter without core axes, '()' in the signature, is a number.",
    "a number is indexed here",
    "Write it without an index, or name its axes in the signature: '(n)' instead of '()'.",
)

core_integers = Mistake(
    "core-integers",
    "Linear algebra in a function of core arrays is there for floats and complex numbers.",
    "this is given integers",
    "Convert first, x.astype(np.float64), or write the sum of products, np.sum(x * y).",
)

body_not_compiled = Mistake(
    "body-not-compiled",
    "This function cannot be compiled.",
    "{reason}",
    "Use what Numba compiles: numbers, NumPy arrays, loops, and functions of these.",
)


# Options.


# What to write here for an option, by the names that other libraries have for it.
_FOREIGN = {
    "mode borderType border pad_mode padding": (
        'what lies beyond the border is boundary="reflect" and so on'
    ),
    "constant_values fill_value": "the value beyond the border is cval=",
    "axis channel_axis": "the axes that the stencil works on are axes=(0, 1) and so on",
    "dim": 'the dimensions that the stencil works on are dims=("y", "x") and so on',
    "output": "the array for the result is out=, its dtype dtype=",
    "num_threads workers": "the number of threads is threads=",
    "size footprint": "a kernel says itself where it looks, as in x[-1:2, -1:2]",
    "origin": "a kernel says itself where it looks; a window that begins later is x[0:3]",
    "depth": "how far a kernel looks is found by itself",
    "parallel": "calls use all cores by themselves; threads= limits them",
    "nopython": "everything is compiled",
    "nogil": "compiled code lets other threads run by itself",
    "where": "numpy.where(condition, result, other) chooses after the call",
    "casting": "the type of the result is dtype=, and overflow= says what happens beyond it",
    "subok": "results are arrays of the kind of the fields",
    "order": "results lie in memory as the fields do",
    "signature signatures": "each combination of types is compiled when it first comes",
    "target": 'calls use all cores by themselves; threads= limits them; a GPU is device="cuda"',
    "identity": "numpy.add.reduce and its like reduce what a call makes",
    "cache": "machine code is kept on disk by itself",
    "func_or_mode": 'what lies beyond the border is boundary="fill" and so on',
}
_CURES = {name: cure for names, cure in _FOREIGN.items() for name in names.split()}


def hint(name: str, known: Iterable[str] = ()) -> str:
    """What to write for an option that has this name elsewhere, as the end of a message.

    Else which of the `known` names it may be, misspelt.
    """
    cure = _CURES.get(name)
    if cure is None and (close := alike(name, known)):
        cure = f"perhaps you mean {close}"
    return "" if cure is None else f"; {cure}"


def alike(name: str, known: Iterable[str]) -> str:
    """The name that is spelt most like this one; empty where none is."""
    return next(iter(difflib.get_close_matches(name, known, 1)), "")

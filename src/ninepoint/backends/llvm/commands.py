"""Commands: machine code that carries out a list of moves and runs on whole arrays.

A kernel's own machine code computes a block whose neighbours are all there.  What a call takes
besides, that is padded blocks and what is written without being computed, is a list of commands,
made by `ninepoint.arrays.commands`.  The code here is one for all kernels: it knows elements by
their size, arrays by their addresses, and a kernel by a function that computes a block.

    head      axes (the stack's is one of them), arrays of the caller, other arrays,
              bytes of memory for these, commands
    array     1 if it lies in that memory, 0 if it lies in the list, 2 if it lies elsewhere; its
              first byte there, or its address; its strides
    move      0, the size of an element, the array that is written and the one that is read, the
              shape; for both the first element, and then the step, along each axis
    run       1; for each array of the kernel which one it is, the first element and the shape
    ghosts    2, a kind of floats, how; the array that is written, that which is mirrored, and
              alpha and beta, of double precision; how many terms there are, bytes to the next
              alpha, and along which axis and in which direction the next element is; the shape;
              for each array the first element and the step, along each axis

Arrays are numbered: the fields, the results, then the others.  It is written for LLVM, as to let
Numba compile it takes 0.8 s, and this 0.2 s (Zen 4).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir

from . import native
from .building import copy, loop, variable

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_POINTER = _BYTE.as_pointer()

# Words of the head.
_HEAD = 5

# Elements side by side are copied together from so many on.
_SIDE_BY_SIDE = 8

# Elements that lie so many steps apart are taken out of whole vectors, whose bytes these are:
# those of a channel of a colour image, every second one, rows that run backwards.
_STEPS, _VECTOR = (-1, 2, 3, 4), 16

# A column of so many elements is copied as if it were a row: "fill" on 100x100 takes 0.4 us less,
# on 512x512 bytes, whose lines fall into few sets of the cache, 5 us more (Zen 4).
_SHORT = 128


def commands_module() -> ir.Module:
    """The module whose function `native.COMMANDS` carries out commands."""
    module = ir.Module("ninepoint.commands")
    move = _move(module, _apart(module))
    _carry_out(module, move, _view(module), _ghosts(module))
    return module


def _function(module: ir.Module, name: str, count: int, result: Any) -> tuple[Any, Any]:
    """A function of so many words."""
    function = ir.Function(module, ir.FunctionType(result, [_WORD] * count), name)
    return function, ir.IRBuilder(function.append_basic_block())


def _place(builder: Any, address: Any, kind: Any = _WORD) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _plus(builder: Any, address: Any, words: Any) -> Any:
    """The address so many words on."""
    if isinstance(words, int):
        words = _WORD(words)
    return builder.add(address, builder.mul(words, _WORD(8)))


def _word(builder: Any, address: Any, words: Any = 0) -> Any:
    """The word that stands so many words on."""
    return builder.load(_place(builder, _plus(builder, address, words)))


def _copy(builder: Any, target: Any, source: Any, size: Any) -> None:
    """Copy so many bytes from address to address."""
    places = [_place(builder, one, _BYTE) for one in (target, source)]
    copy(builder, places[0], places[1], size)


def _add_to(builder: Any, variable: Any, value: Any) -> None:
    builder.store(builder.add(builder.load(variable), value), variable)


def _apart(module: ir.Module) -> ir.Function:
    """Copy elements one by one, row by row.

    Takes the size, rows, columns, and for both arrays where they lie and their distances.
    """
    function, builder = _function(module, "apart", 9, ir.VoidType())
    function.linkage = "internal"
    size, *plane = function.args
    for bits in (8, 16, 32):
        with builder.if_then(builder.icmp_signed("==", size, _WORD(bits // 8))):
            _elements(builder, ir.IntType(bits), *plane)
            builder.ret_void()
    rows, columns, to, down, across, at, *rest = plane
    with loop(builder, builder.sdiv(size, _WORD(8))) as part:
        places = _plus(builder, to, part.index), _plus(builder, at, part.index)
        _elements(builder, _WORD, rows, columns, places[0], down, across, places[1], *rest)
    builder.ret_void()
    return function


def _elements(
    builder: Any, kind: Any, rows: Any, columns: Any, to: Any, down: Any, across: Any,
    at: Any, down_at: Any, across_at: Any,
) -> None:  # fmt: skip
    def place(start: Any, row: Any, down: Any, column: Any, across: Any) -> Any:
        address = builder.add(start, builder.mul(row, down))
        return _place(builder, builder.add(address, builder.mul(column, across)), kind)

    rows_of = partial(loop, builder)
    # A constant is loaded once.
    still = builder.icmp_signed("==", builder.or_(down_at, across_at), _WORD(0))
    some = builder.icmp_signed(">", builder.mul(rows, columns), _WORD(0))
    # The columns of a row lie in one line of the cache, or in few.
    with builder.if_else(builder.and_(still, some)) as (constant, apart):
        with constant:
            value = builder.load(_place(builder, at, kind), align=1)
            with rows_of(rows) as outer, rows_of(columns) as inner:
                target = place(to, outer.index, down, inner.index, across)
                builder.store(value, target, align=1)
        with apart:
            done = variable(builder, _WORD, _WORD(0))
            plane = rows, columns, to, down, across, at, down_at, across_at
            for step in _STEPS if kind.width < 64 else ():
                _vectors(builder, kind, step, done, *plane)
            with rows_of(rows) as outer, rows_of(columns, builder.load(done)) as inner:
                source = place(at, outer.index, down_at, inner.index, across_at)
                target = place(to, outer.index, down, inner.index, across)
                builder.store(builder.load(source, align=1), target, align=1)


def _vectors(
    builder: Any, kind: Any, step: int, done: Any, rows: Any, columns: Any, to: Any, down: Any,
    across: Any, at: Any, down_at: Any, across_at: Any,
) -> None:  # fmt: skip
    """Copy elements that lie so many steps apart, side by side; says how many columns are done."""
    size = kind.width // 8
    count = _VECTOR // size
    lies = builder.icmp_signed("==", across, _WORD(size))
    fits = builder.and_(lies, builder.icmp_signed("==", across_at, _WORD(step * size)))
    with builder.if_then(fits, likely=False):
        # What a vector holds beyond its last element lies before one that follows.
        some = builder.icmp_signed(">", columns, _WORD(0))
        one_less = builder.select(some, builder.sub(columns, _WORD(1)), _WORD(0))
        turns = builder.udiv(one_less, _WORD(count))
        wide = ir.VectorType(kind, count * abs(step))
        picked = [k * step if step > 0 else count - 1 - k for k in range(count)]
        picks = ir.Constant(ir.VectorType(ir.IntType(32), count), picked)
        before = size * (count - 1) if step < 0 else 0
        with loop(builder, rows) as outer:
            here = builder.sub(builder.add(at, builder.mul(outer.index, down_at)), _WORD(before))
            there = builder.add(to, builder.mul(outer.index, down))
            with loop(builder, turns) as inner:
                far = builder.mul(inner.index, _WORD(count * step * size))
                near = builder.mul(inner.index, _WORD(count * size))
                read = builder.load(_place(builder, builder.add(here, far), wide), align=1)
                made = builder.shuffle_vector(read, ir.Constant(wide, ir.Undefined), picks)
                place = _place(builder, builder.add(there, near), made.type)
                builder.store(made, place, align=1)
        builder.store(builder.mul(turns, _WORD(count)), done)


def _move(module: ir.Module, one_by_one: ir.Function) -> ir.Function:
    """Carry out a move: axes, the table of arrays, the command's address."""
    function, b = _function(module, "move", 3, ir.VoidType())
    function.linkage = "internal"
    axes, table, command = function.args
    size = _word(b, command)
    width = b.add(axes, _WORD(1))
    shape = _plus(b, command, 3)
    ends = [variable(b, _WORD) for _ in range(2)]
    arrays, steps = [], []
    for k, end in enumerate(ends):
        array = _plus(b, table, b.mul(width, _word(b, command, k + 1)))
        first = _plus(b, shape, b.mul(axes, _WORD(2 * k + 1)))
        b.store(_word(b, array), end)
        arrays.append(_plus(b, array, 1))
        steps.append(_plus(b, first, axes))
        with loop(b, axes) as inside:
            stride = _word(b, arrays[k], inside.index)
            _add_to(b, end, b.mul(_word(b, first, inside.index), stride))
    to, at = map(b.load, ends)

    def distance(k: int, axis: Any) -> Any:
        return b.mul(_word(b, steps[k], axis), _word(b, arrays[k], axis))

    outer = b.sub(axes, _WORD(2))
    last = b.sub(axes, _WORD(1))
    rows, columns = _word(b, shape, outer), _word(b, shape, last)
    down, across = ([distance(k, axis) for k in range(2)] for axis in (outer, last))
    planes = variable(b, _WORD, _WORD(1))
    with loop(b, outer) as inside:
        b.store(b.mul(b.load(planes), _word(b, shape, inside.index)), planes)
    size_across = b.and_(*(b.icmp_signed("==", one, size) for one in across))
    together = b.and_(size_across, b.icmp_signed(">=", columns, _WORD(_SIDE_BY_SIDE)))
    rest = variable(b, _WORD)
    with loop(b, b.load(planes)) as plane:
        b.store(plane.index, rest)
        b.store(to, ends[0])
        b.store(at, ends[1])
        with loop(b, outer) as inside:
            axis = b.sub(b.sub(outer, _WORD(1)), inside.index)
            length, left = _word(b, shape, axis), b.load(rest)
            for k, end in enumerate(ends):
                _add_to(b, end, b.mul(b.srem(left, length), distance(k, axis)))
            b.store(b.sdiv(left, length), rest)
        there, here = map(b.load, ends)
        with b.if_else(together) as (side_by_side, apart):
            with side_by_side, loop(b, rows) as row:
                to_line = b.add(there, b.mul(row.index, down[0]))
                at_line = b.add(here, b.mul(row.index, down[1]))
                _copy(b, to_line, at_line, b.mul(columns, size))
            with apart:
                # One short column is done like a row.
                short = b.icmp_signed("<=", rows, _WORD(_SHORT))
                single = b.and_(short, b.icmp_signed("==", columns, _WORD(1)))

                def turned(one: Any, other: Any) -> list[Any]:
                    return [b.select(single, other, one), b.select(single, one, other)]

                lengths = turned(rows, columns)
                steps_to, steps_at = (turned(down[k], across[k]) for k in range(2))
                b.call(one_by_one, [size, *lengths, there, *steps_to, here, *steps_at])
    b.ret_void()
    return function


def _view(module: ir.Module) -> ir.Function:
    """Write the address, the shape and the strides of a part of an array.

    Takes the axes, the table of arrays, what the command says, and where to write.
    """
    function, b = _function(module, "view", 4, ir.VoidType())
    function.linkage = "internal"
    axes, table, command, view = function.args
    array = _plus(b, table, b.mul(b.add(axes, _WORD(1)), _word(b, command)))
    first, shape = _plus(b, command, 1), _plus(b, command, b.add(axes, _WORD(1)))
    at = variable(b, _WORD, _word(b, array))
    with loop(b, axes) as inside:
        axis = b.add(inside.index, _WORD(1))
        stride = _word(b, array, axis)
        _add_to(b, at, b.mul(_word(b, first, inside.index), stride))
        b.store(_word(b, shape, inside.index), _place(b, _plus(b, view, axis)))
        b.store(stride, _place(b, _plus(b, view, b.add(axis, axes))))
    b.store(b.load(at), _place(b, view))
    b.ret_void()
    return function


# Ghosts are beta - mirrored, mirrored + beta, or alpha * mirrored + beta and further terms.
FACE, SLOPE, MIX = range(3)

# The floats of which ghosts are made: a type, and of how many parts.
_FLOATS = (
    (ir.FloatType(), 1), (ir.DoubleType(), 1), (ir.FloatType(), 2), (ir.DoubleType(), 2),
)  # fmt: skip

# Words of a command for ghosts, besides those for each axis.
_GHOSTS = 10


def _ghosts(module: ir.Module) -> ir.Function:
    """Make ghosts: axes, the table of arrays, the command's address."""
    function, b = _function(module, "ghosts", 3, ir.VoidType())
    function.linkage = "internal"
    axes, table, command = function.args
    width, last = b.add(axes, _WORD(1)), b.sub(axes, _WORD(1))
    kind, how = _word(b, command), _word(b, command, 1)
    shape = _plus(b, command, _GHOSTS)
    arrays, steps, starts = [], [], []
    for k in range(4):
        array = _plus(b, table, b.mul(width, _word(b, command, 2 + k)))
        first = _plus(b, shape, b.mul(axes, _WORD(2 * k + 1)))
        start = variable(b, _WORD, _word(b, array))
        arrays.append(_plus(b, array, 1))
        steps.append(_plus(b, first, axes))
        with loop(b, axes) as inside:
            stride = _word(b, arrays[k], inside.index)
            _add_to(b, start, b.mul(_word(b, first, inside.index), stride))
        starts.append(b.load(start))

    def distance(k: int, axis: Any) -> Any:
        return b.mul(_word(b, steps[k], axis), _word(b, arrays[k], axis))

    across = [distance(k, last) for k in range(4)]
    next_element = b.mul(_word(b, command, 9), _word(b, arrays[1], _word(b, command, 8)))
    terms = _word(b, command, 6), next_element, _word(b, command, 7)
    rows = variable(b, _WORD, _WORD(1))
    with loop(b, last) as inside:
        b.store(b.mul(b.load(rows), _word(b, shape, inside.index)), rows)
    rest = variable(b, _WORD)
    ends = [variable(b, _WORD) for _ in range(4)]
    with loop(b, b.load(rows)) as row:
        b.store(row.index, rest)
        for end, start in zip(ends, starts, strict=True):
            b.store(start, end)
        with loop(b, last) as inside:
            axis = b.sub(b.sub(last, _WORD(1)), inside.index)
            length, left = _word(b, shape, axis), b.load(rest)
            for k, end in enumerate(ends):
                _add_to(b, end, b.mul(b.srem(left, length), distance(k, axis)))
            b.store(b.sdiv(left, length), rest)
        here = [b.load(end) for end in ends]
        for number, (element, parts) in enumerate(_FLOATS):
            with b.if_then(b.icmp_signed("==", kind, _WORD(number))):
                columns = _word(b, shape, last)
                _row_of_ghosts(b, element, parts, how, columns, here, across, terms)
    b.ret_void()
    return function


def _row_of_ghosts(
    b: Any, element: Any, parts: int, how: Any, columns: Any, here: Any, across: Any, terms: Any
) -> None:
    """Make a row of ghosts, with double precision.

    `terms` are how many there are, and the bytes to the next element and to the next alpha.
    """
    double = ir.DoubleType()
    mixed = b.icmp_signed("==", how, _WORD(MIX))
    faced = b.icmp_signed("==", how, _WORD(FACE))
    with loop(b, columns) as inside:
        far = [b.mul(inside.index, step) for step in across]
        to, at, alpha, beta = (b.add(one, other) for one, other in zip(here, far, strict=True))

        def loaded(address: Any, kind: Any) -> list[Any]:
            size = 4 if kind == ir.FloatType() else 8
            places = (b.add(address, _WORD(size * part)) for part in range(parts))
            found = [b.load(_place(b, place, kind), align=1) for place in places]
            return found if kind == double else [b.fpext(one, double) for one in found]

        mirrored, values = loaded(at, element), loaded(beta, double)
        products, made = _product(b, loaded(alpha, double), mirrored), []
        for product, one, value in zip(products, mirrored, values, strict=True):
            scaled = b.select(mixed, product, one)
            made.append(b.select(faced, b.fsub(value, scaled), b.fadd(scaled, value)))
        sums = [variable(b, double, one) for one in made]
        count, far_element, far_alpha = terms
        with loop(b, count, _WORD(1)) as term:
            there = b.add(at, b.mul(term.index, far_element))
            factor = b.add(alpha, b.mul(term.index, far_alpha))
            more = _product(b, loaded(factor, double), loaded(there, element))
            for total, one in zip(sums, more, strict=True):
                b.store(b.fadd(b.load(total), one), total)
        for part, one in enumerate(map(b.load, sums)):
            size = 4 if element == ir.FloatType() else 8
            stored = one if element == double else b.fptrunc(one, element)
            b.store(stored, _place(b, b.add(to, _WORD(size * part)), element), align=1)


def _product(b: Any, some: Any, others: Any) -> list[Any]:
    """The product of numbers of one part, or of two."""
    if len(some) == 1:
        return [b.fmul(some[0], others[0])]
    (a, c), (d, e) = some, others
    return [b.fsub(b.fmul(a, d), b.fmul(c, e)), b.fadd(b.fmul(a, e), b.fmul(c, d))]


def _carry_out(
    module: ir.Module, move: ir.Function, view: ir.Function, ghosts: ir.Function
) -> None:
    """Carry out the commands at an address; 0 if all went well.

    The second argument is where the address and the strides of each array of the caller stand;
    the third the function that computes a block, called with views of its arrays and with the
    fourth.
    """
    function, b = _function(module, native.COMMANDS, 4, _WORD)
    commands, arrays, block, values = function.args
    malloc = ir.Function(module, ir.FunctionType(_POINTER, [_WORD]), "malloc")
    free = ir.Function(module, ir.FunctionType(ir.VoidType(), [_POINTER]), "free")
    axes, given, others, memory, count = (_word(b, commands, k) for k in range(_HEAD))
    width = b.add(axes, _WORD(1))
    size = b.add(axes, width)
    table_words = b.mul(b.add(given, others), width)
    words = b.add(table_words, b.mul(given, size))
    # Two lines of the cache, as blocks begin at one.
    room = b.call(malloc, [b.add(b.add(memory, b.mul(words, _WORD(8))), _WORD(64))])
    with b.if_then(b.icmp_unsigned("==", room, _POINTER(None)), likely=False):
        b.ret(_WORD(1))
    table = b.ptrtoint(room, _WORD)
    views, memory_at = _plus(b, table, table_words), _plus(b, table, words)
    memory_at = b.and_(b.add(memory_at, _WORD(63)), _WORD(-64))
    _copy(b, table, arrays, b.mul(given, b.mul(width, _WORD(8))))
    at = variable(b, _WORD, _plus(b, commands, _HEAD))
    with loop(b, others) as inside:
        here = b.load(at)
        to = _plus(b, table, b.mul(width, b.add(given, inside.index)))
        in_memory = b.icmp_signed("==", _word(b, here), _WORD(1))
        elsewhere = b.icmp_signed("==", _word(b, here), _WORD(2))
        base = b.select(elsewhere, _WORD(0), b.select(in_memory, memory_at, commands))
        start = b.add(base, _word(b, here, 1))
        b.store(start, _place(b, to))
        _copy(b, _plus(b, to, 1), _plus(b, here, 2), b.mul(axes, _WORD(8)))
        b.store(_plus(b, here, b.add(axes, _WORD(2))), at)
    status = variable(b, _WORD, _WORD(0))
    with loop(b, count) as inside:
        code = _word(b, b.load(at))
        b.store(_plus(b, b.load(at), 1), at)
        with b.if_then(b.icmp_signed("==", code, _WORD(2)), likely=False):
            b.call(ghosts, [axes, table, b.load(at)])
            b.store(_plus(b, b.load(at), b.add(_WORD(_GHOSTS), b.mul(axes, _WORD(9)))), at)
        with b.if_then(b.icmp_signed("==", code, _WORD(0))):
            b.call(move, [axes, table, b.load(at)])
            b.store(_plus(b, b.load(at), b.add(_WORD(3), b.mul(axes, _WORD(5)))), at)
        with b.if_then(b.icmp_signed("==", code, _WORD(1))):
            with loop(b, given) as array:
                to = _plus(b, views, b.mul(size, array.index))
                b.call(view, [axes, table, b.load(at), to])
                b.store(_plus(b, b.load(at), size), at)
            kind = ir.FunctionType(_WORD, [_WORD, _WORD])
            b.store(b.call(_place(b, block, kind), [views, values]), status)
            failed = b.icmp_signed("!=", b.load(status), _WORD(0))
            with b.if_then(failed, likely=False):
                inside.leave()
    b.call(free, [room])
    b.ret(b.load(status))

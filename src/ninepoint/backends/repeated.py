"""Calls that machine code repeats: the steps of an iteration on small arrays, without Python.

    held(entry, arguments, lists)       what one call of machine code is given, kept in memory
    repeat(calls of a step, steps)      all calls of a step, then those of the next one

A call is kept by having its entry hand its work to a crew (see `crew`) of nobody, which notes down
what it is given and does nothing.  Steps go from one half of some arrays to the other and back,
so that the calls of even steps and those of odd ones are kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from .assembly import Assembly

# Words of what is kept: the function, where its table of arrays, its numbers and its lists of
# commands are, and how many lists.  A crew of nobody begins with its own function before that.
_PART, _TABLE, _VALUES, _LISTS, _COUNT, _HEAD = 1, 2, 3, 4, 5, 6


class Held:
    """A call of machine code: the arrays and lists that it is given, which stay where they are."""

    def __init__(
        self,
        together: Callable[..., None],
        arguments: Sequence[Any],
        lists: Sequence[np.ndarray],
    ) -> None:
        self._arguments = arguments
        self._lists = lists
        # An array takes its address and strides, or all that Numba knows of it; a number less.
        each = [6 + 2 * (one.ndim if isinstance(one, np.ndarray) else 0) for one in arguments]
        self._memory = np.zeros(_HEAD + sum(each) + len(lists) + 8, np.int64)
        self._memory[0] = _assembly().address("hold")
        self.address = self._memory.__array_interface__["data"][0]
        together(self.address, len(self._memory), *arguments, *lists)


def repeat(
    turns: Sequence[Sequence[Held]], first: int, steps: int, crew: int, threads: int
) -> None:
    """Do so many steps from `first` on; the calls of each are those of its turn.

    Lists of commands are shared among a crew, if there is one.

    Raises
    ------
    MemoryError
        If there was not enough memory for what a call needs beside its arrays.
    """
    calls = np.array([[one.address for one in turn] for turn in turns], np.int64)
    address = calls.__array_interface__["data"][0]
    if _repeat()(address, calls.shape[1], first, steps, crew, threads):
        raise MemoryError


@cache
def _repeat() -> Any:
    """The function as ctypes calls it, which lets go of the interpreter's lock."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)
    return kind(_assembly().address("repeat"))


@cache
def _assembly() -> Assembly:
    from llvmlite import ir

    module = ir.Module("ninepoint.repeated")
    _hold(ir, module)
    _repeats(ir, module)
    made = Assembly(str(module))
    # A thread may be running it when the interpreter ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


def _place(ir: Any, builder: Any, address: Any, words: Any) -> Any:
    """The word that stands so many words after an address."""
    word = ir.IntType(64)
    words = words if isinstance(words, ir.Value) else word(words)
    at = builder.add(address, builder.mul(words, word(8)))
    return builder.inttoptr(at, word.as_pointer())


def _hold(ir: Any, module: Any) -> None:
    """What stands in the place of a crew: notes down a job as the calls of a step need it.

    The job says how many bytes its table of arrays has, and its numbers (see the entries).
    """
    word = ir.IntType(64)
    kind = ir.FunctionType(word, [word] * 5)
    function = ir.Function(module, kind, "ninepoint_hold")
    builder = ir.IRBuilder(function.append_basic_block())
    room, capacity, part, argument, count = function.args

    def given(words: int) -> Any:
        return builder.load(_place(ir, builder, argument, words))

    sizes = [given(3), given(4), builder.mul(count, word(8))]
    # Each begins at a word.
    rounded = [builder.and_(builder.add(size, word(7)), word(-8)) for size in sizes]
    needed = word(8 * _HEAD)
    for size in rounded:
        needed = builder.add(needed, size)
    room_there = builder.mul(capacity, word(8))
    with builder.if_then(builder.icmp_signed(">", needed, room_there), likely=False):
        builder.ret(word(1))
    builder.store(part, _place(ir, builder, room, _PART))
    builder.store(count, _place(ir, builder, room, _COUNT))
    byte = ir.IntType(8).as_pointer()
    memcpy = module.declare_intrinsic("llvm.memcpy", [byte, byte, word])
    at = builder.add(room, word(8 * _HEAD))
    for k, (size, length) in enumerate(zip(sizes, rounded, strict=True)):
        builder.store(at, _place(ir, builder, room, _TABLE + k))
        places = [builder.inttoptr(one, byte) for one in (at, given(k))]
        builder.call(memcpy, [*places, size, ir.IntType(1)(0)])
        at = builder.add(at, length)
    builder.ret(word(0))


def _repeats(ir: Any, module: Any) -> None:
    """All calls of a step, step by step; not 0 if one failed, which is the last then."""
    word = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(word, [word] * 6), "ninepoint_repeat")
    calls, count, first, steps, crew, threads = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    failed = builder.alloca(word)
    builder.store(word(0), failed)
    begin = builder.append_basic_block()
    builder.branch(begin)
    builder.position_at_end(begin)

    def loop(length: Any) -> tuple[Any, Callable[[], None]]:
        """Begin a loop, which ends when something failed; its index, and what ends its body."""
        with builder.goto_entry_block():
            index = builder.alloca(word)
        builder.store(word(0), index)
        test, body, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(test)
        builder.position_at_end(test)
        more = builder.icmp_signed("<", builder.load(index), length)
        well = builder.icmp_signed("==", builder.load(failed), word(0))
        builder.cbranch(builder.and_(more, well), body, after)
        builder.position_at_end(body)

        def end() -> None:
            builder.store(builder.add(builder.load(index), word(1)), index)
            builder.branch(test)
            builder.position_at_end(after)

        return builder.load(index), end

    def note(result: Any) -> None:
        builder.store(builder.or_(builder.load(failed), result), failed)

    step, end_step = loop(steps)
    turn = builder.and_(builder.add(first, step), word(1))
    call, end_call = loop(count)
    one = builder.load(_place(ir, builder, calls, builder.add(builder.mul(turn, count), call)))
    lists = builder.load(_place(ir, builder, one, _COUNT))
    address = builder.load(_place(ir, builder, one, _PART))
    argument = builder.add(one, word(8 * _TABLE))
    several = builder.icmp_signed(">", lists, word(1))
    shared = builder.and_(several, builder.icmp_signed("!=", crew, word(0)))
    with builder.if_else(shared) as (among, alone):
        with among:
            do = builder.load(_place(ir, builder, crew, 0))
            kind = ir.FunctionType(word, [word] * 5)
            do = builder.inttoptr(do, kind.as_pointer())
            note(builder.call(do, [crew, threads, address, argument, lists]))
        with alone:
            part = builder.inttoptr(address, ir.FunctionType(word, [word] * 2).as_pointer())
            k, end = loop(lists)
            note(builder.call(part, [argument, k]))
            end()
    end_call()
    end_step()
    builder.ret(builder.load(failed))

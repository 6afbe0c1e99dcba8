"""Machine code that the package has besides that of kernels.

crew         threads that share the parts of a job (see `..threads`)
repeat       calls of machine code, kept and done again (see `..threads`)
allocator    memory for NumPy's arrays (see `..memory`)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from . import native
from .building import (
    INT,
    POINTER,
    WORD,
    begun,
    called,
    copy,
    forever,
    loop,
    pointer,
    put_word,
    variable,
    word,
    words_on,
)
from .native import FREE, HEAD, OWN, PLAIN

_NOTHING = ir.VoidType()

# A part of a job: what it is given, and its number; 0 if all went well.
_PART_TYPE = ir.FunctionType(WORD, [WORD, WORD]).as_pointer()

# What does a job: a crew, threads, the part, what it is given, and how many parts.
_DO_TYPE = ir.FunctionType(WORD, [WORD] * 5).as_pointer()


class Assembly:
    """Functions whose names begin with `ninepoint_`; they stay as long as this object."""

    def __init__(self, module: ir.Module) -> None:
        self._engine = native.compiler(str(module))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where the function begins that is called so."""
        return int(self._engine.get_function_address(f"ninepoint_{name}"))


def _begun(
    module: ir.Module, name: str, result: Any, *kinds: Any
) -> tuple[Any, Any, Sequence[Any]]:
    """A function, what writes it, and its arguments."""
    made, builder = begun(module, f"ninepoint_{name}", result, list(kinds))
    return made, builder, made.args


# A crew.

# Where the parts of a crew are [bytes].  What different threads write lies on lines of its own.
DO, SPIN = 0, 8
_PART, _ARGUMENT, _COUNT = 64, 72, 80
_GENERATION, _OPEN = 128, 136
_NEXT, _FAILED = 192, 200
_BUSY, _OWNED = 256, 264
_GATE, _WAKE, _DONE = 320, 448, 576
SIZE = 704


def crew() -> Assembly:
    """What begins a crew, what a member does all its life, and what does a job."""
    module = ir.Module("ninepoint.crew")
    _, b, (address,) = _begun(module, "begin", _NOTHING, WORD)
    here = _Crew(b, address)
    for name, offset in (("mutex", _GATE), ("cond", _WAKE), ("cond", _DONE)):
        called(b, f"pthread_{name}_init", INT, here.part(offset), POINTER(None))
    b.ret_void()
    work = _work(module)
    _member(module, work)
    _do(module, work)
    return Assembly(module)


class _Crew:
    """What functions do with the crew at an address."""

    def __init__(self, builder: Any, address: Any) -> None:
        self.b, self.address = builder, address

    def part(self, offset: int) -> Any:
        """The address of a part of the crew, for functions of C."""
        return self.b.bitcast(self.place(offset), POINTER)

    def place(self, offset: int) -> Any:
        return pointer(self.b, self.b.add(self.address, WORD(offset)))

    def get(self, offset: int) -> Any:
        """A word of the crew, as it is now."""
        return self.b.load_atomic(self.place(offset), "seq_cst", 8)

    def put(self, offset: int, value: Any) -> None:
        self.b.store_atomic(value, self.place(offset), "seq_cst", 8)

    def add(self, offset: int, value: int) -> Any:
        """Add to a word; what it was before."""
        return self.b.atomic_rmw("add", self.place(offset), WORD(value), "seq_cst")

    def changed(self, offset: int, before: Any, after: Any) -> Any:
        """Change a word, if it is what it was; whether it was."""
        place = self.place(offset)
        return self.b.extract_value(self.b.cmpxchg(place, before, after, "seq_cst", "seq_cst"), 1)

    def lock(self) -> None:
        called(self.b, "pthread_mutex_lock", INT, self.part(_GATE))

    def unlock(self) -> None:
        called(self.b, "pthread_mutex_unlock", INT, self.part(_GATE))

    def wake(self, how: str, condition: int) -> None:
        """Wake one or all of those that sleep."""
        self.lock()
        called(self.b, f"pthread_cond_{how}", INT, self.part(condition))
        self.unlock()

    def now(self, clock: Any) -> Any:
        """The time [ns]; `clock` is room for two words."""
        b = self.b
        called(b, "clock_gettime", INT, INT(time.CLOCK_MONOTONIC), b.bitcast(clock, POINTER))
        seconds, rest = (b.load(b.gep(clock, [INT(k)])) for k in range(2))
        return b.add(b.mul(seconds, WORD(1_000_000_000)), rest)

    def wait(self, offset: int, operator: str, value: Any, condition: int) -> None:
        """Wait until a comparison of a word holds: look for a moment, then sleep."""
        b = self.b
        clock = variable(b, WORD, count=2)
        end = b.add(self.now(clock), self.get(SPIN))
        done = b.append_basic_block()
        with forever(b) as look:
            with b.if_then(b.icmp_signed(operator, self.get(offset), value)):
                b.branch(done)
            look.leave_if(b.icmp_signed(">=", self.now(clock), end))
            called(b, "sched_yield", INT)
        self.lock()
        with forever(b) as sleep:
            sleep.leave_if(b.icmp_signed(operator, self.get(offset), value))
            called(b, "pthread_cond_wait", INT, self.part(condition), self.part(_GATE))
        self.unlock()
        b.branch(done)
        b.position_at_end(done)


def _work(module: ir.Module) -> Any:
    """Do parts of a job as long as there are any."""
    work, b, (address,) = _begun(module, "work", _NOTHING, WORD)
    here = _Crew(b, address)
    part, argument, count = (here.get(offset) for offset in (_PART, _ARGUMENT, _COUNT))
    part = b.inttoptr(part, _PART_TYPE)
    with forever(b) as parts:
        k = here.add(_NEXT, 1)
        parts.leave_if(b.icmp_signed(">=", k, count))
        failed = b.call(part, [argument, k])
        b.atomic_rmw("or", here.place(_FAILED), failed, "seq_cst")
    b.ret_void()
    return work


def _member(module: ir.Module, work: Any) -> None:
    """Wait for jobs, all life long."""
    _, b, (address,) = _begun(module, "member", POINTER, WORD)
    here = _Crew(b, address)
    seen = variable(b, WORD, WORD(0))
    with forever(b):
        here.wait(_GENERATION, "!=", b.load(seen), _WAKE)
        b.store(here.get(_GENERATION), seen)
        here.add(_BUSY, 1)
        # So many more may take part: who did not come before a job's end must leave it alone.
        with forever(b) as ask:
            more = here.get(_OPEN)
            ask.leave_if(b.icmp_signed("<=", more, WORD(0)))
            with b.if_then(here.changed(_OPEN, more, b.sub(more, WORD(1)))):
                b.call(work, [address])
                ask.leave()
        with b.if_then(b.icmp_signed("==", here.add(_BUSY, -1), WORD(1))):
            here.wake("signal", _DONE)
    b.unreachable()


def _do(module: ir.Module, work: Any) -> None:
    """Do a job: alone, if the crew does another one."""
    _, b, arguments = _begun(module, "do", WORD, WORD, WORD, _PART_TYPE, WORD, WORD)
    address, threads, part, argument, count = arguments
    here = _Crew(b, address)
    with b.if_then(b.not_(here.changed(_OWNED, WORD(0), WORD(1))), likely=False):
        failed = variable(b, WORD, WORD(0))
        with loop(b, count) as inside:
            result = b.call(part, [argument, inside.index])
            b.store(b.or_(b.load(failed), result), failed)
        b.ret(b.load(failed))
    for offset, value in (
        (_PART, b.ptrtoint(part, WORD)),
        (_ARGUMENT, argument),
        (_COUNT, count),
        (_NEXT, WORD(0)),
        (_FAILED, WORD(0)),
        (_OPEN, b.sub(threads, WORD(1))),
    ):
        here.put(offset, value)
    here.add(_GENERATION, 1)
    here.wake("broadcast", _WAKE)
    b.call(work, [address])
    here.put(_OPEN, WORD(0))
    here.wait(_BUSY, "==", WORD(0), _DONE)
    failed = here.get(_FAILED)
    here.put(_OWNED, WORD(0))
    b.ret(failed)


# Calls that are repeated.

# Words of a call that is kept: the function, where its table of arrays, its numbers and its lists
# of commands are, and how many lists.  A crew of nobody begins with its own function before that.
_FUNCTION, _TABLE, _VALUES, _LISTS, _HOW_MANY, HELD = 1, 2, 3, 4, 5, 6


def repeat() -> Assembly:
    """What keeps a call, and what does the calls of steps."""
    module = ir.Module("ninepoint.repeat")
    _hold(module)
    _repeat(module)
    return Assembly(module)


def _hold(module: ir.Module) -> None:
    """What stands in the place of a crew: notes down a job as the calls of a step need it.

    The job says how many bytes its table of arrays has, and its numbers (see the entries).
    """
    _, b, arguments = _begun(module, "hold", WORD, *[WORD] * 5)
    room, capacity, part, argument, count = arguments
    sizes = [word(b, argument, 3), word(b, argument, 4), b.mul(count, WORD(8))]
    # Each begins at a word.
    rounded = [b.and_(b.add(size, WORD(7)), WORD(-8)) for size in sizes]
    needed: Any = WORD(8 * HELD)
    for size in rounded:
        needed = b.add(needed, size)
    too_large = b.icmp_signed(">", needed, b.mul(capacity, WORD(8)))
    with b.if_then(too_large, likely=False):
        b.ret(WORD(1))
    put_word(b, room, _FUNCTION, part)
    put_word(b, room, _HOW_MANY, count)
    at = words_on(b, room, HELD)
    for k, (size, length) in enumerate(zip(sizes, rounded, strict=True)):
        put_word(b, room, _TABLE + k, at)
        target, source = (b.inttoptr(one, POINTER) for one in (at, word(b, argument, k)))
        copy(b, target, source, size)
        at = b.add(at, length)
    b.ret(WORD(0))


def _repeat(module: ir.Module) -> None:
    """All calls of a step, step by step; not 0 if one failed, which is the last then."""
    _, b, arguments = _begun(module, "repeat", WORD, *[WORD] * 6)
    calls, count, first, steps, crew, threads = arguments
    failed = variable(b, WORD, WORD(0))

    def note(result: Any) -> None:
        b.store(b.or_(b.load(failed), result), failed)

    def has_failed() -> Any:
        return b.icmp_signed("!=", b.load(failed), WORD(0))

    with loop(b, steps) as step:
        turn = b.and_(b.add(first, step.index), WORD(1))
        with loop(b, count) as call:
            one = word(b, calls, b.add(b.mul(turn, count), call.index))
            lists, address = word(b, one, _HOW_MANY), word(b, one, _FUNCTION)
            argument = words_on(b, one, _TABLE)
            several = b.icmp_signed(">", lists, WORD(1))
            shared = b.and_(several, b.icmp_signed("!=", crew, WORD(0)))
            with b.if_else(shared) as (among, alone):
                with among:
                    do = b.inttoptr(word(b, crew), _DO_TYPE)
                    note(b.call(do, [crew, threads, address, argument, lists]))
                with alone:
                    part = b.inttoptr(address, _PART_TYPE)
                    with loop(b, lists) as k:
                        note(b.call(part, [argument, k.index]))
                        k.leave_if(has_failed())
            call.leave_if(has_failed())
        step.leave_if(has_failed())
    b.ret(b.load(failed))


# The allocator.


def allocator() -> Assembly:
    """The four functions that NumPy calls, and one that changes what becomes of memory."""
    module = ir.Module("ninepoint.allocator")

    def place(b: Any, at: Any, k: int) -> Any:
        """A word of the head of the memory at a pointer."""
        return b.bitcast(b.gep(at, [WORD(8 * k - HEAD)]), WORD.as_pointer())

    def is_none(b: Any, at: Any) -> Any:
        return b.icmp_unsigned("==", at, POINTER(None))

    def headed(b: Any, base: Any, size: Any) -> Any:
        """Memory from `malloc` with a head."""
        with b.if_then(is_none(b, base), likely=False):
            b.ret(POINTER(None))
        after = b.add(b.ptrtoint(base, WORD), WORD(2 * HEAD - 1))
        at = b.inttoptr(b.and_(after, WORD(-HEAD)), POINTER)
        for k, value in enumerate((WORD(PLAIN), b.ptrtoint(base, WORD), WORD(0), size)):
            b.store(value, place(b, at, k))
        return at

    malloc, b, (context, size) = _begun(module, "malloc", POINTER, POINTER, WORD)
    slot = b.bitcast(context, WORD.as_pointer())
    given = b.atomic_rmw("xchg", slot, WORD(0), "seq_cst")
    with b.if_then(b.icmp_unsigned("!=", given, WORD(0))):
        b.ret(b.inttoptr(given, POINTER))
    b.ret(headed(b, called(b, "malloc", POINTER, b.add(size, WORD(2 * HEAD))), size))

    _, b, (_, count, size) = _begun(module, "calloc", POINTER, POINTER, WORD, WORD)
    base = called(b, "calloc", POINTER, b.add(count, WORD(2 * HEAD)), size)
    b.ret(headed(b, base, b.mul(count, size)))

    free, b, (_, at, _) = _begun(module, "free", _NOTHING, POINTER, POINTER, WORD)
    with b.if_then(is_none(b, at), likely=False):
        b.ret_void()
    base = b.inttoptr(b.load(place(b, at, 1)), POINTER)
    length = b.load(place(b, at, 2))
    state = b.atomic_rmw("xchg", place(b, at, 0), WORD(FREE), "seq_cst")
    with b.if_then(b.icmp_unsigned("==", state, WORD(OWN))):
        called(b, "munmap", INT, base, length)
    with b.if_then(b.icmp_unsigned("==", state, WORD(PLAIN))):
        called(b, "free", _NOTHING, base)
    b.ret_void()

    _, b, (context, at, size) = _begun(module, "realloc", POINTER, POINTER, POINTER, WORD)
    fresh = b.call(malloc, [context, size])
    with b.if_then(is_none(b, fresh), likely=False):
        b.ret(fresh)
    with b.if_then(b.not_(is_none(b, at))):
        capacity = b.load(place(b, at, 3))
        fewer = b.icmp_unsigned("<", capacity, size)
        copy(b, fresh, at, b.select(fewer, capacity, size))
        b.call(free, [context, at, WORD(0)])
    b.ret(fresh)

    _, b, (at, before, after) = _begun(module, "swap", WORD, WORD, WORD, WORD)
    slot = place(b, b.inttoptr(at, POINTER), 0)
    swapped = b.cmpxchg(slot, before, after, "seq_cst", "seq_cst")
    b.ret(b.extract_value(swapped, 0))
    return Assembly(module)

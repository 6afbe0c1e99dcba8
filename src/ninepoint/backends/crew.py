"""A crew: threads that wait in machine code, and share the parts of a job with who calls.

To hand work to threads that wait in Python takes 40 to 120 us: each must wake, and get the
interpreter's lock.  These hold no such lock and run no Python.  After a job they look for the next
one for a moment, and only then sleep.

A job is a function of machine code, `part(argument, k)`, which gives 0 if all went well, and how
many parts there are.  Who comes to a part first does it, the caller as well.  A crew does one job
at a time: who calls meanwhile does all parts alone.

In memory a crew begins with the address of the function that does jobs:

    do(crew, threads, part, argument, count)  ->  0 if all went well
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Any

from ..undisturbed import undisturbed
from .assembly import Assembly

# How long a thread looks for work, or for the end of work, before it sleeps [s].
SPIN = 50e-6

# Where the parts of a crew are.  What different threads write lies on lines of its own.
_DO, _SPIN = 0, 8
_PART, _ARGUMENT, _COUNT = 64, 72, 80
_GENERATION, _OPEN = 128, 136
_NEXT, _FAILED = 192, 200
_BUSY, _OWNED = 256, 264
_GATE, _WAKE, _DONE = 320, 448, 576
_SIZE = 704


class Crew:
    """Threads for jobs; there are as many as were ever asked for."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._count = 0
        self._address = 0
        self._member = 0

    def address(self, threads: int) -> int:
        """The crew for a job of so many threads, the caller's among them; 0 if there is none."""
        if self._count + 1 < threads or not self._address:
            undisturbed(lambda: self._grow(threads))
        return self._address

    def _grow(self, threads: int) -> None:
        with self._gate:
            if sys.platform == "win32":
                return
            if not self._address:
                self._begin()
            process = ctypes.CDLL(None)
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                while self._count + 1 < threads:
                    thread = ctypes.c_void_p()
                    function, crew = ctypes.c_void_p(self._member), ctypes.c_void_p(self._address)
                    if process.pthread_create(ctypes.byref(thread), None, function, crew):
                        # There are too many threads already: the job is shared among fewer.
                        break
                    process.pthread_detach(thread)
                    self._count += 1
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            # With more threads than cores, to look for work takes time from who does it.
            spin = SPIN if self._count < _cores() else 0.0
            ctypes.c_int64.from_address(self._address + _SPIN).value = int(spin * 1e9)

    def _begin(self) -> None:
        assembly = _assembly()
        memory = ctypes.create_string_buffer(_SIZE + 64)
        # Threads stay until the process ends, after the interpreter has.
        for one in (assembly, memory):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
        address = -(-ctypes.addressof(memory) // 64) * 64
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(assembly.address("begin"))(address)
        ctypes.c_int64.from_address(address + _DO).value = assembly.address("do")
        self._member, self._address = assembly.address("member"), address


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Writer:
    """Writes the functions of a crew."""

    def __init__(self) -> None:
        from llvmlite import ir

        self.ir = ir
        self.word, self.number = ir.IntType(64), ir.IntType(32)
        self.byte = ir.IntType(8).as_pointer()
        self.module = ir.Module("ninepoint.crew")
        self.builder: Any = None
        self.crew: Any = None
        self.outside: dict[str, Any] = {}

    def begin(self, name: str, result: Any, *arguments: Any) -> Any:
        """Begin a function, whose first argument is a crew's address."""
        kind = self.ir.FunctionType(result, arguments)
        function = self.ir.Function(self.module, kind, f"ninepoint_{name}")
        self.builder = self.ir.IRBuilder(function.append_basic_block())
        self.crew = function.args[0]
        return function

    def call(self, name: str, result: Any, *values: Any) -> Any:
        """Call a function of C."""
        if name not in self.outside:
            kind = self.ir.FunctionType(result, [value.type for value in values])
            self.outside[name] = self.ir.Function(self.module, kind, name)
        return self.builder.call(self.outside[name], values)

    def part(self, offset: int) -> Any:
        """The address of a part of the crew, for functions of C."""
        address = self.builder.add(self.crew, self.word(offset))
        return self.builder.inttoptr(address, self.byte)

    def place(self, offset: int) -> Any:
        address = self.builder.add(self.crew, self.word(offset))
        return self.builder.inttoptr(address, self.word.as_pointer())

    def get(self, offset: int) -> Any:
        """A word of the crew, as it is now."""
        return self.builder.load_atomic(self.place(offset), "seq_cst", 8)

    def put(self, offset: int, value: Any) -> None:
        self.builder.store_atomic(value, self.place(offset), "seq_cst", 8)

    def add(self, offset: int, value: int) -> Any:
        """Add to a word; what it was before."""
        return self.builder.atomic_rmw("add", self.place(offset), self.word(value), "seq_cst")

    def is_equal(self, one: Any, other: Any) -> Any:
        return self.builder.icmp_signed("==", one, other)

    def loop(self) -> tuple[Any, Any]:
        """Begin a loop; its first block, and the one behind it."""
        first, after = (self.builder.append_basic_block() for _ in range(2))
        self.builder.branch(first)
        self.builder.position_at_end(first)
        return first, after

    def end(self, first: Any, after: Any) -> None:
        """End a loop."""
        self.builder.branch(first)
        self.builder.position_at_end(after)

    def leave_if(self, test: Any, after: Any) -> None:
        """Leave a loop."""
        on = self.builder.append_basic_block()
        self.builder.cbranch(test, after, on)
        self.builder.position_at_end(on)

    def lock(self) -> None:
        self.call("pthread_mutex_lock", self.number, self.part(_GATE))

    def unlock(self) -> None:
        self.call("pthread_mutex_unlock", self.number, self.part(_GATE))

    def now(self, clock: Any) -> Any:
        """The time [ns]; `clock` is room for two words."""
        builder = self.builder
        room = builder.bitcast(clock, self.byte)
        self.call("clock_gettime", self.number, self.number(time.CLOCK_MONOTONIC), room)
        seconds, rest = (builder.load(builder.gep(clock, [self.number(k)])) for k in range(2))
        return builder.add(builder.mul(seconds, self.word(1_000_000_000)), rest)

    def wait(self, offset: int, value: Any, differs: bool, condition: int) -> None:
        """Wait until a word differs from a value, or is it: look for a moment, then sleep."""
        builder = self.builder
        operator = "!=" if differs else "=="
        with builder.goto_entry_block():
            clock = builder.alloca(self.word, 2)
        end = builder.add(self.now(clock), self.get(_SPIN))
        done = builder.append_basic_block()
        first, sleep = self.loop()
        self.leave_if(builder.icmp_signed(operator, self.get(offset), value), done)
        self.leave_if(builder.icmp_signed(">=", self.now(clock), end), sleep)
        self.call("sched_yield", self.number)
        self.end(first, sleep)
        self.lock()
        first, after = self.loop()
        self.leave_if(builder.icmp_signed(operator, self.get(offset), value), after)
        places = self.part(condition), self.part(_GATE)
        self.call("pthread_cond_wait", self.number, *places)
        self.end(first, after)
        self.unlock()
        builder.branch(done)
        builder.position_at_end(done)


def _assembly() -> Assembly:
    """What begins a crew, what a member does all its life, and what does a job."""
    writer = _Writer()
    ir, word = writer.ir, writer.word

    writer.begin("begin", ir.VoidType(), word)
    nothing = ir.Constant(writer.byte, None)
    for name, offset in (("mutex", _GATE), ("cond", _WAKE), ("cond", _DONE)):
        writer.call(f"pthread_{name}_init", writer.number, writer.part(offset), nothing)
    writer.builder.ret_void()

    work = writer.begin("work", ir.VoidType(), word)
    builder = writer.builder
    kind = ir.FunctionType(word, [word, word]).as_pointer()
    part, argument, count = (writer.get(offset) for offset in (_PART, _ARGUMENT, _COUNT))
    part = builder.inttoptr(part, kind)
    first, after = writer.loop()
    k = writer.add(_NEXT, 1)
    writer.leave_if(builder.icmp_signed(">=", k, count), after)
    failed = builder.call(part, [argument, k])
    builder.atomic_rmw("or", writer.place(_FAILED), failed, "seq_cst")
    writer.end(first, after)
    builder.ret_void()

    # A member of the crew.
    writer.begin("member", writer.byte, word)
    builder = writer.builder
    seen = builder.alloca(word)
    builder.store(word(0), seen)
    life = builder.append_basic_block()
    builder.branch(life)
    builder.position_at_end(life)
    writer.wait(_GENERATION, builder.load(seen), True, _WAKE)
    builder.store(writer.get(_GENERATION), seen)
    writer.add(_BUSY, 1)
    # So many more may take part: who did not come before a job's end must leave it alone.
    first, after = writer.loop()
    open_ = writer.get(_OPEN)
    writer.leave_if(builder.icmp_signed("<=", open_, word(0)), after)
    fewer = builder.sub(open_, word(1))
    taken = builder.cmpxchg(writer.place(_OPEN), open_, fewer, "seq_cst", "seq_cst")
    with builder.if_then(builder.extract_value(taken, 1)):
        builder.call(work, [writer.crew])
        builder.branch(after)
    writer.end(first, after)
    with builder.if_then(writer.is_equal(writer.add(_BUSY, -1), word(1))):
        writer.lock()
        writer.call("pthread_cond_signal", writer.number, writer.part(_DONE))
        writer.unlock()
    builder.branch(life)

    do = writer.begin("do", word, word, word, kind, word, word)
    builder = writer.builder
    _, threads, part, argument, count = do.args
    owned = builder.cmpxchg(writer.place(_OWNED), word(0), word(1), "seq_cst", "seq_cst")
    with builder.if_then(builder.not_(builder.extract_value(owned, 1)), likely=False):
        entry = builder.block
        first, after = writer.loop()
        k, failed = builder.phi(word), builder.phi(word)
        for phi in (k, failed):
            phi.add_incoming(word(0), entry)
        writer.leave_if(builder.icmp_signed(">=", k, count), after)
        more = builder.or_(failed, builder.call(part, [argument, k]))
        for phi, value in ((k, builder.add(k, word(1))), (failed, more)):
            phi.add_incoming(value, builder.block)
        writer.end(first, after)
        builder.ret(failed)
    for offset, value in (
        (_PART, builder.ptrtoint(part, word)),
        (_ARGUMENT, argument),
        (_COUNT, count),
        (_NEXT, word(0)),
        (_FAILED, word(0)),
        (_OPEN, builder.sub(threads, word(1))),
    ):
        writer.put(offset, value)
    writer.add(_GENERATION, 1)
    writer.lock()
    writer.call("pthread_cond_broadcast", writer.number, writer.part(_WAKE))
    writer.unlock()
    builder.call(work, [writer.crew])
    writer.put(_OPEN, word(0))
    writer.wait(_BUSY, word(0), False, _DONE)
    failed = writer.get(_FAILED)
    writer.put(_OWNED, word(0))
    builder.ret(failed)
    return Assembly(str(writer.module))

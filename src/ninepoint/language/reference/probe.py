"""Probes: stand-ins for numbers that remember which neighbours they came from.

A kernel run on probes computes nothing, but tells what its outputs depend on.  Where it
asks whether a probe is true, the run forks: `outcomes` plays every answer, depth first,
and joins the results.  An output that is the same after both answers does not depend on
the question; one that differs depends on it and on both results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .number import Operand, elsewhere, plain

RUNS = 400  # whole paths explored; afterwards each question is answered one way only
QUESTIONS = 300  # on one path: more than this is a loop that waits for data


class Trace:
    """What is shared by the probes of one kernel: their identities and the path taken."""

    def __init__(self) -> None:
        self.ids: dict[Any, int] = {}
        self.loose: frozenset[Any] = frozenset()
        self.plan: tuple[bool, ...] = ()
        self.taken: list[tuple[Probe, bool]] = []
        self.known: dict[int, bool] = {}
        self.runs = 0
        # Whether the kernel asked where it is.
        self.placed = False

    def probe(self, *key: Any, taint: frozenset[Any] = frozenset(), value: Any = None) -> Probe:
        """The probe for an expression; equal expressions are one."""
        return Probe(self, self.ids.setdefault(key, len(self.ids)), taint, value)

    def join(self, name: Any, *arguments: Any) -> Probe:
        """The probe for a function of probes and numbers."""
        parts = [item if isinstance(item, Probe) else self.constant(item) for item in arguments]
        taint = frozenset[Any]().union(*(part.taint for part in parts))
        return self.probe(name, *(part.id for part in parts), taint=taint)

    def constant(self, value: Any) -> Probe:
        return self.probe("constant", type(plain(value)), repr(plain(value)))

    def answer(self, question: Probe) -> bool:
        """The truth of `question` on this path."""
        if not question.taint and question.value is not None:
            question = self.probe("truth", question.id)
        if question.id in self.known:
            return self.known[question.id]
        position = len(self.taken)
        if position >= QUESTIONS:
            raise TypeError("cannot tell which neighbours are read: give `neighborhood`")
        answer = self.plan[position] if position < len(self.plan) else True
        self.taken.append((question, answer))
        self.known[question.id] = answer
        return answer


class Probe(Operand):
    """A number that is not known, and the offsets that it was computed from."""

    __slots__ = ("id", "taint", "trace", "value")
    __iter__ = None

    def __init__(self, trace: Trace, number: int, taint: frozenset[Any], value: Any) -> None:
        self.trace, self.id, self.taint, self.value = trace, number, taint, value

    def combine(self, symbol: str, left: Any, right: Any, other: Any) -> Any:
        if hasattr(other, "blank"):  # a window
            return NotImplemented
        return self.trace.join(symbol, left, right)

    def change(self, symbol: str) -> Probe:
        return self.trace.join(symbol, self)

    def __round__(self, digits: Any = None) -> Probe:
        return self.trace.join("round", self, digits)

    def __floor__(self) -> Probe:
        return self.trace.join("floor", self)

    def __getitem__(self, index: Any) -> Any:
        return elsewhere.get()(self, index)

    def __bool__(self) -> bool:
        return self.trace.answer(self)

    def __repr__(self) -> str:
        return f"<unknown, from {sorted(self.taint)}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __hash__(self) -> int:
        return self.id

    def __float__(self) -> float:
        self.trace.loose |= self.taint
        return float(1 if self.value is None else self.value)

    def __index__(self) -> int:
        if self.taint:
            raise TypeError("cannot tell which neighbours are read: give `neighborhood`")
        return int(1 if self.value is None else self.value)

    def __int__(self) -> int:
        self.trace.loose |= self.taint
        return int(1 if self.value is None else self.value)

    def __complex__(self) -> complex:
        return complex(float(self))

    @property
    def real(self) -> Probe:
        return self.trace.join("real", self)

    @property
    def imag(self) -> Probe:
        return self.trace.join("imag", self)

    def conjugate(self) -> Probe:
        return self.trace.join("conjugate", self)


def probe_among(items: Iterable[Any]) -> Probe | None:
    """The first of the items that is a probe."""
    return next((item for item in items if isinstance(item, Probe)), None)


def outcomes(
    trace: Trace, run: Callable[[], tuple[Any, ...]], plan: tuple[bool, ...] = ()
) -> tuple[Probe, ...]:
    """The outputs of `run`, joined over all paths that begin with the answers of a plan."""
    trace.plan, trace.taken, trace.known = plan, [], {}
    trace.runs += 1
    result: tuple[Probe, ...] = tuple(trace.join("output", output) for output in run())
    taken = trace.taken
    for position in reversed(range(len(plan), len(taken))):
        question = taken[position][0]
        turned = (*(answer for _, answer in taken[:position]), False)
        other = (outcomes if trace.runs < RUNS else _straight)(trace, run, turned)
        if len(other) != len(result):
            raise TypeError(f"the kernel returns {len(result)} or {len(other)} values")
        result = tuple(_merged(trace, question, a, b) for a, b in zip(result, other, strict=True))
    return result


def _straight(
    trace: Trace, run: Callable[[], tuple[Any, ...]], plan: tuple[bool, ...]
) -> tuple[Probe, ...]:
    """One path only; whatever was asked on it may have changed every output."""
    trace.plan, trace.taken, trace.known = plan, [], {}
    outputs = run()
    asked = [question for question, _ in trace.taken]
    return tuple(trace.join("unknown", output, *asked) for output in outputs)


def _merged(trace: Trace, question: Probe, then: Probe, other: Probe) -> Probe:
    return then if then.id == other.id else trace.join("select", question, then, other)

"""What holds of every module of the loop language, whoever made it.

    let t1 = t0 + 1.0    where t0 is an int32     ->      AssertionError: t1: + of int32, float64
    x_0[j, 0] = t1       where x_0 has one axis   ->      AssertionError: x_0: 2 indices, 1 axes

A module that breaks one of these is wrong, even where the numbers happen to be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

import numpy as np

from ninepoint.loops import nodes as n
from ninepoint.loops.nodes import BITS, COMPARISONS, FLOATS, PARTS, QUESTIONS

_TYPES = frozenset({"bool", *BITS, *FLOATS, *PARTS})


def verify(module: n.Module) -> None:
    """Raise `AssertionError` for what no module may be."""
    names = [one.name for one in module.functions]
    assert len(set(names)) == len(names), f"two functions have one name: {names}"
    for function in module.functions:
        _Check(module, function).function()


class _Check:
    """Looks at one function; names are known in the block that binds them, and inside."""

    def __init__(self, module: n.Module, function: n.Function) -> None:
        self.module, self.of = module, function
        self.values: dict[str, str] = {}
        self.variables: set[str] = set()
        self.bound: set[str] = set()
        self.loops = 0
        self.arrays: dict[str, n.Array] = {
            name: n.Array(table.dtype.name, table.ndim, name, dense=True)
            for name, table in module.tables
        }

    def function(self) -> None:
        for parameter in self.of.parameters:
            if isinstance(parameter, n.Array):
                self._bind_array(parameter)
            else:
                self._bind(parameter.name, parameter.type)
        self._block(self.of.body)

    def _bind(self, name: str, machine: str) -> None:
        assert machine in _TYPES, f"{name}: no type {machine!r}"
        assert name not in self.bound, f"{name} is bound twice in {self.of.name}"
        self.bound.add(name)
        self.values[name] = machine

    def _bind_array(self, array: n.Array) -> None:
        assert array.element in _TYPES, f"{array.name}: no type {array.element!r}"
        assert array.name not in self.bound, f"{array.name} is bound twice in {self.of.name}"
        self.bound.add(array.name)
        self.arrays[array.name] = array

    # Statements.

    @contextmanager
    def _scope(self) -> Iterator[None]:
        before = self.values.copy(), self.arrays.copy()
        yield
        self.values, self.arrays = before

    def _block(self, statements: Sequence[n.Statement]) -> None:
        for one in statements:
            self._statement(one)

    def _statement(self, node: n.Statement) -> None:
        match node:
            case n.Let(name, value):
                self._bind(name, self._value(value))
            case n.Variable(name, value):
                self._bind(name, self._value(value))
                self.variables.add(name)
            case n.Assign(name, value):
                found = self._value(value)
                assert name in self.variables, f"{name} is no variable"
                assert name in self.values, f"{name} is not known here"
                self._same(name, self.values[name], found)
            case n.Store(array, index, value):
                self._element(array, index)
                self._same(array.name, array.element, self._value(value))
            case n.View():
                self._view(node)
            case n.Alloc(array, shape):
                self._index(array, shape)
                assert array.dense, f"{array.name}: new memory is dense"
                self._bind_array(array)
            case n.For(index, start, stop, body, step):
                self._word(index, start)
                self._word(index, stop)
                assert step > 0, f"{index}: a step of {step}"
                with self._loop():
                    self._bind(index, "int64")
                    self._block(body)
            case n.While(head, test, body):
                with self._loop():
                    self._block(head)
                    self._truth(test)
                    self._block(body)
            case n.If(test, then, other):
                self._truth(test)
                for body in (then, other):
                    with self._scope():
                        self._block(body)
            case n.Break():
                assert self.loops, "no loop is left"
            case n.Return(value):
                self._same(self.of.name, self.of.result, self._value(value))
            case n.Call():
                self._value(node)
            case _:
                assert_never(node)

    @contextmanager
    def _loop(self) -> Iterator[None]:
        self.loops += 1
        with self._scope():
            yield
        self.loops -= 1

    def _view(self, node: n.View) -> None:
        of, array = self._known(node.of), node.array
        for one in node.index:
            self._word(array.name, one)
        if node.first is not None:
            self._word(array.name, node.first)
        left = of.ndim - len(node.index)
        assert left == array.ndim, f"{array.name}: {left} axes are left of {of.name}"
        same = np.dtype(of.element).itemsize == array.itemsize
        assert same, f"{array.name}: elements of another size than those of {of.name}"
        self._bind_array(array)

    # Values.

    def _value(self, node: n.Value) -> str:
        """Look at a value; its type."""
        assert node.type in _TYPES or isinstance(node, n.Call), f"no type {node.type!r}"
        match node:
            case n.Name(machine, name):
                assert name in self.values, f"{name} is not known here"
                self._same(name, self.values[name], machine)
            case n.Number(machine, value):
                kept = np.asarray(value).astype(machine)
                assert value != value or kept == value, f"{value!r} is no {machine}"
            case n.Op():
                self._operation(node)
            case n.Load(array, index):
                self._element(array, index)
            case n.Size(array, axis):
                assert 0 <= axis < self._known(array).ndim, f"{array.name}: no axis {axis}"
            case n.Call():
                self._call(node)
            case _:
                assert_never(node)
        return node.type

    def _operation(self, node: n.Op) -> None:
        types = [self._value(arg) for arg in node.args]
        told = f"{node.op} of {', '.join(types)} is no {node.type}"
        match node.op:
            case "to":
                assert len(types) == 1, told
            case "select":
                assert types == ["bool", node.type, node.type], told
            case "complex":
                assert types == [PARTS[node.type]] * 2, told
            case "real" | "imag":
                assert node.type == PARTS[types[0]], told
            case "bits":
                sizes = {np.dtype(one).itemsize for one in (*types, node.type)}
                assert len(sizes) == 1, told
            case "half" | "unhalf":
                given = ["uint16", "float32"]
                assert [*types, node.type] == given[:: 1 if node.op == "unhalf" else -1], told
            case "popcount":
                assert types == ["uint64"], told
                assert node.type in BITS, told
            case _ if node.op in COMPARISONS or node.op in QUESTIONS:
                assert node.type == "bool", told
                assert len(set(types)) == 1, told
            case _:
                assert {*types} == {node.type}, told
        if node.exact:
            known = node.type in BITS and node.op in ("+", "-", "*")
            assert known, f"{node.op} of {node.type} is never exact"

    def _call(self, node: n.Call) -> None:
        function = self.module.function(node.function)
        self._same(function.name, function.result, node.type)
        for arg, parameter in zip(node.args, function.parameters, strict=True):
            place = f"{parameter.name} of {function.name}"
            if isinstance(parameter, n.Array):
                assert isinstance(arg, n.Array), f"{place}: no array"
                array = self._known(arg)
                self._same(place, parameter.element, array.element)
                assert parameter.ndim == array.ndim, f"{place}: {array.ndim} axes"
                assert array.dense or not parameter.dense, f"{place}: not dense"
            else:
                assert not isinstance(arg, n.Array), f"{place}: an array"
                self._same(place, parameter.type, self._value(arg))

    # Arrays.

    def _known(self, array: n.Array) -> n.Array:
        assert self.arrays.get(array.name) == array, f"{array.name} is not known here as {array}"
        return array

    def _element(self, array: n.Array, index: Sequence[n.Value]) -> None:
        self._index(self._known(array), index)

    def _index(self, array: n.Array, index: Sequence[n.Value]) -> None:
        assert len(index) == array.ndim, f"{array.name}: {len(index)} indices, {array.ndim} axes"
        for one in index:
            self._word(array.name, one)

    def _word(self, place: str, value: n.Value) -> None:
        self._same(place, "int64", self._value(value))

    def _truth(self, value: n.Value) -> None:
        self._same("a test", "bool", self._value(value))

    def _same(self, place: str, wanted: str, found: str) -> None:
        assert wanted == found, f"{place}: {found or 'nothing'}, not {wanted or 'nothing'}"

"""Each process goes on with a part of the state: what all have together is the state."""

import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import ninepoint as npt
from compared import refuses, same
from own_process import on_threads


@npt.stencil(boundary="nearest")
def driven(u, amplitude=0.0):
    return (u[-1] + u[0] + u[2]) / 3 + amplitude


@npt.stencil
def placed(u):
    return u[-1] / 2 + u[1] / 4 + npt.index()


@pytest.mark.parametrize(("driven", "size", "n", "rule"), [
    (driven, 3, 5, "wrap"), (driven, 4, 3, "nearest"), (driven, 3, 40, "keep"),
    (placed, 3, 50, "wrap"), (placed, 3, 50, "fill"),
])  # fmt: skip
def test_parts_together_are_the_state(driven, size, n, rule):
    u = np.random.default_rng(n).random(n)
    options = {"steps": 11, "boundary": rule, "threads": 1}
    made = on_threads(
        size, lambda comm: driven.iterate(npt.distribute(u, comm), **options, comm=comm)
    )
    same(np.concatenate(made), driven.iterate(u, **options))

    def told(comm):
        return driven.iterate.explain(npt.distribute(u, comm), **options, comm=comm)

    assert all(text.startswith("Give each process ") for text in on_threads(size, told))


def test_until_callback_scalars_and_out():
    u = np.random.default_rng(0).random(50)
    seen: list = [[], [], []]
    options = {"steps": 400, "until": 1e-3, "every": 7, "amplitude": lambda step: 1 / (step + 1)}

    def part(comm):
        mine, told = npt.distribute(u, comm), seen[comm.Get_rank()]

        def change(step, state):
            told.append((step, state.copy()))
            state[0] = 1

        assert driven.iterate(mine, callback=change, **options, comm=comm, out=mine) is mine
        return mine

    made = np.concatenate(on_threads(3, part))
    ends = np.cumsum([0, *(len(told[0][1]) for told in seen[:2])])
    whole: list = []

    def look(step, state):
        whole.append((step, state.copy()))
        state[ends] = 1

    same(made, driven.iterate(u, callback=look, **options))
    for parts, (step, state) in zip(zip(*seen, strict=True), whole, strict=True):
        assert {one for one, _ in parts} == {step}
        same(np.concatenate([one for _, one in parts]), state)


@pytest.mark.parametrize(("words", "name", "values"), [
    ("has steps= ., and process . has", "steps", [4, 3]),
    ("has the types|process . of 2: 'driven' gives", "u", [np.zeros(9), np.zeros(9, "f4")]),
    ("process 1 of 2: 'driven' gives float64", "u", [np.zeros(9), np.zeros(9, "int32")]),
    ("stencil and numbers", "amplitude", [1.0, 2.0]),
])  # fmt: skip
def test_parts_that_do_not_go_together(words, name, values):
    def part(comm):
        given = {"u": np.zeros(9), "steps": 3} | {name: values[comm.Get_rank()]}
        refuses(ValueError, words, driven.iterate, **given, comm=comm)

    on_threads(2, part)


def test_what_is_no_communicator_and_no_axis():
    refuses(TypeError, "communicator of mpi4py", driven.iterate, np.zeros(9), steps=1, comm=3)
    refuses(ValueError, "axis=2 does not exist", npt.distribute, np.zeros(3), None, axis=2)


SCRIPT = """
import numpy as np
from mpi4py import MPI
import ninepoint as npt

@npt.stencil(boundary="wrap")
def drift(u, c=0.5):
    return u[0, 0] + c * (u[-2, 0] - u[0, 1])

u = np.random.default_rng(0).random((21, 8))
local = npt.distribute(u, MPI.COMM_WORLD)
local = drift.iterate(local, steps=40, until=1e-9, every=10, comm=MPI.COMM_WORLD)
parts = MPI.COMM_WORLD.gather(local)
if parts:
    wanted = drift.iterate(u, steps=40, until=1e-9, every=10)
    np.testing.assert_array_equal(np.concatenate(parts), wanted)
    print("equal", len(parts))
"""


def test_processes_of_mpi(tmp_path):
    run = shutil.which("mpiexec", path=f"{sys.prefix}/bin") or shutil.which("mpiexec")
    if run is None or find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and an MPI")
    script = tmp_path / "drift.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [run, "-n", "2", sys.executable, script], capture_output=True, text=True, timeout=300
    )
    assert "equal 2" in done.stdout, done.stderr


far = npt.stencil(lambda x: x[2, 0] * 3, boundary="mirror")


@npt.stencil(boundary="mirror")
def with_far(u, x):
    y = far(x)
    return u[0, 0] + y[1, 0] + y[2, 1]


@npt.stencil(boundary="mirror")
def with_far_before(u, x):
    y = far(x)
    return u[0, 0] + y[-3, 0] + y[-4, -1]


@pytest.mark.parametrize(("step", "ranks"), [(with_far, 2), (with_far_before, 3)])
def test_stages_that_look_to_one_side_are_mirrored(step, ranks):
    u, x = np.zeros((15, 3)), np.arange(45.0).reshape(15, 3) ** 2

    def part(comm):
        return step.iterate(npt.distribute(u, comm), npt.distribute(x, comm), steps=2, comm=comm)

    same(np.concatenate(on_threads(ranks, part)), step.iterate(u, x, steps=2))

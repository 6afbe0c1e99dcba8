"""Each process goes on with a part of the state: what all have together is the state."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import ninepoint as npt
from threads_comm import on_threads


@npt.stencil(boundary="wrap")
def wave(u, before, speed):
    around = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]
    return 2 * u[0, 0] - before[0, 0] + speed[0, 0] * (around - 4 * u[0, 0]), u[0, 0]


@npt.stencil(boundary="nearest")
def driven(u, amplitude=0.0):
    return (u[-1] + u[0] + u[2]) / 3 + amplitude


def image(rows, columns=9):
    return np.random.default_rng(rows).random((rows, columns))


@pytest.mark.parametrize(
    ("size", "rows", "rule"),
    [
        (3, 5, "wrap"),
        (2, 40, "keep"),
        (4, 3, "nearest"),
        (3, 40, [("constant", "nearest"), "mirror"]),
    ],
)
def test_parts_together_are_the_state(size, rows, rule):
    u, speed = image(rows), image(rows) / 8

    def part(comm):
        mine = npt.distribute(u, comm), npt.distribute(u, comm), npt.distribute(speed, comm)
        return wave.iterate(*mine, steps=11, boundary=rule, cval=2, comm=comm, threads=1)

    made = on_threads(size, part)
    for k, wanted in enumerate(wave.iterate(u, u, speed, steps=11, boundary=rule, cval=2)):
        np.testing.assert_array_equal(np.concatenate([one[k] for one in made]), wanted)


def test_until_callback_scalars_and_out():
    u = image(50)[:, 0].copy()
    seen: list = [[], [], []]

    def change(told, step, state):
        told.append((step, state.copy()))
        state[0] = 1

    options = {"steps": 400, "until": 1e-3, "every": 7}

    def amplitude(step):
        return 1 / (step + 1)

    def part(comm):
        mine, told = npt.distribute(u, comm), seen[comm.Get_rank()]
        look = lambda step, state: change(told, step, state)  # noqa: E731
        out = driven.iterate(mine, amplitude, callback=look, **options, comm=comm, out=mine)
        assert out is mine
        return out

    made = np.concatenate(on_threads(3, part))
    ends = np.cumsum([0, *(len(told[0][1]) for told in seen[:2])])
    whole: list = []

    def look(step, state):
        whole.append((step, state.copy()))
        state[ends] = 1

    np.testing.assert_array_equal(made, driven.iterate(u, amplitude, callback=look, **options))
    assert [step for step, _ in seen[1]] == [step for step, _ in whole]
    for parts, (_, state) in zip(zip(*seen, strict=True), whole, strict=True):
        np.testing.assert_array_equal(np.concatenate([one for _, one in parts]), state)


def test_parts_that_do_not_go_together():
    def refused(words, **others):
        def part(comm):
            rank = comm.Get_rank()
            mine = {name: values[rank] for name, values in others.items()}
            given = {"u": np.zeros(9), "steps": 3} | mine
            with pytest.raises(ValueError, match=words):
                driven.iterate(**given, comm=comm)

        on_threads(2, part)

    refused("has steps= ., and process . has", steps=[4, 3])
    refused(
        "has the types .* and process|process . of 2: 'driven' gives",
        u=[np.zeros(9), np.zeros(9, "f4")],
    )
    refused("process 1 of 2: 'driven' gives float64", u=[np.zeros(9), np.zeros(9, "int32")])
    refused("stencil and numbers", amplitude=[1.0, 2.0])
    with pytest.raises(TypeError, match="communicator of mpi4py"):
        driven.iterate(np.zeros(9), steps=1, comm=3)
    with pytest.raises(ValueError, match="axis=2 does not exist"):
        npt.distribute(np.zeros(3), None, axis=2)


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


@npt.stencil(boundary="mirror")
def far(x):
    return x[2, 0] * 3


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
        own = [npt.distribute(one, comm, axis=0) for one in (u, x)]
        return step.iterate(*own, steps=2, comm=comm)

    found = np.concatenate(on_threads(ranks, part))
    np.testing.assert_array_equal(found, step.iterate(u, x, steps=2))

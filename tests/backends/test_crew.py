"""Threads that wait in machine code: each part is done once, whoever asks for it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.arrays.borders import Boundary
from ninepoint.arrays.commands import Machine, Part, commands
from ninepoint.arrays.layout import layout
from ninepoint.backends.crew import Crew
from ninepoint.backends.llvm import native
from ninepoint.backends.threads import run_parts
from ninepoint.language.box import Box

pytestmark = pytest.mark.skipif(
    not native.possible() or sys.platform == "win32", reason="machine code is not called so here"
)


def scaled(x, r):
    return x[0] * r + x[1]


@pytest.fixture
def entry():
    definition = npt.stencil(scaled).definition
    bound = definition.compiled([np.dtype("float64")], {"r": 2.0})[0]
    return bound.entry


def lists_of(field, count):
    """Lists of commands for so many parts of a row."""
    reach = Box((0,), (1,))
    plan = layout(field.shape[1:], (reach,), Boundary.of("valid").on(1))
    machine = Machine((8, 8), 1, (b"", b""), True, 0)
    edges = [plan.computed.stop[0] * k // count for k in range(count + 1)]
    return [commands(plan, machine, Part(0, 1, *pair)) for pair in itertools.pairwise(edges)]


def expected(field):
    return field[:, :-1] * 2.5 + field[:, 1:]


def row(length):
    return np.random.default_rng(length).random((1, length + 1)), np.full((1, length), np.nan)


@pytest.mark.parametrize("threads", [2, 3, 9])
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_each_part_is_done(entry, threads, count):
    field, out = row(1000)
    run_parts(entry, native.together(entry), (field, out, 2.5), lists_of(field, count), threads)
    np.testing.assert_array_equal(out, expected(field))


def test_others_than_the_caller_take_parts(entry):
    field, out = row(4_000_000)
    crew = Crew()
    lists = lists_of(field, 64)
    together = native.together(entry)
    end = time.monotonic() + 60
    while True:
        # The time of this thread and that of the process: the rest was spent by others.
        before = time.process_time() - time.thread_time()
        together(crew.address(2), 2, field, out, 2.5, *lists)
        if time.process_time() - time.thread_time() - before > 0.001:
            break
        assert time.monotonic() < end
    np.testing.assert_array_equal(out, expected(field))


def test_nobody_works_while_there_is_no_work(entry):
    field, out = row(1000)
    run_parts(entry, native.together(entry), (field, out, 2.5), lists_of(field, 8), 8)
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_what_is_no_argument_is_refused_before_anything_runs(entry):
    field, out = row(100)
    together = native.together(entry)
    crew = Crew().address(2)
    told = lists_of(field, 2)
    narrow = field.astype("float32")
    for bad in ((narrow, out, 2.5), (field, out, "two"), (field, out), (field, out, 2.5, field)):
        with pytest.raises(TypeError):
            together(crew, 2, *bad, *told)
        assert np.isnan(out).all()
    with pytest.raises(TypeError):
        together()
    read_only = out.copy()
    read_only.flags.writeable = False
    with pytest.raises(TypeError):
        together(crew, 2, field, read_only, 2.5, *told)


def test_many_callers_at_once(entry):
    together = native.together(entry)
    wrong = []

    def work(seed):
        field, out = row(2000 + seed)
        lists = lists_of(field, 6)
        for _ in range(300):
            out[:] = np.nan
            run_parts(entry, together, (field, out, 2.5), lists, 3)
            if not (out == expected(field)).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_of_every_length_agree_with_one_thread():
    @npt.stencil(boundary="reflect")
    def edge(x):
        return np.sqrt(abs(x[-1, 0] - x[1, 1])) + x[0, -1]

    for shape in ((300, 400), (700, 900), (40, 90, 110)):
        x = np.random.default_rng(0).random(shape)
        alone = edge(x, threads=1)
        for _ in range(60):
            np.testing.assert_array_equal(edge(x, threads=3), alone)


SCRIPT = """
    import os, sys, threading, time, warnings
    import numpy as np
    import ninepoint as npt

    warnings.simplefilter("ignore")

    @npt.stencil(boundary="wrap")
    def edge(x):
        return np.sqrt(abs(x[-1, 0] - x[1, 1])) + x[0, -1]

    x = np.random.default_rng(0).random((900, 700))
    alone = edge(x, threads=1)

    def right():
        return all((edge(x, threads=2) == alone).all() for _ in range(8))
"""


def run(folder, script):
    file = folder / "script.py"
    file.write_text(textwrap.dedent(SCRIPT) + textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, file],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_children_have_a_crew_of_their_own(tmp_path):
    assert run(
        tmp_path,
        """
        enough = threading.Event()

        def busy():
            while not enough.is_set():
                right()

        assert right()
        threading.Thread(target=busy).start()
        for k in range(6):
            time.sleep(0.01 * k)
            child = os.fork()
            if not child:
                os._exit(0 if right() else 1)
            end = time.monotonic() + 60
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                assert time.monotonic() < end, "a child hangs"
                time.sleep(0.01)
            assert ended[1] == 0
        enough.set()
        print("well" if right() else "wrong")
        """,
    ) == ["well"]


def test_the_process_ends_while_others_wait_or_work(tmp_path):
    assert run(
        tmp_path,
        """
        def work():
            while True:
                right()

        assert right()
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
        print("well")
        """,
    ) == ["well"]

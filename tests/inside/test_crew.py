"""Threads that wait in machine code: each part is done once, whoever asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import ninepoint as npt


@npt.stencil(boundary="wrap")
def scaled(x, r):
    return x[0] * r + x[1]


def expected(field):
    return field * 2.5 + np.roll(field, -1)


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_each_part_is_done(threads):
    for length in (1, 2, 1000, 300_001):
        field = np.random.default_rng(length).random(length)
        np.testing.assert_array_equal(scaled(field, 2.5, threads=threads), expected(field))


def test_nobody_works_while_there_is_no_work():
    scaled(np.ones(1_000_000), 2.5, threads=2)
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_many_callers_at_once():
    wrong = []

    def work(seed):
        field = np.random.default_rng(seed).random(200_000 + seed)
        out, wanted = np.empty_like(field), expected(field)
        for _ in range(30):
            out[:] = np.nan
            scaled(field, 2.5, out=out, threads=3)
            if not (out == wanted).all():
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
        for _ in range(20):
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


@pytest.mark.nightly
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

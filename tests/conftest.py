"""Folders of this run, tests that leave nothing behind and end, Dask clients, golden files."""

import contextlib
import faulthandler
import gc
import os
import shutil
import tempfile

import pytest

import protected
import seams
import verify_kernels
from leftovers import DaskTraces, Traces, keep_dask
from ninepoint.lowering import passes

CACHE = "NINEPOINT_CACHE_DIR"
TEMPORARY = ("TMPDIR", "TEMP", "TMP")
_made: list[str] = []

# When the tests are done a process ends within this time [s]; the limit of a test is in
# pyproject.toml.
_AT_THE_END = 300
# Standard error as it is outside of tests, which the workers of pytest-xdist have as well.
_stderr = []


def pytest_configure(config):
    # A busy machine would make tests of what is printed fail.
    os.environ.setdefault("NINEPOINT_QUIET", "1")
    # What holds of every kernel is looked at after each pass, whatever other processes compiled.
    os.environ.setdefault("NINEPOINT_VERIFY", "1")
    passes.LOOKS.append(verify_kernels.verify)
    # Those who work on the package want to see where an error comes from.
    os.environ.setdefault("NINEPOINT_TRACEBACKS", "whole")
    _stderr.append(os.dup(2))
    # pytest's own folders stay for a look at what failed; all else that is temporary goes.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    base = tempfile.mkdtemp(prefix="ninepoint-tests-", dir=os.environ["PYTEST_DEBUG_TEMPROOT"])
    _made.append(base)
    # A child process that may not keep what it compiles of Python takes a second more.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # The workers of pytest-xdist inherit the variable, and so share the folder.
    if CACHE not in os.environ:
        os.environ[CACHE] = os.path.join(base, "cache")
    # What g++ made of texts for a GPU, too.
    os.environ.setdefault("NINEPOINT_EMULATOR_DIR", os.path.join(base, "emulator"))
    temporary = os.path.join(base, "tmp")
    os.mkdir(temporary)
    # Each worker has its own, so that what lies there was left by its own tests.
    os.environ.update(dict.fromkeys(TEMPORARY, temporary))
    tempfile.tempdir = None


def pytest_timeout_set_timer(item, settings):
    """Keep the limit by a thread of C, which shows all stacks and needs no lock of Python's.

    What pytest-timeout itself would print is lost in the workers of pytest-xdist.
    """
    faulthandler.dump_traceback_later(settings.timeout, exit=True, file=_stderr[0])
    return True


def pytest_timeout_cancel_timer(item):
    faulthandler.cancel_dump_traceback_later()
    return True


def pytest_enter_pdb():
    faulthandler.cancel_dump_traceback_later()


def pytest_collection_finish(session):
    """Let no search for cycles look through the thousands of tests and what they import.

    All of that stays to the end; what tests make is found as ever.
    """
    gc.collect()
    gc.freeze()
    # Compilers make objects by the million and few cycles: a twelfth of the time went into
    # searches, of a suite that compiles for more than half of its time.
    gc.set_threshold(20_000, 20, 20)


def pytest_sessionfinish(session):
    faulthandler.dump_traceback_later(_AT_THE_END, exit=True, file=_stderr[0])


def pytest_unconfigure(config):
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """Fail a test that leaves something behind, and end what it left.

    Set up before any other fixture, so that it is the last to look.
    """
    traces = Traces()
    yield
    left = traces.left()
    assert not left, f"the test leaves {', '.join(left)}"


@pytest.fixture(scope="module", autouse=True)
def _no_dask_client_is_left():
    """Fail the last test of a file that leaves a Dask client or cluster, and end that."""
    traces = DaskTraces()
    yield
    left = traces.left()
    assert not left, f"a test of this file leaves {', '.join(left)}"


@pytest.fixture(scope="session")
def dask_cluster():
    """A Dask cluster of two processes with a thread each, which all tests of this process share.

    Tests that stop or kill workers make clusters of their own.
    """
    distributed = pytest.importorskip("distributed")
    dask_config = pytest.importorskip("dask.config")
    patient = {f"distributed.comm.timeouts.{what}": "120s" for what in ("connect", "tcp")}
    patient["distributed.worker.daemon"] = False
    with (
        dask_config.set(patient),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        keep_dask(cluster),
    ):
        yield cluster


@pytest.fixture
def dask_client(dask_cluster):
    """Dask's client for this test, whose work the shared cluster does."""
    import distributed

    with distributed.Client(dask_cluster) as client:
        yield client


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture
def golden(request):
    """Compare a text with a file.  A missing file fails, so that none is born unread."""

    def check(text, path):
        if request.config.getoption("--update-golden"):
            path.write_text(text + "\n", encoding="utf-8")
        assert path.exists(), f"no {path.name}: run with --update-golden, then read the diff"
        assert text + "\n" == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def limited():
    """Put other limits in place for a test, so that small arrays go the ways of large ones."""
    with contextlib.ExitStack() as stack:
        yield lambda **changed: stack.enter_context(seams.limits(**changed))


@pytest.fixture
def as_python():
    """Generated code is not compiled, and runs on arrays that refuse what lies outside."""
    with seams.interpreted():
        yield


@pytest.fixture
def protected_pages():
    """Each call of compiled code is tried between protected pages first, in a child."""
    with protected.everything():
        yield

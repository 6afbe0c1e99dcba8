"""What goes wrong on a GPU, each in one sentence with its cure.

    what CUDA says, while something was done     ->     MemoryError or RuntimeError

CUDA numbers its errors, the driver's and the runtime's alike; whatever has no number is none of
its errors.  Nothing here needs CuPy.
"""

from __future__ import annotations

from typing import Any

from ...base import limits

OUT_OF_MEMORY = 2
_INVALID, _TOO_MANY_RESOURCES, _TIMEOUT = 1, 701, 702

# After these the GPU does nothing more for a process: not there, broken memory (214), or a kernel
# of this process, whichever it was, that touched what it must not, or was ended.
_LOST = frozenset((46, 100, 101, 214, 700, 702, 709, 710, *range(714, 720), 999))

_CPU = "arrays of NumPy, as cupy.asnumpy(x) gives, are computed on the CPU meanwhile"
_REPORT = (
    "This is a mistake of ninepoint: please report it, with the kernel and with what "
    f"'ninepoint info' prints; {_CPU}."
)


def number(error: BaseException) -> int | None:
    """What CUDA numbers an error; None if it is none of its errors."""
    found = getattr(error, "status", None)
    return found if isinstance(found, int) else None


def no_room(needed: str, memory: tuple[int, int]) -> MemoryError:
    """Too few bytes are free."""
    free, whole = memory
    return MemoryError(
        f"the GPU has no room: {needed}, and {free:,} of {whole:,} are free; give smaller arrays "
        "or a part of the stack, or let go of what CuPy keeps with "
        "cupy.get_default_memory_pool().free_all_blocks()."
    )


def lost(error: BaseException) -> RuntimeError | None:
    """The GPU does nothing more for this process; None if it does."""
    found = number(error)
    if found not in _LOST:
        return None
    if found == _TIMEOUT:
        return RuntimeError(
            f"the GPU ended a kernel that ran longer than its driver allows ({error}), and is "
            "lost to this process: start Python anew, and give a part of the stack, or a GPU "
            "that no display hangs on."
        )
    return RuntimeError(
        f"the GPU is lost to this process ({error}): it broke off in a kernel that was started "
        "before, of ninepoint or of something else, or is no longer there; start Python anew, "
        "and see with nvidia-smi that it is there. If it happens again where only ninepoint "
        "uses the GPU, please report it."
    )


def not_started(
    error: BaseException, name: str, size: int, memory: tuple[int, int] | None
) -> Exception:
    """A kernel was not started; it has so many bytes of arguments."""
    found = number(error)
    if found == OUT_OF_MEMORY:
        return no_room(f"kernel '{name}' needs memory beside its arrays", memory or (0, 0))
    gone = lost(error)
    if gone is not None:
        return gone
    if found == _INVALID and size > limits.current.argument_bytes:
        return _too_many_arguments(name, f"{size:,} bytes of arguments", str(error))
    what = (
        "more registers or shared memory than the GPU has"
        if (found == _TOO_MANY_RESOURCES)
        else str(error)
    )
    return RuntimeError(f"the GPU does not start kernel '{name}' ({what}). {_REPORT}")


def refused(error: BaseException, log: str, name: str, architecture: str, version: str) -> Any:
    """NVRTC, of this version, does not compile a text."""
    if "gpu-architecture" in log or "gpu-architecture" in str(error):
        return RuntimeError(
            f"CUDA's compiler NVRTC {version} does not know GPUs of architecture {architecture}; "
            "install a newer one: pip install -U nvidia-cuda-nvrtc"
        )
    if "parameter space overflowed" in log:
        return _too_many_arguments(name, "too many arguments", f"NVRTC {version}")
    lines = [line.strip() for line in log.splitlines()]
    first = next((line for line in lines if "error" in line), str(error))
    return RuntimeError(
        f"CUDA's compiler NVRTC {version} refuses the text of '{name}' for architecture "
        f"{architecture}: {first}. {_REPORT}"
    )


def _too_many_arguments(name: str, what: str, reason: str) -> RuntimeError:
    most = limits.current.argument_bytes
    return RuntimeError(
        f"kernel '{name}' has {what}, and CUDA before 12.1 takes {most:,} bytes "
        f"({reason}); install a newer driver and NVRTC, or give the scalars as one small array "
        "that standard_indexing names."
    )

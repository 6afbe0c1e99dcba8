"""NVRTC of the stand-in: g++ with the emulator.

Machine code is the architecture, the macros and the text itself, by which the emulator finds what
g++ made of it.
"""

import json

from cupy import fake

import emulator


class NVRTCError(RuntimeError):
    pass


_programs = {}


def getVersion():
    return 13, 0


def createProgram(text, name, headers, include_names):
    if fake.without_compiler:
        raise RuntimeError("Failure finding libnvrtc.so.13\n")
    assert name.endswith(".cu")
    _programs[len(_programs) + 1] = [text, b"", ""]
    return len(_programs)


def compileProgram(program, options):
    fake.compiled += 1
    text = _programs[program][0]
    architecture = next(o for o in options if o.startswith("-arch=sm_")).removeprefix("-arch=sm_")
    if architecture == "37":
        _programs[program][2] = "nvrtc: error: invalid value for --gpu-architecture (-arch)"
        raise NVRTCError("NVRTC_ERROR_INVALID_OPTION (5)")
    if fake.refusing:
        _programs[program][2] = fake.refusing
        raise NVRTCError("NVRTC_ERROR_COMPILATION (6)")
    define = [o.removeprefix("--define-macro=") for o in options if "define-macro" in o]
    fake.texts.append((text, tuple(options)))
    if fake.asked is not None:
        fake.asked.append(emulator.Text(text, tuple(define)))
    else:
        emulator.build([emulator.Text(text, tuple(define))])
    _programs[program][1] = "\n".join([architecture, json.dumps(define), text]).encode()


def getCUBIN(program):
    # CuPy leaves out the last byte, which is 0.
    return _programs[program][1]


def getProgramLog(program):
    return _programs[program][2]


def destroyProgram(program):
    pass

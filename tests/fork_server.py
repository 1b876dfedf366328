"""A process that has imported what takes long, and forks one for every program that it is asked to run.

It is started by `processes.py`, with a socket as its standard input.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import types
from importlib import import_module

HEAVY = (
    "poolwise.cli",
    "poolwise.experiments.grid",
    "poolwise.labelling.project",
    "poolwise.learning.learner",
    "poolwise.posteriors.folder",
    "sklearn.linear_model",
    "sqlalchemy.dialects.sqlite",
    "torch",
)


def serve(client: socket.socket) -> dict[str, object]:
    """Fork for every request, and say how each process ended; returns in the forked processes only.

    A request is a line of JSON. With it come the three standard streams of the program, and a pipe for its exit code.
    """
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ends: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([client, woken], [], [])
        if woken in ready:
            woken.recv(1024)
        for child in list(ends):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                os.write(ends[child], str(os.waitstatus_to_exitcode(status)).encode())
                os.close(ends.pop(child))
        if client in ready:
            size, streams, _, _ = socket.recv_fds(client, 8, 4)
            if not size:
                os._exit(0)  # the tests are over
            request = json.loads(client.recv(int(size), socket.MSG_WAITALL))
            child = os.fork()
            if not child:
                _become(request, streams[:3])
                return request
            ends[child] = streams[3]
            for stream in streams[:3]:
                os.close(stream)
            client.sendall(f"{child:8d}".encode())


def _become(request: dict[str, object], streams: list[int]) -> None:
    """Give a forked process all that belongs to a process of its own."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115


def run(kind: str, *arguments: str) -> None:
    """Do what Python does with the arguments `-c PROGRAM`, `-m MODULE` or a script."""
    sys.argv[:] = [kind, *arguments]
    if kind == "-c":
        sys.argv[:] = ["-c", *arguments[1:]]
        sys.path[0] = ""
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[0], "<string>", "exec"), vars(sys.modules["__main__"]))
    elif kind == "-m":
        sys.argv[:] = list(arguments)
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(kind)
        runpy.run_path(kind, run_name="__main__")


def exit_code(arguments: list[str]) -> int:
    """Run a program, and say what its exit code is."""
    try:
        run(*arguments)
    except SystemExit as done:
        if isinstance(done.code, str):
            print(done.code, file=sys.stderr)
        return 0 if done.code is None else done.code if isinstance(done.code, int) else 1
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(code: int) -> None:
    """End as Python does, without taking all modules to pieces, which takes half a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    if vars(sys.modules["__main__"]) is not globals():
        vars(sys.modules["__main__"]).clear()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    os._exit(code)


if __name__ == "__main__":
    for name in HEAVY:
        import_module(name)
    gc.collect()
    gc.freeze()  # else the first collection in a forked process copies the memory of all modules
    asked = serve(socket.socket(fileno=os.dup(0)))
    end(exit_code(asked["arguments"]))

"""Loops whose machine code is kept on the disk: it is there within 50 ms, where loading Numba takes most of a second.

A loop is a function of arrays and numbers without a result: what it finds, it writes to an array. It makes no arrays
and raises nothing, so that its machine code needs nothing of Numba. It may call other functions, which are compiled
with it. Numba does that at the first call on a machine, which takes seconds. Later processes load the result by
llvmlite, on which Numba is built.
"""

import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

# What machine code of Numba mentions for the case that a loop raises something or frees an array. It does neither.
_NEVER_CALLED = (
    *("numba_gil_ensure", "numba_gil_release", "numba_unpickle", "numba_do_raise"),
    *("numba_runtime_build_excinfo_struct", "NRT_Free", "NRT_MemInfo_call_dtor"),
)
_NUMBERS = {"int64": ctypes.c_int64, "float64": ctypes.c_double}
_LLVM = "llvmlite.binding"
_lock = threading.Lock()
_engines: list[Any] = []  # machine code is there as long as what loaded it


class KeptLoop:
    """A compiled function (see the module's text).

    Args:
        function: what to compile.
        kinds: the type of each argument and the number of its axes, such as "float32 2" or "int64 0" for a number.
    """

    def __init__(self, function: FunctionType, kinds: list[str]) -> None:
        self.function = function
        self._kinds = [(np.dtype(kind.split()[0]), int(kind.split()[1])) for kind in kinds]
        self._entry: Callable[..., None] | None = None

    def __call__(self, *arguments: Any) -> None:
        """Call it, compiling or loading it first if need be. Arrays must be contiguous. Raises `ImportError`."""
        if self._entry is None:
            self.load()
            assert self._entry is not None
        flat: list[Any] = []
        for argument, (dtype, axes) in zip(arguments, self._kinds, strict=True):
            if axes:
                fits = argument.dtype == dtype and argument.ndim == axes and argument.flags.c_contiguous
                if not fits:  # the loop would read other memory
                    raise TypeError(f"{self.function.__name__} takes contiguous arrays of {dtype}, {axes} axes")
                flat.append(argument.__array_interface__["data"][0])
                flat.extend(argument.shape)
            else:
                flat.append(argument)
        self._entry(*flat)

    def load(self) -> None:
        """Have it ready. Raises `ImportError` without Numba."""
        with _lock:
            if self._entry is None:
                types = [t for dtype, axes in self._kinds for t in _plain_types(dtype, axes)]
                self._entry = ctypes.CFUNCTYPE(None, *types)(self._kept_address() or self._compiled_address())

    def is_kept(self) -> bool:
        """Whether it can be had without compiling."""
        try:
            return self._entry is not None or any(path.exists() for path in self._paths)
        except ImportError:
            return False

    @functools.cached_property
    def _paths(self) -> list[Path]:
        """Where the machine code may be: of this source, these versions and this processor."""
        llvm: Any = importlib.import_module(_LLVM)
        sources = _sources(self.function)
        versions = [importlib.metadata.version(name) for name in ("numba", "llvmlite")]
        machine = [sys.platform, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
        code = b"".join(source.read_bytes() for source in (*sources, Path(__file__)))
        key = hashlib.sha256("\n".join([*versions, *machine]).encode() + code).hexdigest()[:16]
        name = f"{sources[0].stem}.{self.function.__name__}-{key}.loop"
        given = os.environ.get("NUMBA_CACHE_DIR")
        folders = [Path(given)] if given else [sources[0].parent / "__pycache__", Path.home() / ".cache/poolwise/loops"]
        return [folder / name for folder in folders]

    def _kept_address(self) -> int | None:
        """Where the loop is in memory, if its machine code was on the disk, and whole."""
        for path in self._paths:
            with suppress(OSError, ValueError, KeyError):
                head, code = path.read_bytes().split(b"\n", 1)
                found = json.loads(head)
                if found["sha256"] == hashlib.sha256(code).hexdigest():
                    return _loaded(code, found["symbol"])
        return None

    def _compiled_address(self) -> int:
        """Where the loop is in memory, newly compiled; its machine code is kept if it can be."""
        numba: Any = importlib.import_module("numba")
        names: dict[str, Any] = {"_loop": _compiled(self.function)}
        names["_carray"] = numba.carray
        types, parameters, arguments = [], [], []
        for i, (dtype, axes) in enumerate(self._kinds):
            number = numba.from_dtype(dtype)
            types += [numba.types.CPointer(number)] + [numba.intp] * axes if axes else [number]
            sizes = [f"n{i}_{axis}" for axis in range(axes)]
            parameters += [f"a{i}", *sizes]
            arguments.append(f"_carray(a{i}, ({', '.join(sizes)},))" if axes else f"a{i}")
        exec(f"def _flat({', '.join(parameters)}):\n    _loop({', '.join(arguments)})", names)
        made = numba.cfunc(numba.void(*types), error_model="numpy")(names["_flat"])
        _engines.append(made)
        with suppress(AttributeError):  # none of this is public: with a Numba that lacks it, nothing is kept
            code, symbol = made._library._get_compiled_object(), made._wrapper_name
            declared = [f.name for f in made._library._final_module.functions if f.is_declaration]
            foreign = [name for name in declared if name.startswith(("numba_", "NRT_")) and name.encode() in code]
            if set(foreign) <= set(_NEVER_CALLED):
                self._keep(code, symbol)
        return int(made.address)

    def _keep(self, code: bytes, symbol: str) -> None:
        """Write the machine code to the first folder that can be written to."""
        head = json.dumps({"symbol": symbol, "sha256": hashlib.sha256(code).hexdigest()}).encode()
        for path in self._paths:
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}")
                with os.fdopen(handle, "wb") as file:
                    file.write(head + b"\n" + code)
                Path(part).replace(path)
                return


def kept_loop(*kinds: str) -> Callable[[Callable[..., None]], KeptLoop]:
    """Make a function a `KeptLoop`, given the kinds of its arguments."""

    def decorate(function: Callable[..., None]) -> KeptLoop:
        assert isinstance(function, FunctionType)
        return KeptLoop(function, list(kinds))

    return decorate


def _plain_types(dtype: "np.dtype[Any]", axes: int) -> list[Any]:
    """How an argument is handed over: an array as where it is and its shape."""
    return [ctypes.c_void_p] + [ctypes.c_ssize_t] * axes if axes else [_NUMBERS[dtype.name]]


def _called(function: FunctionType) -> dict[str, FunctionType]:
    """The functions that a function calls, by name."""
    named = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    return {name: value for name, value in named.items() if isinstance(value, FunctionType)}


def _sources(function: FunctionType) -> list[Path]:
    """The files of a function, which is the first, and of those that it calls."""
    found = [Path(inspect.getfile(function))]
    for called in _called(function).values():
        found += _sources(called)
    return list(dict.fromkeys(found))


def _compiled(function: FunctionType) -> Any:
    """A function compiled by Numba, with those that it calls."""
    from poolwise.compiling import in_memory

    names = {**function.__globals__, **{name: _compiled(called) for name, called in _called(function).items()}}
    return in_memory(FunctionType(function.__code__, names, function.__name__))


def _loaded(code: bytes, symbol: str) -> int:
    """Load machine code; where the function of that name is."""
    llvm: Any = importlib.import_module(_LLVM)
    for name in _NEVER_CALLED:
        if llvm.address_of_symbol(name) is None:  # Numba defines them when it is loaded
            llvm.add_symbol(name, ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(symbol))

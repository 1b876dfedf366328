"""Loops whose machine code is kept on the disk."""

import numpy as np
import pytest

from poolwise import kept_loops

pytest.importorskip("numba")


def _square(x):
    return x * x


def _add_squares(numbers_n, factor, total):
    for i in range(len(numbers_n)):
        total[0] += factor * _square(numbers_n[i])


def loop():
    return kept_loops.kept_loop("float32 1", "float64 0", "float64 1")(_add_squares)


def result(found):
    total = np.zeros(1)
    found(np.arange(4, dtype=np.float32), 0.5, total)
    return total[0]


def test_a_compiled_loop_is_kept_and_loaded_without_compiling(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first = loop()
    assert not first.is_kept()
    assert result(first) == 7.0
    (path,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(kept_loops.KeptLoop, "_compiled_address", lambda self: pytest.fail("compiled again"))
        assert loop().is_kept()
        assert result(loop()) == 7.0
        with pytest.raises(TypeError, match="contiguous arrays of float32, 1 axes"):
            loop()(np.arange(4.0), 0.5, np.zeros(1))
        with pytest.raises(TypeError, match="contiguous"):
            loop()(np.arange(4, dtype=np.float32)[::2], 0.5, np.zeros(1))
    # A Numba whose machine code cannot be had keeps nothing.
    with monkeypatch.context() as patch:
        patch.setattr(kept_loops.KeptLoop, "_keep", lambda *_: (_ for _ in ()).throw(AttributeError))
        assert loop()._compiled_address()
    # What is not whole is not loaded. Compiling takes long, so it is only seen that it would be done.
    path.write_bytes(path.read_bytes()[:-1])
    assert loop()._kept_address() is None
    path.write_bytes(b"nothing")
    assert loop()._kept_address() is None


def test_without_numba_a_loop_is_neither_kept_nor_compiled(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(kept_loops.importlib, "import_module", missing)
    assert not loop().is_kept()
    with pytest.raises(ImportError):
        loop().load()

"""Files that are damaged, foreign or made to do harm: each is read right, or ends in one clear message."""

import gzip
import io
import json
import os
import pickle
import random
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from data_files import everything, write
from PIL import Image

from poolwise import errors
from poolwise.data import Repeated, TensorExamples, open_data
from poolwise.models.saved import read_network

pytestmark = pytest.mark.usefixtures("no_data_of_this_machine")


def npy(shape, descr="'<f8'", body=b""):
    """An `.npy` file with any header."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def npz(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(f"{name}.npy", member)
    return content.getvalue()


def saved(value, **options):
    content = io.BytesIO()
    torch.save(value, content, **options)
    return content.getvalue()


def savez(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


class Evil:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def program():
    """As much of a TorchScript program as it takes to be known as one."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in ("data.pkl", "constants.pkl", "code/x.py", "version"):
            archive.writestr(f"net/{name}", b"\x80\x02}.")
    return content.getvalue()


@pytest.fixture
def sparingly():
    """Fails a test that allocates more than 100 MB of Python's or NumPy's memory."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


X = np.zeros((3, 2))
HOSTILE = {
    "overflow.npy": npy(f"({2**40}, {2**40})"),
    "too large.npy": npy(f"({2**33}, 4)"),
    "digits.npy": npy(f"({'9' * 400}, 2)"),
    "negative.npy": npy("(-1, 4)"),
    "code.npy": npy("(__import__('os').mkdir('harm'),)"),
    "nested.npy": npy("(" * 300 + ")" * 300),
    "objects.npy": npy("(2, 2)", "'|O'", pickle.dumps(Evil())),
    "dates.npy": npy("(2, 2)", "'<M8[s]'", bytes(32)),
    "records.npy": npy("(2, 2)", "[('a', '<i4')]", bytes(16)),
    "scalar.npy": npy("()", body=bytes(8)),
    "none.npy": npy("(0, 4)"),
    "pickle.npy": pickle.dumps(Evil()),
    "overflow.npz": npz(x=npy(f"({2**40}, {2**40})")),
    "too large.npz": npz(x=npy(f"({2**36}, 4)")),
    "objects.npz": npz(x=npy("(2, 2)", "'|O'", pickle.dumps(Evil()))),
    "not an array.npz": npz(x=b"hello"),
    "label.npz": savez(x=X, y=[0, 1, 2**40]),
    "unsigned label.npz": savez(x=X, y=np.array([0, 1, 2**63 + 5], np.uint64)),
    "negative label.npz": savez(x=X, y=[0, 1, -2]),
    "float labels.npz": savez(x=X, y=[0, 1.5, 2]),
    "whole float labels.npz": savez(x=X, y=[0.0, 1.0, 2.0]),
    "nan labels.npz": savez(x=X, y=[0, np.nan, 2]),
    "date labels.npz": savez(x=X, y=np.array(["2026-01-01"] * 3, "M8[D]")),
    "table labels.npz": savez(x=X, y=np.zeros((3, 2), int)),
    "short labels.npz": savez(x=X, y=[0, 1]),
    "infinite.npz": savez(x=X + np.inf),
    "pickle.pt": pickle.dumps({"x": 1}),
    "evil.pt": pickle.dumps(Evil()),
    "evil in a zip.pt": saved(Evil()),
    "network.pt": saved(torch.nn.Linear(2, 2)),
    "program.pt": program(),
    "weights.pt": saved(torch.nn.Linear(2, 2).state_dict()),
    "legacy.pt": saved(torch.zeros(2, 2), _use_new_zipfile_serialization=False),
    "protocol.pt": saved(torch.zeros(2, 2), pickle_protocol=4),
    "expanded.pt": saved(torch.zeros(1).expand(10**12, 3)),
    "sparse.pt": saved(torch.zeros(2, 2).to_sparse()),
    "meta.pt": saved(torch.zeros(2, 2, device="meta")),
    "complex.pt": saved(torch.zeros(2, 2, dtype=torch.complex64)),
    "empty.pt": saved({}),
    "text.pt": saved("hello"),
    "deep.jsonl": b"[" * 100_000,
    "deep object.jsonl": b'{"text": ' * 100_000,
    "deep label.jsonl": b'{"text": "a", "label": ' + b"[" * 900 + b"]" * 900 + b"}",
    "deep list.jsonl": b"[" * 900 + b"]" * 900,
    "digits.jsonl": b'{"text": "a", "label": ' + b"9" * 5_000 + b"}",
    "bomb.csv.gz": None,  # made by the test: it takes a second
    "zeros.csv": bytes(1_000),
    "fake.csv.gz": b"text,label\na,b\n",
    "fake.parquet": b"PAR1" + bytes(100) + b"PAR1",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_one_message(tmp_path, name, capfd):
    content = HOSTILE[name] or gzip.compress(b"text,label\n" + b"a" * (300 << 20), 1)
    write(tmp_path / name.removesuffix(".gz"), content)
    path = (tmp_path / name.removesuffix(".gz")).rename(tmp_path / name)  # `write` would compress it again
    with pytest.raises(errors.InputError) as raised:
        open_data(path)
    message = str(raised.value)
    assert name in message
    assert "\n" not in message
    assert len(message) < 2_000
    assert capfd.readouterr() == ("", "")  # warnings are errors in tests, and libraries print past them
    assert not (tmp_path / "home" / "harm").exists()


@pytest.mark.parametrize("name", ["label.npz", "deep.jsonl", "overflow.npy", "expanded.pt"])
def test_no_memory_is_taken_for_what_a_file_claims(tmp_path, name, sparingly):
    write(tmp_path / name, HOSTILE[name])
    with pytest.raises(errors.InputError):
        open_data(tmp_path / name)


def test_an_array_that_unpacks_to_far_too_much(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy(f"(300, {1 << 20})", "'|u1'"))
        for _ in range(300):
            member.write(bytes(1 << 20))
    with pytest.raises(errors.FileError, match=r"unpacks to more than .* save it without compression"):
        open_data(tmp_path / "bomb.npz")


@pytest.mark.parametrize(
    "labels", [np.array([True, False, True]), np.array([b"a", b"b", b"a"]), np.array(["a", "b", ""])]
)
def test_labels_that_can_be_used(tmp_path, labels):
    np.savez(tmp_path / "x.npz", x=X, y=labels)
    opened = open_data(tmp_path / "x.npz")
    assert len(opened.class_names) == 2
    assert opened.labels.tolist() in ([1, 0, 1], [0, 1, 0], [0, 1, -1])


def test_ids_and_one_byte_floats(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, ids=["a", "b", "c"])
    assert open_data(tmp_path / "x.npz").ids == ("a", "b", "c")
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        torch.save(torch.ones(2, 2).to(dtype), tmp_path / "x.pt")
        assert everything(open_data(tmp_path / "x.pt").examples).tolist() == [[1, 1], [1, 1]]


def test_repeats_that_no_machine_can_keep_track_of():
    with pytest.raises(errors.ParameterError, match="more than this machine can keep track of"):
        Repeated(TensorExamples(torch.zeros(1_000, 2)), repeats=10**8)


@pytest.mark.parametrize("name", ["pickle.pt", "weights.pt", "text.pt", "empty.pt", "junk.pt", "junk.pt2", "zip.pt2"])
def test_networks_from_foreign_files(tmp_path, name, capfd):
    junk = {"junk.pt": b"junk", "junk.pt2": b"junk", "zip.pt2": npz(x=b"hello")}
    write(tmp_path / name, {**HOSTILE, **junk}[name])
    with pytest.raises(errors.FileError, match=name):
        read_network(tmp_path / name)
    assert capfd.readouterr() == ("", "")


# A few hundred files at random


def samples(draw):
    """Whole files of every kind."""
    picture = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(picture, "PNG")
    texts = "\n".join(["text,label", *(f"text {n},{'ab'[n % 2]}" for n in range(9))])
    return {
        "x.csv": texts.encode(draw.choice(["utf-8", "utf-16", "utf-8-sig", "cp1252"])),
        "x.tsv": texts.replace(",", "\t").encode(),
        "x.csv.gz": texts.encode(),
        "x.jsonl": "\n".join(json.dumps({"text": f"t{n}", "label": n}) for n in range(9)).encode(),
        "x.npy": npy("(2, 2)", draw.choice(["'<f8'", "'>f4'", "'<i2'", "'|b1'"]), bytes(range(32))),
        "x.npz": savez(x=X, y=[0, 1, 2]),
        "x.pt": saved({"x": torch.zeros(3, 2), "y": torch.arange(3)}),
        "pictures/x.png": picture.getvalue(),
    }


def damaged(content, draw):
    content = bytearray(content)
    first, last = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    way = draw.randrange(6)
    if way == 0:
        return content[:first]
    if way == 1:
        return content[:first] + content[last:]
    if way == 2:
        return content[:first] + draw.randbytes(20) + content[first:]
    if way == 3:
        return content + content
    if way == 4:
        content[first : first + 8] = struct.pack("<q", draw.choice([-1, 2**62, 2**40, 0]))
        return content
    for _ in range(5):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return content


@pytest.mark.parametrize("seed", range(8))
def test_damaged_files_are_read_or_refused(tmp_path, seed, capfd):
    draw, read, messages = random.Random(seed), 0, []
    for _ in range(5):
        for name, content in samples(draw).items():
            path = tmp_path / "fuzz" / name
            write(path, bytes(damaged(content, draw)))
            try:
                opened = open_data(path.parent if path.suffix == ".png" else path)
                assert len(everything(opened.examples)) == len(opened) == len(opened.ids)
                read += 1
            except errors.InputError as error:
                messages.append(str(error))
            path.unlink()
    assert 0 < read < 40
    assert all("fuzz" in message and "\n" not in message for message in messages)
    assert capfd.readouterr() == ("", "")

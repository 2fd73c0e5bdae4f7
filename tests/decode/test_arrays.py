"""Arrays are those of numpy, whatever numpy wrote them with."""

import io
import struct

import numpy
import pytest

from probe import Refused, arrays, run

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "bool", "complex64", "complex128"]
SHAPES = [(), (0,), (1,), (7,), (3, 4), (2, 3, 4), (2, 0, 5)]


def make(dtype, shape):
    return numpy.random.default_rng(3).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def npy_bytes(array, version=None):
    stream = io.BytesIO()
    numpy.lib.format.write_array(stream, numpy.asanyarray(array), version=version)
    return stream.getvalue()


def written(tmp_path, content):
    path = tmp_path / "field"
    path.write_bytes(content)
    return path


def same(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert numpy.array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_npy(tmp_path, dtype, shape):
    array = make(dtype, shape)
    [(_, found)] = arrays("npy", written(tmp_path, npy_bytes(array)))
    same(found, array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions_and_fortran_order(tmp_path, version):
    array = numpy.asfortranarray(make("float32", (3, 4)))
    [(_, found)] = arrays("npy", written(tmp_path, npy_bytes(array, version)))
    same(found, array)
    assert found.flags.f_contiguous


@pytest.mark.parametrize("array,said", [
    (numpy.array([{}]), "unsupported: npy holds Python objects"),
    (numpy.zeros(2, ">f4"), "unsupported: npy holds big-endian numbers"),
    (numpy.array(["ab"]), 'unsupported: npy holds elements of type "<U2"'),
    (numpy.zeros(2, "datetime64[s]"), "unsupported: npy holds elements of type"),
    (numpy.zeros(2, [("a", "f4")]), "unsupported: npy holds records"),
])
def test_npy_of_other_things_is_refused(tmp_path, array, said):
    with pytest.raises(Refused, match=said):
        run("npy", written(tmp_path, npy_bytes(array)))


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_npz(tmp_path, save):
    stream = io.BytesIO()
    expected = {f"{dtype}-{len(shape)}": make(dtype, shape) for dtype in DTYPES for shape in SHAPES}
    expected["large"] = make("float32", (400, 300))
    save(stream, **expected)
    found = arrays("npz", written(tmp_path, stream.getvalue()))
    assert [name for name, _ in found] == list(expected)
    for name, array in found:
        same(array, expected[name])


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_every_cut_of_an_npz_is_noticed(tmp_path, save):
    stream = io.BytesIO()
    save(stream, a=make("float32", (40, 3)), b=make("int64", (5,)))
    content = stream.getvalue()
    for length in range(0, len(content), 7):
        with pytest.raises(Refused):
            run("npz", written(tmp_path, content[:length]))


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_damage_of_an_npz_changes_no_array_unnoticed(tmp_path, save):
    stream = io.BytesIO()
    expected = {"a": make("float32", (4, 3)), "b": make("int64", (5,))}
    save(stream, **expected)
    content = stream.getvalue()
    refused = 0
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x21
        try:
            found = arrays("npz", written(tmp_path, bytes(damaged)))
        except Refused:
            refused += 1
            continue
        assert len(found) <= len(expected)
        for (_, array), original in zip(found, expected.values()):
            same(array, original)
    assert refused > len(content) / 2


def tenbin(named):
    """By the format's description, independent of the code under test."""
    def chunk(body):
        return b"~TenBin~" + struct.pack("<q", len(body)) + body + b"\0" * (-len(body) % 64)

    out = b""
    for name, array in named:
        short = array.dtype.str[1:].encode().ljust(8, b"\0")
        header = short + name.encode().ljust(8, b"\0") + struct.pack(f"<{1 + array.ndim}q", array.ndim, *array.shape)
        out += chunk(header) + chunk(array.tobytes())
    return out


def test_tenbin(tmp_path):
    named = [(f"n{i}", make(dtype, shape)) for i, (dtype, shape) in
             enumerate((dtype, shape) for dtype in DTYPES[:11] for shape in SHAPES)]
    content = tenbin(named)
    found = arrays("tenbin", written(tmp_path, content))
    assert [name for name, _ in found] == [name for name, _ in named]
    for (_, array), (_, expected) in zip(found, named):
        same(array, expected)
    assert run("retenbin", written(tmp_path, content)) == content

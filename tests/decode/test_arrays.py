"""Arrays are those of numpy, whatever numpy wrote them with."""

import io

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

"""Decoding and encoding: by extension, safely, and back."""
import gzip
import io
import pickle
import struct

import corpus
import numpy as np
import pytest

import millrace
import millrace.webdataset as wds
from millrace.webdataset import autodecode, tenbin, writer


def decode(**fields):
    return next(iter(wds.FluidWrapper([{"__key__": "k", "__url__": "u", **fields}]).decode()))


class Bomb:
    def __reduce__(self):
        return print, ("boom",)


@pytest.mark.parametrize("field", ["pyd", "pkl", "pickle"])
def test_pickles_are_not_loaded_unless_allowed(field, monkeypatch):
    data = pickle.dumps([1, 2])
    with pytest.raises(wds.DecodingError, match="MILLRACE_ALLOW_PICKLE") as caught:
        decode(**{field: data})
    assert isinstance(caught.value.__cause__, millrace.DeniedError)
    monkeypatch.setenv("MILLRACE_ALLOW_PICKLE", "1")
    assert decode(**{field: data})[field] == [1, 2]


def test_no_other_way_leads_to_a_pickle(capsys):
    torch = pytest.importorskip("torch")
    stream = io.BytesIO()
    torch.save(Bomb(), stream)
    array = io.BytesIO()
    np.save(array, np.array([Bomb()], dtype=object), allow_pickle=True)
    for field, data in (("pth", stream.getvalue()), ("npy", array.getvalue())):
        with pytest.raises(wds.DecodingError):
            decode(**{field: data})
    with pytest.raises(millrace.DeniedError):
        list(wds.FluidWrapper([{"__key__": "k", "x.pyd": pickle.dumps(Bomb())}]).xdecode())
    assert "boom" not in capsys.readouterr().out


def test_plain_tensors_load_from_pth():
    torch = pytest.importorskip("torch")
    assert decode(pth=writer.torch_dumps({"a": torch.arange(3)}))["pth"]["a"].tolist() == [0, 1, 2]


def test_a_decoding_error_says_where_and_why():
    with pytest.raises(wds.DecodingError) as caught:
        decode(cls=b"x1")
    assert str(caught.value) == ("cannot decode field 'cls' of sample 'k' in u: ValueError: "
                                 "invalid literal for int() with base 10: b'x1'")
    assert (caught.value.url, caught.value.key, caught.value.k) == ("u", "k", "cls")
    assert str(pickle.loads(pickle.dumps(caught.value))).startswith("cannot decode field 'cls' of sample 'k' in u")


def test_fields_inside_gzip(monkeypatch):
    assert decode(**{"json.gz": gzip.compress(b"[1]")})["json.gz"] == [1]
    monkeypatch.setattr(autodecode, "MOST_GZIP_BYTES", 1000)
    with pytest.raises(wds.DecodingError, match="more than 1000 bytes"):
        decode(**{"txt.gz": gzip.compress(bytes(2000))})


def test_handlers_are_asked_in_order():
    order = []

    def ask(name, answer=None):
        def handler(key, data):
            order.append((name, key))
            return answer
        return handler
    decoder = wds.Decoder([ask("a"), ask("b", wds.Continue(".y", b"2")), ask("c", 7), ask("d")], pre=[], post=[])
    assert decoder({"__key__": "k", "x": b"1"}) == {"__key__": "k", "x": 7}
    assert order == [("a", ".x"), ("b", ".x"), ("c", ".y")]


def test_images_of_every_kind_are_converted():
    for mode in ("L", "RGB", "RGBA"):
        for spec, shape in (("rgb8", (4, 6, 3)), ("l8", (4, 6)), ("rgba8", (4, 6, 4))):
            pixels = wds.imagehandler(spec)(".png", corpus.png(3, mode))
            assert pixels.shape == shape and pixels.dtype == np.uint8
    assert wds.imagehandler("rgb")(".txt", b"") is None
    assert wds.imagehandler("rgb")(".png", corpus.png(1)).max() <= 1.0


# -- tenbin ------------------------------------------------------------------------------------------------------------

def test_tensors_come_back_as_they_were():
    arrays = [np.arange(24, dtype=kind).reshape(2, 3, 4) for kind in tenbin._NAMES] + [np.float32(3.5).reshape(())]
    for before, after in zip(arrays, tenbin.decode_buffer(tenbin.encode_buffer(arrays))):
        assert before.dtype == after.dtype and np.array_equal(before, after) and before.shape == after.shape


@pytest.mark.parametrize("spoil", [
    lambda data: data[:20], lambda data: b"x" + data[1:], lambda data: data[:8] + struct.pack("<q", 1 << 60) + data[16:],
    lambda data: data[:8] + struct.pack("<q", -1) + data[16:], lambda data: data[:32] + struct.pack("<q", 1 << 40) + data[40:],
    lambda data: data[:40] + struct.pack("<q", 1 << 50) + data[48:], lambda data: data[:40] + struct.pack("<q", -4) + data[48:],
    lambda data: data[:16] + b"zz" + data[18:], lambda data: data[:80],
])
def test_spoiled_tensors_are_refused(spoil):
    with pytest.raises(ValueError, match="tenbin"):
        tenbin.decode_buffer(spoil(tenbin.encode_buffer([np.arange(3, dtype="f4")])))


def test_spoiled_tensors_never_crash():
    data = bytearray(tenbin.encode_buffer([np.arange(30, dtype="f4").reshape(5, 6)]))
    rng = np.random.default_rng(7)
    for _ in range(2000):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            changed[at] = rng.integers(0, 256)
        try:
            tenbin.decode_buffer(bytes(changed))
        except ValueError:
            pass


def test_tensors_in_files(tmp_path):
    tenbin.save(str(tmp_path / "x.ten"), np.arange(3), infos=["a"])
    arrays, names = tenbin.load(str(tmp_path / "x.ten"), infos=True)
    assert names == ["a"] and arrays[0].tolist() == [0, 1, 2]
    with pytest.raises(ValueError):
        tenbin.save(str(tmp_path / "x.npy"), np.arange(3))

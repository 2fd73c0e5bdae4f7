"""Two training programs' data parts, unchanged but for the import: the same batches from both libraries."""
import json
import pathlib
import sys

import pytest
from example_runs import REPOSITORY, RUNS, run

PEER = REPOSITORY / "build" / "peers" / "webdataset" / "bin" / "python"
EXPECTED = json.loads((pathlib.Path(__file__).resolve().parent / "expected" / "examples.json").read_text())
pytest.importorskip("torch")


@pytest.mark.parametrize("name", RUNS)
def test_the_same_batches_as_recorded(name, shards):
    assert run(sys.executable, "millrace.webdataset", RUNS[name], shards) == EXPECTED[name]


@pytest.mark.skipif(not PEER.exists(), reason="bench/peers/webdataset.sh makes the live peer")
@pytest.mark.parametrize("name", RUNS)
def test_the_record_is_what_webdataset_gives(name, shards):
    assert run(PEER, "webdataset", RUNS[name], shards) == EXPECTED[name]


def test_damaged_shards_are_left_out(shards, tmp_path):
    (tmp_path / "good-000.tar").write_bytes((shards / "good-000.tar").read_bytes())
    (tmp_path / "good-001.tar").write_bytes((shards / "good-001.tar").read_bytes()[:3000])
    (tmp_path / "good-002.tar").write_bytes(b"nothing like a tar" * 100)
    assert len(run(sys.executable, "millrace.webdataset", ["clip_data.py", "--batch-size", "4"], tmp_path)) == 2

"""millrace.webdataset against what webdataset did (expected/webdataset.json), and the record against the live one."""
import json
import pathlib
import subprocess

import cases
import pytest

import millrace.webdataset as wds

HERE = pathlib.Path(__file__).resolve().parent
PEER = HERE.parents[1] / "build" / "peers" / "webdataset" / "bin" / "python"
CASES = cases.load()
RECORD = json.loads((HERE / "expected" / "webdataset.json").read_text())

# What Millrace does instead. docs/guide/from-webdataset.md has these as a table.
DIFFERENT = {
    "differs_cut-in-header.tar": {"raises": "ValueError"},
    "differs_cut-at-header.tar": {"raises": "ValueError"},
    "differs_scattered.tar": {"raises": "ValueError"},
    "differs_shard_order_of_epochs": False,
    "differs_reach_of_short_epochs": 18,
    "differs_decoding_error_says": True,
    "differs_glob": 24,
    "differs_half_written_shard": False,
    "differs_key_with_dot": {"raises": "ValueError"},
    "differs_pickle": {"raises": "other"},
    "differs_pipe": {"raises": "other"},
    "differs_partial_lists": ["list", 2, 2],
}


def ours(name, directory):
    return json.loads(json.dumps(cases.outcome(CASES[name], wds, directory)))


def test_the_record_has_every_case():
    assert sorted(RECORD) == sorted(CASES)


@pytest.mark.parametrize("name", sorted(name for name in CASES if not name.startswith("differs_")))
def test_does_what_webdataset_does(name, shards):
    expected, got = RECORD[name], ours(name, shards)
    if expected == {"raises": "other"}:
        # Its exceptions are of tarfile and assert; ours of millrace.errors. That there is one is what counts.
        assert set(got) == {"raises"}
    else:
        assert got == expected


@pytest.mark.parametrize("name", sorted(name for name in CASES if name.startswith("differs_")))
def test_differs_where_the_guide_says_so(name, shards):
    got = ours(name, shards)
    assert got != RECORD[name]
    if name in DIFFERENT:
        assert got == DIFFERENT[name]


def test_uint32_tensors_survive(shards):
    assert ours("differs_uint32_tensors", shards)[1].startswith("ndarray uint32 (1,)")


@pytest.mark.skipif(not PEER.exists(), reason="bench/peers/webdataset.sh makes the live peer")
def test_the_record_is_what_the_live_webdataset_does(tmp_path):
    subprocess.run([PEER, HERE / "record_webdataset.py", tmp_path], check=True, timeout=600)
    assert json.loads((tmp_path / "webdataset.json").read_text()) == RECORD

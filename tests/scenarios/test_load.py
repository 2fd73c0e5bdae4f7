"""millrace load: batches without Python, what it reports of them, and what it refuses."""
import json
import struct
import zlib

import pytest
from archives import Sample, small_shard, write_shard

SAMPLES = 100


def png(width=12, height=8):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes([row % 256]) * (3 * width) for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def npy(shape=(2, 3)):
    count = shape[0] * shape[1]
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(4 * count)


@pytest.fixture(autouse=True)
def own_index_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def shards(tmp_path):
    """Two of them, 100 samples together."""
    fields = {"png": png(), "npy": npy(), "raw": b"as it is"}
    for number in range(2):
        write_shard(tmp_path / f"s-{number}.tar", [Sample(f"{n:04d}", {**fields, "cls": str(n).encode()})
                                                   for n in range(50 * number, 50 * number + 50)])
    return "s-{0..1}.tar"


def loaded(millrace, *words):
    report, = millrace.json("load", *words)
    return report


@pytest.mark.parametrize("spec", ["key", "label:cls", "bytes:raw", "array:npy", "image:png:size=16", "image:jpg;png", "bytes:RAW",
                                  "image:png:size=16x8,crop=random_resized,flip,normalize=imagenet,layout=CHW,dtype=float16,channels=rgba",
                                  "image:png:size=4,resize=8,crop=center,normalize=half,channels=gray label:cls bytes:raw array:npy key"])
def test_every_kind_of_field_is_made(millrace, shards, spec):
    report = loaded(millrace, shards, "--spec", spec, "--batch", 32)
    assert (report["samples"], report["batches"], report["faults"]) == (SAMPLES, 4, 0)
    decode, = [stage for stage in report["stages"] if stage["name"] == "decode"]
    assert decode["count"] == SAMPLES * len(spec.split())


@pytest.mark.parametrize("spec, why", [
    ("sound:wav", "one of: image, label, bytes, array, key"), ("", "no field"), ("label", "names no field"), ("label:cls label:cls", "two fields are called cls"),
    ("label:cls:flip", "only images have options"), ("image:png:size=0", "number of pixels"), ("image:png:size=8x8x8", "size is a number of pixels"),
    ("image:png:crop=round", "none, center, random, random_resized"), ("image:png:crop=center", "a crop needs a size"),
    ("image:png:normalize=me", "imagenet, half"), ("image:png:layout=NCHW", "layout is one of HWC, CHW"), ("image:png:dtype=int4", "dtype is one of"), ("image:png:wide", "an option of images")])
def test_specifications_that_make_no_sense_are_refused(millrace, shards, spec, why):
    refused = millrace("load", shards, "--spec", spec, code=2)
    assert why in refused.err and refused.out == b""


def test_a_field_that_a_sample_does_not_have_is_named_with_its_place(millrace, shards):
    assert "s-0.tar: sample 0 at byte 0: sample 0000 has no field wav" in millrace("load", shards, "--spec", "bytes:wav", code=1).err


def test_the_report_as_json_has_every_number_of_the_table(millrace, shards):
    report = loaded(millrace, shards, "--batch", 10, "--epochs", 3)
    assert {"seconds", "samples", "batches", "bytes", "samples_per_second", "bytes_per_second", "waited_seconds", "stages", "limit", "advice",
            "memory_peak", "faults", "note"} <= set(report)
    assert (report["samples"], report["batches"]) == (3 * SAMPLES, 30) and report["bytes"] > 0 and report["memory_peak"] > 0
    assert [stage["name"] for stage in report["stages"]] == ["plan", "fetch", "untar", "decode"]
    for stage in report["stages"]:
        assert {"count", "bytes", "busy_seconds", "threads", "busy_share"} <= set(stage) and 0 <= stage["busy_share"] <= 1
    assert report["limit"] in ("consumer", *(stage["name"] for stage in report["stages"]))


def test_the_report_is_a_table_and_a_sentence(millrace, shards):
    outcome = millrace("load", shards)
    assert outcome.text.startswith("100 samples in ") and "\nlimit: " in outcome.text
    assert "2 shards, 100 samples" in outcome.err


@pytest.mark.parametrize("end, samples, batches", [("exact", SAMPLES, 7), ("drop", 90, 6), ("pad", 105, 7)])
def test_ranks_have_equal_numbers_of_batches_and_together_every_sample(millrace, shards, end, samples, batches):
    ranks = [loaded(millrace, shards, "--shuffle", 20, "--batch", 15, "--end", end, "--rank", rank, "--world", 3) for rank in range(3)]
    assert [report["batches"] for report in ranks] == [batches] * 3
    assert sum(report["samples"] for report in ranks) == samples
    if end != "exact":
        assert [report["samples"] for report in ranks] == [samples // 3] * 3


@pytest.mark.parametrize("words, why", [(["--rank", 3, "--world", 3], "rank 3 of 3"), (["--batch", 2, "--world", 4], "cannot be shared by 4 ranks"),
                                        (["--world", 0], "--world"), (["--batch", 0], "--batch"), (["--epochs", 0], "--epochs"), (["--end", "never"], "exact, drop or pad"),
                                        (["--on-error", "ignore"], "fail, skip or substitute"), (["--rank", -1], "--rank"), (["--rank", 3, "--world", 3], "ranks count from 0"), (["--jobs", 0], "--jobs"), (["--batch", "some"], "--batch")])
def test_numbers_and_words_that_make_no_sense_are_refused(millrace, shards, words, why):
    assert why in millrace("load", shards, *words, code=2).err


def test_a_run_begins_and_ends_where_it_is_told(millrace, shards):
    assert loaded(millrace, shards, "--batch", 10, "--start", 7)["batches"] == 3
    assert loaded(millrace, shards, "--batch", 10, "--start", 7, "--epochs", 2)["batches"] == 13
    assert loaded(millrace, shards, "--batch", 10, "--start", 100)["samples"] == 0
    stopped = loaded(millrace, shards, "--batch", 10, "--batches", 4)
    assert (stopped["batches"], stopped["samples"]) == (4, 40)
    assert loaded(millrace, shards, "--batch", 10, "--batches", 400)["batches"] == 10


def simulated(millrace, *words):
    """With an accelerator. A computer that is too busy to simulate one says so, beside the figure that does not count."""
    outcome = millrace("load", *words, "--au", "resnet50-h100", code=None)
    assert outcome.code == (1 if "overslept" in outcome.err else 0), outcome.err
    return outcome.text


def test_an_accelerator_is_busy_for_a_share_of_the_time(millrace, shards):
    report = json.loads(simulated(millrace, shards, "--batch", 25, "--json"))
    assert report["accelerator"] == "resnet50-h100" and 0 < report["accelerator_utilisation"] <= 1
    said = simulated(millrace, shards).splitlines()[-1]
    assert said.startswith("accelerator utilisation: ") and "resnet50-h100" in said
    assert 0 < float(said.split()[2]) <= 1


def test_an_accelerator_that_is_not_known_is_refused_with_those_that_are(millrace, shards):
    refused = millrace("load", shards, "--au", "abacus", code=2).err
    assert "abacus is not a known accelerator" in refused
    assert all(name in refused for name in ("resnet50-a100", "resnet50-h100", "unet3d-a100", "unet3d-h100", "cosmoflow-a100", "cosmoflow-h100"))


def test_a_timeline_is_a_list_of_named_events(millrace, shards, tmp_path):
    millrace("load", shards, "--spec", "image:png:size=16 label:cls", "--trace", "timeline.json")
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert isinstance(events, list) and {"fetch", "fill slots"} <= {event["name"] for event in events}
    for event in events:
        if event["ph"] == "M":
            assert event["name"] == "thread_name" and event["args"]["name"]
            continue
        assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0 and {"pid", "tid"} <= set(event)


def test_a_timeline_that_cannot_be_written_is_an_error(millrace, shards):
    assert "nowhere/timeline.json" in millrace("load", shards, "--trace", "nowhere/timeline.json", code=1).err


# Streams.

def test_shards_are_streamed_without_an_index(millrace, shards, tmp_path):
    report = loaded(millrace, shards, "--stream", "--spec", "label:cls", "--batch", 10, "--shuffle", 30)
    assert (report["samples"], report["batches"]) == (SAMPLES, 10)
    ranks = [loaded(millrace, shards, "--stream", "--batch", 10, "--rank", rank, "--world", 2)["samples"] for rank in range(2)]
    assert sum(ranks) == SAMPLES


def test_standard_input_is_streamed_and_only_streamed(millrace, shards, tmp_path):
    with open(tmp_path / "s-0.tar", "rb") as shard:
        report, = millrace.json("load", "-", "--stream", "--spec", "bytes:raw", stdin=shard)
    assert report["samples"] == 50
    with open(tmp_path / "s-0.tar", "rb") as shard:
        assert "--stream" in millrace("load", "-", stdin=shard, code=2).err


def test_a_command_is_streamed_where_that_is_allowed(millrace, shards):
    assert "MILLRACE_ALLOW_PIPE=1" in millrace("load", "pipe:cat s-0.tar", "--stream", code=1).err
    report, = millrace.json("load", "pipe:cat s-0.tar", "--stream", env={"MILLRACE_ALLOW_PIPE": "1"})
    assert report["samples"] == 50


# What goes wrong.

def test_a_missing_shard_is_named(millrace, shards):
    for words in (["s-{0..2}.tar"], ["s-{0..2}.tar", "--stream"], ["s-{0..2}.tar", "--on-error", "skip"]):
        missing = millrace("load", *words, code=1)
        assert "s-2.tar" in missing.err and "No such file" in missing.err
    assert "no file matches x-*.tar" in millrace("load", "x-*.tar", code=1).err


def test_no_shard_at_all_is_a_mistake_of_the_caller(millrace):
    assert "shards" in millrace("load", code=2).err


def test_a_shard_that_is_cut_or_no_tar_is_an_error_also_where_samples_are_skipped(millrace, tmp_path):
    whole = small_shard(tmp_path / "whole.tar", 50).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:30_000])
    (tmp_path / "garbage.tar").write_bytes(b"garbage " * 1000)
    for name in ("cut.tar", "garbage.tar"):
        for policy in ("fail", "skip"):
            assert name in millrace("load", name, "--on-error", policy, code=1).err


def test_bad_samples_fail_are_left_out_or_replaced(millrace, tmp_path):
    write_shard(tmp_path / "bad.tar", [Sample(f"{n:03d}", {"cls": b"none" if n == 13 else b"7"}) for n in range(20)])
    assert "bad.tar: sample 13 at byte" in millrace("load", "bad.tar", "--spec", "label:cls", code=1).err
    skipped = loaded(millrace, "bad.tar", "--spec", "label:cls", "--on-error", "skip")
    assert (skipped["samples"], skipped["faults"]) == (19, 1)
    assert "left out: bad.tar: sample 13" in millrace("load", "bad.tar", "--spec", "label:cls", "--on-error", "skip").err
    assert loaded(millrace, "bad.tar", "--spec", "label:cls", "--on-error", "substitute")["samples"] == 20


def test_no_batch_because_of_the_end_is_told(millrace, tmp_path):
    small_shard(tmp_path / "few.tar", 3)
    warned = millrace("load", "few.tar", "--batch", "64", "--end", "drop")
    assert "warning: there was no batch: --end drop leaves out" in warned.err and "batch=64" in warned.err
    assert "no batch" not in millrace("load", "few.tar", "--batch", "3", "--end", "drop").err

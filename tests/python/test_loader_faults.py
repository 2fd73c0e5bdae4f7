"""Servers that die, stall, lie and change: the loader gives the same samples in the end, or an error that names shard
and place; it never waits for ever."""
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import pytest

import millrace
from millrace import Dataset
from troubled_server import Server, always, once, times
from troubled_shards import HANG_SECONDS, NAMES, SAMPLES, SHARDS, described, samples, write_shards
from troubled_shards import no_hang, own_index_cache, server, shards, wanted  # noqa: F401: fixtures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scenarios"))
from conftest import binary  # noqa: E402
from nodes import Node  # noqa: E402


def without_indexes(directory):
    for index in directory.glob("*.mri"):
        index.unlink()


def barely_ahead(urls):
    """Holds less than half of the data at any time, so that something is left to fetch when a source dies."""
    return described(urls, memory="1MiB").shuffle(10).batch(4)


# Failures that pass: the same samples in the end.

def seconds_passed(ask):
    """Stands still in the middle of the body, then lets go."""
    def stall():
        time.sleep(0.5)
        return ask.reset()
    return ask.answer(cut_after=30_000, then=stall)


PASSING = {
    "cut in the body": lambda ask: ask.answer(cut_after=70_001),
    "cut in the head of a member": lambda ask: ask.answer(cut_after=100),
    "cut before the body": lambda ask: ask.answer(cut_after=0),
    "reset in the body": lambda ask: ask.answer(cut_after=70_001, then=ask.reset),
    "reset before an answer": lambda ask: ask.reset(),
    "closed before an answer": lambda ask: ask.close(),
    "stalled, then reset": seconds_passed,
    "503": lambda ask: ask.fail(503),
    "503, come back at once": lambda ask: ask.fail(503, ("retry-after", 0)),
    "429": lambda ask: ask.fail(429),
    "500": lambda ask: ask.fail(500),
}


@pytest.mark.parametrize("what", PASSING)
def test_a_failure_that_passes_costs_no_sample(server, wanted, what):
    server.trouble = times(3, PASSING[what])
    assert samples(described(server.url(NAMES))) == wanted
    assert server.trouble.happened == 3


def test_a_server_that_cuts_every_answer_is_read_piece_by_piece(server, wanted):
    server.trouble = always(lambda ask: ask.answer(cut_after=60_000))
    assert samples(described(server.url(NAMES))) == wanted
    assert server.count() >= sum(file.stat().st_size for file in server.directory.glob("*.tar")) // 60_000


def test_a_server_that_dies_in_a_shard_and_comes_back_is_found_again(server):
    ds = barely_ahead(server.url(NAMES))
    found, before = [], 0
    with ds.epoch(0) as batches:
        for number, (keys, values, labels) in enumerate(batches):
            found += zip(keys, values, labels.tolist())
            if number == 0:
                server.stop()
                before = server.count()
                back = threading.Timer(0.4, server.start)
                back.start()
    back.join()
    assert found == samples(barely_ahead(str(server.directory / NAMES)))
    assert server.count() > before, "everything had been fetched before the server died"


def test_a_server_without_ranges_is_read_all_the_same(server, wanted):
    def whole(ask):
        ask.headers.pop("range", None)
        return ask.answer()
    server.trouble = always(whole)
    assert samples(described(server.url(NAMES))) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_fails_at_random_costs_no_sample(server, wanted, seed):
    print("seed", seed)
    chance, lock = random.Random(seed), threading.Lock()

    def fail_at_times(ask):
        with lock:
            what = chance.choice(list(PASSING)) if chance.random() < 0.4 else None
        return PASSING[what](ask) if what else False
    server.trouble = always(fail_at_times, when=lambda ask: ask.method == "GET")
    assert samples(described(server.url(NAMES), fetch_threads=3)) == wanted


def test_single_reads_survive_cuts_too(server, wanted):
    """A window beyond the memory: samples are read one by one. And samples by number."""
    local = described(str(server.directory / NAMES), memory="1MiB").shuffle(100)
    remote = described(server.url(NAMES), memory="1MiB").shuffle(100)
    server.trouble = always(lambda ask: ask.answer(cut_after=9000))
    assert samples(remote) == samples(local)
    assert "one by one" in remote.report()
    assert remote[57] == local[57] and remote[57][0] == "0057"


def write_compressed(directory, suffix):
    directory.mkdir()
    with millrace.ShardWriter(str(directory / f"c-%d.{suffix}"), max_samples=SAMPLES) as writer:
        noise = random.Random(3)
        for number in range(2 * SAMPLES):
            writer.add(f"{number:04}", {"bin": noise.randbytes(20_000), "cls": str(number).encode()})


@pytest.mark.parametrize("suffix", ["tar.gz", "tar.zst"])
def test_compressed_shards_survive_cuts_too(tmp_path, suffix):
    directory = tmp_path / "compressed"
    write_compressed(directory, suffix)
    local = samples(described(str(directory / f"c-{{0..1}}.{suffix}")))
    assert sorted(label for _, _, label in local) == list(range(2 * SAMPLES))
    with Server(directory) as server:
        server.trouble = always(lambda ask: ask.answer(cut_after=70_000), when=lambda ask: ask.method == "GET" and "c-" in ask.path)
        assert samples(described(server.url(f"c-{{0..1}}.{suffix}"))) == local
        assert server.trouble.happened > 10


def test_streams_without_an_index_survive_cuts_too(server, shards):
    without_indexes(shards)
    local = samples(described(str(shards / NAMES), indexed=False))
    assert sorted(label for _, _, label in local) == list(range(SHARDS * SAMPLES))
    server.trouble = always(lambda ask: ask.answer(cut_after=70_000))
    assert samples(described(server.url(NAMES), indexed=False)) == local
    assert server.trouble.happened > 10 and server.count("HEAD") == 0


def test_a_stream_that_changes_or_ends_early_is_an_error(server, shards, tmp_path):
    ds = described(server.url(NAMES), indexed=False)
    cut = (shards / "s-1.tar").read_bytes()[:400_000]
    (shards / "s-1.tar").write_bytes(cut)
    with pytest.raises(millrace.CorruptError, match=r"s-1\.tar"):
        samples(ds)
    write_shards(shards)
    server.trouble = always(lambda ask: ask.answer(cut_after=100_000, then=lambda: write_shards(shards, seed=2) or ask.close()))
    with pytest.raises(millrace.CorruptError, match=r"s-\d\.tar.*changed while it was read"):
        samples(ds)


def test_after_a_failure_the_state_goes_on_where_it_was(server, wanted):
    ds = described(server.url(NAMES), fetch_threads=1)
    len(ds)
    found = []
    server.trouble = always(lambda ask: ask.fail(404) if server.count() > 3 else False)
    with pytest.raises(millrace.NotFoundError):
        for keys, values, labels in ds:
            found += zip(keys, values, labels.tolist())
    assert 0 < len(found) < len(wanted)
    state = ds.state_dict()
    server.trouble = lambda ask: False
    again = described(server.url(NAMES))
    again.load_state_dict(state)
    for keys, values, labels in again:
        found += zip(keys, values, labels.tolist())
    assert found == wanted


def test_redirects_are_followed(server, wanted):
    def moved(ask):
        if not ask.path.startswith("/old/"):
            return False
        return ask.fail(302, ("location", ask.path.removeprefix("/old")))
    server.trouble = moved
    assert samples(described(server.url("old/" + NAMES))) == wanted


# Failures that stay: an error that says where.

def test_a_missing_shard_is_named(server, shards):
    (shards / "s-1.tar").unlink()
    with pytest.raises(millrace.NotFoundError, match=r"/s-1\.tar does not exist"):
        len(described(server.url(NAMES)))


def test_a_shard_that_vanishes_is_named_with_its_bytes(server, shards):
    ds = described(server.url(NAMES))
    len(ds)
    (shards / "s-1.tar").unlink()
    with pytest.raises(millrace.NotFoundError, match=r"s-1\.tar.*fetching bytes \d+ to \d+ of http.*s-1\.tar.*404"):
        samples(ds)


def test_a_redirect_loop_ends(server):
    server.trouble = always(lambda ask: ask.fail(302, ("location", ask.path)), when=lambda ask: True)
    with pytest.raises(millrace.UnavailableError, match=r"s-\d\.tar.*redirected more than 5 times"):
        len(described(server.url(NAMES)))
    assert len(server.asked) <= 6 * SHARDS


def test_a_server_that_always_answers_503_is_given_up(server):
    ds = described(server.url(NAMES))
    len(ds)
    server.trouble = always(lambda ask: ask.fail(503, ("retry-after", 0)))
    with pytest.raises(millrace.UnavailableError, match=r"s-\d\.tar.*503"):
        samples(ds)


def test_a_server_that_is_gone_is_named(server):
    ds = described(server.url(NAMES), fetch_threads=1)
    len(ds)
    server.stop()
    with pytest.raises(millrace.UnavailableError, match=r"s-\d\.tar.*127\.0\.0\.1.*refused"):
        samples(ds)


def test_short_bodies_of_a_server_that_insists_are_an_error(server):
    """Says the full length, never sends a byte more than it likes."""
    ds = described(server.url(NAMES))
    len(ds)
    limit = 100_000

    def short(ask):
        first = int(ask.headers["range"].split("=")[1].split("-")[0])
        return ask.answer(cut_after=max(0, limit - first))
    server.trouble = always(short)
    with pytest.raises(millrace.Error, match=r"s-\d\.tar.*fetching bytes"):
        samples(ds)


def test_an_object_that_shrank_says_so(server, shards):
    """No entity tags to tell by: the length in the answer does."""
    ds = described(server.url(NAMES))
    len(ds)
    server.trouble = always(lambda ask: ask.send(206, [("content-length", 10), ("content-range", "bytes 0-9/10")], b"x" * 10))
    with pytest.raises(millrace.CorruptError, match=r"s-\d\.tar"):
        samples(ds)


@pytest.mark.parametrize("how", ["before", "in the middle"])
def test_an_object_that_changes_is_never_mixed(server, shards, tmp_path, how):
    ds = described(server.url(NAMES))
    len(ds)
    other = tmp_path / "other"
    other.mkdir()
    write_shards(other, seed=2)  # the same names and sizes, other bytes

    def swap(ask):
        for shard in other.glob("*.tar"):
            os.replace(shard, shards / shard.name)
        return ask.close()
    if how == "before":
        server.trouble = once(lambda ask: swap(ask))
    else:
        server.trouble = once(lambda ask: ask.answer(cut_after=50_000, then=lambda: swap(ask)))
    with pytest.raises(millrace.CorruptError, match=r"s-\d\.tar changed while it was read"):
        samples(ds)


def test_a_server_that_swaps_the_object_behind_one_tag_is_caught_by_the_tar(server, tmp_path):
    """Bytes moved by one: every header's checksum is wrong."""
    ds = described(server.url(NAMES))
    len(ds)
    server.trouble = always(lambda ask: ask.answer(change=lambda body: b"\0" + body[:-1]))
    with pytest.raises(millrace.CorruptError, match=r"s-\d\.tar: sample \d+ at byte \d+"):
        samples(ds)


def test_a_flipped_bit_in_a_header_names_the_sample(server, shards):
    ds = described(server.url("s-0.tar"))
    len(ds)
    server.trouble = always(lambda ask: ask.answer(change=lambda body: body[:3] + bytes([body[3] ^ 1]) + body[4:]))
    with pytest.raises(millrace.CorruptError, match=r"s-0\.tar: sample \d+ at byte \d+.*checksum"):
        samples(ds)


def test_a_flipped_bit_in_a_field_names_the_member(server, shards):
    """Neither the tar nor the format of raw bytes would notice."""
    ds = Dataset(server.url("s-0.tar")).key().bytes("bin").label("cls").batch(16)
    len(ds)
    place = (shards / "s-0.tar").read_bytes().index(b".bin\0") // 512 * 512 + 512 + 40
    flip = lambda body: body[:place] + bytes([body[place] ^ 1]) + body[place + 1:]  # noqa: E731
    server.trouble = once(lambda ask: ask.answer(change=flip))
    with pytest.raises(millrace.CorruptError, match=r"s-0\.tar: sample 0 at byte 0: member \S+\.bin: its bytes have the checksum"):
        samples(ds)


def test_bad_samples_of_a_bad_wire_can_be_left_out_and_are_reported(server):
    url = server.url("s-0.tar")
    ds = Dataset(url, on_error="skip", memory="4MiB").key().bytes("bin").batch(16)
    len(ds)
    server.trouble = once(lambda ask: ask.answer(change=lambda body: body[:3] + bytes([body[3] ^ 1]) + body[4:]))
    assert sum(len(keys) for keys, _ in ds.epoch(0)) == SAMPLES - 1
    assert "1 samples could not be used" in ds.report()


def test_a_head_without_a_length_says_what_is_missing(server):
    server.trouble = always(lambda ask: ask.answer(length=False), when=lambda ask: ask.method == "HEAD")
    with pytest.raises(millrace.UnsupportedError, match=r"s-\d\.tar: the server does not say its length"):
        len(described(server.url(NAMES)))


@pytest.mark.parametrize("indexed", [True, False])
def test_closing_ends_a_stall_at_once(server, indexed):
    held, released = threading.Event(), threading.Event()

    def stall():
        held.set()
        released.wait(HANG_SECONDS)
    server.trouble = always(lambda ask: ask.answer(cut_after=1000, then=stall))
    batches = described(server.url(NAMES), indexed=indexed).epoch(0)
    assert held.wait(HANG_SECONDS)
    started = time.monotonic()
    batches.close()
    released.set()
    assert time.monotonic() - started < 10


def test_how_long_a_server_may_be_silent_can_be_set(server):
    """Said by the environment, when the process first asks a store."""
    program = "import sys, millrace\n" \
              "list(millrace.Dataset(sys.argv[1]).label('cls').batch(4).epoch(0))"

    def run(timeout):
        return subprocess.run([sys.executable, "-c", program, server.url(NAMES)], capture_output=True, text=True,
                              env={**os.environ, "MILLRACE_TIMEOUT": timeout}, timeout=HANG_SECONDS).stderr
    released = threading.Event()
    server.trouble = always(lambda ask: ask.answer(cut_after=0, then=lambda: released.wait(HANG_SECONDS)),
                            when=lambda ask: ask.path.endswith(".tar") and ask.method == "GET")
    said = run("1s")
    released.set()
    assert "UnavailableError" in said and "s-0.tar" in said, said
    for wrong in ("soon", "0", "-1s"):
        assert "MILLRACE_TIMEOUT" in run(wrong)


# Indexes.

def test_an_index_beside_the_shard_is_used(server, wanted):
    assert samples(described(server.url(NAMES))) == wanted
    assert server.count(suffix=".mri") == SHARDS
    whole = sum(file.stat().st_size for file in server.directory.glob("*.tar"))
    assert server.count() < 2 * (whole // 100_000 + SHARDS)


def test_without_an_index_it_is_built_once_and_kept(server, shards, wanted, tmp_path):
    without_indexes(shards)
    assert samples(described(server.url(NAMES))) == wanted
    built = list((tmp_path / "xdg/millrace/indexes").glob("*.mri"))
    assert len(built) == SHARDS
    before = server.count()
    len(described(server.url(NAMES)))
    assert server.count() == before


def test_a_kept_index_that_is_damaged_is_built_anew(server, shards, wanted, tmp_path):
    without_indexes(shards)
    len(described(server.url(NAMES)))
    for kept in (tmp_path / "xdg/millrace/indexes").glob("*.mri"):
        kept.write_bytes(kept.read_bytes()[:100])
    assert samples(described(server.url(NAMES))) == wanted


@pytest.mark.parametrize("damage", [lambda index: index[:50], lambda index: b"", lambda index: b"x" * len(index),
                                    lambda index: index[:70] + bytes([index[70] ^ 255]) + index[71:]])
def test_a_damaged_index_beside_the_shard_is_not_trusted(server, shards, wanted, damage):
    for index in shards.glob("*.mri"):
        index.write_bytes(damage(index.read_bytes()))
    assert samples(described(server.url(NAMES))) == wanted


def test_an_index_is_built_over_cut_connections(server, shards, wanted):
    without_indexes(shards)
    server.trouble = times(6, lambda ask: ask.answer(cut_after=200_000))
    assert samples(described(server.url(NAMES))) == wanted


# Mirrors.

def test_a_mirror_takes_over_when_the_first_place_fails(server, shards, wanted):
    with Server(shards) as mirror:
        ds = described(server.url(NAMES), mirrors=[mirror.url(NAMES)])
        len(ds)
        server.trouble = always(lambda ask: ask.fail(404))
        assert samples(ds) == wanted
        assert mirror.count() > 0


def test_a_mirror_takes_over_in_the_middle(server, shards, wanted):
    with Server(shards) as mirror:
        ds = described(server.url(NAMES), mirrors=[mirror.url(NAMES)])
        len(ds)
        server.trouble = always(lambda ask: ask.answer(cut_after=0) if server.count() > 4 else False)
        assert samples(ds) == wanted


def test_a_mirror_takes_over_a_compressed_shard_in_the_middle(tmp_path):
    directory, names = tmp_path / "compressed", "c-{0..1}.tar.gz"
    write_compressed(directory, "tar.gz")
    local = samples(described(str(directory / names)))
    with Server(directory) as first, Server(directory) as mirror:
        ds = described(first.url(names), mirrors=[mirror.url(names)])
        len(ds)
        first.trouble = always(lambda ask: ask.fail(404) if "range" in ask.headers else ask.answer(cut_after=70_000),
                               when=lambda ask: ask.path.endswith(".tar.gz") and ask.method == "GET")
        assert samples(ds) == local
        assert first.trouble.happened > 0 and mirror.count(suffix=".tar.gz") > 0


def test_a_local_copy_is_a_mirror(server, shards, wanted):
    ds = described(server.url(NAMES), mirrors=[str(shards / NAMES)])
    len(ds)
    server.trouble = always(lambda ask: ask.fail(404))
    assert samples(ds) == wanted


def test_the_error_is_that_of_the_first_place_when_all_fail(server, shards):
    with Server(shards) as mirror:
        ds = described(server.url(NAMES), mirrors=[mirror.url(NAMES)])
        len(ds)
        server.trouble = mirror.trouble = always(lambda ask: ask.fail(404))
        with pytest.raises(millrace.NotFoundError, match=rf":{server.port}/s-\d\.tar"):
            samples(ds)


# The store.

@pytest.fixture
def node(tmp_path):
    directory = tmp_path / "node"
    directory.mkdir()
    with Node(directory) as running:
        yield running


def put_shards(node, shards, bucket="train"):
    for shard in shards.glob("*.tar"):
        assert node.put(f"/{bucket}/{shard.name}", shard.read_bytes()).status == 200


def test_the_store_gives_the_index(node, shards, wanted, tmp_path):
    put_shards(node, shards)
    assert samples(described(f"{node.url}/train/{NAMES}")) == wanted
    assert not (tmp_path / "xdg").exists()


def test_addresses_of_the_store_and_of_s3(node, shards, wanted, monkeypatch):
    put_shards(node, shards)
    monkeypatch.setenv("MILLRACE_ENDPOINT", node.url)
    assert samples(described(f"mr://train/{NAMES}")) == wanted
    assert samples(described("mr://train/*.tar")) == wanted
    monkeypatch.setenv("AWS_ENDPOINT_URL", node.url)
    assert samples(described(f"s3://train/{NAMES}")) == wanted


def test_keys_open_a_closed_store(shards, wanted, tmp_path, monkeypatch):
    directory = tmp_path / "closed"
    directory.mkdir()
    make_key = [binary(), "--json", "keys", "create", "--data", str(directory / "data"), "--admin"]
    key = json.loads(subprocess.run(make_key, check=True, capture_output=True).stdout)
    with Node(directory) as node, monkeypatch.context() as environment:
        with pytest.raises(millrace.DeniedError, match=r"train/s-\d\.tar.*403"):
            len(described(f"{node.url}/train/{NAMES}"))
        environment.setenv("MILLRACE_ENDPOINT", node.url)
        environment.setenv("MILLRACE_ACCESS_KEY", key["access_key"])
        environment.setenv("MILLRACE_SECRET_KEY", key["secret_key"])
        subprocess.run([binary(), "mb", "mr://train"], check=True, capture_output=True)
        subprocess.run([binary(), "put", *map(str, shards.glob("*.tar")), "mr://train/"], check=True, capture_output=True)
        assert samples(described(f"mr://train/{NAMES}")) == wanted
        assert samples(described(f"{node.url}/train/{NAMES}")) == wanted
        environment.delenv("MILLRACE_ACCESS_KEY")
        environment.delenv("MILLRACE_SECRET_KEY")
        environment.setenv("AWS_ENDPOINT_URL", node.url)
        environment.setenv("AWS_ACCESS_KEY_ID", key["access_key"])
        environment.setenv("AWS_SECRET_ACCESS_KEY", key["secret_key"])
        assert samples(described(f"s3://train/{NAMES}")) == wanted
        environment.setenv("AWS_SECRET_ACCESS_KEY", "another")
        with pytest.raises(millrace.DeniedError, match=r"s-\d\.tar"):
            len(described(f"s3://train/{NAMES}"))


def sent_bytes(node):
    lines = node.get("/-/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("millrace_request_sent_bytes"))


def test_a_node_killed_and_started_again_in_an_epoch_is_found_again(node, shards):
    put_shards(node, shards)
    found = []
    with barely_ahead(f"{node.url}/train/{NAMES}").epoch(0) as batches:
        for number, (keys, values, labels) in enumerate(batches):
            found += zip(keys, values, labels.tolist())
            if number == 1:
                node.kill()
                # Longer than the attempts at a store that never answered take: the epoch waits for it.
                starter = threading.Timer(4, node.start)
                starter.start()
    starter.join()
    assert found == samples(barely_ahead(str(shards / NAMES)))
    assert sent_bytes(node) > 500_000, "everything had been fetched before the node died"

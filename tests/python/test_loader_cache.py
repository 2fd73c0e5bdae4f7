"""The node's cache: later epochs ask for nothing, processes share it, and no crash leaves a bad block."""
import os
import subprocess
import sys
import threading
import time

import pytest

import millrace
from troubled_server import Server, always
from troubled_shards import HANG_SECONDS, NAMES, described, samples, write_shards
from troubled_shards import no_hang, own_index_cache, server, shards, wanted  # noqa: F401: fixtures


def cached(server, directory, **options):
    return described(server.url(NAMES)).cache(str(directory), **options)


def test_a_second_epoch_asks_the_server_for_nothing(server, wanted, tmp_path):
    ds = cached(server, tmp_path / "cache")
    assert samples(ds) == wanted
    before = server.count()
    assert samples(ds) == wanted
    assert sorted(samples(ds, 1)) == sorted(wanted)
    assert server.count() == before
    assert samples(cached(server, tmp_path / "cache")) == wanted
    assert server.count() == before


PROGRAM = """
import sys
sys.path[:0] = [{package!r}, {here!r}]
import troubled_shards as tests
ds = tests.described({url!r}).cache({directory!r})
print("ready", flush=True)
sys.stdin.readline()
found = tests.samples(ds)
import hashlib
print(hashlib.md5(repr(found).encode()).hexdigest(), flush=True)
"""


def reader(server, directory):
    program = PROGRAM.format(package=os.path.dirname(os.path.dirname(millrace.__file__)), here=os.path.dirname(__file__),
                             url=server.url(NAMES), directory=str(directory))
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_fetch_every_block_once(server, tmp_path):
    samples(cached(server, tmp_path / "alone"))
    alone = server.count()
    readers = [reader(server, tmp_path / "shared") for _ in range(2)]
    # Slow enough that both want the same blocks at the same time.
    server.trouble = always(lambda ask: time.sleep(0.02))
    for process in readers:
        process.stdin.write("\n")
        process.stdin.flush()
    first, second = (process.communicate(timeout=HANG_SECONDS)[0] for process in readers)
    assert first == second and len(first) == 33
    assert server.count() == 2 * alone


def test_a_process_killed_while_it_fills_leaves_no_bad_block(server, wanted, tmp_path):
    for stop_at in (1, 3, 6):
        process = reader(server, tmp_path / "cache")
        before, reached = server.count(), threading.Event()

        def slow(ask):
            if ask.is_data and server.count() - before >= stop_at:
                reached.set()
            time.sleep(0.02)
            return False
        server.trouble = slow
        process.stdin.write("\n")
        process.stdin.flush()
        assert reached.wait(HANG_SECONDS)
        process.kill()
        process.communicate(timeout=HANG_SECONDS)
        server.trouble = lambda ask: False
    assert samples(cached(server, tmp_path / "cache")) == wanted


def blocks(directory):
    return sorted(directory.rglob("*.block"))


@pytest.mark.parametrize("tear", [lambda block: block[:len(block) // 2], lambda block: b"",
                                  lambda block: block[:1000] + bytes([block[1000] ^ 1]) + block[1001:]])
def test_a_torn_block_is_fetched_again(server, wanted, tmp_path, tear):
    samples(cached(server, tmp_path / "cache"))
    torn = blocks(tmp_path / "cache")[:3]
    for block in torn:
        block.write_bytes(tear(block.read_bytes()))
    before = server.count()
    assert samples(cached(server, tmp_path / "cache")) == wanted
    assert server.count() == before + len(torn)
    assert samples(cached(server, tmp_path / "cache")) == wanted
    assert server.count() == before + len(torn)


def test_the_cap_holds(server, wanted, tmp_path):
    cap = 1_000_000
    for epoch in range(3):
        assert sorted(samples(cached(server, tmp_path / "cache", max_bytes=cap), epoch)) == sorted(wanted)
        kept = [block.stat().st_size for block in blocks(tmp_path / "cache")]
        assert 0 < sum(kept) <= cap


def test_equal_names_on_two_servers_never_meet(server, wanted, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    write_shards(other, seed=2)
    with Server(other) as second:
        # The same tag for both: only the address tells them apart.
        server.trouble = second.trouble = lambda ask: ask.answer(tag='"same"')
        assert samples(cached(server, tmp_path / "cache")) == wanted
        theirs = samples(cached(second, tmp_path / "cache"))
        assert theirs == samples(described(str(other / NAMES))) != wanted
        assert samples(cached(server, tmp_path / "cache")) == wanted


def test_a_shard_that_was_replaced_is_not_served_from_old_blocks(server, shards, wanted, tmp_path):
    assert samples(cached(server, tmp_path / "cache")) == wanted
    write_shards(shards, seed=2)
    now = samples(described(str(shards / NAMES)))
    assert samples(cached(server, tmp_path / "cache")) == now != wanted


def test_a_cache_that_cannot_be_made_says_so(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(millrace.Error, match="cache directory"):
        samples(cached(server, tmp_path / "file" / "cache"))


def test_a_full_cache_drive_costs_time_only(server, wanted, tmp_path):
    """Blocks cannot be written: as if there were no cache."""
    directory = tmp_path / "cache"
    directory.mkdir()
    for place in range(256):
        (directory / f"{place:02x}").write_text("")  # where the directories of blocks would be
    assert samples(cached(server, directory)) == wanted
    assert blocks(directory) == []

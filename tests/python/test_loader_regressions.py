"""What went wrong once in loading from servers and caches, and must not again."""
import os
import pickle
import random
import signal

import pytest

import millrace
from test_loader_cache import cached
from troubled_server import Server, always
from troubled_shards import NAMES, described, samples, write_shards
from troubled_shards import no_hang, own_index_cache, server, shards, wanted  # noqa: F401: fixtures


def write_compressed(directory, seed):
    directory.mkdir(exist_ok=True)
    noise = random.Random(seed)
    with millrace.ShardWriter(str(directory / "c-%d.tar.gz"), max_samples=40) as writer:
        for number in range(80):
            writer.add(f"{number:04}", {"bin": noise.randbytes(20_000), "cls": str(number).encode()})


def test_a_compressed_shard_that_was_replaced_is_an_error(tmp_path):
    write_compressed(tmp_path / "a", 1)
    write_compressed(tmp_path / "b", 2)
    with Server(tmp_path / "a") as server:
        ds = described(server.url("c-{0..1}.tar.gz"))
        len(ds)
        for shard in (tmp_path / "b").glob("*.gz"):
            os.replace(shard, tmp_path / "a" / shard.name)
        with pytest.raises(millrace.CorruptError, match="changed"):
            samples(ds)


def test_a_mirror_opens_the_data_set_too(server, shards, wanted):
    with Server(shards) as mirror:
        server.stop()
        assert samples(described(server.url(NAMES), mirrors=[mirror.url(NAMES)])) == wanted


def test_a_server_that_is_gone_is_not_skipped(server):
    ds = described(server.url(NAMES), on_error="skip", max_errors=1000)
    len(ds)
    server.stop()
    with pytest.raises(millrace.UnavailableError):
        samples(ds)


def test_errors_say_where_as_attributes(server):
    ds = described(server.url("s-0.tar"))
    len(ds)
    server.trouble = always(lambda ask: ask.answer(change=lambda body: body[:3] + bytes([body[3] ^ 1]) + body[4:]))
    with pytest.raises(millrace.CorruptError) as caught:
        samples(ds)
    assert caught.value.shard == server.url("s-0.tar") and caught.value.offset is not None


def test_what_a_kill_left_in_the_cache_is_cleared(server, tmp_path):
    left = tmp_path / "cache" / "ab" / "x.block.77.tmp"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"x" * 3_000_000)
    os.utime(left, (0, 0))
    samples(cached(server, tmp_path / "cache", max_bytes=1_000_000))
    assert not left.exists()


@pytest.mark.parametrize("make", [lambda ds: ds.text("cls", name="t"), lambda ds: ds.json("cls", name="j"), lambda ds: ds.select([1])])
def test_descriptions_can_be_pickled(shards, make):
    ds = make(described(str(shards / NAMES)))
    again = pickle.loads(pickle.dumps(ds))
    assert again.samples == ds.samples


def test_every_later_epoch_is_served_from_the_cache(server, shards, tmp_path):
    ds = cached(server, tmp_path / "cache").batch(64)
    samples(ds)
    before = server.count()
    for epoch in range(1, 4):
        samples(ds, epoch)
    assert server.count() == before
    kept = sum(block.stat().st_size for block in (tmp_path / "cache").rglob("*.block"))
    assert kept < 1.1 * sum(shard.stat().st_size for shard in shards.glob("*.tar"))


def test_single_samples_after_a_fork(shards):
    ds = described(str(shards / NAMES))
    ds[0]
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        os._exit(0 if ds[1][0] == "0001" else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_state_of_other_buckets_is_refused(shards):
    ds = described(str(shards / NAMES))
    with pytest.raises(millrace.InvalidError):
        ds.load_state_dict(ds.bucket_by("bin").state_dict())

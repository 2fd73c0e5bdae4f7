"""Shards in a store: read over HTTP, S3 and mr addresses, written as objects, cached, cut off and mended."""
import gzip
import http.server
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading

import corpus
import pytest
from nodes import Node

import millrace
import millrace.webdataset as wds
from millrace.dlinputs import filters, gopen


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("node")) as node:
        assert node.put("/train", b"").status in (200, 201)
        for number in range(3):
            data = corpus.tar_bytes(corpus.sorted_members(range(number * 8, number * 8 + 8)))
            assert node.put(f"/train/good-{number:06d}.tar", data).status in (200, 201)
            assert node.put(f"/train/imagenet-{number:06d}.tgz", gzip.compress(data)).status in (200, 201)
        yield node


@pytest.fixture
def address(store):
    return f"http://127.0.0.1:{store.port}"


def keys(samples):
    return [sample["__key__"] for sample in samples]


def test_reads_over_http(address):
    dataset = wds.WebDataset(address + "/train/good-{000000..000002}.tar", shardshuffle=False)
    samples = list(dataset)
    assert len(samples) == 24
    assert samples[0]["__url__"] == address + "/train/good-000000.tar" and "__local_path__" not in samples[0]


def test_reads_the_configured_store(address, monkeypatch):
    monkeypatch.setenv("MILLRACE_ENDPOINT", address)
    assert len(list(millrace.samples("mr://train/good-000001.tar"))) == 8
    assert millrace.expand_names("mr://train/good-*.tar") == [f"mr://train/good-{number:06d}.tar" for number in range(3)]


def test_an_object_that_is_not_there_is_named(address):
    with pytest.raises(millrace.NotFoundError) as caught:
        list(millrace.samples(address + "/train/absent.tar"))
    assert caught.value.shard == address + "/train/absent.tar"


def test_gopen_gives_the_bytes(address):
    with wds.gopen(address + "/train/good-000000.tar") as stream:
        assert stream.read() == corpus.tar_bytes(corpus.sorted_members(range(8)))


def test_steps_of_forks_over_http(address):
    streams = wds.tariterators.url_opener([{"url": address + "/train/good-000000.tar"}])
    assert len(list(wds.group_by_keys(wds.tar_file_expander(streams)))) == 8


def test_writes_objects(address):
    with wds.ShardWriter(address + "/train/written-%02d.tar", maxcount=5, verbose=0) as writer:
        for number in range(12):
            writer.write({"__key__": f"{number:03d}", "cls": number})
    back = wds.WebDataset(address + "/train/written-{00..02}.tar", shardshuffle=False).decode().to_tuple("cls")
    assert [number for number, in back] == list(range(12))


@pytest.mark.parametrize("name", ["good-@000003.tar", "imagenet-@000003.tgz"])
def test_the_lines_of_dlinputs_run(address, name):
    dataset = gopen.sharditerator(f"{address}/train/{name}")
    pipeline = filters.compose(filters.shuffle(1000), filters.batch(20))
    everything = set(keys(gopen.sharditerator_once(f"{address}/train/{name}")))
    assert len(everything) == 24
    for batch in itertools.islice(pipeline(dataset), 4):
        assert batch["png"].shape == (20, 4, 6, 3) and batch["cls"].shape == (20,) and set(batch["__key__"]) <= everything


def test_the_cache_keeps_shards_of_one_name_apart(store, address, tmp_path):
    assert store.put("/train/other/good-000000.tar", corpus.tar_bytes([("z.txt", b"z")])).status in (200, 201)
    urls = [address + "/train/good-000000.tar", address + "/train/other/good-000000.tar"]
    dataset = wds.WebDataset(urls, shardshuffle=False, cache_dir=str(tmp_path))
    first = list(dataset)
    assert len(first) == 9 and len(os.listdir(tmp_path)) == 2
    assert first[0]["__local_path__"].startswith(str(tmp_path))
    assert list(dataset) == first


def test_the_cache_keeps_to_its_size(address, tmp_path):
    size = len(corpus.tar_bytes(corpus.sorted_members(range(8))))
    cache = wds.cache.FileCache(str(tmp_path), cache_size=size, cache_cleanup_interval=0)
    for number in range(3):
        cache.get_file(address + f"/train/good-{number:06d}.tar")
        cache.cleaner.cleanup()
        assert len(os.listdir(tmp_path)) == 1


class Cutting(http.server.BaseHTTPRequestHandler):
    """Sends half of what is left of an archive, then hangs up."""

    data = corpus.tar_bytes([(f"{number:04d}.bin", bytes(20_000)) for number in range(20)])

    def do_GET(self):
        start = int(self.headers.get("Range", "bytes=0-").split("=")[1].split("-")[0])
        body = self.data[start:]
        self.send_response(206 if start else 200)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        self.end_headers()
        self.wfile.write(body[:max(4096, len(body) // 2)])

    def log_message(self, *_):
        pass


def test_cut_connections_are_mended():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cutting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        samples = list(millrace.samples(f"http://127.0.0.1:{server.server_port}/x/cut.tar"))
    finally:
        server.shutdown()
        server.server_close()
    assert len(samples) == 20 and all(fields["bin"] == bytes(20_000) for _, fields in samples)


def test_forked_workers_read_from_the_store(address):
    torch_data = pytest.importorskip("torch.utils.data")
    dataset = wds.WebDataset(address + "/train/good-{000000..000002}.tar", shardshuffle=False)
    assert keys(dataset) == sorted(keys(dataset), key=keys(dataset).index)
    loader = torch_data.DataLoader(dataset.to_tuple("__key__"), batch_size=None, num_workers=2)
    assert sorted(key for key, in loader) == sorted(keys(dataset))


def test_reads_s3_addresses(address, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anyone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    dataset = wds.WebDataset("s3://train/good-{000000..000002}.tar", shardshuffle=False)
    assert len(keys(dataset)) == 24


@pytest.mark.parametrize("ending", ["", "samples.close()\n", "del samples\n"])
def test_a_server_that_says_nothing_holds_nobody_up(ending):
    """^C ends the waiting, and the process ends although the connection is still open."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = ("import sys, millrace\n"
                   "samples = millrace.samples(sys.argv[1])\n"
                   "try:\n    next(samples)\n"
                   f"except KeyboardInterrupt:\n    print('interrupted')\n{ending}")
        process = subprocess.Popen([sys.executable, "-c", program, f"http://127.0.0.1:{server.getsockname()[1]}/x/y.tar"],
                                   stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        connection, _ = server.accept()
        with connection:
            assert connection.recv(3) == b"GET"
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"interrupted\n")

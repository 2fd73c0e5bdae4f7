"""millrace.samples and millrace.files: values, errors with their places, threads, forks and signals."""
import io
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import threading
import time

import corpus
import pytest

import millrace


def thread_count():
    return len(os.listdir("/proc/self/task"))


def wait_for_threads(count):
    until = time.monotonic() + 60
    while thread_count() > count:
        assert time.monotonic() < until, "threads did not end"
        time.sleep(0.01)


def test_gives_keys_and_fields_in_order(shards):
    got = list(millrace.samples(str(shards / "good-000.tar")))
    expected = {}
    for name, data in corpus.sorted_members(range(8)):
        key, field = name.split(".", 1)
        expected.setdefault(key, {})[field] = data
    assert got == list(expected.items())


@pytest.mark.parametrize("name", ["squeezed.tgz", "ustar.tar", "gnu.tar"])
def test_reads_every_kind_of_archive(shards, name):
    assert [key for key, _ in millrace.samples(str(shards / name))][-1] == {"squeezed.tgz": "d1/0003", "ustar.tar": "d1/0003",
                                                                           "gnu.tar": "d1/0001"}[name]


def test_selects_fields(shards):
    assert {tuple(fields) for _, fields in millrace.samples(str(shards / "good-000.tar"), fields={"cls"})} == {("cls",)}


def test_last_dot_rule_makes_other_keys(shards):
    got = [key for key, _ in millrace.samples(str(shards / "images.tar"), key_rule="last-dot", on_fault="mark")]
    assert "g.gray" in got and "g.rgb" in got


def test_tags_make_dicts_with_the_key_first(shards):
    sample = next(millrace.samples(str(shards / "good-000.tar"), tags={"__url__": "u"}))
    assert list(sample)[:2] == ["__key__", "__url__"] and sample["__key__"] == "d0/0000" and sample["__url__"] == "u"


def test_names_that_are_no_utf8_become_surrogates(tmp_path):
    data = corpus.tar_bytes([("k.txt", b"x")], tarfile.USTAR_FORMAT)
    header = bytearray(data[:512])
    header[0:1] = b"\xff"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "bytes.tar").write_bytes(bytes(header) + data[512:])
    assert next(millrace.samples(str(tmp_path / "bytes.tar")))[0] == "\udcff"


@pytest.mark.parametrize("name, kind, member, offset", [
    ("cut-in-data.tar", millrace.TruncatedError, "b.txt", 2348),
    ("cut-in-header.tar", millrace.TruncatedError, "b.txt", 3072),
    ("cut-at-header.tar", millrace.TruncatedError, "b.txt", 3072),
    ("doubled.tar", millrace.CorruptError, "a.TXT", 1024),
    ("scattered.tar", millrace.CorruptError, "a.cls", 2048),
    ("no-tar.tar", millrace.CorruptError, None, 0),
    ("empty.tar", millrace.TruncatedError, None, None),
    ("absent.tar", millrace.NotFoundError, None, None),
])
def test_errors_say_shard_member_and_offset(shards, name, kind, member, offset):
    path = str(shards / name)
    with pytest.raises(kind) as caught:
        list(millrace.samples(path))
    assert (caught.value.shard, caught.value.member, caught.value.offset) == (path, member, offset)
    assert name in str(caught.value)


def test_whole_samples_come_before_the_error(shards):
    got = []
    with pytest.raises(millrace.TruncatedError):
        for key, _ in millrace.samples(str(shards / "cut-in-header.tar")):
            got.append(key)
    assert got == ["a"]


def test_marked_faults_are_told_beside_the_sample(shards):
    samples = millrace.samples(str(shards / "doubled.tar"), on_fault="mark")
    key, fields = next(samples)
    assert (key, fields) == ("a", {"txt": b"first", "cls": b"1"})
    assert isinstance(samples.fault, millrace.CorruptError) and samples.fault.member == "a.TXT"
    next(samples)
    assert samples.fault is None
    samples = millrace.samples(str(shards / "scattered.tar"), on_fault="mark")
    assert [(key, samples.fault is not None) for key, _ in samples] == [("a", False), ("b", False), ("a", True), ("c", False)]


def test_errors_are_pythons_too_and_can_be_pickled(shards):
    with pytest.raises(FileNotFoundError) as caught:
        list(millrace.samples(str(shards / "absent.tar")))
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is millrace.NotFoundError and str(again) == str(caught.value) and again.shard == caught.value.shard


def test_wrong_options_are_refused(shards):
    for options in ({"key_rule": "middle-dot"}, {"on_fault": "shrug"}):
        with pytest.raises(millrace.InvalidError):
            millrace.samples(str(shards / "good-000.tar"), **options)


def test_a_sample_above_the_limit_is_refused(tmp_path):
    (tmp_path / "large.tar").write_bytes(corpus.tar_bytes([("a.bin", bytes(4 << 20))]))
    with pytest.raises(millrace.TooLargeError):
        list(millrace.samples(str(tmp_path / "large.tar"), max_sample=1 << 20))
    assert len(next(millrace.samples(str(tmp_path / "large.tar"), memory=1))[1]["bin"]) == 4 << 20


def test_files_are_all_regular_files(shards):
    assert [name for name, _ in millrace.files(str(shards / "links.tar"))] == ["a.txt", "b.txt"]
    assert dict(millrace.files(str(shards / "odd.tar")))["__meta__/info.json"] == b"__meta__/info.json"


def test_reads_python_streams(shards):
    data = (shards / "squeezed.tgz").read_bytes()
    assert len(list(millrace.samples("memory", stream=io.BytesIO(data)))) == 5

    class Trickle(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 7))
    assert len(list(millrace.samples("memory", stream=Trickle(data)))) == 5


def test_exceptions_of_streams_arrive_as_they_are():
    class Broken:
        def read(self, size):
            raise LookupError("the moon is down")
    with pytest.raises(LookupError, match="the moon is down"):
        next(millrace.samples("broken", stream=Broken()))


def test_a_stream_may_not_ask_its_own_iterator():
    class Circle:
        def read(self, size):
            return next(samples)
    samples = millrace.samples("circle", stream=Circle())
    with pytest.raises(ValueError, match="already in use"):
        next(samples)


def test_a_stream_may_close_its_own_iterator(shards):
    data = io.BytesIO((shards / "good-000.tar").read_bytes())

    class Closing:
        def read(self, size):
            samples.close()
            return data.read(size)
    samples = millrace.samples("closing", stream=Closing())
    assert list(samples) == []


@pytest.mark.parametrize("wrong", [lambda size: "text", lambda size: bytes(size + 1)])
def test_streams_that_give_nonsense_are_refused(wrong):
    class Odd:
        read = staticmethod(wrong)
    with pytest.raises((TypeError, millrace.InvalidError)):
        next(millrace.samples("odd", stream=Odd()))


def test_closing_ends_the_thread_and_the_iteration(shards, tmp_path):
    (tmp_path / "many.tar").write_bytes(corpus.tar_bytes([(f"{n:05d}.bin", bytes(10_000)) for n in range(500)]))
    before = thread_count()
    samples = millrace.samples(str(tmp_path / "many.tar"), memory=100_000)
    next(samples)
    assert thread_count() == before + 1
    samples.close()
    wait_for_threads(before)
    assert list(samples) == []


def test_two_hundred_broken_off_iterations_leave_nothing(tmp_path):
    (tmp_path / "many.tar").write_bytes(corpus.tar_bytes([(f"{n:05d}.bin", bytes(10_000)) for n in range(500)]))
    before, open_before = thread_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        for _ in millrace.samples(str(tmp_path / "many.tar")):
            break
    wait_for_threads(before)
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_trickling_input_gives_each_sample_at_once(tmp_path):
    fifo = tmp_path / "fifo.tar"
    os.mkfifo(fifo)
    data = corpus.tar_bytes([("a.txt", b"a"), ("b.txt", b"b")], tarfile.USTAR_FORMAT)
    samples = millrace.samples(str(fifo))
    with open(fifo, "wb", buffering=0) as writer:
        writer.write(data[:3 * 512])
        # The header of b is there: a is complete although the writer has not gone on.
        assert next(samples)[0] == "a"
        writer.write(data[3 * 512:])
    assert next(samples)[0] == "b"


def test_an_iterator_of_before_the_fork_says_so(shards):
    samples = millrace.samples(str(shards / "good-000.tar"))
    next(samples)
    while True:
        try:
            next(samples)
        except StopIteration:
            break
    samples = millrace.samples(str(shards / "good-000.tar"))
    child = os.fork()
    if child == 0:
        try:
            next(samples)
            os._exit(1)
        except millrace.InvalidError as error:
            del samples
            os._exit(0 if "fork" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(samples)) == 8


def test_a_forked_child_reads_by_itself(shards):
    next(millrace.samples(str(shards / "good-000.tar")))
    child = os.fork()
    if child == 0:
        os._exit(0 if len(list(millrace.samples(str(shards / "good-001.tar")))) == 8 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_one_iterator_is_for_one_thread_at_a_time(tmp_path):
    fifo = tmp_path / "fifo.tar"
    os.mkfifo(fifo)
    samples = millrace.samples(str(fifo))
    outcomes = []
    told = threading.Event()

    def take():
        try:
            outcomes.append(next(samples)[0])
        except ValueError as error:
            outcomes.append(str(error))
            told.set()

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    with open(fifo, "wb") as writer:
        # One of them waits for a sample; the other was told that it may not.
        assert told.wait(60)
        writer.write(corpus.tar_bytes([("a.txt", b"a")]))
    for thread in threads:
        thread.join(60)
    assert "a" in outcomes and any("already in use" in outcome for outcome in outcomes)


def test_interrupt_ends_waiting(tmp_path):
    os.mkfifo(tmp_path / "fifo.tar")
    program = ("import millrace, sys\n"
               "print('ready', flush=True)\n"
               "try:\n    next(millrace.samples(sys.argv[1]))\n"
               "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n")
    process = subprocess.Popen([sys.executable, "-c", program, tmp_path / "fifo.tar"], stdout=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    with open(tmp_path / "fifo.tar", "wb"):  # opening waits for the reader
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and out.split() == [b"ready", b"interrupted"]


def test_names_are_expanded(shards):
    assert millrace.expand_names("a-{00..02}.tar::b-@2.tar") == ["a-00.tar", "a-01.tar", "a-02.tar", "b-0.tar", "b-1.tar"]
    assert len(millrace.expand_names(str(shards / "good-*.tar"))) == 3
    assert millrace.expand_names(["x", "{a,b}"]) == ["x", "a", "b"]
    with pytest.raises(millrace.InvalidError):
        millrace.expand_names("{1..")

"""No wait without end: what a signal must be able to interrupt, and who stands still for others."""
import fcntl
import os
import signal
import struct
import subprocess
import sys
import threading

from troubled_server import always
from troubled_shards import HANG_SECONDS, NAMES, SAMPLES, SHARDS, described, samples
from troubled_shards import no_hang, own_index_cache, server, shards, wanted  # noqa: F401: fixtures


def interrupt_when_asked(program, *words):
    """Runs a program that prints "waiting" before it waits, and gives what it said after a SIGINT."""
    process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=HANG_SECONDS)[0]
    return process.returncode, said


def test_control_c_ends_the_wait_for_a_single_sample(server):
    program = """
import sys, threading, time, millrace
ds = millrace.Dataset(sys.argv[1]).label("cls").batch(1)
len(ds)
threading.Timer(0.2, lambda: print("waiting", flush=True)).start()
try:
    ds[3]
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    released = threading.Event()
    server.trouble = always(lambda ask: released.wait(HANG_SECONDS))
    assert interrupt_when_asked(program, server.url("s-0.tar")) == (0, "interrupted\n")
    released.set()


def test_single_samples_go_on_after_an_interruption(server):
    ds = described(server.url("s-0.tar"))
    released = threading.Event()
    len(ds)
    server.trouble = always(lambda ask: released.wait(HANG_SECONDS))
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        ds[3]
        raise AssertionError("it was not interrupted")
    except KeyboardInterrupt:
        pass
    server.trouble = lambda ask: False
    released.set()
    assert ds[3][0] == "0003"


def hold_all_places(directory):
    """The lock of every block, as a process has it that stands still while it fetches."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    everything = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(descriptor, 37, everything)  # F_OFD_SETLK
    return descriptor


def test_control_c_ends_the_wait_for_another_process_that_fetches_the_same_block(server, tmp_path):
    program = """
import sys, threading, millrace
ds = millrace.Dataset(sys.argv[1]).cache(sys.argv[2]).label("cls").batch(4)
threading.Timer(0.3, lambda: print("waiting", flush=True)).start()
try:
    list(ds.epoch(0))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    held = hold_all_places(tmp_path / "cache")
    assert interrupt_when_asked(program, server.url("s-0.tar"), str(tmp_path / "cache")) == (0, "interrupted\n")
    os.close(held)


def test_whoever_lets_go_of_a_block_lets_the_others_go_on(server, wanted, tmp_path):
    held = hold_all_places(tmp_path / "cache")
    threading.Timer(0.3, lambda: os.close(held)).start()
    assert samples(described(server.url(NAMES)).cache(str(tmp_path / "cache"))) == wanted
    assert len(wanted) == SHARDS * SAMPLES

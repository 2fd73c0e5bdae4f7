"""Sandboxes of transforms: what a hostile program tries, and that the node and its machine feel nothing of it."""
import os
import pathlib
import shutil
import socket
import tempfile
import threading
import time

import pytest

from nodes import Node
from program import Millrace, binary
from store_client import make_tar, read_tar, resident_bytes

SHARD = make_tar([("0.txt", b"zero"), ("1.txt", b"one")])
MIB = 1 << 20


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="module")
def node(place):
    with Node(place) as node:
        assert node.put("/train/shard.tar", SHARD).status == 200
        yield node
    assert processes_in_sandboxes() == []


def processes_in_sandboxes(of=b""):
    """Processes of the users that only sandboxes have, by a part of their command."""
    found = []
    for directory in pathlib.Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                if 65_100 <= directory.stat().st_uid < 65_164:
                    command = (directory / "cmdline").read_bytes()
                    found += [command] if command and of in command else []  # one without has ended already
            except OSError:
                pass  # it has ended
    return found


@pytest.fixture(scope="module")
def attempt(node, place):
    """Registers Python source as a filter and runs it on the shard: the answer."""
    tool = Millrace(place)

    def run(source, *flags, shard="shard.tar"):
        text = "import os, sys, io, tarfile\n" + source
        tool("transform", "add", "attempt", "--filter", *flags, "--", "/usr/bin/python3", "-c", text, env={"MILLRACE_ENDPOINT": node.url})
        return node.get(f"/train/{shard}?transform=attempt")
    return run


# Says what happened as a tar of one member.
TELL = '''
def tell(text):
    data = str(text).encode()
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as out:
        member = tarfile.TarInfo("said.txt")
        member.size = len(data)
        out.addfile(member, io.BytesIO(data))
sys.stdin.buffer.read()
def failure(call, *words):
    try:
        return f"it worked: {call(*words)!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
'''


def said(answer):
    assert answer.status == 200, answer.body[:2000]
    return read_tar(answer.body)[0][1].decode()


def still_serves(node):
    assert node.get("/train/shard.tar").body == SHARD


def test_there_is_no_network(attempt):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    text = said(attempt(TELL + f'''
import socket
tell([failure(socket.create_connection, ("127.0.0.1", {port}), 2), failure(socket.create_connection, ("1.1.1.1", 53), 2),
      [name for _, name in socket.if_nameindex()]])'''))
    assert "it worked" not in text and "'lo'" in text and "eth" not in text
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_files_of_the_machine_are_out_of_sight(attempt, node, place):
    secret = place / "data" / "keys.json"
    paths = ["/etc/shadow", "/etc/passwd", "/root", "/home", "/var", "/srv", str(place), str(secret), f"/proc/{node.process.pid}/environ", "/sys/class"]
    text = said(attempt(TELL + f"tell([path for path in {paths!r} if os.path.lexists(path)])"))
    assert text == "[]"
    text = said(attempt(TELL + "tell(sorted(os.listdir('/')))"))
    assert set(eval(text)) <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "opt", "proc", "sbin", "tmp", "usr"}


def test_nothing_but_the_private_directory_can_be_written(attempt):
    text = said(attempt(TELL + '''
def write(path):
    with open(path, "wb") as file:
        file.write(b"x")
tell([(path, failure(write, path)) for path in ["/x", "/usr/x", "/usr/bin/x", "/etc/x", "/dev/x", "/proc/x", "/proc/sys/kernel/hostname", "/opt/x"]])'''))
    assert "it worked" not in text
    assert said(attempt(TELL + "open('/tmp/x', 'w').write('mine'); tell(open('/tmp/x').read())")) == "mine"
    # The directory is one of each run.
    assert said(attempt(TELL + "tell(os.listdir('/tmp'))")) == "[]"


def test_it_is_another_user_without_any_rights(attempt):
    text = said(attempt(TELL + '''
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
tell([os.getuid(), os.getgid(), status["CapEff"].strip(), status["CapBnd"].strip(), status["NoNewPrivs"].strip(), status["Seccomp"].strip(), os.getgroups()])'''))
    uid, gid, effective, bound, privileges, filtered, groups = eval(text)
    assert uid != 0 and gid != 0 and int(effective, 16) == 0 and int(bound, 16) == 0 and privileges == "1" and filtered == "2"
    if os.geteuid() == 0:
        assert 65_100 <= uid < 65_164


def test_other_processes_cannot_be_seen_or_ended(attempt, node):
    text = said(attempt(TELL + f'''
import signal
tell([sorted(int(name) for name in os.listdir("/proc") if name.isdigit()), failure(os.kill, {node.process.pid}, 9)])'''))
    pids, killed = eval(text)
    assert len(pids) <= 3 and "it worked" not in killed


def test_calls_that_take_uncounted_memory_or_reach_into_the_kernel_are_refused(attempt):
    text = said(attempt(TELL + '''
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *words):
    result = libc.syscall(number, *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
calls = {"memfd_create": (319, b"x", 0), "shmget": (29, 0, 1 << 20, 0o1600), "ptrace": (101, 0, 0, 0, 0), "unshare": (272, 0x10000000),
         "mount": (165, b"none", b"/tmp", b"tmpfs", 0, 0), "bpf": (321, 0, 0, 0), "io_uring_setup": (425, 1, 0), "keyctl": (250, 0, 0)}
tell([(name, failure(call, *words)) for name, words in calls.items()])'''))
    assert "it worked" not in text, text


def test_descriptors_of_the_node_are_not_inherited(attempt):
    text = said(attempt(TELL + 'tell([os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")])'))
    for link in eval(text):
        assert link.startswith(("pipe:", "/proc/")), text


FORKS = '''
import os, sys
made = 0
try:
    while True:
        if os.fork() == 0:
            import time
            time.sleep(600)
        made += 1
except OSError as error:
    sys.exit(f"{made} processes, then {error.strerror}")
'''


def test_a_fork_bomb_ends_at_its_limit(attempt, node):
    answer = attempt(FORKS, "--processes", "20", "--seconds", "60")
    text = answer.body.decode()
    assert answer.code == "TransformFailed" and "processes, then Resource temporarily unavailable" in text
    assert int(text.split(" processes, then")[0].split()[-1]) < 25
    still_serves(node)


def test_a_wild_fork_bomb_is_ended_by_time(attempt, node):
    answer = attempt("while True:\n    try: os.fork()\n    except OSError: pass\n", "--processes", "30", "--seconds", "3")
    assert answer.code == "TransformFailed" and b"longer than its limit" in answer.body
    still_serves(node)


def test_memory_ends_at_its_limit(attempt, node):
    before = resident_bytes(node)
    answer = attempt("hoard = []\nwhile True: hoard.append(b'x' * (8 << 20))\n", "--memory", "64MiB", "--seconds", "60")
    assert answer.code == "TransformFailed" and (b"bytes of memory" in answer.body or b"MemoryError" in answer.body)
    # Of many processes together as well: none of them is large.
    answer = attempt('''
import time
for _ in range(12):
    if os.fork() == 0:
        hoard = b"x" * (16 << 20)
        time.sleep(600)
time.sleep(600)
''', "--memory", "128MiB", "--seconds", "60")
    assert answer.code == "TransformFailed" and b"bytes of memory" in answer.body
    assert resident_bytes(node) - before < 64 * MIB
    still_serves(node)


@pytest.mark.parametrize("path", ["/tmp/big", "/dev/shm/big"])
def test_the_private_directory_is_full_at_its_limit(attempt, node, path):
    text = said(attempt(TELL + f'''
def fill():
    with open({path!r}, "wb") as file:
        while True:
            file.write(bytes(1 << 20))
outcome = failure(fill)
tell([outcome, os.path.getsize({path!r})])''', "--disk", "20MiB"))
    outcome, size = eval(text)
    assert ("No space left" in outcome or "File too large" in outcome) and size <= 20 * MIB
    still_serves(node)


def test_endless_output_is_cut(attempt, node):
    # A tar that never ends: one member after the other.
    answer_or_cut = None
    try:
        answer_or_cut = attempt('''
header = tarfile.TarInfo("x.bin")
header.size = 1 << 20
block = header.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20)
while True:
    sys.stdout.buffer.write(block)
''', "--most-output", "512KiB")
    except (ConnectionError, OSError):
        pass
    except Exception as error:
        assert "IncompleteRead" in type(error).__name__ or "Incomplete" in str(error)
    if answer_or_cut is not None:
        assert answer_or_cut.code == "TransformFailed" and b"wrote more than" in answer_or_cut.body
    still_serves(node)


def test_endless_words_are_only_the_last_ones(attempt, node):
    before = resident_bytes(node)
    answer = attempt("for n in range(200000): sys.stderr.write('blah ' * 20 + '\\n')\nsys.stderr.write('the end'); sys.exit(2)\n")
    assert answer.code == "TransformFailed" and b"the end" in answer.body and len(answer.body) < 4000
    assert resident_bytes(node) - before < 64 * MIB


def test_processor_time_ends_at_its_limit(attempt, node):
    answer = attempt("while True: pass\n", "--cpu-seconds", "1", "--seconds", "60")
    assert answer.code == "TransformFailed" and (b"processor time" in answer.body or b"signal 9" in answer.body)
    still_serves(node)


def test_a_program_that_hangs_is_ended(attempt, node):
    answer = attempt("import time, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n", "--seconds", "1")
    assert answer.code == "TransformFailed" and b"longer than its limit" in answer.body
    # One that leaves a child behind, too.
    answer = attempt("sys.stdin.buffer.read()\nif os.fork() == 0:\n    os.setsid(); os.close(1); os.close(2)\n    import time; time.sleep(600)\nsys.exit(1)\n")
    assert answer.code == "TransformFailed"
    still_serves(node)


def test_a_program_that_reads_nothing_and_one_that_is_not_there(attempt, node, place):
    big = make_tar([(f"{n}.bin", bytes(1 << 20)) for n in range(8)])
    assert node.put("/train/big.tar", big).status == 200
    assert said(attempt(TELL.replace("sys.stdin.buffer.read()", "") + "tell('done')", shard="big.tar")) == "done"
    Millrace(place)("transform", "add", "away", "--filter", "--", "no-such-program", env={"MILLRACE_ENDPOINT": node.url})
    answer = node.get("/train/shard.tar?transform=away")
    assert answer.code == "TransformFailed" and b"no-such-program" in answer.body


def test_a_client_that_goes_away_ends_the_program(attempt, node):
    Millrace(node.directory)("transform", "add", "slow", "--filter", "--", "/usr/bin/python3", "-c",
                             "import sys, time\nsys.stdin.buffer.read()\nwhile True:\n    sys.stdout.buffer.write(bytes(1 << 20))\n    time.sleep(0.01)\n",
                             env={"MILLRACE_ENDPOINT": node.url})
    connection = socket.create_connection((node.host, node.port))
    connection.sendall(b"GET /train/shard.tar?transform=slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.recv(1)
    connection.close()
    until = time.monotonic() + 60
    while processes_in_sandboxes(b"time.sleep(0.01)") and time.monotonic() < until:
        time.sleep(0.05)
    assert processes_in_sandboxes(b"time.sleep(0.01)") == []


BAD = '''
import os, time
def hang(sample):
    if sample["txt"] == b"one":
        time.sleep(600)
    return sample
def die(sample):
    if sample["txt"] == b"one":
        os._exit(7)
    return sample
def lie(sample):
    if sample["txt"] == b"one":
        os.write(3, b"x"); [os.write(fd, b"\\xff" * 64) for fd in range(4, 9) if os.path.exists(f"/proc/self/fd/{fd}")]
        time.sleep(600)
    return sample
def swell(sample):
    return {"txt": b"x" * (64 << 20)} if sample["txt"] == b"one" else sample
'''


@pytest.mark.parametrize("function, why", [("hang", b"longer than its limit"), ("die", b"exit code 7"), ("lie", b""), ("swell", b"")])
def test_a_python_worker_that_misbehaves_fails_its_sample_alone(node, place, function, why):
    (place / "bad.py").write_text(BAD)
    tool = Millrace(place)
    flags = ["--python", f"bad.py:{function}", "--seconds", "2", "--most-output", "1MiB"]
    tool("transform", "add", "bad", *flags, env={"MILLRACE_ENDPOINT": node.url})
    answer = node.get("/train/shard.tar?transform=bad")
    assert answer.code == "TransformFailed" and why in answer.body and b"sample" in answer.body
    tool("transform", "add", "bad", *flags, "--on-error", "skip", env={"MILLRACE_ENDPOINT": node.url})
    answer = node.get("/train/shard.tar?transform=bad")
    assert [name for name, _ in read_tar(answer.body)] == ["0.txt"]
    still_serves(node)
    tool("transform", "remove", "bad", env={"MILLRACE_ENDPOINT": node.url})


def test_the_node_takes_its_sandboxes_along(tmp_path):
    with Node(tmp_path) as node:
        assert node.put("/train/shard.tar", SHARD).status == 200
        Millrace(tmp_path)("transform", "add", "asleep", "--filter", "--", "sleep", "600", env={"MILLRACE_ENDPOINT": node.url})
        threading.Thread(target=lambda: pytest.raises(Exception, node.get, "/train/shard.tar?transform=asleep"), daemon=True).start()
        until = time.monotonic() + 60
        # The program itself: bubblewrap has these words, too, before it is bound to the node's life.
        asleep = lambda: [command for command in processes_in_sandboxes() if command.startswith(b"sleep\x00600")]
        while not asleep() and time.monotonic() < until:
            time.sleep(0.02)
        node.kill()
        while asleep() and time.monotonic() < until:
            time.sleep(0.02)
        assert asleep() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_node_of_an_ordinary_user_has_sandboxes_too():
    user = 2000
    place = pathlib.Path(tempfile.mkdtemp())
    try:
        place.chmod(0o755)
        shutil.copy(binary(), place / "millrace")
        (place / "home").mkdir()
        os.chown(place / "home", user, user)
        node = Node(place / "home", program=str(place / "millrace"))
        node.before = ("setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups")
        with node:
            assert node.put("/train/shard.tar", SHARD).status == 200
            tool = Millrace(place)
            environment = {"MILLRACE_ENDPOINT": node.url}
            tool("transform", "add", "who", "--command", "-c", "id -u > sample.uid; cat /proc/self/uid_map > sample.map; ls -A / > sample.ls", env=environment)
            members = dict(read_tar(node.get("/train/shard.tar?transform=who").body))
            assert members["0.uid"] == b"%d\n" % user and members["0.map"].split()[2] == b"1"
            assert b"home" not in members["0.ls"] and b"root" not in members["0.ls"]
            tool("transform", "add", "bomb", "--filter", "--processes", "20", "--", "/usr/bin/python3", "-c", FORKS, env=environment)
            answer = node.get("/train/shard.tar?transform=bomb")
            assert answer.code == "TransformFailed" and b"processes, then Resource temporarily unavailable" in answer.body
            still_serves(node)
    finally:
        shutil.rmtree(place)

"""kill -9 at every fault point of every operation: what was acknowledged is whole, what was not is the old or the new,
whole, and nothing is left over (D1, D3, D4, A1)."""
import concurrent.futures
import contextlib
import http.client
import json
import re
import shutil
import subprocess
import time

import pytest

from conftest import binary
from nodes import Node
from payload import fault_of, make
from workload import PART, Client, Ended

pytestmark = pytest.mark.fault_points
SMALL, LARGE, NEW_PART = 5_000, 1_200_000, 70_000
# Objects that are there before each operation: key -> size. None of the operations touches the first two.
BEFORE = {"still-small": 3000, "still-large": 100_000, "small": SMALL, "large": LARGE, "source": LARGE}
POINT = re.compile(r"fault point (\d+) (\S+)")
WORKERS = 3


class Upload:
    """The multipart upload that is open before each operation: two parts are there."""

    key = "parts"
    size = PART + 50_000

    def __init__(self, client):
        self.client = client
        answer = client.ask("POST", f"/crash/{self.key}?uploads")[1]
        self.number = re.search(rb"<UploadId>([^<]+)<", answer)[1].decode()
        data = make(self.key, 2, self.size)
        self.etags = [self.put(1, data[:PART]), self.put(2, data[PART:])]

    def put(self, number, piece):
        status, _, headers = self.client.ask("PUT", f"/crash/{self.key}?partNumber={number}&uploadId={self.number}", piece)
        assert status == 200
        return next(value for name, value in headers.items() if name.lower() == "etag")

    def complete(self):
        parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in enumerate(self.etags, 1))
        return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"


def put(key, size):
    return lambda client, upload: client.ask("PUT", f"/crash/{key}", make(key, 2, size))[0]


def copy(client, upload):
    client.connection.putrequest("PUT", "/crash/copied")
    client.connection.putheader("x-amz-copy-source", "/crash/source")
    client.connection.putheader("Content-Length", "0")
    try:
        client.connection.endheaders()
        response = client.connection.getresponse()
        response.read()
        return response.status
    except (OSError, ConnectionError) as error:
        raise Ended from error


# name -> (what is done, key, sizes that may be seen afterwards by version; 0 stands for absent)
OPERATIONS = {
    "put inline": (put("new", SMALL), "new", {0: 0, 2: SMALL}),
    "put file": (put("new", LARGE), "new", {0: 0, 2: LARGE}),
    "overwrite inline by file": (put("small", LARGE), "small", {1: SMALL, 2: LARGE}),
    "overwrite file by inline": (put("large", SMALL), "large", {1: LARGE, 2: SMALL}),
    "overwrite file by file": (put("large", LARGE + 9), "large", {1: LARGE, 2: LARGE + 9}),
    "delete inline": (lambda client, upload: client.ask("DELETE", "/crash/small")[0], "small", {1: SMALL, 0: 0}),
    "delete file": (lambda client, upload: client.ask("DELETE", "/crash/large")[0], "large", {1: LARGE, 0: 0}),
    "upload create": (lambda client, upload: client.ask("POST", "/crash/other?uploads")[0], "other", {0: 0}),
    "upload part": (lambda client, upload: client.ask("PUT", f"/crash/parts?partNumber=2&uploadId={upload}", b"x" * NEW_PART)[0], "parts", {0: 0}),
    "upload complete": (lambda client, upload: client.ask("POST", f"/crash/parts?uploadId={upload.number}", upload.complete())[0], "parts",
                        {0: 0, 2: Upload.size}),
    "upload abort": (lambda client, upload: client.ask("DELETE", f"/crash/parts?uploadId={upload}")[0], "parts", {0: 0}),
    "copy": (copy, "copied", {0: 0, 1: LARGE}),
}


class Prepared:
    """A stopped node's directory with the objects of BEFORE and an open upload, to be copied."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()
        with Node(directory) as node:
            assert node.ask("PUT", "/crash").status == 200
            for key, size in BEFORE.items():
                assert node.put(f"/crash/{key}", make(key, 1, size)).status == 200
            self.upload = Upload(Client(node.port))
        self.upload.client = None

    def copy(self, to):
        shutil.copytree(self.directory, to)
        (to / "node.log").unlink()
        # The node knows its drives by their paths.
        state = to / "data" / "node.json"
        state.write_text(state.read_text().replace(str(self.directory), str(to)))
        return to


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared") / "node")


class PlainNumber(str):
    """The upload's number, with what else the completion needs."""


def run(node, operation, upload):
    """The status, or None where the node went before it answered."""
    argument = PlainNumber(upload.number)
    argument.number, argument.complete = upload.number, upload.complete
    try:
        return operation(Client(node.port), argument)
    except Ended:
        return None


def drive_in(directory):
    """The only drive: a directory with an identity."""
    return next(directory.glob("data/**/millrace.json")).parent


def count_points(prepared, directory, operation):
    """A dry run: the numbers of the points that the operation passes, and their names."""
    node = Node(prepared.copy(directory), env={"MILLRACE_TELL_FAULTS": "1"})
    with node:
        before = len(POINT.findall(node.said()))
        status = run(node, operation, prepared.upload)
        assert status in (200, 204), status
        time.sleep(0.5)  # old files go after the answer
        points = [(int(number), name) for number, name in POINT.findall(node.said())]
    return points[before:]


def is_quiet(node):
    """The sweep after an unclean stop is through."""
    return "swept a drive" in node.said().split("millrace serves")[-1]


def check_after(node, prepared, key, sizes, status, done_version):
    """Restarted without faults."""
    faults = []
    for name, size in BEFORE.items():
        if name == key:
            continue
        answer = node.get(f"/crash/{name}")
        if answer.status != 200 or fault_of(name, answer.body, {1: size}):
            faults.append(f"{name}: {answer.status} {fault_of(name, answer.body, {1: size})}")
    answer = node.get(f"/crash/{key}")
    if answer.status == 404:
        seen = 0
        if 0 not in sizes:
            faults.append(f"{key}: lost")
    elif answer.status != 200:
        seen = None
        faults.append(f"{key}: status {answer.status}")
    else:
        name = "source" if key == "copied" else key
        fault = fault_of(name, answer.body, {version: size for version, size in sizes.items() if version})
        seen = None if fault else [version for version, size in sizes.items() if version and answer.body == make(name, version, size)][0]
        if fault:
            faults.append(fault)
    if status in (200, 204) and seen != done_version:
        faults.append(f"{key}: acknowledged with {status}, but version {seen} is there, not {done_version}")
    listed = key in node.keys("crash")
    if listed != (seen != 0):
        faults.append(f"{key}: the list says {listed}")
    return faults


PART_ROW = re.compile(rb"<PartNumber>(\d+)</PartNumber>.*?<ETag>(?:&quot;|\")([^&\"]+).*?<Size>(\d+)</Size>")


def check_uploads(node, prepared, name, status):
    """The uploads after a restart: what was acknowledged is listed with every part, what was ended stays so."""
    upload, done = prepared.upload, status in (200, 204)
    listed = re.findall(rb"<Upload><Key>([^<]+)<", node.get("/crash?uploads").body)
    answer = node.get(f"/crash/{upload.key}?uploadId={upload.number}")
    parts = {int(number): (etag.decode(), int(size)) for number, etag, size in PART_ROW.findall(answer.body)}
    before = {number: (etag.strip('"'), size) for number, etag, size in zip((1, 2), upload.etags, (PART, upload.size - PART))}
    faults = []
    if (answer.status == 200) != (upload.key.encode() in listed):
        faults.append(f"its parts are answered {answer.status}, but listed are {listed}")
    ends = name in ("upload abort", "upload complete")
    if ends and (done or answer.status == 404):
        if answer.status != 404:
            faults.append(f"acknowledged with {status}, but the upload is still there")
    elif name == "upload part":
        sizes = {number: size for number, (_, size) in parts.items()}
        allowed = [NEW_PART] if done else [NEW_PART, upload.size - PART]
        if parts.get(1) != before[1] or set(sizes) != {1, 2} or sizes[2] not in allowed:
            faults.append(f"parts {parts}, acknowledged with {status}")
    elif parts != before:
        faults.append(f"parts {parts} instead of {before}")
    if name == "upload create" and done and b"other" not in listed:
        faults.append(f"an upload that was begun is not listed: {listed}")
    return [f"uploads: {fault}" for fault in faults]


def crash_once(prepared, directory, name, point):
    """Gives the faults found, and whether the point was reached."""
    operation, key, sizes = OPERATIONS[name]
    number, label = point
    node = Node(prepared.copy(directory), env={"MILLRACE_CRASH_AT": str(number)})
    node.start()
    status = run(node, operation, prepared.upload)
    until = time.monotonic() + 3
    while node.process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    reached = node.process.poll() is not None
    if not reached:
        node.kill()
    node.env = {}
    done_version = list(sizes)[-1]
    faults = []
    try:
        with node:
            faults = check_after(node, prepared, key, sizes, status, done_version) + check_uploads(node, prepared, name, status)
            until = time.monotonic() + 20
            while not is_quiet(node) and time.monotonic() < until:
                time.sleep(0.02)
        with node:
            # The sweep was not in the way either.
            faults += check_uploads(node, prepared, name, status)
        done = subprocess.run([binary(), "--json", "fsck", str(drive_in(directory)), "--deep"], capture_output=True, text=True)
        if done.returncode != 0:
            faults.append(f"fsck: {done.stdout[-1500:]} {done.stderr[-500:]}")
        if list((drive_in(directory) / "tmp").glob("*")):
            faults.append("something is left in tmp")
    except AssertionError as error:
        faults.append(str(error)[-1500:])
    shutil.rmtree(directory)
    return [f"{name}, killed at point {number} {label}: {fault}" for fault in faults], reached


@pytest.mark.parametrize("name", OPERATIONS)
def test_crash_at_every_point(prepared, tmp_path, name):
    points = count_points(prepared, tmp_path / "dry", OPERATIONS[name][0])
    assert points, "no fault point is passed"
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(lambda point: crash_once(prepared, tmp_path / str(point[0]), name, point), points))
    reached = sum(one for _, one in results)
    print(f"{name}: {len(points)} points, killed at {reached}: " + " ".join(label for _, label in points))
    faults = [fault for found, _ in results for fault in found]
    assert not faults, "\n".join(faults)
    assert reached >= len(points) - 1, "the points differ from run to run"


def test_crash_in_the_sweep(prepared, tmp_path):
    """A start after a crash is itself killed, at its first removal; the next one finishes the work."""
    directory = prepared.copy(tmp_path / "node")
    litter = drive_in(directory) / "data" / "00" / "0000000000000100"
    node = Node(directory, env={"MILLRACE_TELL_FAULTS": "1"})
    node.start()
    node.kill()
    litter.write_bytes(b"left by a crash")
    node.start(wait=False, env={"MILLRACE_CRASH_AT": "1"})
    assert node.process.wait(60) == -9
    assert litter.exists()
    node.env = {}
    with node:
        until = time.monotonic() + 20
        while litter.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert not litter.exists()
        assert check_after(node, prepared, "none", {0: 0}, None, 0) == []


def drain(node, path):
    return node.ask("POST", "/-/drives", json.dumps({"action": "drain", "path": str(path)}))


def drain_until_crash(directory, point):
    """Drains a drive that holds an upload, with a kill at this point; gives whether it came so far. Afterwards the upload is
    whole on one drive, can be completed, and the drained drive is empty."""
    directory.mkdir()
    drives = [directory / "a", directory / "b"]
    node = Node(directory, "--drive", drives[0]).start()
    try:
        assert node.ask("PUT", "/crash").status == 200
        upload = Upload(Client(node.port))
        assert node.ask("POST", "/-/drives", json.dumps({"action": "add", "path": str(drives[1])})).status == 200
        node.kill()
        node.start(env={"MILLRACE_CRASH_AT": str(point)})
        cut = True
        with contextlib.suppress(OSError, http.client.HTTPException):
            drain(node, drives[0])
            until = time.monotonic() + 60
            # Files go after the commit: with the last of them all is done.
            while any(path.is_file() for path in (drives[0] / "data").rglob("*")) and node.process.poll() is None:
                assert time.monotonic() < until, (point, "the upload is not moved")
                time.sleep(0.02)
            cut = False
        if cut:
            node.process.wait(timeout=60)  # its sockets close a moment before it is gone
        crashed = node.process.poll() is not None
        if not crashed:
            node.kill()
        node.start()
        listed = node.get(f"/crash/{upload.key}?uploadId={upload.number}").body
        assert listed.count(b"<PartNumber>") == 2, (point, listed)
        assert drain(node, drives[0]).status == 200
        assert node.ask("POST", f"/crash/{upload.key}?uploadId={upload.number}", upload.complete()).status == 200, point
        assert node.get(f"/crash/{upload.key}").body == make(upload.key, 2, upload.size), point
        until = time.monotonic() + 60
        while node.ask("POST", "/-/drives", json.dumps({"action": "remove", "path": str(drives[0])})).status != 200:
            assert time.monotonic() < until, (point, "something is left on the drained drive")
            time.sleep(0.02)
        node.kill()
        node.start()
        assert b"<Upload>" not in node.get("/crash?uploads").body, point
        assert node.get(f"/crash/{upload.key}").body == make(upload.key, 2, upload.size), point
        return crashed
    finally:
        node.kill()


def test_an_upload_is_moved_off_a_drained_drive_whatever_the_moment_of_a_crash(tmp_path):
    crashes = 0
    for point in range(1, 200):
        if not drain_until_crash(tmp_path / str(point), point):
            break
        crashes += 1
        shutil.rmtree(tmp_path / str(point))
    print(f"{crashes} crashes")
    assert crashes >= 8

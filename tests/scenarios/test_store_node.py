"""The life of a node: start, settings, drives that come and go, restarts, metrics, status and the scrubber."""
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import tomllib

import pytest

from conftest import HANG_SECONDS, REPOSITORY, binary
from nodes import Node, free_port
from store_client import begin_upload, complete, put_part, texts, parse, wait_until

BODIES = {f"k{number:02}": os.urandom(10 if number % 2 else 60_000) for number in range(40)}


def fill(node, bucket="box"):
    node.ask("PUT", f"/{bucket}")
    for key, body in BODIES.items():
        assert node.put(f"/{bucket}/{key}", body).status == 200


def check(node, bucket="box"):
    assert node.keys(bucket) == sorted(BODIES)
    for key, body in BODIES.items():
        assert node.get(f"/{bucket}/{key}").body == body, key


def refused(directory, *words, env=None):
    done = subprocess.run([binary(), *map(str, words)], capture_output=True, text=True, timeout=HANG_SECONDS, cwd=directory, env={**os.environ, **(env or {})})
    assert done.returncode in (1, 2), done
    return done.stderr


def settings(millrace, *words, env=None):
    return tomllib.loads(millrace("config", *words, env=env).text)


# Starting.

def test_a_start_says_where_it_is_and_what_to_try(tmp_path):
    with Node(tmp_path) as node:
        said = wait_until(lambda: "aws" in node.said() and node.said())
        assert node.url in said and "curl -T" in said and "millrace ls" in said and "aws --endpoint-url" in said
        assert str(tmp_path / "data") in said
    assert "stopped" in node.said()


def test_a_port_of_zero_is_chosen_by_the_kernel_and_told_as_json(millrace):
    running = millrace.popen("--json", "up", "--data", "d", "--listen", "127.0.0.1:0", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        told = json.loads(running.stdout.readline())
        assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", told["url"]) and told["data"] == "d" and told["node"]
    finally:
        running.terminate()
        assert running.wait(timeout=60) == 0


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x", "example.invalid:80"])
def test_addresses_that_cannot_be_listened_on(tmp_path, listen):
    assert "cannot listen" in refused(tmp_path, "up", "--data", tmp_path / "data", "--listen", listen)


def test_a_port_that_is_taken_and_data_that_is_in_use_are_refused(tmp_path):
    with Node(tmp_path) as node:
        assert "--listen" in refused(tmp_path, "up", "--data", tmp_path / "other", "--listen", node.listen)
        said = refused(tmp_path, "up", "--data", tmp_path / "data", "--listen", f"127.0.0.1:{free_port()}")
        assert "data" in said and ("use" in said or "lock" in said or "another" in said)


def test_the_system_service_starts_what_this_binary_understands(tmp_path, millrace):
    unit = (REPOSITORY / "deploy" / "systemd" / "millrace.service").read_text()
    (line,) = re.findall("(?m)^ExecStart=(.*)$", unit)
    program, verb, *words = shlex.split(line)
    assert os.path.basename(program) == "millrace" and verb == "up"
    # The same flags, for `config` takes those of `up`: with a file and a directory that are here.
    (tmp_path / "millrace.toml").write_text(millrace("config").text)
    millrace("config", *[{"/etc/millrace.toml": tmp_path / "millrace.toml", "/var/lib/millrace": tmp_path / "data"}.get(word, word) for word in words])
    if shutil.which("systemd-analyze"):
        copy = tmp_path / "millrace.service"
        copy.write_text(unit.replace(program, binary()))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=HANG_SECONDS)
        assert "millrace.service" not in done.stderr, done.stderr


# Settings.

def test_flags_override_the_environment_which_overrides_the_file(millrace, tmp_path):
    (tmp_path / "m.toml").write_text('cache = "1MiB"\nworkers = 3\nthreads = 2\ndrives = ["a", "b"]\n')
    env = {"MILLRACE_CACHE": "2MiB", "MILLRACE_WORKERS": "4"}
    found = settings(millrace, "--config", "m.toml", "--set", "cache=3MiB", env=env)
    assert (found["cache"], found["workers"], found["threads"], found["drives"]) == ("3MiB", 4, 2, ["a", "b"])
    assert settings(millrace, "--config", "m.toml", env={"MILLRACE_DRIVES": "x,y,z"})["drives"] == ["x", "y", "z"]
    assert settings(millrace, "--config", "m.toml", "--drive", "p", "--drive", "q")["drives"] == ["p", "q"]


def test_printed_settings_are_toml_that_reads_back_the_same(millrace, tmp_path):
    text = millrace("config", "--set", "cache=7MiB", "--set", "insecure=true", "--drive", '"quoted"', "--set", "stop_seconds=5s").text
    (tmp_path / "m.toml").write_text(text)
    assert millrace("config", "--config", "m.toml").text == text
    found = tomllib.loads(text)
    assert found["insecure"] is True and found["drives"] == ['"quoted"'] and found["cache"] == "7MiB"
    assert int(millrace.json("config", "--config", "m.toml")[0]["cache"]) == 7 << 20


def test_a_drive_may_have_blanks_and_commas_in_its_name(millrace, tmp_path):
    (tmp_path / "m.toml").write_text('drives = ["my disk", "a,b"]\n')
    assert settings(millrace, "--config", "m.toml")["drives"] == ["my disk", "a,b"]
    assert settings(millrace, "--drive", "my disk", "--drive", "a,b")["drives"] == ["my disk", "a,b"]


def test_unknown_settings_name_the_nearest_and_the_place(millrace, tmp_path):
    said = millrace("config", "--set", "max_conections=5", code=None)
    assert said.code != 0 and "max_connections" in said.err
    (tmp_path / "m.toml").write_text("\nlisten = '127.0.0.1:1'\nwokers = 3\n")
    said = millrace("config", "--config", "m.toml", code=None)
    assert said.code != 0 and "workers" in said.err and "m.toml" in said.err
    for wrong in ("workers=many", "cache=big", "insecure=perhaps", "workers=-1", "workers", "stop_seconds=5parsecs"):
        said = millrace("config", "--set", wrong, code=None)
        assert said.code != 0 and wrong.split("=")[0] in said.err, wrong
    (tmp_path / "m.toml").write_text("listen = [")
    assert "m.toml" in millrace("config", "--config", "m.toml", code=None).err
    assert millrace("config", "--config", "none.toml", code=None).code != 0


def test_settings_that_no_node_could_run_with_name_their_range(millrace):
    for wrong in ("read_window=0", "read_window=1", "max_connections=0", "workers=0", "busy_wait_us=3000000000", "threads=100000", "idle_seconds=0", "upload_expiry=0"):
        said = millrace("config", "--set", wrong, code=2).err
        assert wrong.split("=")[0] in said and "from" in said and "to" in said, said
    assert "data" in millrace("config", "--set", "data=", code=2).err
    assert "read_window" in millrace("up", "--data", "d", env={"MILLRACE_READ_WINDOW": "0"}, code=2).err


def test_variables_that_look_like_settings_and_are_none_are_named(tmp_path):
    slips = {"MILLRACE_MAX_CONECTIONS": "5", "MILLRACE_READWINDOW": "1MiB"}
    others = {"MILLRACE_ENDPOINT": "http://127.0.0.1:1", "MILLRACE_ACCESS_KEY": "x", "MILLRACE_SECRET_KEY": "y", "MILLRACE_TIMEOUT": "5", "MILLRACE_PATIENCE": "5", "MILLRACE_ALLOW_PIPE": "1"}
    with Node(tmp_path, env={**slips, **others}) as node:
        said = node.said()
        assert "MILLRACE_MAX_CONNECTIONS" in said and "MILLRACE_READ_WINDOW" in said and all(name in said for name in slips)
        assert not [name for name in others if name in said]


# Restarts.

def test_objects_are_counted_after_a_restart_too(tmp_path, millrace):
    def counted():
        return node.get("/-/drives").json["drives"][0]["objects"]

    node = Node(tmp_path)
    with node:
        fill(node)
        assert counted() == len(BODIES)
    with node:
        assert counted() == len(BODIES)
        assert f"{len(BODIES)} objects" in millrace("drives", "list", "--endpoint", node.url).text
        for key in sorted(BODIES)[:15]:
            node.ask("DELETE", f"/box/{key}")
        assert counted() == len(BODIES) - 15
    with node:
        assert counted() == len(BODIES) - 15


def test_a_node_that_knows_its_drives_makes_no_other_one(tmp_path):
    drives = Drives(tmp_path, "a", "b")
    with drives.node as node:
        fill(node)
    drives.node.flags = []
    with drives.node as node:
        assert drives.states() == {"a": "serving", "b": "serving"}
        check(node)
    assert not (tmp_path / "data" / "drive").exists()


def test_abandoned_uploads_expire_and_those_that_get_parts_do_not(tmp_path):
    with Node(tmp_path, "--set", "upload_expiry=3s") as node:
        node.ask("PUT", "/box")
        fed, abandoned = begin_upload(node, "/box/fed"), begin_upload(node, "/box/abandoned")
        etags = {}
        assert put_part(node, "/box/abandoned", abandoned, 1, b"left").status == 200

        def feed_until_the_other_is_gone():
            etags["1"] = put_part(node, "/box/fed", fed, 1, b"fed").headers["etag"]
            return node.get(f"/box/abandoned?uploadId={abandoned}").status == 404

        wait_until(feed_until_the_other_is_gone)
        assert texts(parse(node.get("/box?uploads")), "Upload/Key") == ["fed"]
        assert complete(node, "/box/fed", fed, [(1, etags["1"])]).status == 200
        assert node.get("/box/fed").body == b"fed"


def test_a_restart_keeps_everything(tmp_path):
    node = Node(tmp_path)
    with node:
        fill(node)
        node.put("/box/k00", BODIES["k00"], Content_Type="text/kept", x_amz_meta_m="v", x_amz_tagging="a=1")
        upload = begin_upload(node, "/box/unfinished")
        etag = put_part(node, "/box/unfinished", upload, 1, b"part").headers["etag"]
        node.ask("PUT", "/settled")
        node.ask("PUT", "/-/buckets/settled", '{"anonymous_read": true, "etag": "md5"}')
        node.put("/box/deleted", b"x" * 30_000)
        node.ask("DELETE", "/box/deleted")
        before = node.get("/box/k00").headers
        identity = node.get("/-/status").json["node"]
    with node:
        check(node)
        after = node.get("/box/k00").headers
        for name in ("etag", "last-modified", "content-type", "x-amz-meta-m", "x-amz-tagging-count"):
            assert after[name] == before[name]
        assert node.get("/box/deleted").status == 404
        assert complete(node, "/box/unfinished", upload, [(1, etag)]).status == 200 and node.get("/box/unfinished").body == b"part"
        kept = next(bucket for bucket in node.get("/-/buckets").json["buckets"] if bucket["name"] == "settled")
        assert kept["anonymous_read"] is True and kept["etag"] == "md5"
        assert node.get("/-/status").json["node"] == identity
        node.kill()
    with node:
        assert node.keys("box") == sorted([*BODIES, "unfinished"])


# Drives.

class Drives:
    def __init__(self, tmp_path, *names):
        self.paths = {name: tmp_path / name for name in "abc"}
        for path in self.paths.values():
            path.mkdir(exist_ok=True)
        self.node = Node(tmp_path, *[word for name in names for word in ("--drive", self.paths[name])])

    def change(self, action, name):
        return self.node.ask("POST", "/-/drives", json.dumps({"action": action, "path": str(self.paths[name])}))

    def status(self):
        return {os.path.basename(drive["path"]): drive for drive in self.node.get("/-/drives").json["drives"]}

    def states(self):
        return {name: drive["state"] for name, drive in self.status().items()}


def files_on(path):
    return [file for file in (path / "data").rglob("*") if file.is_file()]


def test_two_drives_share_the_objects(tmp_path):
    drives = Drives(tmp_path, "a", "b")
    with drives.node as node:
        fill(node)
        check(node)
        assert files_on(drives.paths["a"]) and files_on(drives.paths["b"])
        assert drives.states() == {"a": "serving", "b": "serving"}
        upload = begin_upload(node, "/box/parted")
        etags = [(number, put_part(node, "/box/parted", upload, number, b"%d" % number * 5_300_000).headers["etag"]) for number in (1, 2)]
        assert complete(node, "/box/parted", upload, etags).status == 200
        assert node.get("/box/parted").body == b"1" * 5_300_000 + b"2" * 5_300_000


def test_drives_are_added_drained_and_removed_while_objects_stay_readable(tmp_path, millrace):
    drives = Drives(tmp_path, "a")
    with drives.node as node:
        fill(node)
        endpoint = ["--endpoint", node.url]
        millrace("drives", "add", drives.paths["b"], *endpoint)
        assert drives.states() == {"a": "serving", "b": "serving"}
        check(node)
        refusal = drives.change("remove", "a")
        assert 400 <= refusal.status < 500 and "drain" in refusal.body.decode()
        millrace("drives", "drain", drives.paths["a"], *endpoint)
        while drives.status()["a"].get("drain_left", 0) > 0:
            check(node)
        check(node)
        node.put("/box/k00", BODIES["k00"])
        removed = wait_until(lambda: (answer := drives.change("remove", "a")).status == 200 and answer)
        assert [os.path.basename(drive["path"]) for drive in removed.json["drives"]] == ["b"]
        check(node)
        assert not files_on(drives.paths["a"])
        assert "b" in millrace("drives", "list", *endpoint).text
        assert [row["path"] for row in millrace.json("drives", "list", *endpoint)[0]["drives"]] == [str(drives.paths["b"])]
    drives.node.flags = ["--drive", str(drives.paths["b"])]
    with drives.node as node:
        check(node)


def test_a_drive_that_is_added_from_where_one_stands_is_known_wherever_the_node_starts(tmp_path, millrace):
    drives = Drives(tmp_path, "a")
    with drives.node as node:
        millrace("drives", "add", "b", "--endpoint", node.url)
        assert drives.change("add", "c").status == 200
        assert drives.status()["b"]["path"] == str(drives.paths["b"])
        millrace("drives", "drain", "./b", "--endpoint", node.url)
        wait_until(lambda: millrace("drives", "remove", "b", "--endpoint", node.url, code=None).code == 0)
        assert drives.states() == {"a": "serving", "c": "serving"}


def test_what_cannot_be_done_with_drives(tmp_path):
    drives = Drives(tmp_path, "a")
    with drives.node as node:
        fill(node)
        for action, name in (("add", "a"), ("drain", "c"), ("remove", "c"), ("remove", "a"), ("explode", "a")):
            assert 400 <= drives.change(action, name).status < 500, (action, name)
        assert 400 <= node.ask("POST", "/-/drives", json.dumps({"action": "add", "path": str(tmp_path / "none" / "such")})).status < 600
        for body in ("", "{}", "[]", '{"action": "add"}'):
            assert 400 <= node.ask("POST", "/-/drives", body).status < 500, body
        check(node)
        assert drives.states() == {"a": "serving"}


def test_the_last_drive_that_takes_objects_cannot_be_drained_until_another_comes(tmp_path):
    drives = Drives(tmp_path, "a")
    with drives.node as node:
        fill(node)
        refused = drives.change("drain", "a")
        assert refused.status == 400 and "last" in refused.json["message"] and "drives add" in refused.json["hint"], refused.body
        assert node.put("/other/new", b"n" * 50_000).status == 200 and node.get("/-/ready").json == {"ready": True}
        check(node)
        assert drives.change("add", "b").status == 200
        assert drives.change("drain", "a").status == 200
        assert drives.change("drain", "b").status == 400
        wait_until(lambda: drives.change("remove", "a").status == 200)
        check(node)
        assert node.get("/other/new").body == b"n" * 50_000


def test_a_drain_ends_where_the_drive_is_added_again(tmp_path):
    drives = Drives(tmp_path, "a", "b")
    with drives.node as node:
        fill(node)
        assert drives.change("drain", "b").status == 200
        assert drives.change("add", "b").status == 200
        assert drives.states() == {"a": "serving", "b": "serving"}
        check(node)


def test_a_node_that_was_started_with_relative_names_starts_from_anywhere_and_moves(tmp_path):
    first = tmp_path / "first"
    first.mkdir()
    port = free_port()

    def run(directory, data):
        with open(tmp_path / "log", "ab") as log:
            return subprocess.Popen([binary(), "up", "--data", data, "--listen", f"127.0.0.1:{port}"], cwd=directory, stdout=log, stderr=log)

    def ask(method, body=None):
        node = Node(tmp_path)
        node.port = port
        node.process = running
        node.log = None
        (tmp_path / "node.log").touch()
        node.wait_until_ready()
        return node.ask(method, "/box/key", body)

    for directory, data in ((first, "./store"), (tmp_path, "first/store"), ("/", str(first / "store")), ("/", str(tmp_path / "moved"))):
        if data.endswith("moved"):
            os.rename(first / "store", data)
        running = run(directory, data)
        try:
            if data == "./store":
                assert ask("PUT", b"body").status == 200
            assert ask("GET").body == b"body", data
        finally:
            running.terminate()
            running.wait(timeout=60)


def check_missing(answer, path):
    assert (answer.status, answer.code) == (503, "ServiceUnavailable"), answer.body
    assert str(path).encode() in answer.body and b"missing" in answer.body and b"drives remove" in answer.body and "retry-after" in answer.headers


def test_a_missing_drive_is_reported_and_the_others_serve(tmp_path):
    drives = Drives(tmp_path, "a", "b")
    with drives.node as node:
        fill(node)
    os.rename(drives.paths["b"], tmp_path / "taken-away")
    drives.paths["b"].mkdir()
    with drives.node as node:
        assert "does not serve" in node.said()
        states = drives.states()
        assert states["a"] == "serving" and states["b"] != "serving" and drives.status()["b"]["reason"]
        assert node.get("/-/ready").json == {"ready": True, "missing": [str(drives.paths["b"])]}
        # What was on it is not said to be gone, and what is there is right.
        hidden = set()
        for key, body in BODIES.items():
            answer = node.get(f"/box/{key}")
            if answer.status == 200:
                assert answer.body == body
                continue
            check_missing(answer, drives.paths["b"])
            assert node.ask("HEAD", f"/box/{key}").status == 503
            hidden.add(key)
        assert hidden and hidden != set(BODIES)
        check_missing(node.get("/box/never-stored"), drives.paths["b"])
        for query in ("", "?list-type=2", "?list-type=2&prefix=none", "?uploads"):
            check_missing(node.get(f"/box{query}"), drives.paths["b"])
        one = min(hidden)
        for condition in ({"If-None-Match": "*"}, {"If-Match": "*"}, {"If-Match": '"x"'}):
            check_missing(node.ask("PUT", f"/box/{one}", b"overwritten", condition), drives.paths["b"])
        check_missing(node.ask("PUT", "/box/copy", None, {"x-amz-copy-source": f"/box/{one}"}), drives.paths["b"])
        assert node.put("/box/new", b"n" * 50_000).status == 200
        assert node.put("/box/new", b"n" * 50_000, If_None_Match="*").status == 412
        # A delete is remembered, so it is known that the key is free.
        assert node.ask("DELETE", "/box/freed").status == 204 and node.get("/box/freed").status == 404
        assert node.put("/box/freed", b"f", If_None_Match="*").status == 200
        node.ask("DELETE", "/box/freed")
    os.rmdir(drives.paths["b"])
    os.rename(tmp_path / "taken-away", drives.paths["b"])
    with drives.node as node:
        node.ask("DELETE", "/box/new")
        check(node)


def test_what_a_drive_held_that_is_given_up_for_lost_is_gone(tmp_path, millrace):
    drives = Drives(tmp_path, "a", "b")
    with drives.node as node:
        fill(node)
    os.rename(drives.paths["b"], tmp_path / "lost")
    drives.node.flags = ["--drive", str(drives.paths["a"])]
    with drives.node as node:
        assert node.get("/box/never-stored").status == 503
        millrace("drives", "remove", drives.paths["b"], "--endpoint", node.url)
        left = node.keys("box")
        assert 0 < len(left) < len(BODIES)
        for key in BODIES:
            assert node.get(f"/box/{key}").status == (200 if key in left else 404)
        gone = min(set(BODIES) - set(left))
        assert node.put(f"/box/{gone}", b"again", If_None_Match="*").status == 200


def test_a_drive_belongs_to_one_node_at_a_time(tmp_path):
    drives = Drives(tmp_path, "a")
    with drives.node as node:
        fill(node)
        said = refused(tmp_path, "up", "--data", tmp_path / "second", "--drive", drives.paths["a"], "--listen", f"127.0.0.1:{free_port()}")
        assert str(drives.paths["a"]) in said
        check(node)
    with drives.node as node:
        check(node)


# Metrics, status, scrubbing.

LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? (\S+)')


def metrics(node):
    answer = node.get("/-/metrics")
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found, types = {}, {}
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram")
            types[name] = kind
        elif line and not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            name, labels, value = match[1], match[2] or "", float(match[4])
            assert re.sub("_(bucket|sum|count)$", "", name) in types or name in types, name
            assert name + labels not in found and not math.isnan(value)
            found[name + labels] = value
    return found


def test_metrics_are_prometheus_text_and_count(tmp_path):
    with Node(tmp_path) as node:
        fill(node)
        before = metrics(node)
        for _ in range(7):
            node.get("/box/k00")
        node.get("/box/none")
        node.put("/box/counted", b"x" * 1000)
        after = metrics(node)

        def grown(name):
            return after[name] - before.get(name, 0)

        assert grown('millrace_request_seconds_count{operation="get"}') == 8
        assert grown('millrace_request_errors_total{operation="get",side="client"}') == 1
        assert grown('millrace_request_sent_bytes_total{operation="get"}') >= 7 * len(BODIES["k00"])
        assert grown('millrace_request_received_bytes_total{operation="put"}') >= 1000
        buckets = [value for name, value in after.items() if name.startswith('millrace_request_seconds_bucket{operation="get"')]
        assert buckets == sorted(buckets) and buckets[-1] == after['millrace_request_seconds_count{operation="get"}']
        assert after["millrace_connections"] >= 1 and after["millrace_cpu_seconds_total"] > 0
        drive = f'{{drive="{tmp_path / "data" / "drive"}"}}'
        assert after["millrace_drive_serving" + drive] == 1 and after["millrace_drive_objects" + drive] > 0


def test_status_tells_about_the_node(tmp_path):
    with Node(tmp_path) as node:
        fill(node)
        status = node.get("/-/status").json
        assert status["buckets"] == ["box"] and status["stopping"] is False and status["requests_under_way"] >= 1
        assert status["connections"] >= 1 and status["uptime_seconds"] >= 0 and len(status["node"]) == 16
        assert [drive["state"] for drive in status["drives"]] == ["serving"]
        assert 0 < status["drives"][0]["free_bytes"] <= status["drives"][0]["total_bytes"]
        assert node.get("/-/live").json == {"live": True} and node.get("/-/ready").json == {"ready": True}
        nothing = node.get("/-/nothing")
        assert nothing.status == 404 and nothing.json["code"] == "NotFound" and "/-/status" in nothing.json["hint"]
        assert node.ask("HEAD", "/-/status").body == b""


def test_methods_that_administration_does_not_know_change_nothing(tmp_path):
    with Node(tmp_path) as node:
        fill(node)
        for method, path, allow in (("DELETE", "/-/buckets/box", "GET, HEAD, PUT"), ("POST", "/-/buckets/box", "GET, HEAD, PUT"),
                                    ("DELETE", "/-/drives", "GET, HEAD, POST"), ("PUT", "/-/scrub", "GET, HEAD, POST"), ("POST", "/-/status", "GET, HEAD")):
            answer = node.ask(method, path, '{"anonymous_read": true}')
            assert (answer.status, answer.json["code"], answer.headers["allow"]) == (405, "MethodNotAllowed", allow), (method, path)
        assert [bucket["anonymous_read"] for bucket in node.get("/-/buckets").json["buckets"]] == [False]


def test_a_change_that_is_only_half_understood_is_not_made(tmp_path):
    with Node(tmp_path) as node:
        fill(node)
        other = str(tmp_path / "other")
        add = {"action": "add", "path": other}
        for method, path, body, word in (("POST", "/-/drives", {**add, "dry_run": True}, "dry_run"), ("POST", "/-/drives?dry-run", add, "dry-run"),
                                         ("POST", "/-/drives?=x", add, "?"), ("POST", "/-/scrub", {"rate": "1MiB"}, "rate"),
                                         ("POST", "/-/scrub?bucket=box", {}, "bucket"), ("PUT", "/-/buckets/box?dry-run", {"anonymous_read": True}, "dry-run"),
                                         ("PUT", "/-/buckets/box", {"anonymous_read": True, "colour": "red"}, "colour")):
            answer = node.ask(method, path, json.dumps(body))
            assert answer.status == 400 and answer.json["code"] == "InvalidArgument" and word in answer.json["message"], (path, answer.body)
        assert len(node.get("/-/drives").json["drives"]) == 1 and not os.path.exists(other)
        assert node.get("/-/scrub").json["cycles"] == 0 and not node.get("/-/scrub").json["running"]
        assert node.get("/-/buckets/box").json["anonymous_read"] is False
        assert node.ask("POST", "/-/drives?x-id=AddDrive", json.dumps(add)).status == 200


def test_a_scrub_goes_over_everything_and_finds_flipped_bits(tmp_path):
    with Node(tmp_path, "--set", "scrub_rate=1GiB") as node:
        fill(node)
        assert node.ask("POST", "/-/scrub").status == 200
        first = wait_until(lambda: (scrub := node.get("/-/scrub").json)["cycles"] >= 1 and not scrub["running"] and scrub)
        assert first["damaged"] == 0 and first["found"] == []
        victim = max((file for file in (tmp_path / "data" / "drive" / "data").rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
        with open(victim, "r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 1]))
        assert node.ask("POST", "/-/scrub").status == 200
        second = wait_until(lambda: (scrub := node.get("/-/scrub").json)["damaged"] >= 1 and scrub)
        assert second["found"][0]["bucket"] == "box" and second["found"][0]["key"] in BODIES
        assert metrics(node)["millrace_damaged_objects_total"] >= 1


def test_bucket_settings_are_changed_and_checked(tmp_path):
    with Node(tmp_path) as node:
        node.ask("PUT", "/made")
        assert node.ask("PUT", "/-/buckets/made", '{"durability": "os", "verify": "read"}').status == 200
        assert node.get("/-/buckets/made").json["durability"] == "os"
        assert "made" in texts(parse(node.get("/")), "Buckets/Bucket/Name")
        for body in ('{"durability": "never"}', '{"etag": 5}', '{"verify": null}', '{"anonymous_read": "yes"}', '{"colour": "red"}', "[]", "nonsense"):
            answer = node.ask("PUT", "/-/buckets/made", body)
            assert answer.status == 400 and answer.json["code"] == "InvalidArgument", body
        assert 400 <= node.ask("PUT", "/-/buckets/No_Name", "{}").status < 500
        found = node.get("/-/buckets").json["buckets"]
        assert [(bucket["name"], bucket["durability"], bucket["verify"]) for bucket in found] == [("made", "os", "read")]
        node.ask("PUT", "/fast")
        node.ask("PUT", "/-/buckets/fast", '{"etag": "fast"}')
        etag = node.put("/fast/x", b"x").headers["etag"]
        assert node.get("/fast/x", If_Match=etag).body == b"x"


def test_a_slip_in_a_buckets_name_makes_no_bucket(tmp_path, millrace):
    with Node(tmp_path) as node:
        node.ask("PUT", "/train")
        endpoint = ["--endpoint", node.url]
        refused_change = node.ask("PUT", "/-/buckets/tpyo", '{"anonymous_read": true}')
        assert refused_change.status == 404 and "tpyo" in refused_change.json["message"] and "millrace mb" in refused_change.json["hint"]
        for words in (("tpyo", "--anonymous-read", "on"), ("tpyo",)):
            said = millrace("bucket", *words, *endpoint, code=1).err
            assert "there is no bucket tpyo" in said and "millrace mb" in said
        assert "one bucket" in millrace("bucket", "--anonymous-read", "on", *endpoint, code=None).err
        assert texts(parse(node.get("/")), "Buckets/Bucket/Name") == ["train"]
        assert millrace("bucket", "train", "--etag", "md5", *endpoint).text == millrace("bucket", "train", *endpoint).text == millrace("bucket", *endpoint).text

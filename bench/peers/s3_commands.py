"""Current S3 clients of the command line against a store. The arguments name the clients: s5cmd, rclone, mc.

Each must be in PATH. Prints a line for each check, and what went wrong. bench/peers/s3_clients.sh runs it; s3_trial.py says
what it needs. Bytes are compared behind the client's back as well as by what it fetches.
"""
import json
import os
import re
import subprocess
import tempfile
import urllib.parse

from s3_trial import ACCESS, BEFORE, BIG, ENDPOINT, MANY, SECRET, SMALL, TREE, body_of, fetch, must_equal, put_all, read_files, run_trials, write_files

TIMEOUT_SECONDS = 600


class Command:
    """A client as a command. Places are what it calls a bucket or a key; a tree is a directory or a prefix."""
    words = ()

    def __init__(self, directory):
        self.env = {**os.environ, **self.settings(), "HOME": directory}

    def settings(self):
        return {}

    def __call__(self, *words, stdin=b"", code=0):
        command = [*self.words, *map(str, words)]
        done = subprocess.run(command, input=stdin, capture_output=True, env=self.env, timeout=TIMEOUT_SECONDS)
        assert (done.returncode == 0) == (code == 0), f"{command} ended with {done.returncode}: {done.stdout[-1000:]} {done.stderr[-2000:]}"
        return done.stdout

    def rows(self, *words):
        return [json.loads(line) for line in self(*words).splitlines()]


class S5cmd(Command):
    words = ("s5cmd", "--endpoint-url", ENDPOINT)

    def version(self):
        return self("version").decode().strip()

    def place(self, bucket, key=""):
        return f"s3://{bucket}/{key}"

    def make(self, bucket):
        self("mb", self.place(bucket))

    def put(self, file, place):
        self("cp", "--raw", file, place)

    def get(self, place, file, code=0):
        self("cp", "--raw", "--part-size", 5, place, file, code=code)

    def put_tree(self, directory, place):
        self("cp", "--part-size", 5, f"{directory}/", place)

    def get_tree(self, place, directory):
        self("cp", "--part-size", 5, f"{place}*", f"{directory}/")

    def sync(self, directory, place):
        self("sync", "--delete", f"{directory}/", place)

    def copy(self, place, other):
        self("cp", "--raw", place, other)

    def move(self, place, other):
        self("mv", place, other)

    def cat(self, place):
        return self("cat", "--raw", place)

    def pipe(self, body, place):
        self("pipe", "--raw", "--part-size", 5, place, stdin=body)

    def names(self, place):
        return [row["key"].removeprefix(place) for row in self.rows("--json", "ls", place)]

    def link(self, place):
        return self("presign", "--expire", "10m", place).decode().strip()

    def remove_tree(self, place):
        self("rm", f"{place}*")

    def remove_bucket(self, bucket, code=0):
        self("rb", self.place(bucket), code=code)

    def checks(self, trial, directory):
        place = self.place(trial.bucket)
        with trial.check("metadata, put and read"):
            self("cp", "--metadata", "colour=green", "--content-type", "text/x-odd", f"{directory}/tree/a b", f"{place}odd")
            head = json.loads(self("--json", "head", f"{place}odd"))
            assert head["metadata"] in ({"colour": "green"}, {"Colour": "green"}) and head["content_type"] == "text/x-odd", head
        with trial.check("a wildcard lists 100 of 1100"):
            assert len(self.rows("--json", "ls", f"{self.place(BEFORE)}many/001*")) == 100
        with trial.check("a batch of commands"):
            self("run", stdin="".join(f"cp 's3://{BEFORE}/many/{name}' 's3://{trial.bucket}/batch/{name}'\n" for name in list(MANY)[:100]).encode())
            must_equal(trial.objects("batch/"), {name: MANY[name] for name in list(MANY)[:100]})


class Rclone(Command):
    words = ("rclone", "--config", "/dev/null", "--s3-chunk-size", "5Mi", "--s3-upload-cutoff", "5Mi", "--s3-copy-cutoff", "5Mi")

    def settings(self):
        remote = {"type": "s3", "provider": "Other", "access_key_id": ACCESS, "secret_access_key": SECRET, "endpoint": ENDPOINT, "region": "us-east-1"}
        return {f"RCLONE_CONFIG_PEERS_{name.upper()}": value for name, value in remote.items()}

    def version(self):
        return re.search(r"rclone v(\S+)", self("version").decode())[1]

    def place(self, bucket, key=""):
        return f"peers:{bucket}/{key}"

    def make(self, bucket):
        self("mkdir", self.place(bucket))

    def put(self, file, place):
        self("copyto", file, place)

    def get(self, place, file, code=0):
        # What is not there is an empty directory to rclone.
        self("copyto", "--error-on-no-transfer", "--retries", 1, "--multi-thread-cutoff", "5Mi", place, file, code=code)

    def put_tree(self, directory, place):
        self("copy", directory, place)

    def get_tree(self, place, directory):
        self("copy", "--multi-thread-cutoff", "5Mi", place, directory)

    def sync(self, directory, place):
        self("sync", directory, place)

    def copy(self, place, other):
        self("copyto", place, other)

    def move(self, place, other):
        self("moveto", place, other)

    def cat(self, place):
        return self("cat", place)

    def pipe(self, body, place):
        self("rcat", place, stdin=body)

    def names(self, place):
        return self("lsf", place).decode().splitlines()

    def link(self, place):
        return self("link", "--expire", "10m", place).decode().strip()

    def remove_tree(self, place):
        self("delete", place)

    def remove_bucket(self, bucket, code=0):
        self("rmdir", self.place(bucket), code=code)

    def checks(self, trial, directory):
        place, tree = self.place(trial.bucket), f"{directory}/tree"
        with trial.check("a tree is compared by sums and by bytes"):
            self("check", tree, f"{place}tree")
            self("check", "--download", tree, f"{place}tree")
        with trial.check("a range"):
            assert self("cat", "--offset", 5_000_000, "--count", 100, f"{place}tree/big") == BIG[5_000_000:5_000_100]
        with trial.check("metadata, put and read"):
            self("copyto", "--metadata", "--metadata-set", "colour=green", "--header-upload", "Cache-Control: no-cache", f"{tree}/a b", f"{place}odd")
            [row] = json.loads(self("lsjson", "--metadata", f"{place}odd"))
            assert row["Metadata"]["colour"] == "green" and row["Metadata"]["cache-control"] == "no-cache", row
        with trial.check("a new date by a copy onto itself"):
            self("touch", "--timestamp", "2001-02-03T04:05:06", f"{place}tree/big")
            [row] = json.loads(self("lsjson", f"{place}tree/big"))
            assert row["ModTime"].startswith("2001-02-03T04:05:06") and body_of(trial.s3, trial.bucket, "tree/big") == BIG, row
        with trial.check("uploads under way are listed and ended"):
            trial.s3.create_multipart_upload(Bucket=trial.bucket, Key="under way")
            assert "under way" in self("backend", "list-multipart-uploads", place).decode()
            self("backend", "cleanup", place, "-o", "max-age=0s")
            assert "Uploads" not in trial.s3.list_multipart_uploads(Bucket=trial.bucket)


class Mc(Command):
    words = ("mc", "--quiet", "--no-color")

    def settings(self):
        return {"MC_HOST_peers": ENDPOINT.replace("//", f"//{urllib.parse.quote(ACCESS, '')}:{urllib.parse.quote(SECRET, '')}@")}

    def version(self):
        [module] = re.findall(r"mod\s+github.com/minio/mc\s+(\S+)", subprocess.check_output("go version -m $(command -v mc)", shell=True, text=True))
        return module

    def place(self, bucket, key=""):
        return f"peers/{bucket}/{key}"

    def make(self, bucket):
        self("mb", f"peers/{bucket}")

    def put(self, file, place):
        self("cp", file, place)

    def get(self, place, file, code=0):
        self("get", place, file, code=code)

    def put_tree(self, directory, place):
        self("cp", "--recursive", f"{directory}/", place)

    def get_tree(self, place, directory):
        self("cp", "--recursive", place, f"{directory}/")

    def sync(self, directory, place):
        self("mirror", "--overwrite", "--remove", f"{directory}/", place)

    def copy(self, place, other):
        self("cp", place, other)

    def move(self, place, other):
        self("mv", place, other)

    def cat(self, place):
        return self("cat", place)

    def pipe(self, body, place):
        # With parts side by side it refuses an empty stream before it sends anything.
        self("pipe", "--part-size", "5MiB", "--concurrent", 2 if body else 1, place, stdin=body)

    def names(self, place):
        return [row["key"] for row in self.rows("--json", "ls", place)]

    def link(self, place):
        return self.rows("--json", "share", "download", "--expire", "10m", place)[0]["share"]

    def remove_tree(self, place):
        self("rm", "--recursive", "--force", place)

    def remove_bucket(self, bucket, code=0):
        self("rb", f"peers/{bucket}", code=code)

    def checks(self, trial, directory):
        place, tree = self.place(trial.bucket), f"{directory}/tree"
        for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
            with trial.check(f"{algorithm}, of a small object, of one in parts, of a stream"):
                for name in ("a+b", "empty", "big"):
                    self("cp", "--checksum", algorithm, f"{tree}/{name}", f"{place}sums/{name}")
                self("pipe", "--checksum", algorithm, "--part-size", "5MiB", f"{place}sums/stream", stdin=BIG)
                must_equal(trial.objects("sums/"), {"a+b": SMALL["a+b"], "empty": b"", "big": BIG, "stream": BIG})
                for name in ("a+b", "big", "stream"):  # it sends none with an empty object
                    head = trial.s3.head_object(Bucket=trial.bucket, Key=f"sums/{name}", ChecksumMode="ENABLED")
                    assert head.get(f"Checksum{algorithm}"), (name, head)
        with trial.check("tags: put with an object, set, read, removed"):
            self("cp", "--tags", "a=1&b=2", f"{tree}/a b", f"{place}tagged")
            assert self.rows("--json", "tag", "list", f"{place}tagged")[0]["tagset"] == {"a": "1", "b": "2"}
            self("tag", "set", f"{place}tagged", "c=3")
            assert self.rows("--json", "tag", "list", f"{place}tagged")[0]["tagset"] == {"c": "3"}
            self("tag", "remove", f"{place}tagged")
            assert not self.rows("--json", "tag", "list", f"{place}tagged")[0].get("tagset")
        with trial.check("metadata, put and read"):
            self("cp", "--attr", "colour=green;Cache-Control=no-cache", f"{tree}/a b", f"{place}odd")
            head = trial.s3.head_object(Bucket=trial.bucket, Key="odd")
            assert (head["Metadata"].get("colour"), head["CacheControl"]) == ("green", "no-cache"), head
            assert self.rows("--json", "stat", f"{place}odd")[0]["size"] == len(TREE["a b"])
        with trial.check("from an offset, the tail, a part"):
            assert self("cat", "--offset", 20_999_900, f"{place}tree/big") == BIG[-100:]
            assert self("cat", "--tail", 100, f"{place}tree/big") == BIG[-100:]
            assert BIG.startswith(self("cat", "--part-number", 1, f"{place}tree/big"))
        with trial.check("find and du"):
            assert len(self("find", f"{self.place(BEFORE)}many", "--name", "001*").splitlines()) == 100
            assert self.rows("--json", "du", f"{self.place(BEFORE)}many")[-1]["objects"] == len(MANY)


def try_command(trial, make_client):
    with tempfile.TemporaryDirectory(prefix="millrace-peers-") as directory:
        try_tree(trial, make_client(directory), directory)


def try_tree(trial, client, directory):
    """What every client is asked for. `client` runs in `directory`, which is empty."""
    bucket, s3, tree = trial.bucket, trial.s3, write_files(f"{directory}/tree", TREE)
    trial.check_made(lambda: client.make(bucket))
    with trial.check("fetch 1109 objects that were there before"):
        client.get_tree(client.place(BEFORE), f"{directory}/before")
        must_equal(read_files(f"{directory}/before"), {**{f"tree/{name}": body for name, body in TREE.items()}, **{f"many/{name}": body for name, body in MANY.items()}})
    with trial.check("put a tree: 21 MB in parts, an empty object, odd keys"):
        client.put_tree(tree, client.place(bucket, "tree/"))
        must_equal(trial.objects("tree/"), TREE)
    with trial.check("put, get and print single objects"):
        for name, body in TREE.items():
            client.put(f"{tree}/{name}", client.place(bucket, f"one/{name}"))
            client.get(client.place(bucket, f"one/{name}"), f"{directory}/back")
            must_equal({name: open(f"{directory}/back", "rb").read()}, {name: body})
            must_equal({name: client.cat(client.place(bucket, f"one/{name}"))}, {name: body})
            os.remove(f"{directory}/back")
    with trial.check("a key that is not there is an error, and makes no file"):
        client.get(client.place(bucket, "none such"), f"{directory}/none", code=1)
        assert not os.path.exists(f"{directory}/none")
    with trial.check("copies on the server"):
        for name in TREE:
            client.copy(client.place(bucket, f"tree/{name}"), client.place(bucket, f"copies/{name}"))
        must_equal(trial.objects("copies/"), TREE)
    trial.check_moves(lambda source, target: client.move(client.place(bucket, source), client.place(bucket, target)))
    with trial.check("streams of unknown length: 21 MB, empty"):
        for name in ("big", "empty"):
            client.pipe(TREE[name], client.place(bucket, f"streams/{name}"))
        must_equal(trial.objects("streams/"), {"big": BIG, "empty": b""})
    with trial.check("sync 1100 files; sync again sends nothing, removes one and sends one that changed"):
        many = write_files(f"{directory}/many", MANY)
        client.sync(many, client.place(bucket, "many/"))
        dates = dates_of(s3, bucket)
        client.sync(many, client.place(bucket, "many/"))
        assert dates_of(s3, bucket) == dates
        os.remove(f"{many}/00500")
        write_files(many, {"00501": b"longer than before"})
        client.sync(many, client.place(bucket, "many/"))
        now = dates_of(s3, bucket)
        assert [key for key in dates if dates[key] != now.get(key)] == ["many/00500", "many/00501"]
        assert body_of(s3, bucket, "many/00501") == b"longer than before"
    with trial.check("list 1100 keys, and prefixes with a delimiter"):
        put_all(s3, bucket, MANY, "many/")
        assert client.names(client.place(bucket, "many/")) == list(MANY)
        put_all(s3, bucket, {"list/x/1": b"", "list/x y/2": b"", "list/x": b""})
        assert sorted(client.names(client.place(bucket, "list/"))) == ["x", "x y/", "x/"]
    trial.check_link(lambda key: client.link(client.place(bucket, key)))
    with trial.check("a link changed to another method is refused"):
        link = client.link(client.place(bucket, "tree/empty"))
        assert subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-T", f"{tree}/a b", link], capture_output=True).stdout == b"403"
    client.checks(trial, directory)
    with trial.check("a bucket that is not empty stays; delete many, then remove it"):
        client.remove_bucket(bucket, code=1)
        client.remove_tree(client.place(bucket))
        assert not trial.objects("")
        client.remove_bucket(bucket)
        assert fetch(f"{ENDPOINT}/{bucket}?location")[0] in (403, 404)


def dates_of(s3, bucket):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="many/")
    return {one["Key"]: one["LastModified"] for page in pages for one in page["Contents"]}


if __name__ == "__main__":
    def of_command(kind):
        return lambda: kind("/nonexistent").version(), lambda trial: try_command(trial, kind)

    run_trials({"s5cmd": of_command(S5cmd), "rclone": of_command(Rclone), "mc": of_command(Mc)})

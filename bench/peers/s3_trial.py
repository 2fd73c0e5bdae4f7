"""What the trials of S3 clients share: the store, the objects that a client must give back, and a line for each check.

Needs what bench/peers/s3_clients.sh sets: MILLRACE, the program; MILLRACE_ENDPOINT, MILLRACE_ACCESS_KEY and MILLRACE_SECRET_KEY,
the store; PEERS_REDUNDANCY, the redundancy of the buckets (empty for a node alone). The trials read what this file writes
when it is run by itself: a bucket that was filled before a node was lost.
"""
import contextlib
import os
import pathlib
import random
import re
import subprocess
import sys
import traceback
import urllib.error
import urllib.request

ENDPOINT, ACCESS, SECRET = (os.environ[name] for name in ("MILLRACE_ENDPOINT", "MILLRACE_ACCESS_KEY", "MILLRACE_SECRET_KEY"))
REDUNDANCY = os.environ.get("PEERS_REDUNDANCY", "")
# Settings of this machine's owner must not change what the clients do.
os.environ.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION="us-east-1", AWS_REGION="us-east-1",
                  AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE="/nonexistent", AWS_SHARED_CREDENTIALS_FILE="/nonexistent")
PLACE = re.sub(r"\W+", "-", REDUNDANCY) or "alone"
BEFORE = f"before-{PLACE}"
BIG = random.Random(7).randbytes(21_000_000)  # more than one part with every client; the last part is not full
# Keys that addresses, signatures, listings and sources of copies quote in different ways.
SMALL = {"a b": b"blank", "a+b": b"plus", "a%20b": b"quoted blank", "a%2Bb": b"quoted plus", "100%": b"percent", "empty": b"",
         "ü/日本 語+1.txt": b"unicode", "deep/er/&=;,:@$~'()!#": b"signs"}
TREE = {**SMALL, "big": BIG}
MANY = {f"{number:05d}": b"%d" % number for number in range(1100)}  # more than a page of a listing


def plain_client():
    """Writes and reads behind the back of the client that is tried."""
    import botocore.session
    from botocore.config import Config
    return botocore.session.get_session().create_client("s3", endpoint_url=ENDPOINT, config=Config(retries={"max_attempts": 10}))


def put_all(s3, bucket, objects, prefix=""):
    for key, body in objects.items():
        s3.put_object(Bucket=bucket, Key=prefix + key, Body=body)


def keys_of(s3, bucket, prefix=""):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [one["Key"] for page in pages for one in page.get("Contents", ())]


def body_of(s3, bucket, key):
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


def write_files(directory, objects):
    for name, body in objects.items():
        path = pathlib.Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return directory


def read_files(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in pathlib.Path(directory).rglob("*") if path.is_file()}


def must_equal(got, wanted):
    """For dictionaries of bodies: a message of 21 MB helps nobody."""
    differ = {key for key in got.keys() | wanted.keys() if got.get(key) != wanted.get(key)}
    assert not differ, {key: tuple(body if body is None else body[:40] for body in (got.get(key), wanted.get(key))) for key in differ}


def fetch(link):
    """The status and the body behind a link."""
    try:
        with urllib.request.urlopen(link) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


class Trial:
    """One client with a bucket of its own, which the client makes and removes."""

    def __init__(self, client, version):
        self.name = f"{client} {version}, {PLACE}"
        self.bucket = f"peers-{client}-{PLACE}"
        self.s3 = plain_client()
        self.failed = 0

    @contextlib.contextmanager
    def check(self, what):
        try:
            yield
            print(f"{self.name}: {what}: good", flush=True)
        except Exception:
            self.failed += 1
            print(f"{self.name}: {what}: FAILED\n{traceback.format_exc(limit=-4)}", flush=True)

    def check_made(self, make):
        with self.check("make a bucket"):
            make()
            set_redundancy(self.bucket)

    def check_moves(self, move):
        """All keys are there when one is moved: a client that quotes one like another moves the wrong one."""
        with self.check("move each of eight keys that are quoted alike"):
            for name, body in SMALL.items():
                put_all(self.s3, self.bucket, SMALL, "move/")
                move(f"move/{name}", "moved/it + more")
                must_equal(self.objects("move/"), {other: SMALL[other] for other in SMALL if other != name})
                must_equal(self.objects("moved/"), {"it + more": body})

    def check_link(self, link):
        """`link` makes one to the key it is given."""
        with self.check("a link that expires; a changed link is refused"):
            put_all(self.s3, self.bucket, SMALL, "link/")
            for name, body in SMALL.items():
                assert fetch(link(f"link/{name}")) == (200, body), name
            status, _ = fetch(link("link/empty").replace("link/empty", "link/100%25"))
            assert status == 403, status

    def objects(self, prefix):
        """What is below a prefix, without it, and without the marks of directories that pyarrow makes."""
        keys = [key for key in keys_of(self.s3, self.bucket, prefix) if not key.endswith("/")]
        return {key.removeprefix(prefix): body_of(self.s3, self.bucket, key) for key in keys}


def set_redundancy(bucket):
    if REDUNDANCY:
        subprocess.run([os.environ["MILLRACE"], "--quiet", "bucket", bucket, "--redundancy", REDUNDANCY], check=True, stdout=subprocess.DEVNULL)


def run_trials(clients):
    """Tries the clients that the command line names: each has a function for its version and one for its work."""
    failed = 0
    for name in sys.argv[1:]:
        version, work = clients[name]
        trial = Trial(name, version())
        work(trial)
        failed += trial.failed
    raise SystemExit(1 if failed else 0)


def main():
    s3 = plain_client()
    s3.create_bucket(Bucket=BEFORE)
    set_redundancy(BEFORE)
    put_all(s3, BEFORE, TREE, "tree/")
    put_all(s3, BEFORE, MANY, "many/")


if __name__ == "__main__":
    main()

"""Unmodified S3 and HTTP clients against a node with keys, alone or one of a cluster that has lost another: what each of them does every day."""
import contextlib
import hashlib
import os
import re
import subprocess

import pytest

from clusters import Cluster
from conftest import HANG_SECONDS, Millrace
from nodes import Node

BIG = 21_000_000  # beyond every client's threshold for multipart, with a last part that is not full
MANY = 1100       # more than one page of a listing


@contextlib.contextmanager
def node_alone(directory):
    keys = Millrace(directory).json("keys", "create", "--data", directory / "data", "--admin")[0]
    with Node(directory) as running:
        yield running, keys


@contextlib.contextmanager
def node_of_cluster(directory):
    with Cluster(directory, 4) as cluster:
        cluster.kill(cluster.nodes[3])
        cluster.wait_until_serving(cluster.nodes[:3])
        keys = Millrace(directory).json("keys", "create", "--registry", directory / "registry", "--admin")[0]
        yield cluster.nodes[0], keys


@pytest.fixture(scope="module", params=[node_alone, node_of_cluster])
def node(request, tmp_path_factory):
    with request.param(tmp_path_factory.mktemp("clients")) as (running, keys):
        running.access, running.secret = keys["access_key"], keys["secret_key"]
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("files")
    (directory / "small").write_bytes(b"small object\n")
    (directory / "big").write_bytes(os.urandom(BIG))
    many = directory / "many"
    many.mkdir()
    for number in range(MANY):
        (many / f"{number:05d}.cls").write_text(str(number))
    return directory


def run(command, node, **options):
    # Settings of this machine's owner must not change what the clients do.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env = {**inherited, "AWS_ACCESS_KEY_ID": node.access, "AWS_SECRET_ACCESS_KEY": node.secret, "AWS_DEFAULT_REGION": "us-east-1",
           "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nonexistent", "HOME": str(node.directory), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env, timeout=HANG_SECONDS, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]} {done.stderr[-3000:]}"
    return done.stdout


def same(path, other):
    return hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest()


def test_awscli(node, files, tmp_path):
    def aws(*words):
        return run(["aws", "--endpoint-url", node.url, *words], node)

    aws("s3", "mb", "s3://with-aws")
    aws("s3", "cp", "--quiet", files / "small", "s3://with-aws/dir/small")
    aws("s3", "cp", "--quiet", files / "big", "s3://with-aws/big")
    aws("s3", "cp", "--quiet", "s3://with-aws/big", tmp_path / "back")
    assert same(tmp_path / "back", files / "big")
    aws("s3", "sync", "--quiet", files / "many", "s3://with-aws/many/")
    assert len(aws("s3", "ls", "s3://with-aws/many/").splitlines()) == MANY
    assert "PRE many/" in aws("s3", "ls", "s3://with-aws/")
    aws("s3api", "get-object", "--bucket", "with-aws", "--key", "big", "--range", "bytes=1000-1999", tmp_path / "range")
    assert (tmp_path / "range").read_bytes() == (files / "big").read_bytes()[1000:2000]
    aws("s3", "cp", "--quiet", "s3://with-aws/big", "s3://with-aws/copy")  # by parts, on the server
    aws("s3", "cp", "--quiet", "s3://with-aws/copy", tmp_path / "copy")
    assert same(tmp_path / "copy", files / "big")
    link = aws("s3", "presign", "s3://with-aws/dir/small").strip()
    assert run(["curl", "-sf", link], node) == "small object\n"
    aws("s3api", "put-object", "--bucket", "with-aws", "--key", "tagged", "--body", files / "small", "--metadata", "colour=green",
        "--tagging", "a=1&b=2", "--checksum-algorithm", "SHA256")
    assert '"colour": "green"' in aws("s3api", "head-object", "--bucket", "with-aws", "--key", "tagged")
    assert aws("s3api", "get-object-tagging", "--bucket", "with-aws", "--key", "tagged").count('"Key"') == 2
    aws("s3", "rm", "--quiet", "--recursive", "s3://with-aws")
    aws("s3", "rb", "s3://with-aws")
    assert "with-aws" not in aws("s3", "ls")


def test_s3cmd(node, files, tmp_path):
    host = node.url.removeprefix("http://")

    def s3cmd(*words):
        return run(["s3cmd", "--config", "/dev/null", "--access_key", node.access, "--secret_key", node.secret, "--host", host, "--host-bucket",
                    host, "--no-ssl", "--no-progress", "--region", "us-east-1", *words], node)

    s3cmd("mb", "s3://with-s3cmd")
    s3cmd("put", files / "small", "s3://with-s3cmd/dir/small")
    s3cmd("put", "--multipart-chunk-size-mb=8", files / "big", "s3://with-s3cmd/big")
    s3cmd("get", "s3://with-s3cmd/big", tmp_path / "back")
    assert same(tmp_path / "back", files / "big")
    s3cmd("sync", str(files / "many") + "/", "s3://with-s3cmd/many/")
    assert len(s3cmd("ls", "s3://with-s3cmd/many/").splitlines()) == MANY
    s3cmd("cp", "s3://with-s3cmd/dir/small", "s3://with-s3cmd/dir/copy")
    s3cmd("get", "s3://with-s3cmd/dir/copy", tmp_path / "copy")
    assert same(tmp_path / "copy", files / "small")
    assert "MD5" in s3cmd("info", "s3://with-s3cmd/dir/small")
    # Half of it is there: the rest comes by a range.
    (tmp_path / "half").write_bytes((files / "big").read_bytes()[: BIG // 2])
    s3cmd("get", "--continue", "s3://with-s3cmd/big", tmp_path / "half")
    assert same(tmp_path / "half", files / "big")
    link = s3cmd("signurl", "s3://with-s3cmd/dir/small", "+600").strip()
    assert run(["curl", "-sf", link], node) == "small object\n"
    assert run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", link.replace("small", "copy")], node) == "403"
    s3cmd("del", "s3://with-s3cmd/dir/small")
    s3cmd("rb", "--recursive", "--force", "s3://with-s3cmd")


def test_rclone(node, files, tmp_path):
    def rclone(*words):
        remote = f":s3,provider=Other,access_key_id={node.access},secret_access_key={node.secret},endpoint='{node.url}',region=us-east-1:"
        return run(["rclone", "--config", "/dev/null", "--s3-chunk-size", "8M", "--s3-upload-cutoff", "8M",
                    *[str(word).replace("R:", remote) for word in words]], node)

    rclone("mkdir", "R:with-rclone")
    rclone("copyto", files / "small", "R:with-rclone/dir/small")
    rclone("copyto", files / "big", "R:with-rclone/big")
    rclone("copyto", "R:with-rclone/big", tmp_path / "back")
    assert same(tmp_path / "back", files / "big")
    rclone("sync", files / "many", "R:with-rclone/many")
    assert len(rclone("lsf", "R:with-rclone/many").splitlines()) == MANY
    rclone("check", files / "many", "R:with-rclone/many")
    rclone("copyto", "R:with-rclone/dir/small", "R:with-rclone/dir/copy")
    assert rclone("cat", "--offset", "6", "--count", "6", "R:with-rclone/dir/copy") == "object"
    link = rclone("link", "R:with-rclone/dir/small").strip()
    assert run(["curl", "-sf", link], node) == "small object\n"
    rclone("deletefile", "R:with-rclone/dir/small")
    rclone("purge", "R:with-rclone")


def test_curl_and_wget_without_signatures(node, files, tmp_path):
    aws = ["aws", "--endpoint-url", node.url, "s3"]
    run([*aws, "mb", "s3://public-data"], node)
    run([*aws, "cp", "--quiet", files / "big", "s3://public-data/big"], node)
    assert node.get("/public-data/big").status == 403
    assert node.ask("PUT", "/-/buckets/public-data", '{"anonymous_read": true}').status == 403  # not for the anonymous
    run(["curl", "-sf", "-X", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{node.access}:{node.secret}", "-H",
         "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-d", '{"anonymous_read": true}', f"{node.url}/-/buckets/public-data"], node)
    run(["curl", "-sf", "-o", tmp_path / "back", f"{node.url}/public-data/big"], node)
    assert same(tmp_path / "back", files / "big")
    assert run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-T", files / "small", f"{node.url}/public-data/new"], node) == "403"
    (tmp_path / "big").write_bytes((files / "big").read_bytes()[:1000])
    run(["wget", "-q", "-c", f"{node.url}/public-data/big"], node, cwd=tmp_path)
    assert same(tmp_path / "big", files / "big")
    # curl signs by itself too.
    run(["curl", "-sf", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{node.access}:{node.secret}", "-H",
         "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-T", files / "small",
         f"{node.url}/public-data/by-curl"], node)
    assert node.get("/public-data/by-curl").body == b"small object\n"


def test_curl_signs_everything_it_does(node, files, tmp_path):
    def curl(method, target, *words, data=None):
        body = ["--data-binary", data] if data is not None else []
        return run(["curl", "-sf", "-X", method, "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{node.access}:{node.secret}", "-H",
                    "x-amz-content-sha256: UNSIGNED-PAYLOAD", *body, *words, f"{node.url}/{target}"], node)

    def part(number, start, end):
        (tmp_path / "part").write_bytes((files / "big").read_bytes()[start:end])
        head = curl("PUT", f"with-curl/parts?partNumber={number}&uploadId={upload}", "-i", "-H", "Expect:", "-H", "Content-Type:", data=f"@{tmp_path / 'part'}")
        return re.search(r"(?i)etag: (\S+)", head)[1]

    curl("PUT", "with-curl")
    curl("PUT", "with-curl/dir/small", "-H", "Content-Type: text/plain", data=f"@{files / 'small'}")
    assert curl("GET", "with-curl/dir/small") == "small object\n"
    assert curl("GET", "with-curl/dir/small", "-r", "6-11") == "object"
    assert curl("GET", "with-curl/dir/small", "-r", "-7") == "object\n"
    curl("PUT", "with-curl/dir/copy", "-H", "x-amz-copy-source: /with-curl/dir/small")
    listed = curl("GET", "with-curl?list-type=2&prefix=dir%2F")
    assert re.findall("<Key>([^<]+)<", listed) == ["dir/copy", "dir/small"]
    upload = re.search("<UploadId>([^<]+)<", curl("POST", "with-curl/parts?uploads="))[1]
    etags = [part(1, 0, 16_000_000), part(2, 16_000_000, BIG)]
    document = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in enumerate(etags, 1))
    curl("POST", f"with-curl/parts?uploadId={upload}", data=f"<CompleteMultipartUpload>{document}</CompleteMultipartUpload>")
    curl("GET", "with-curl/parts", "-o", tmp_path / "back")
    assert same(tmp_path / "back", files / "big")
    for key in ("dir/small", "dir/copy", "parts"):
        curl("DELETE", f"with-curl/{key}")
    assert "<Key>" not in curl("GET", "with-curl?list-type=2")
    curl("DELETE", "with-curl")


BOTO3 = '''
import boto3, os, sys, io, hashlib
from boto3.s3.transfer import TransferConfig
from botocore.client import Config
from botocore.exceptions import ClientError
url, big_path, style = sys.argv[1], sys.argv[2], sys.argv[3]
s3 = boto3.client("s3", endpoint_url=url, config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))
name = "with-boto3-" + style
s3.create_bucket(Bucket=name)
big = open(big_path, "rb").read()
s3.upload_fileobj(io.BytesIO(big), name, "big", Config=TransferConfig(multipart_chunksize=8 << 20, max_concurrency=4))
back = io.BytesIO()
s3.download_fileobj(name, "big", back, Config=TransferConfig(multipart_chunksize=8 << 20, max_concurrency=4))
assert back.getvalue() == big
s3.put_object(Bucket=name, Key="a b/ü+&?", Body=b"odd key", ContentType="text/x-odd", Metadata={"m": "v"})
got = s3.get_object(Bucket=name, Key="a b/ü+&?")
assert got["Body"].read() == b"odd key" and got["ContentType"] == "text/x-odd" and got["Metadata"] == {"m": "v"}
for number in range(1100):
    s3.put_object(Bucket=name, Key=f"many/{number:05d}", Body=b"x")
pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=name, Prefix="many/"))
assert len(pages) == 2 and sum(len(page["Contents"]) for page in pages) == 1100
pages = list(s3.get_paginator("list_objects").paginate(Bucket=name, Prefix="many/"))
assert sum(len(page["Contents"]) for page in pages) == 1100
top = s3.list_objects_v2(Bucket=name, Delimiter="/")
assert [p["Prefix"] for p in top["CommonPrefixes"]] == ["a b/", "many/"] and [o["Key"] for o in top["Contents"]] == ["big"]
assert s3.get_object(Bucket=name, Key="big", Range="bytes=5-9")["Body"].read() == big[5:10]
s3.copy({"Bucket": name, "Key": "big"}, name, "copy", Config=TransferConfig(multipart_threshold=8 << 20, multipart_chunksize=8 << 20))
assert s3.get_object(Bucket=name, Key="copy")["Body"].read() == big
s3.copy_object(Bucket=name, Key="small-copy", CopySource={"Bucket": name, "Key": "a b/ü+&?"})
assert s3.head_object(Bucket=name, Key="small-copy")["Metadata"] == {"m": "v"}
link = s3.generate_presigned_url("get_object", Params={"Bucket": name, "Key": "small-copy"})
import urllib.request
assert urllib.request.urlopen(link).read() == b"odd key"
try:
    urllib.request.urlopen(link.replace("small-copy", "big"))
    raise SystemExit("a changed link was served")
except urllib.error.HTTPError as refused:
    assert refused.code == 403
# Parts in any order, listed, completed; and one upload aborted.
upload = s3.create_multipart_upload(Bucket=name, Key="parts")["UploadId"]
part = {}
for number in (3, 1, 2):
    body = bytes([number]) * (5 << 20) if number < 3 else b"tail"
    part[number] = s3.upload_part(Bucket=name, Key="parts", UploadId=upload, PartNumber=number, Body=body)["ETag"]
assert [p["PartNumber"] for p in s3.list_parts(Bucket=name, Key="parts", UploadId=upload)["Parts"]] == [1, 2, 3]
assert [u["Key"] for u in s3.list_multipart_uploads(Bucket=name)["Uploads"]] == ["parts"]
s3.complete_multipart_upload(Bucket=name, Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": n, "ETag": part[n]} for n in (1, 2, 3)]})
assert s3.get_object(Bucket=name, Key="parts")["Body"].read() == b"\\1" * (5 << 20) + b"\\2" * (5 << 20) + b"tail"
upload = s3.create_multipart_upload(Bucket=name, Key="aborted")["UploadId"]
s3.upload_part(Bucket=name, Key="aborted", UploadId=upload, PartNumber=1, Body=b"x")
s3.abort_multipart_upload(Bucket=name, Key="aborted", UploadId=upload)
assert "Uploads" not in s3.list_multipart_uploads(Bucket=name)
for call, code in ((lambda: s3.get_object(Bucket=name, Key="none"), "NoSuchKey"),
                   (lambda: s3.list_objects_v2(Bucket="none-such"), "NoSuchBucket"),
                   (lambda: s3.delete_bucket(Bucket=name), "BucketNotEmpty"),
                   (lambda: s3.get_bucket_cors(Bucket=name), "NotImplemented"),
                   (lambda: s3.complete_multipart_upload(Bucket=name, Key="x", UploadId="0123456789abcdef", MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "x"}]}), "NoSuchUpload")):
    try:
        call()
        raise SystemExit("not refused: " + code)
    except ClientError as refused:
        assert refused.response["Error"]["Code"] == code, refused.response
keys = [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name) for o in page["Contents"]]
for start in range(0, len(keys), 1000):
    answer = s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": key} for key in keys[start:start + 1000]]})
    assert len(answer["Deleted"]) == len(keys[start:start + 1000]) and "Errors" not in answer
s3.delete_bucket(Bucket=name)
print("boto3", boto3.__version__, "done")
'''


def test_boto3(node, files, tmp_path):
    assert "done" in run(["/usr/bin/python3", "-c", BOTO3, node.url, files / "big", "debian"], node)


def test_newer_boto3_with_checksum_trailers(node, files):
    """Where bench/peers has made an environment with a current boto3 (1.36 and later send CRC trailers)."""
    python = os.path.join(os.path.dirname(__file__), "../../build/peers/boto3/bin/python")
    if not os.path.exists(python):
        pytest.skip("no newer boto3: bench/peers/boto3.sh makes one")
    assert "done" in run([python, "-c", BOTO3, node.url, files / "big", "newer"], node)

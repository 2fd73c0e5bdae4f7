"""Who may do what: keys and their files, rights per bucket, signatures, links, certificates, pages of other origins."""
import os
import re
import ssl
import stat
import subprocess
import urllib.request

import pytest

from conftest import HANG_SECONDS, Millrace, binary
from nodes import Node, free_port
from store_client import Signer, begin_upload, in_threads, sha256, wait_until

READ_ONLY, WRITE_ONLY, BOTH, ADMIN, SCARCE = "train:read", "train:write", "train:read-write", None, "other:read-write"


def make_key(directory, *rights):
    words = ["--admin"] if rights == (ADMIN,) else [word for right in rights for word in ("--bucket", right)]
    return Millrace(directory).json("keys", "create", "--data", directory / "data", *words)[0]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    directory = tmp_path_factory.mktemp("access")
    keys = {right: make_key(directory, right) for right in (READ_ONLY, WRITE_ONLY, BOTH, ADMIN, SCARCE)}
    with Node(directory, "--access-log") as running:
        running.secrets = [key["secret_key"] for key in keys.values()]
        running.by = {right: Signer(running, key["access_key"], key["secret_key"]) for right, key in keys.items()}
        for bucket in ("train", "other"):
            assert running.by[ADMIN].ask("PUT", f"/{bucket}").status == 200
            assert running.by[ADMIN].ask("PUT", f"/{bucket}/seed", b"seed of " + bucket.encode()).status == 200
        yield running


# Keys.

def test_keys_are_created_listed_and_removed_in_a_file_of_mode_600(millrace, tmp_path):
    key = millrace.json("keys", "create", "--data", "d", "--bucket", "train:read", "--note", "GPUs")[0]
    other = millrace.json("keys", "create", "--data", "d", "--admin")[0]
    path = tmp_path / "d" / "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    listed = millrace.json("keys", "list", "--data", "d")[0]["keys"]
    assert [(row["access_key"], row["rights"], row["note"]) for row in listed] == [(key["access_key"], "train:read", "GPUs"), (other["access_key"], "admin", "")]
    assert key["secret_key"] not in millrace("keys", "list", "--data", "d").text
    millrace("keys", "remove", "--data", "d", key["access_key"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and key["secret_key"] not in path.read_text()
    assert "keys list" in millrace("keys", "remove", "--data", "d", key["access_key"], code=1).err


def test_keys_that_are_made_at_the_same_time_are_all_kept(millrace, tmp_path):
    def make(number):
        return millrace.json("keys", "create", "--data", "d", "--bucket", f"b{number}:read")[0]["access_key"]

    made = in_threads(16, make)
    assert sorted(made) == sorted(row["access_key"] for row in millrace.json("keys", "list", "--data", "d")[0]["keys"])
    in_threads(12, lambda number: millrace("keys", "remove", "--data", "d", made[number]))
    assert sorted(made[12:]) == sorted(row["access_key"] for row in millrace.json("keys", "list", "--data", "d")[0]["keys"])


def test_keys_without_or_with_wrong_rights_are_not_made(millrace, tmp_path):
    assert "rights" in millrace("keys", "create", "--data", "d", code=None).err
    for grant in ("train", "train:", ":read", "train:everything", ""):
        assert millrace("keys", "create", "--data", "d", "--bucket", grant, code=None).code != 0, grant
    assert not (tmp_path / "d" / "keys.json").exists()


def refused_start(directory, *flags, listen=None):
    done = subprocess.run([binary(), "up", "--data", str(directory / "data"), "--listen", listen or f"127.0.0.1:{free_port()}", *flags],
                          capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_can_read_is_refused(tmp_path, mode):
    make_key(tmp_path, ADMIN)
    (tmp_path / "data" / "keys.json").chmod(mode)
    said = refused_start(tmp_path)
    assert "other users" in said and "chmod 600" in said


@pytest.mark.parametrize("text", ["", "{", '{"keys": [{"access_key": "x"}]}', '{"keys": 5}', "[]"])
def test_a_broken_key_file_is_refused_and_not_quoted(tmp_path, text):
    make_key(tmp_path, ADMIN)
    path = tmp_path / "data" / "keys.json"
    path.write_text(text.replace("}", ', "secret_key": "HUSH"}', 1) if "access_key" in text else text)
    path.write_text(path.read_text().replace('"access_key": "x"', '"access_key": 5'))
    said = refused_start(tmp_path)
    assert "keys.json" in said and "HUSH" not in said


def test_listening_beyond_loopback_needs_keys_or_insecure(tmp_path):
    said = refused_start(tmp_path, listen=f"0.0.0.0:{free_port()}")
    assert "no keys" in said and "keys create" in said and "--insecure" in said
    open_node = Node(tmp_path, "--insecure")
    open_node.listen = f"0.0.0.0:{open_node.port}"
    with open_node:
        assert open_node.ask("PUT", "/train").status == 200
    make_key(tmp_path, ADMIN)
    open_node.flags = []
    with open_node:
        assert open_node.get("/train").status == 403


def test_a_running_node_takes_new_keys_and_forgets_removed_ones(tmp_path):
    first = make_key(tmp_path, ADMIN)
    with Node(tmp_path) as node:
        Signer(node, first["access_key"], first["secret_key"]).ask("PUT", "/train")
        second = make_key(tmp_path, BOTH)
        by = Signer(node, second["access_key"], second["secret_key"])
        wait_until(lambda: by.ask("PUT", "/train/x", b"x").status == 200)
        Millrace(tmp_path)("keys", "remove", "--data", tmp_path / "data", second["access_key"])
        wait_until(lambda: by.ask("PUT", "/train/x", b"x").code == "InvalidAccessKeyId")


def test_a_key_file_that_breaks_leaves_the_keys_and_says_so_once(tmp_path):
    key = make_key(tmp_path, ADMIN)
    path = tmp_path / "data" / "keys.json"
    with Node(tmp_path) as node:
        by = Signer(node, key["access_key"], key["secret_key"])
        assert by.ask("PUT", "/train").status == 200
        good = path.read_text()
        path.write_text('{"keys": [')
        wait_until(lambda: by.ask("GET", "/train").status == 200 and "keys cannot be used" in node.said())
        for _ in range(30):
            assert by.ask("GET", "/train").status == 200 and node.get("/train").status == 403
        assert node.said().count("keys cannot be used") == 1
        path.write_text(good)
        second = make_key(tmp_path, BOTH)
        wait_until(lambda: Signer(node, second["access_key"], second["secret_key"]).ask("GET", "/train").status == 200)


# Rights.

def test_what_each_key_may_do(node):
    cases = [(READ_ONLY, "GET", "/train/seed", 200), (READ_ONLY, "HEAD", "/train/seed", 200), (READ_ONLY, "GET", "/train?list-type=2", 200),
             (READ_ONLY, "PUT", "/train/new", 403), (READ_ONLY, "DELETE", "/train/seed", 403), (READ_ONLY, "POST", "/train/new?uploads", 403),
             (READ_ONLY, "POST", "/train?delete", 403), (READ_ONLY, "PUT", "/train/seed?tagging", 403), (READ_ONLY, "DELETE", "/train", 403),
             (READ_ONLY, "GET", "/other/seed", 403), (READ_ONLY, "GET", "/other?list-type=2", 403), (READ_ONLY, "PUT", "/fresh", 403),
             (WRITE_ONLY, "GET", "/train/seed", 403), (WRITE_ONLY, "GET", "/train?list-type=2", 403), (WRITE_ONLY, "PUT", "/train/by-writer", 200),
             (WRITE_ONLY, "PUT", "/other/x", 403), (BOTH, "PUT", "/train/both", 200), (BOTH, "GET", "/train/both", 200), (BOTH, "DELETE", "/train/both", 204),
             (SCARCE, "GET", "/train/seed", 403), (SCARCE, "GET", "/other/seed", 200)]
    for right, method, target, status in cases:
        answer = node.by[right].ask(method, target, b"x" if method in ("PUT", "POST") else None)
        assert answer.status == status, (right, method, target, answer.body)
        if status == 403 and method != "HEAD":
            assert answer.code == "AccessDenied"
    assert node.by[ADMIN].ask("GET", "/train/seed").body == b"seed of train"


def test_a_key_sees_only_its_buckets(node):
    for right, seen, hidden in ((READ_ONLY, "train", "other"), (SCARCE, "other", "train")):
        text = node.by[right].ask("GET", "/").body.decode()
        assert f"<Name>{seen}</Name>" in text and f"<Name>{hidden}</Name>" not in text
    assert node.get("/").status == 403


def test_a_copy_needs_the_right_to_read_its_source_and_to_write_its_target(node):
    def copy(right, target, source):
        return node.by[right].ask("PUT", target, None, {"x-amz-copy-source": source}).status

    assert copy(BOTH, "/train/copy", "/train/seed") == 200
    assert copy(BOTH, "/train/stolen", "/other/seed") == 403
    assert copy(BOTH, "/other/planted", "/train/seed") == 403
    assert copy(WRITE_ONLY, "/train/stolen", "/train/seed") == 403
    assert copy(READ_ONLY, "/train/copy2", "/train/seed") == 403
    assert copy(ADMIN, "/other/copied", "/train/seed") == 200
    part = begin_upload(Asker(node.by[BOTH]), "/train/parted")
    assert node.by[BOTH].ask("PUT", f"/train/parted?partNumber=1&uploadId={part}", None, {"x-amz-copy-source": "/other/seed"}).status == 403
    assert node.by[ADMIN].ask("GET", "/train/stolen").status == 404


class Asker:
    def __init__(self, signer):
        self.signer = signer

    def ask(self, method, target, body=None, headers=None):
        return self.signer.ask(method, target, body, headers)


def test_a_bucket_for_everyone_is_for_reading_only(node):
    node.by[ADMIN].ask("PUT", "/public")
    node.by[ADMIN].ask("PUT", "/public/x", b"for all")
    assert node.get("/public/x").status == 403
    for right in (READ_ONLY, BOTH):
        assert node.by[right].ask("PUT", "/-/buckets/public", b'{"anonymous_read": true}').status == 403
    assert node.by[ADMIN].ask("PUT", "/-/buckets/public", b'{"anonymous_read": true}').status == 200
    assert node.get("/public/x").body == b"for all" and node.get("/public?list-type=2").status == 200
    assert node.by[SCARCE].ask("GET", "/public/x").body == b"for all"
    for method, target in (("PUT", "/public/y"), ("DELETE", "/public/x"), ("POST", "/public?delete"), ("POST", "/public/y?uploads"), ("DELETE", "/public")):
        assert node.ask(method, target, b"x" if method != "DELETE" else None).status == 403, (method, target)
    assert node.get("/train/seed").status == 403
    node.by[ADMIN].ask("PUT", "/-/buckets/public", b'{"anonymous_read": false}')
    assert node.get("/public/x").status == 403


def batched_writes(bucket, upload="0123456789abcdef"):
    """Every request that changes something, with the mark of one that reads."""
    return [("POST", f"/{bucket}?delete&batch"), ("POST", f"/{bucket}?batch&delete"), ("PUT", f"/{bucket}?batch"), ("DELETE", f"/{bucket}?batch"),
            ("POST", f"/{bucket}/y?uploads&batch"), ("POST", f"/{bucket}/y?uploadId={upload}&batch"), ("PUT", f"/{bucket}/y?uploadId={upload}&partNumber=1&batch"),
            ("DELETE", f"/{bucket}/y?uploadId={upload}&batch"), ("PUT", f"/{bucket}/x?tagging&batch"), ("DELETE", f"/{bucket}/x?tagging&batch"),
            ("PUT", f"/{bucket}/x?batch"), ("DELETE", f"/{bucket}/x?batch"), ("POST", f"/{bucket}/x?batch")]


DELETE_X = b"<Delete><Object><Key>x</Key></Object></Delete>"


def test_the_mark_of_a_batch_gives_no_right_to_write(node):
    admin = node.by[ADMIN]
    admin.ask("PUT", "/shown")
    admin.ask("PUT", "/shown/x", b"still here")
    assert admin.ask("PUT", "/-/buckets/shown", b'{"anonymous_read": true}').status == 200
    admin.ask("PUT", "/train/x", b"still here")
    for method, target in batched_writes("shown"):
        assert node.ask(method, target, DELETE_X).status == 403, (method, target)
    for method, target in batched_writes("train"):
        assert node.by[READ_ONLY].ask(method, target, DELETE_X).status == 403, (method, target)
        assert admin.ask(method, target, DELETE_X).code in ("NotImplemented", "MethodNotAllowed"), (method, target)
    assert node.get("/shown/x").body == b"still here" and admin.ask("GET", "/train/x").body == b"still here"
    assert node.ask("POST", "/shown?batch", b'[{"object": "x"}]').status == 200
    assert node.by[READ_ONLY].ask("POST", "/train?batch", b'[{"object": "x"}]').status == 200
    admin.ask("PUT", "/-/buckets/shown", b'{"anonymous_read": false}')


def test_administration_needs_an_admin_key(node):
    for path in ("/-/live", "/-/ready"):
        assert node.get(path).status == 200
    for right in (READ_ONLY, BOTH):
        assert node.by[right].ask("GET", "/-/status").status == 200
        for method, path, body in (("POST", "/-/drives", b'{"action": "add", "path": "/nowhere"}'), ("POST", "/-/scrub", b""), ("PUT", "/-/buckets/train", b"{}")):
            answer = node.by[right].ask(method, path, body)
            assert answer.status == 403 and answer.json["code"] == "AccessDenied"
    assert node.ask("POST", "/-/scrub").status == 403
    assert node.by[ADMIN].ask("POST", "/-/scrub", b"").status == 200
    assert node.by[ADMIN].ask("PUT", "/-/buckets/train", b'{"nonsense": 1}').status == 400
    assert node.by[ADMIN].ask("GET", "/-/nothing").status == 404


# Signatures.

def test_signatures_that_do_not_hold(node):
    good = node.by[BOTH]
    assert good.ask("GET", "/train/seed").status == 200
    assert Signer(node, good.access, "x" * 40).ask("GET", "/train/seed").code == "SignatureDoesNotMatch"
    assert Signer(node, "MRNOSUCHKEY", good.secret).ask("GET", "/train/seed").code == "InvalidAccessKeyId"
    for skew in (-3600, 3600):
        assert Signer(node, good.access, good.secret, skew).ask("GET", "/train/seed").code == "RequestTimeTooSkewed"
    assert Signer(node, good.access, good.secret, skew=-600).ask("GET", "/train/seed").status == 200
    headers = good.headers("GET", "/train/seed")
    assert node.ask("GET", "/train/other", None, headers).code == "SignatureDoesNotMatch"
    assert node.ask("DELETE", "/train/seed", None, headers).code == "SignatureDoesNotMatch"
    assert node.ask("GET", "/train/seed?tagging", None, headers).code == "SignatureDoesNotMatch"
    assert node.ask("GET", "/train/seed", None, {**headers, "x-amz-date": "20200101T000000Z"}).status == 403
    for text in ("", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a/b/c", "Basic dXNlcjpwYXNz", "Bearer x", "AWS x:y", headers["authorization"][:-1],
                 headers["authorization"].replace("host;", "")):
        assert node.ask("GET", "/train/seed", None, {**headers, "authorization": text}).status in (400, 403), text


def test_the_body_must_be_the_one_that_was_signed(node):
    by = node.by[BOTH]
    refused = by.ask("PUT", "/train/body", b"changed", payload=sha256(b"signed"))
    assert (refused.status, refused.code) == (400, "XAmzContentSHA256Mismatch")
    assert by.ask("GET", "/train/body").status == 404
    document = b"<Delete><Object><Key>seed</Key></Object></Delete>"
    refused = by.ask("POST", "/train?delete", document, payload=sha256(b"<Delete><Object><Key>zzzz</Key></Object></Delete>"))
    assert (refused.status, refused.code) == (400, "XAmzContentSHA256Mismatch")
    assert by.ask("GET", "/train/seed").status == 200
    tags = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
    assert by.ask("PUT", "/train/seed?tagging", tags, payload=sha256(b"other")).status == 400
    assert node.by[ADMIN].ask("PUT", "/-/buckets/train", b'{"anonymous_read": true}', payload=sha256(b"{}")).status == 400
    assert node.get("/train/seed").status == 403


def signed_chunks(by, path, chunks, change=lambda body: body):
    signer = Signer(by.node, by.access, by.secret)
    headers = signer.headers("PUT", path, extra={"x-amz-decoded-content-length": str(sum(map(len, chunks))), "content-encoding": "aws-chunked"},
                             payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
    pieces = [*chunks, b""]
    body = b"".join(b"%x;chunk-signature=%s\r\n%s\r\n" % (len(chunk), mark.encode(), chunk) for chunk, mark in zip(pieces, signer.chunk_signatures(pieces)))
    return by.node.ask("PUT", path, change(body), headers)


def test_signed_chunks_are_each_verified(node):
    by, chunks = node.by[BOTH], [os.urandom(65536), os.urandom(70_000), b"end"]
    assert signed_chunks(by, "/train/chunks", chunks).status == 200
    assert by.ask("GET", "/train/chunks").body == b"".join(chunks)

    def flip(at):
        return lambda body: body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]

    for change in (flip(100), flip(30), flip(-10), flip(100_000), lambda body: body.replace(b";chunk-signature=", b";x=", 1)):
        refused = signed_chunks(by, "/train/tampered", chunks, change)
        assert refused.status in (400, 403) and refused.code in ("SignatureDoesNotMatch", "InvalidRequest"), refused.body
    assert signed_chunks(by, "/train/tampered", chunks, flip(100)).code == "SignatureDoesNotMatch"
    assert by.ask("GET", "/train/tampered").status == 404


def test_links_work_for_one_method_one_key_and_their_time(node):
    by = node.by[BOTH]
    link = by.presign("GET", "/train/seed")
    assert node.get(link).body == b"seed of train" and node.get(link).status == 200
    assert node.ask("HEAD", link).status == 403
    assert node.get(link.replace("/train/seed", "/train/copy")).code == "SignatureDoesNotMatch"
    assert node.ask("PUT", link, b"x").code == "SignatureDoesNotMatch"
    assert node.ask("DELETE", link).code == "SignatureDoesNotMatch"
    assert node.get(link.replace("Expires=60", "Expires=600")).code == "SignatureDoesNotMatch"
    assert node.get(link + "&tagging").code == "SignatureDoesNotMatch"
    late = Signer(node, by.access, by.secret, skew=-100).presign("GET", "/train/seed", expires=60)
    assert (node.get(late).status, node.get(late).code) == (403, "AccessDenied") and b"expired" in node.get(late).body
    early = Signer(node, by.access, by.secret, skew=7200).presign("GET", "/train/seed")
    assert node.get(early).status == 403
    assert node.get(by.presign("GET", "/train/seed", expires=8 * 86400)).status in (400, 403)
    upload = by.presign("PUT", "/train/by-link")
    assert node.ask("PUT", upload, b"linked").status == 200 and by.ask("GET", "/train/by-link").body == b"linked"
    assert node.get(node.by[SCARCE].presign("GET", "/train/seed")).code == "AccessDenied"


def test_secrets_and_signatures_are_never_logged(node):
    node.get(node.by[BOTH].presign("GET", "/train/seed"))
    node.by[BOTH].ask("GET", "/train/logged-marker")
    wait_until(lambda: "logged-marker" in node.said())
    said = node.said()
    assert not [secret for secret in node.secrets if secret in said]
    assert not re.search("Signature=|X-Amz-Signature|signature=[0-9a-f]{64}", said)


# Pages of other origins.

def test_pages_of_other_origins_may_not_write_to_an_open_node(tmp_path):
    with Node(tmp_path) as node:
        assert node.put("/train/x", b"x").status == 200
        own = f"http://127.0.0.1:{node.port}"
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://127.0.0.1:1"}):
            for method, path in (("PUT", "/train/y"), ("DELETE", "/train/x"), ("POST", "/train?delete"), ("POST", "/-/scrub"), ("PUT", "/-/buckets/made")):
                assert node.ask(method, path, b"{}" if method != "DELETE" else None, headers).status == 403, (headers, method, path)
            for method, target in batched_writes("train"):
                assert node.ask(method, target, DELETE_X, headers).status == 403, (headers, method, target)
            assert "access-control-allow-origin" not in node.ask("GET", "/train/x", None, headers).headers
        assert node.ask("PUT", "/train/y", b"y", {"Origin": own}).status == 200
        assert node.keys("train") == ["x", "y"]


def test_pages_whose_name_was_bent_to_this_machine_have_no_access(tmp_path):
    with Node(tmp_path) as node:
        assert node.put("/train/x", b"x").status == 200
        bent = {"Host": f"evil.example:{node.port}"}
        for headers in ({"Origin": f"http://evil.example:{node.port}"}, {"Sec-Fetch-Site": "same-origin"}):
            for method, path in (("PUT", "/train/y"), ("GET", "/train/x"), ("GET", "/-/status"), ("GET", "/")):
                body = b"y" if method == "PUT" else None
                assert node.ask(method, path, body, {**bent, **headers}).status == 403, (headers, method, path)
        for host in ("127.0.0.1", "localhost", "[::1]", "LOCALHOST"):
            assert node.ask("GET", "/train/x", None, {"Host": f"{host}:{node.port}", "Sec-Fetch-Site": "none"}).status == 200
        # Programs are no pages: they may use any name that holds no bucket.
        assert node.ask("GET", "/train/x", None, {"Host": f"gpu-node:{node.port}"}).body == b"x"


# Certificates.

def curl(node, path, *words):
    done = subprocess.run(["curl", "-s", "-S", "--max-time", "30", *map(str, words), f"https://127.0.0.1:{node.port}{path}"], capture_output=True, text=True)
    return done.returncode, done.stdout


def start_encrypted(node):
    node.start(wait=False)
    wait_until(lambda: node.process.poll() is not None or curl(node, "/-/ready", "-k")[0] == 0)
    assert node.process.poll() is None, node.said()
    return node


def test_a_self_signed_certificate_is_good_for_those_who_have_it(tmp_path):
    node = start_encrypted(Node(tmp_path, "--tls", "self-signed"))
    try:
        (tmp_path / "file").write_bytes(os.urandom(3_000_000))
        assert curl(node, "/-/ready")[0] != 0
        pem = tmp_path / "data" / "self-signed.crt"
        assert stat.S_IMODE((tmp_path / "data" / "self-signed.key").stat().st_mode) == 0o600
        assert curl(node, "/train/x", "--cacert", pem, "-f", "-T", tmp_path / "file")[0] == 0
        assert curl(node, "/train/x", "--cacert", pem, "-f", "-o", tmp_path / "back")[0] == 0
        assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()
        assert curl(node, "/train/x", "--cacert", pem, "-r", "5-9", "-o", tmp_path / "range")[0] == 0
        assert (tmp_path / "range").read_bytes() == (tmp_path / "file").read_bytes()[5:10]
        assert curl(node, "/-/ready", "--cacert", pem, "--tls-max", "1.1")[0] != 0
        assert f"curl --cacert {pem} -T" in node.said()
        upload = re.search("<UploadId>(.*)</UploadId>", curl(node, "/train/parts?uploads", "--cacert", pem, "-X", "POST")[1])[1]
        etag = re.search('[Ee][Tt]ag: "?([0-9a-f-]+)', curl(node, f"/train/parts?partNumber=1&uploadId={upload}", "--cacert", pem, "-i", "-T", tmp_path / "range")[1])[1]
        document = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        assert f"<Location>https://127.0.0.1:{node.port}/train/parts<" in curl(node, f"/train/parts?uploadId={upload}", "--cacert", pem, "-d", document)[1]
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{node.port}/-/ready", timeout=30).read()
    finally:
        node.stop()


def make_certificate(directory, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", directory / "key.new", "-out",
                    directory / "cert.new", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    (directory / "key.new").chmod(0o600)
    os.replace(directory / "key.new", directory / "key.pem")
    os.replace(directory / "cert.new", directory / "cert.pem")


def served_certificate(node):
    return ssl.get_server_certificate(("127.0.0.1", node.port)).strip()


def test_a_changed_certificate_is_taken_without_a_restart(tmp_path):
    make_certificate(tmp_path, "first")
    node = start_encrypted(Node(tmp_path, "--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem"))
    try:
        assert served_certificate(node) == (tmp_path / "cert.pem").read_text().strip()
        make_certificate(tmp_path, "second")
        wait_until(lambda: served_certificate(node) == (tmp_path / "cert.pem").read_text().strip())
        good = served_certificate(node)
        (tmp_path / "cert.pem").write_text("broken")
        assert curl(node, "/-/ready", "-k")[0] == 0 and served_certificate(node) == good
        wait_until(lambda: served_certificate(node) == good and "certificate cannot be used" in node.said())
        for _ in range(3):
            served_certificate(node)
        assert node.said().count("certificate cannot be used") == 1
    finally:
        node.stop()


def test_certificates_that_cannot_be_used_are_refused_at_start(tmp_path):
    make_certificate(tmp_path, "only")
    assert "tls-key" in refused_start(tmp_path, "--tls-cert", str(tmp_path / "cert.pem"))
    assert "self-signed" in refused_start(tmp_path, "--tls", "letsencrypt")
    (tmp_path / "junk.pem").write_text("junk")
    assert "junk.pem" in refused_start(tmp_path, "--tls-cert", str(tmp_path / "junk.pem"), "--tls-key", str(tmp_path / "key.pem"))
    assert refused_start(tmp_path, "--tls-cert", str(tmp_path / "none.pem"), "--tls-key", str(tmp_path / "key.pem"))


# -- TLS in sentences ----------------------------------------------------------------------------------------

NO_LIBRARY = re.compile("error:[0-9A-F]{8}|routines|PEM lib|wrong version|SSL_|tls_process", re.IGNORECASE)


def make_expired(directory):
    (directory / "ca.conf").write_text(f"[ca]\ndefault_ca=c\n[c]\ndatabase={directory}/index.txt\nserial={directory}/serial\nnew_certs_dir={directory}\n"
                                       "default_md=sha256\npolicy=p\nx509_extensions=e\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=IP:127.0.0.1\n")
    (directory / "index.txt").write_text("")
    (directory / "serial").write_text("01\n")
    subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", directory / "old.key",
                    "-out", directory / "old.csr", "-subj", "/CN=old"], check=True, capture_output=True)
    subprocess.run(["openssl", "ca", "-batch", "-config", directory / "ca.conf", "-selfsign", "-keyfile", directory / "old.key", "-in", directory / "old.csr",
                    "-out", directory / "old.pem", "-notext", "-startdate", "20200101000000Z", "-enddate", "20200201000000Z"], check=True, capture_output=True)


def test_broken_certificates_and_keys_are_refused_with_a_sentence_and_a_next_step(tmp_path):
    make_certificate(tmp_path, "one")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    (tmp_path / "other").mkdir()
    make_certificate(tmp_path / "other", "two")
    (tmp_path / "junk.pem").write_text("junk")
    (tmp_path / "cut.pem").write_text(certificate.read_text()[:120] + "\n-----END CERTIFICATE-----\n")
    (tmp_path / "cutkey.pem").write_text(key.read_text()[:60] + "\n-----END PRIVATE KEY-----\n")
    subprocess.run(["openssl", "pkey", "-in", key, "-aes128", "-passout", "pass:secret", "-out", tmp_path / "locked.pem"], check=True, capture_output=True)
    for one, other, said in [(tmp_path / "junk.pem", key, "junk.pem has no certificate in PEM form"),
                             (key, certificate, "are --tls-cert and --tls-key exchanged?"),
                             (tmp_path / "cut.pem", key, "the certificate " + str(tmp_path / "cut.pem") + " is damaged"),
                             (certificate, tmp_path / "junk.pem", "junk.pem has no key in PEM form"),
                             (certificate, tmp_path / "cutkey.pem", "cutkey.pem is damaged"),
                             (certificate, tmp_path / "locked.pem", "is locked with a passphrase"),
                             (certificate, tmp_path / "other" / "key.pem", "does not belong to the certificate"),
                             (tmp_path / "none.pem", key, "No such file or directory")]:
        refused = refused_start(tmp_path, "--tls-cert", str(one), "--tls-key", str(other))
        assert said in refused and not NO_LIBRARY.search(refused), refused


def test_who_speaks_the_wrong_protocol_or_meets_a_bad_certificate_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("MILLRACE_CA_FILE", raising=False)
    millrace = Millrace(tmp_path)
    make_expired(tmp_path)
    (tmp_path / "plain").mkdir()
    secure, plain = Node(tmp_path, "--tls", "self-signed"), Node(tmp_path / "plain")
    try:
        start_encrypted(secure)
        plain.start()
        wrong = secure.ask("GET", "/train/x")
        assert wrong.status == 400 and b"this port speaks TLS: begin the address with https://" in wrong.body
        refused = [millrace("ls", f"http://127.0.0.1:{secure.port}/", code=None), millrace("ls", f"https://127.0.0.1:{plain.port}/", code=None),
                   millrace("ls", f"https://127.0.0.1:{secure.port}/", code=None),
                   millrace("ls", "--ca-file", tmp_path / "data" / "self-signed.crt", f"https://127.1:{secure.port}/", code=None)]
        for one, said in zip(refused, ["https:// instead of http://", "http:// instead of https://", "self-signed and not trusted", "is for another name than 127.1"]):
            assert one.code != 0 and said in one.err and not NO_LIBRARY.search(one.err), one.err
        millrace("ls", "--ca-file", tmp_path / "data" / "self-signed.crt", f"https://127.0.0.1:{secure.port}/")
        secure.stop()
        (tmp_path / "old").mkdir()
        expired = start_encrypted(Node(tmp_path / "old", "--tls-cert", tmp_path / "old.pem", "--tls-key", tmp_path / "old.key"))
        try:
            assert "the certificate expired on Feb  1 00:00:00 2020 GMT" in expired.said()
            assert re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z millrace: warning: ", expired.said(), re.MULTILINE)
            said = millrace("ls", "--ca-file", tmp_path / "old.pem", f"https://127.0.0.1:{expired.port}/", code=None).err
            assert "its certificate has expired" in said and not NO_LIBRARY.search(said)
        finally:
            expired.stop()
    finally:
        secure.stop()
        plain.stop()

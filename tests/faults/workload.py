"""Writers that never stop until the node does, and a record of what they were promised."""
import http.client
import random
import re
import threading

from payload import make

# Inline, just below and above that limit, within and across blocks of 1 MiB.
SIZES = [300, 5_000, 16_384, 16_385, 70_000, 1 << 20, 1_500_000]
MOST_KEYS = 6
KINDS = {"put": 8, "delete": 2, "upload": 1}  # how often


class Ended(Exception):
    """The node did not answer: nobody knows what became of the request."""


class Client:
    """One connection that is kept; `Ended` where it breaks."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, method, path, body=None):
        try:
            self.connection.request(method, path, body=body)
            response = self.connection.getresponse()
            return response.status, response.read(), dict(response.getheaders())
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise Ended from error


PART = 5 << 20  # all parts but the last have at least this


def upload(client, path, data):
    """A multipart upload of the data; gives the status of its completion, or of what failed before."""
    status, answer, _ = client.ask("POST", f"{path}?uploads")
    if status != 200:
        return status
    number = re.search(rb"<UploadId>([^<]+)<", answer)[1].decode()
    text = ""
    for part, at in enumerate(range(0, len(data), PART), 1):
        status, answer, headers = client.ask("PUT", f"{path}?partNumber={part}&uploadId={number}", data[at:at + PART])
        if status != 200:
            return status
        etag = next(value for name, value in headers.items() if name.lower() == "etag")
        text += f"<Part><PartNumber>{part}</PartNumber><ETag>{etag}</ETag></Part>"
    return client.ask("POST", f"{path}?uploadId={number}", f"<CompleteMultipartUpload>{text}</CompleteMultipartUpload>")[0]


class Writers:
    """`count` threads, each with keys of its own: put, overwrite, delete, upload in parts."""

    def __init__(self, port, bucket, history, seed, count=16, keys=MOST_KEYS, sizes=SIZES, kinds=KINDS, endure=False):
        """`endure`: a broken connection is no reason to end, as where large bodies are refused on their way."""
        self.endure = endure
        self.port, self.bucket, self.history = port, bucket, history
        self.stopping = threading.Event()
        self.unexpected = []
        self.threads = [threading.Thread(target=self.run, args=(random.Random(seed * 1000 + number), kinds, [f"w{number}-{key}" for key in range(keys)], sizes), daemon=True)
                        for number in range(count)]

    def run(self, rng, kinds, keys, sizes):
        client = Client(self.port)
        while not self.stopping.is_set():
            key = rng.choice(keys)
            kind = rng.choices(list(kinds), kinds.values())[0]
            size = 0 if kind == "delete" else rng.choice(sizes)
            if kind == "upload":
                size = PART + 70_000
            version = self.history.begin(key, size)
            try:
                path = f"/{self.bucket}/{key}"
                if kind == "put":
                    status = client.ask("PUT", path, make(key, version, size))[0]
                elif kind == "delete":
                    status = client.ask("DELETE", path)[0]
                else:
                    status = upload(client, path, make(key, version, size))
            except Ended:
                if self.endure:
                    continue
                return
            if status in (200, 204):
                self.history.ack(key, version)
            elif status in (500, 503):
                continue  # may or may not have happened; refused while stopping
            else:
                self.unexpected.append((kind, key, status))
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(180)
        assert not any(thread.is_alive() for thread in self.threads), "a writer hangs"
        assert not self.unexpected, self.unexpected


def audit(node, bucket, history):
    """Reads every key back; see History.verify."""

    def get(key):
        try:
            answer = node.get(f"/{bucket}/{key}")
        except (OSError, http.client.HTTPException) as error:
            return f"broken answer: {error}", b""
        return answer.status, answer.body

    return history.verify(get)

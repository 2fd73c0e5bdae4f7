"""Clients that ask again, as S3 clients do: for tests in which nodes come and go and no request may fail for them."""
import http.client
import itertools
import random
import threading
import time

from clusters import pattern
from store_client import MIB, wait_until

# A client asks another node after 503 or a broken connection, so often, a little later each time.
ATTEMPTS = 12
SIZES = [0, 100, 16_385, 200_000, 2 * MIB + 17]
# With one of four nodes away, each can be written and read. With one of three, 2+1 could not be written.
BUCKETS = {"copies": "copies=3", "coded": "2+1"}
BUCKETS_OF_THREE = {"copies": "copies=3", "pairs": "copies=2"}


class Retrying:
    """Asks the nodes in turn until one answers with anything but 503, as S3 clients do."""

    def __init__(self, nodes, seed, attempts=ATTEMPTS):
        self.nodes, self.turns, self.random, self.attempts = nodes, itertools.count(seed), random.Random(seed), attempts
        self.asked, self.again = 0, 0

    def ask(self, method, path, body=None):
        self.asked += 1
        said = []
        for attempt in range(self.attempts):
            node = self.nodes[next(self.turns) % len(self.nodes)]
            try:
                answer = node.ask(method, path, body, timeout=30)
                if answer.status != 503:
                    return answer
                said.append(answer.body[:200])
            except (OSError, http.client.HTTPException) as broken:
                said.append(repr(broken))
            self.again += 1
            time.sleep(min(0.05 * 2 ** attempt, 1) * self.random.uniform(0.5, 1))
        raise AssertionError(f"{method} {path} failed {self.attempts} times: {said}")


class Load:
    """Clients that write, read, delete and list objects of their own, and know what each is."""

    def __init__(self, nodes, clients=4, attempts=ATTEMPTS):
        self.nodes, self.stop = nodes, threading.Event()
        self.buckets = list(buckets_for(nodes))
        self.clients = [Retrying(nodes, number, attempts) for number in range(clients)]
        self.rounds, self.trouble, self.known = [0] * clients, [], [{} for _ in range(clients)]
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(clients)]

    def run(self, number):
        try:
            while not self.stop.wait(0.01):
                self.round(number)
                self.rounds[number] += 1
        except BaseException as failure:
            self.trouble.append(failure)

    def round(self, number):
        client, known, turn = self.clients[number], self.known[number], self.rounds[number]
        bucket = self.buckets[turn % 2]
        path = f"/{bucket}/c{number}/o{turn // 2 % 7}"
        body = pattern((path, turn), SIZES[turn % len(SIZES)])
        assert client.ask("PUT", path, body).status == 200
        known[path] = body
        answer = client.ask("GET", path)
        assert answer.status == 200 and answer.body == body, (path, answer.status, len(answer.body))
        if turn % 5 == 4:
            gone = client.random.choice(sorted(known))
            assert client.ask("DELETE", gone).status == 204
            del known[gone]
            assert client.ask("GET", gone).status == 404, gone
        if turn % 9 == 8:
            answer = client.ask("GET", f"/{bucket}?list-type=2&prefix=c{number}/")
            listed = sorted(part.split("</Key>")[0] for part in answer.body.decode().split("<Key>")[1:])
            assert answer.status == 200 and listed == sorted(key.split("/", 2)[2] for key in known if key.startswith(f"/{bucket}/")), answer.body

    def go_on(self, rounds=3):
        """Until every client has done so many more."""
        enough = [count + rounds for count in self.rounds]
        wait_until(lambda: self.trouble or all(done >= wanted for done, wanted in zip(self.rounds, enough)), "the clients stand still", 120)
        assert not self.trouble, self.trouble[0]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        if kind is None:
            assert not self.trouble, self.trouble[0]

    def check(self, nodes):
        for known in self.known:
            for path, body in known.items():
                for node in nodes:
                    answer = node.get(path)
                    assert answer.status == 200 and answer.body == body, (path, node.listen, answer.status)


def buckets_for(nodes):
    return BUCKETS if len(nodes) > 3 else BUCKETS_OF_THREE


def make_buckets(cluster):
    for bucket, redundancy in buckets_for(cluster.nodes).items():
        cluster.make_bucket(bucket, redundancy=redundancy)

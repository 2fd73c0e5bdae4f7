"""The checker of payloads sees every fault that it is there for."""
from payload import BLOCK, History, fault_of, make


def test_faults_are_seen():
    old, new = make("k", 1, 100_000), make("k", 2, 100_000)
    versions = {1: 100_000, 2: 100_000}
    assert fault_of("k", old, versions) == fault_of("k", new, versions) == ""
    assert "of version 2" in fault_of("k", old[:BLOCK] + new[BLOCK:], versions)
    assert "bytes" in fault_of("k", old[:-1], versions)
    assert "damaged" in fault_of("k", old[:50_000] + b"?" + old[50_001:], versions)
    assert "block 3" in fault_of("k", old[:3 * BLOCK] + bytes(BLOCK) + old[4 * BLOCK:], versions)
    assert fault_of("k", bytes(100_000), versions)
    assert "not one of" in fault_of("k", make("k", 3, 100_000), versions)
    assert fault_of("k", make("other", 1, 100_000), versions)


def verdict(history, status, data=b""):
    found = history.verify(lambda key: (status, data))
    return found["verified"], found["lost"], found["torn"], found["resurrected"]


def written():
    history = History()
    history.ack("k", history.begin("k", 5000))
    return history


def test_history_knows_what_may_be():
    assert verdict(written(), 200, make("k", 1, 5000)) == (1, 0, 0, 0)
    assert verdict(written(), 404) == (0, 1, 0, 0)
    assert verdict(written(), 500) == (0, 1, 0, 0)
    assert verdict(written(), 200, make("k", 1, 4999)) == (0, 0, 1, 0)
    unanswered = written()
    unanswered.begin("k", 9000)
    assert verdict(unanswered, 200, make("k", 1, 5000)) == (1, 0, 0, 0)
    unanswered = written()
    unanswered.begin("k", 9000)
    assert verdict(unanswered, 200, make("k", 2, 9000)) == (1, 0, 0, 0)
    overwritten = written()
    overwritten.ack("k", overwritten.begin("k", 9000))
    assert verdict(overwritten, 200, make("k", 1, 5000)) == (0, 1, 0, 0)
    deleted = written()
    deleted.ack("k", deleted.begin("k", 0))
    assert verdict(deleted, 404) == (1, 0, 0, 0)
    deleted = written()
    deleted.ack("k", deleted.begin("k", 0))
    assert verdict(deleted, 200, make("k", 1, 5000)) == (0, 0, 0, 1)
    maybe_deleted = written()
    maybe_deleted.begin("k", 0)
    assert verdict(maybe_deleted, 404) == (1, 0, 0, 0)

"""Random names fall into the samples that WebDataset's rule gives."""
import random
import tarfile

import pytest

from archives import Member, group, read_samples, sample_set, split_name, write_members

PIECES = ["a", "b", "A", "JPG", "Cls", "jpg", ".", ".", "..", "/", "/", "\n", "__", "é", "日", " ", "-", "0", "\t", "\\", "_", "~"]


def random_name(rng):
    while True:
        name = "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 9)))
        # Readers disagree on regular files whose names end in a slash: they are directories to some.
        if not name.endswith("/"):
            return name


def random_members(rng, count):
    """Members in runs: a name, then perhaps names that share its key."""
    names = {}
    while len(names) < count:
        name = random_name(rng)
        names[name] = None
        if rng.random() < 0.5 and split_name(name):
            for _ in range(rng.randrange(3)):
                names[f"{split_name(name)[0]}.{rng.choice(['jpg', 'CLS', 'seg.png', 'Txt', ''])}"] = None
    return [(name, b"%d" % number) for number, name in enumerate(names)]


def without_faults(members):
    """Leaves out members that repeat a field of their sample, or whose key was seen before others."""
    kept, seen, current, fields = [], set(), None, set()
    for name, data in members:
        split = split_name(name)
        if split is not None:
            key, field = split
            if key != current and key in seen:
                continue
            if key != current:
                current, fields = key, set()
            if field in fields:
                continue
            seen.add(key)
            fields.add(field)
        kept.append((name, data))
    return kept


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT], ids=["pax", "gnu", "ustar"])
@pytest.mark.parametrize("seed", range(3))
def test_random_names_group_as_the_reference_does(millrace, tmp_path, seed, format):
    members = without_faults(random_members(random.Random(seed), 2500))
    write_members(tmp_path / "in.tar", members, format)
    expected = group(Member(name, tarfile.REGTYPE, "", data) for name, data in members)
    assert len(expected) > 300 and len(expected) < len(members)
    rows = millrace.json("tar", "ls", "in.tar")
    assert [(row["key"], row["fields"]) for row in rows] == [(s.key, {field: len(data) for field, data in s.fields.items()}) for s in expected]
    millrace("tar", "cat", "in.tar", "-o", "out.tar")
    assert sample_set(read_samples(tmp_path / "out.tar")) == sample_set(expected)
    stat = millrace.json("tar", "stat", "in.tar")[0]
    loose = sum(split_name(name) is None for name, _ in members)
    assert (stat["samples"]["count"], stat["members"], stat["loose_members"]) == (len(expected), len(members), loose)


@pytest.mark.parametrize("seed", range(3))
def test_runs_of_members_are_listed_even_where_keys_return(millrace, tmp_path, seed):
    rng = random.Random(100 + seed)
    members = [(f"{rng.choice('abcdef')}.{number}", b"x") for number in range(500)]
    write_members(tmp_path / "in.tar", members)
    expected = group(Member(name, tarfile.REGTYPE, "", data) for name, data in members)
    rows = millrace.json("tar", "ls", "in.tar")
    assert [(row["key"], list(row["fields"])) for row in rows] == [(s.key, list(s.fields)) for s in expected]


@pytest.mark.parametrize("name,key,field", [
    ("d.e/a.b.jpg", "d.e/a", "b.jpg"), ("x.tar.gz", "x", "tar.gz"), ("./x.y", "./x", "y"), ("a.", "a", ""), ("dir/.hidden", "dir/", "hidden"),
    ("dir/._a.jpg", "dir/", "_a.jpg"), ("A.JPG", "A", "jpg"), ("a.É", "a", "É"), ("/abs.txt", "/abs", "txt"), ("__a.txt", "__a", "txt"),
])
def test_known_corner_names_split_as_webdataset_splits_them(millrace, tmp_path, name, key, field):
    assert split_name(name) == (key, field)
    write_members(tmp_path / "in.tar", [(name, b"x")])
    rows = millrace.json("tar", "ls", "in.tar")
    assert [(row["key"], list(row["fields"])) for row in rows] == [(key, [field])]


@pytest.mark.parametrize("name", ["noext", ".hidden", "a.b/c", "__meta__", "__meta__/a.txt", "____", "__x__/y/z.txt"])
def test_names_of_no_sample_are_loose(millrace, tmp_path, name):
    assert split_name(name) is None
    write_members(tmp_path / "in.tar", [(name, b"x")])
    assert millrace.json("tar", "ls", "in.tar") == []
    assert millrace.json("tar", "stat", "in.tar")[0]["loose_members"] == 1


def test_the_last_dot_rule_splits_at_the_last_dot(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("v1.0/img.1.jpg", b"x"), ("v1.0/img.1.CLS", b"y"), ("v1.0/img.2.jpg", b"z"), ("v1.0/.hidden", b"")])
    rows = millrace.json("tar", "ls", "--key-rule", "last-dot", "in.tar")
    assert [(row["key"], row["fields"]) for row in rows] == [("v1.0/img.1", {"jpg": 1, "cls": 1}), ("v1.0/img.2", {"jpg": 1})]

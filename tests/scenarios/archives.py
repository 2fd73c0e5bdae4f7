"""Archives made and read without millrace: Python's tarfile, and WebDataset's grouping rule."""
import collections
import glob
import hashlib
import io
import os
import re
import subprocess
import tarfile

Sample = collections.namedtuple("Sample", "key fields")  # fields: {name: bytes}, in archive order


# -- making --------------------------------------------------------------------------------------------------

def random_samples(rng, count, start=0, large_every=0):
    """Samples with a jpg of random size (0 and, now and then, above 1 MB), a non-unique cls and a txt."""
    samples = []
    for number in range(start, start + count):
        size = rng.choice([0, 1, 511, 512, 513, rng.randrange(20_000)])
        if large_every and number % large_every == 0:
            size = rng.randrange(1_000_001, 1_600_000)
        fields = {"jpg": rng.randbytes(size), "cls": str(rng.randrange(-5, 6)).encode()}
        if rng.random() < 0.7:
            fields["txt"] = f"caption {rng.random()}".encode()
        samples.append(Sample(f"dir{number % 3}/{number:06d}", fields))
    return samples


def add_file(archive, name, data=b"", **facts):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    for fact, value in facts.items():
        setattr(entry, fact, value)
    archive.addfile(entry, io.BytesIO(data))


def add_special(archive, name, kind, link="", size=0):
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = link
    entry.size = size
    archive.addfile(entry)


def write_shard(path, samples, format=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=format) as archive:
        for sample in samples:
            for field, data in sample.fields.items():
                add_file(archive, f"{sample.key}.{field}", data)
    return path


def write_members(path, members, format=tarfile.PAX_FORMAT):
    """members: pairs of name and bytes."""
    with tarfile.open(path, "w", format=format) as archive:
        for name, data in members:
            add_file(archive, name, data)
    return path


def put(path, data=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def small_shard(path, count=10):
    return write_shard(path, [Sample(f"{n:04d}", {"jpg": b"picture %d" % n, "cls": b"%d" % (n % 3)}) for n in range(count)])


# -- reading -------------------------------------------------------------------------------------------------

def plain_bytes(path):
    """A shard's tar, whatever it is compressed with."""
    with open(path, "rb") as file:
        data = file.read()
    for magic, program in [(b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"), (b"\xfd7zXZ", "xz")]:
        if data.startswith(magic):
            return subprocess.run([program, "-dc"], input=data, capture_output=True, check=True).stdout
    return data


Member = collections.namedtuple("Member", "name kind link data")


def read_members(path):
    """All members as Python's tarfile sees them, in order. Directories carry no slash at the end."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(plain_bytes(path))) as archive:
        for entry in archive:
            data = archive.extractfile(entry).read() if entry.isreg() else b""
            found.append(Member(entry.name, entry.type, entry.linkname, data))
    return found


def assert_whole_tar(path):
    """Every member reads to its end, then come two zero blocks and nothing but zeros."""
    data = plain_bytes(path)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        end = 0
        for entry in archive:
            if entry.isreg():
                assert len(archive.extractfile(entry).read()) == entry.size, f"{path}: {entry.name} is cut"
            end = entry.offset_data + (-(-entry.size // 512) * 512 if entry.isreg() else 0)
    assert len(data) >= end + 1024, f"{path}: no end blocks"
    assert not any(data[end:]), f"{path}: data behind the end"


def member_offsets(path):
    """Where each member's header and data begin, and its size."""
    with tarfile.open(path) as archive:
        return [(entry.offset, entry.offset_data, entry.size) for entry in archive]


# -- WebDataset's rule ---------------------------------------------------------------------------------------

def ascii_lower(text):
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def is_meta(name):
    return bool(re.match(r"__[^/]*__($|/)", name)) or ("/" not in name and name.startswith("__") and name.endswith("__"))


def split_name(name):
    """Key and field, or nothing: webdataset.tariterators.base_plus_ext with its filters."""
    if is_meta(name):
        return None
    match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
    return (match.group(1), ascii_lower(match.group(2))) if match else None


def group(members):
    """Members to samples: runs of regular files with one key."""
    samples = []
    for member in members:
        split = split_name(member.name) if member.kind in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE) else None
        if split is None:
            continue
        key, field = split
        if not samples or samples[-1].key != key:
            samples.append(Sample(key, {}))
        samples[-1].fields[field] = member.data
    return samples


def read_samples(*paths):
    """Samples of several shards, in order."""
    return [sample for path in paths for sample in group(read_members(path))]


def shown(name):
    """A name as it appears in JSON: bytes that are no UTF-8 are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


# -- comparing -----------------------------------------------------------------------------------------------

def digest(data):
    return hashlib.sha256(data).hexdigest()


def sample_set(samples):
    """The multiset of samples, each as its key and its fields' hashes."""
    return collections.Counter((sample.key, frozenset((field, digest(data)) for field, data in sample.fields.items())) for sample in samples)


def content_set(samples):
    """The multiset of (field, hash), whatever the keys are."""
    return collections.Counter((field, digest(data)) for sample in samples for field, data in sample.fields.items())


def member_set(members):
    return collections.Counter((m.name, m.kind, m.link, digest(m.data)) for m in members)


def shards_like(directory, pattern):
    return sorted(glob.glob(os.path.join(directory, pattern)))


def tree_bytes(directory):
    """{relative name: bytes} of all regular files below a directory; links are not followed."""
    top = os.fsencode(directory)
    found = {}
    for where, _, names in os.walk(top):
        for name in names:
            path = os.path.join(where, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.fsdecode(os.path.relpath(path, top))] = file.read()
    return found

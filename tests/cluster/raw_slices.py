"""What the drives of stopped nodes hold, read without our code, as docs/formats/drive.md describes it.

Every drive's index is read, every file that it names is compared with its checksums, the newest mark of each key is found
over all drives, and the object is put together from its slices in every way that there is.
"""
import dataclasses
import struct

from rocksdb_reader import library, rows_of
from slice_arithmetic import crc32c, decode

BLOCK = 1 << 20
FOOTER = struct.Struct("<8sIQQQIII")
SLICES = b"_slices\0"


class Damaged(Exception):
    pass


def must(holds, text):
    if not holds:
        raise Damaged(text)


class Fields:
    """Little-endian numbers and texts, one after another."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, size):
        must(self.at + size <= len(self.data), "a record is cut short")
        self.at += size
        return int.from_bytes(self.data[self.at - size:self.at], "little")

    def text(self):
        size = self.number(4)
        must(self.at + size <= len(self.data), "a text is cut short")
        self.at += size
        return self.data[self.at - size:self.at]

    def pairs(self):
        return [(self.text(), self.text()) for _ in range(self.number(4))]


@dataclasses.dataclass
class Record:
    version: tuple
    deleted: bool
    head: int
    size: int
    crc: int
    pieces: list
    upload: str
    spread: object


@dataclasses.dataclass
class Spread:
    k: int
    m: int
    slot: int
    cell: int
    write: bytes
    holders: list


def read_record(data):
    fields = Fields(data)
    must(len(data) >= 4 and crc32c(data[:-4]) == int.from_bytes(data[-4:], "little"), "the checksum of a record is wrong")
    must(fields.number(1) == 2, "a record of another format")
    flags = fields.number(1)
    counter = fields.number(8)
    epoch, node = (fields.number(4), fields.number(4)) if flags & 2 else (0, 0)
    head, size, _ = fields.number(8), fields.number(8), fields.number(8)
    fields.text()
    crc = fields.number(4)
    fields.pairs(), fields.pairs()
    pieces = [(fields.number(8), fields.number(8)) for _ in range(fields.number(4))]
    fields.number(1), fields.number(8), fields.number(8), fields.number(8)
    spread = None
    if flags & 4:
        k, m, slot, cell, write = fields.number(1), fields.number(1), fields.number(1), fields.number(4), fields.text()
        spread = Spread(k, m, slot, cell, write, [fields.number(8) for _ in range(fields.number(1))])
    upload = fields.text().decode() if flags & 8 else ""
    must(fields.at == len(data) - 4, "a record has something behind its end")
    return Record((epoch, counter, node), bool(flags & 1), head, size, crc, pieces, upload, spread)


@dataclasses.dataclass
class Mark:
    record: Record
    has_slice: bool
    data: bytes


def read_ledger(data):
    """The mark; None where the key has none on this drive."""
    fields = Fields(data)
    must(fields.number(1) == 1, "a ledger of another format")
    flags = fields.number(1)
    for _ in range(fields.number(1)):
        read_record(fields.text()), fields.text()
    if not flags & 1:
        return None
    record = read_record(fields.text())
    return Mark(record, bool(flags & 4), fields.text())


def path_of(drive, number):
    return drive / "data" / f"{(number + (number >> 20)) % 256:02x}" / f"{number:016x}"


def read_file(drive, number):
    """The data of an object file, compared with all of its checksums."""
    path = path_of(drive, number)
    must(path.exists(), f"{path} is missing")
    content = path.read_bytes()
    must(len(content) >= FOOTER.size, f"{path} has no footer")
    footer = content[-FOOTER.size:]
    magic, form, size, index_size, body_size, index_crc, body_crc, footer_crc = FOOTER.unpack(footer)
    must(magic == b"MRobject" and form == 1 and crc32c(footer[:-4]) == footer_crc, f"{path}: the footer is damaged")
    begin = (size + 4095) // 4096 * 4096 if index_size or body_size else size
    must(begin + index_size + body_size + FOOTER.size == len(content), f"{path}: the sizes do not add up")
    must(crc32c(content[begin:begin + index_size]) == index_crc, f"{path}: the shard index is damaged")
    body = content[begin + index_size:begin + index_size + body_size]
    must(crc32c(body) == body_crc, f"{path}: the body is damaged")
    fields = Fields(body)
    fields.number(1)
    must(fields.number(8) == number and fields.number(8) == size, f"{path}: the body is of another file")
    fields.text(), fields.text(), fields.text(), fields.number(4), fields.number(8), fields.pairs(), fields.pairs(), fields.text()
    blocks = [fields.number(4) for _ in range(fields.number(4))]
    must(len(blocks) == (size + BLOCK - 1) // BLOCK, f"{path}: {len(blocks)} blocks for {size} bytes")
    for at, known in enumerate(blocks):
        must(crc32c(content[at * BLOCK:min(size, (at + 1) * BLOCK)]) == known, f"{path}: block {at} is damaged")
    return content[:size]


class Drives:
    """All drives of a cluster whose nodes are stopped."""

    def __init__(self, drives):
        self.marks = {}   # (bucket, key) -> [(drive, Mark)]
        self.slices = {}  # write id -> {slot: [(drive, name, read)]}
        self.faults = []
        self.verified_bytes = 0
        for drive in drives:
            with rows_of(drive / "index") as rows:
                small = {key: value for key, value in rows("small") if key.startswith(SLICES)}
                for key, value in rows("default"):
                    if key.startswith(SLICES):
                        self._enter_slice(drive, key, value, small)
                for key, value in rows("ledgers"):
                    self._enter_ledger(drive, key, value)

    def _enter_ledger(self, drive, key, value):
        bucket, name = key.split(b"\0", 1)
        try:
            mark = read_ledger(value)
        except Damaged as fault:
            self.faults.append(f"{drive}: ledger of {key}: {fault}")
            return
        if mark:
            self.marks.setdefault((bucket.decode(), name.decode()), []).append((drive, mark))

    def _enter_slice(self, drive, key, value, small):
        name = key[len(SLICES):].decode()
        write, rest = name.split(".")
        slot, holder = rest.split("@")
        try:
            record = read_record(value)
        except Damaged as fault:
            self.faults.append(f"{drive}: slice {name}: {fault}")
            return

        def read():
            if record.pieces:
                return b"".join(read_file(drive, number) for number, _ in record.pieces)
            kept = small.get(key)
            must(kept is not None or record.size == 0, f"slice {name} has no bytes")
            must(not kept or crc32c(kept[4:]) == int.from_bytes(kept[:4], "little"), f"slice {name} is damaged")
            return kept[4:] if kept else b""

        self.slices.setdefault(bytes.fromhex(write), {}).setdefault(int(slot), []).append((drive, int(holder, 16), read))

    def newest(self, bucket, key):
        marks = [mark for _, mark in self.marks.get((bucket, key), [])]
        return max(marks, key=lambda mark: mark.record.version) if marks else None

    def read(self, bucket, key):
        """(bytes, slices that were found, slices that there should be); None: there is no object. Damaged: it cannot be put together."""
        mark = self.newest(bucket, key)
        if mark is None or mark.record.deleted:
            return None
        record = mark.record
        if record.upload:
            found = [self.read(f"{bucket}/parts", f"{record.upload}/{piece:016x}") for piece, _ in record.pieces]
            must(all(found), f"{bucket}/{key}: a part is missing")
            data, there, wanted = b"".join(one[0] for one in found), sum(one[1] for one in found), sum(one[2] for one in found)
        elif not record.pieces:
            data, there, wanted = self._read_inline(bucket, key, mark)
        else:
            data, there, wanted = self._read_slices(f"{bucket}/{key}", record)
        must(len(data) == record.size, f"{bucket}/{key}: {len(data)} of {record.size} bytes")
        must(record.upload or crc32c(data) == record.crc, f"{bucket}/{key}: the checksum of the content is wrong")
        self.verified_bytes += len(data)
        return data, there, wanted

    def _read_inline(self, bucket, key, newest):
        # By the write, not by its version: while nodes stop one after the other, those that are left may move an object anew, and the others
        # have the same bytes under the version before.
        same = [mark for _, mark in self.marks[bucket, key] if mark.has_slice and mark.record.spread.write == newest.record.spread.write]
        must(same, f"{bucket}/{key}: no drive has the bytes of the newest mark")
        must(all(mark.data == same[0].data for mark in same), f"{bucket}/{key}: the copies differ")
        return same[0].data, len(same), len(newest.record.spread.holders)

    def _read_slices(self, name, record):
        spread, slices = record.spread, {}
        for slot, places in self.slices.get(spread.write, {}).items():
            for drive, holder, read in places:
                if slot < len(spread.holders) and spread.holders[slot] != holder:
                    continue  # a move has not let it go yet
                try:
                    slices[slot] = read()
                except Damaged as fault:
                    self.faults.append(f"{name}: slot {slot}: {fault}")
        must(len(slices) >= spread.k, f"{name}: {len(slices)} slices are left of {len(spread.holders)}, and {spread.k} are needed")
        data, wrong = decode(record.size, spread.k, spread.m, spread.cell, slices)
        self.faults += [f"{name}: slot {slot} does not fit the other slices" for slot in wrong]
        return data, len(slices), len(spread.holders)


def why_not():
    """Why indexes cannot be read here; empty where they can."""
    return "" if library() is not None else "librocksdb is not installed"

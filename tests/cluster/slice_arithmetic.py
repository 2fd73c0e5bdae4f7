"""CRC32C and Reed–Solomon in numpy, as docs/formats/drive.md describes them, without our code."""
import functools

import numpy

# CRC32C, reflected.
TABLE = numpy.zeros(256, numpy.uint32)
for _byte in range(256):
    _value = _byte
    for _ in range(8):
        _value = _value >> 1 ^ (0x82F63B78 if _value & 1 else 0)
    TABLE[_byte] = _value
PLAIN = [int(value) for value in TABLE]
ONES = numpy.uint32(0xFFFFFFFF)
SMALL = 512  # bytes below which a plain loop is faster


def step(state, byte):
    return TABLE[(state ^ byte) & 0xFF] ^ state >> numpy.uint32(8)


@functools.lru_cache(None)
def shift_tables(size):
    """What `size` zero bytes make of a state, as four tables of 256; sizes are powers of two."""
    basis = numpy.array([1 << bit for bit in range(32)], numpy.uint32)
    if size == 1:
        basis = step(basis, numpy.uint32(0))
    else:
        basis = shift(shift(basis, size // 2), size // 2)
    tables = numpy.zeros((4, 256), numpy.uint32)
    for part in range(4):
        for bit in range(8):
            with_bit = numpy.arange(256) >> bit & 1 == 1
            tables[part][with_bit] ^= basis[8 * part + bit]
    return tables


def shift(state, size):
    tables = shift_tables(size)
    return tables[0][state & 0xFF] ^ tables[1][state >> 8 & 0xFF] ^ tables[2][state >> 16 & 0xFF] ^ tables[3][state >> 24]


def shift_any(state, size):
    state = numpy.array([state], numpy.uint32)
    bit = 1
    while bit <= size:
        if size & bit:
            state = shift(state, bit)
        bit <<= 1
    return state[0]


def crc32c(data):
    if len(data) <= SMALL:
        state = 0xFFFFFFFF
        for byte in data:
            state = PLAIN[(state ^ byte) & 0xFF] ^ state >> 8
        return state ^ 0xFFFFFFFF
    # Lanes are run side by side and then joined. Zeroes in front change nothing while the state is 0, so lanes can be filled up.
    lane = 64 if len(data) < 1 << 16 else 256
    lanes = 1
    while lanes * lane < len(data):
        lanes *= 2
    grid = numpy.zeros(lanes * lane, numpy.uint8)
    grid[len(grid) - len(data):] = numpy.frombuffer(data, numpy.uint8)
    columns = numpy.ascontiguousarray(grid.reshape(lanes, lane).T)
    state = numpy.zeros(lanes, numpy.uint32)
    for column in columns:
        state = step(state, column)
    size = lane
    while len(state) > 1:
        state = shift(state[::2], size) ^ state[1::2]
        size *= 2
    return int(state[0] ^ shift_any(ONES, len(data)) ^ ONES)


# GF(256), x^8 + x^4 + x^3 + x^2 + 1.
EXP, LOG = [0] * 510, [0] * 256
_value = 1
for _power in range(255):
    EXP[_power] = EXP[_power + 255] = _value
    LOG[_value] = _power
    _value = _value << 1 ^ (0x11D if _value & 0x80 else 0)


def times(a, b):
    return EXP[LOG[a] + LOG[b]] if a and b else 0


def inverse(a):
    return EXP[255 - LOG[a]]


@functools.lru_cache(None)
def factor_table(factor):
    return numpy.array([times(factor, byte) for byte in range(256)], numpy.uint8)


def row_of(slot, k):
    if slot < k:
        return [int(slot == column) for column in range(k)]
    return [inverse(slot ^ column) for column in range(k)]


def combine(rows, cells):
    """Sums of the cells times the factors of each row. All cells are equally long."""
    made = []
    for row in rows:
        total = numpy.zeros(len(cells[0]), numpy.uint8)
        for factor, cell in zip(row, cells):
            total ^= factor_table(factor)[cell]
        made.append(total)
    return made


def inverted(matrix):
    size = len(matrix)
    work = [list(row) + [int(at == number) for at in range(size)] for number, row in enumerate(matrix)]
    for column in range(size):
        pivot = next(row for row in range(column, size) if work[row][column])
        work[column], work[pivot] = work[pivot], work[column]
        factor = inverse(work[column][column])
        work[column] = [times(factor, one) for one in work[column]]
        for row in range(size):
            if row != column and work[row][column]:
                factor = work[row][column]
                work[row] = [one ^ times(factor, other) for one, other in zip(work[row], work[column])]
    return [row[size:] for row in work]


def cell_sizes(size, k, m, cell):
    """Per stripe, the sizes of its k + m cells."""
    for begin in range(0, size, k * cell):
        data = [max(0, min(cell, size - begin - slot * cell)) for slot in range(k)]
        yield data + [data[0]] * m


def decode(size, k, m, cell, slices):
    """The object of which these slices ({slot: bytes}) are; at least k of them. Also the slots that do not fit the others."""
    if k == 1:
        first = next(iter(slices.values()))
        return first, [slot for slot, data in slices.items() if data != first]
    sources = sorted(slices)[:k]
    back = inverted([row_of(slot, k) for slot in sources])
    out, wrong, at = [], set(), 0
    for sizes in cell_sizes(size, k, m, cell):
        longest = sizes[0]

        def padded(slot):
            data = numpy.zeros(longest, numpy.uint8)
            piece = numpy.frombuffer(slices[slot][at:at + sizes[slot]], numpy.uint8)
            data[:len(piece)] = piece
            return data

        cells = [padded(slot) for slot in sources]
        data = cells if sources == list(range(k)) else combine(back, cells)
        out += [bytes(one[:length]) for one, length in zip(data, sizes)]
        for slot in slices:
            if slot not in sources and (combine([row_of(slot, k)], data)[0][:sizes[slot]] != padded(slot)[:sizes[slot]]).any():
                wrong.add(slot)
        at += cell
    for slot, data in slices.items():
        if len(data) != sum(sizes[slot] for sizes in cell_sizes(size, k, m, cell)):
            wrong.add(slot)
    return b"".join(out), sorted(wrong)

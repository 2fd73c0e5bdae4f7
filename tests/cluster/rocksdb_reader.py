"""Reads the RocksDB index of a drive that nobody has open, through the C interface of Debian's librocksdb."""
import contextlib
import ctypes
import ctypes.util

FAMILIES = ("default", "small", "files", "uploads", "buckets", "meta", "ledgers")


def library():
    """None where the library is not installed."""
    name = ctypes.util.find_library("rocksdb")
    if name is None:
        return None
    rocksdb = ctypes.CDLL(name)
    pointer, size = ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    for function, result, arguments in (
            ("rocksdb_options_create", pointer, []), ("rocksdb_readoptions_create", pointer, []),
            ("rocksdb_open_for_read_only_column_families", pointer,
             [pointer, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(pointer), ctypes.POINTER(pointer),
              ctypes.c_ubyte, ctypes.POINTER(ctypes.c_char_p)]),
            ("rocksdb_create_iterator_cf", pointer, [pointer, pointer, pointer]), ("rocksdb_iter_destroy", None, [pointer]),
            ("rocksdb_iter_seek_to_first", None, [pointer]), ("rocksdb_iter_valid", ctypes.c_ubyte, [pointer]), ("rocksdb_iter_next", None, [pointer]),
            ("rocksdb_iter_key", pointer, [pointer, size]), ("rocksdb_iter_value", pointer, [pointer, size]),
            ("rocksdb_iter_get_error", None, [pointer, ctypes.POINTER(ctypes.c_char_p)]),
            ("rocksdb_column_family_handle_destroy", None, [pointer]), ("rocksdb_close", None, [pointer])):
        getattr(rocksdb, function).restype = result
        getattr(rocksdb, function).argtypes = arguments
    return rocksdb


@contextlib.contextmanager
def rows_of(path):
    """Gives a function from the name of a family to its rows, (key, value) each."""
    rocksdb = library()
    count, error = len(FAMILIES), ctypes.c_char_p()
    options = rocksdb.rocksdb_options_create()
    handles = (ctypes.c_void_p * count)()
    database = rocksdb.rocksdb_open_for_read_only_column_families(
        options, str(path).encode(), count, (ctypes.c_char_p * count)(*map(str.encode, FAMILIES)),
        (ctypes.c_void_p * count)(*[options] * count), handles, 0, ctypes.byref(error))
    if error.value:
        raise OSError(f"{path}: {error.value.decode(errors='replace')}")

    def rows(family):
        iterator = rocksdb.rocksdb_create_iterator_cf(database, rocksdb.rocksdb_readoptions_create(), handles[FAMILIES.index(family)])
        length = ctypes.c_size_t()
        try:
            rocksdb.rocksdb_iter_seek_to_first(iterator)
            while rocksdb.rocksdb_iter_valid(iterator):
                key = ctypes.string_at(rocksdb.rocksdb_iter_key(iterator, ctypes.byref(length)), length.value)
                yield key, ctypes.string_at(rocksdb.rocksdb_iter_value(iterator, ctypes.byref(length)), length.value)
                rocksdb.rocksdb_iter_next(iterator)
            failure = ctypes.c_char_p()
            rocksdb.rocksdb_iter_get_error(iterator, ctypes.byref(failure))
            if failure.value:
                raise OSError(f"{path}: {failure.value.decode(errors='replace')}")
        finally:
            rocksdb.rocksdb_iter_destroy(iterator)

    try:
        yield rows
    finally:
        for handle in handles:
            rocksdb.rocksdb_column_family_handle_destroy(handle)
        rocksdb.rocksdb_close(database)

"""What is done with either library, and made plain enough to be written down as JSON.

Each case is a function of the module under test and the corpus directory. `run_all` gives {name: outcome}; an exception
is an outcome too.
"""
import hashlib
import io
import os
import random
import re
import tarfile
import warnings
from contextlib import contextmanager

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        return f"bytes {len(data)} {data[:24]!r}" if len(data) <= 24 else f"bytes {len(data)} {hashlib.sha1(data).hexdigest()}"
    if isinstance(value, np.ndarray) or type(value).__module__ == "torch":
        array = np.asarray(value)
        return f"{type(value).__name__} {array.dtype} {array.shape} {hashlib.sha1(np.ascontiguousarray(array).tobytes()).hexdigest()}"
    if hasattr(value, "tobytes") and hasattr(value, "mode"):
        return f"image {value.mode} {value.size} {hashlib.sha1(value.tobytes()).hexdigest()}"
    if isinstance(value, np.generic):
        return value.item()
    return value


def outcome(function, wds, directory):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = plain(function(wds, str(directory)))
    except Exception as error:
        result = {"raises": "ValueError" if isinstance(error, ValueError) else "other"}
    return relocate(result, str(directory))


def relocate(value, directory):
    if isinstance(value, str):
        return value.replace(directory, "DIR")
    if isinstance(value, list):
        return [relocate(each, directory) for each in value]
    if isinstance(value, dict):
        return {key: relocate(each, directory) for key, each in value.items()}
    return value


def run_all(wds, directory):
    return {name: outcome(function, wds, directory) for name, function in sorted(CASES.items())}


def good(directory, count=3):
    return f"{directory}/good-{{000..{count - 1:03d}}}.tar"


def dataset(wds, urls, **options):
    return wds.WebDataset(urls, **{"shardshuffle": False, **options})


@contextmanager
def environment(**values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def keys(samples):
    return [sample["__key__"] for sample in samples]


# -- reading ---------------------------------------------------------------------------------------------------

def shard_case(name):
    def read(wds, directory):
        return list(dataset(wds, f"{directory}/{name}"))
    CASES[f"read_{name}"] = read


for shard in ("good-000.tar", "ustar.tar", "gnu.tar", "squeezed.tgz", "odd.tar", "links.tar", "images.tar", "no-tar.tar",
              "nothing.tar", "doubled.tar", "cut-in-data.tar", "absent.tar"):
    shard_case(shard)


@case
def several_shards(wds, directory):
    return list(dataset(wds, good(directory)))


@case
def list_of_shards(wds, directory):
    return keys(dataset(wds, [f"{directory}/good-002.tar", f"{directory}/good-000.tar"]))


@case
def function_form(wds, directory):
    return list(wds.DataPipeline(wds.SimpleShardList(good(directory)), wds.tarfile_to_samples()))


@case
def steps_of_forks(wds, directory):
    """url_opener, tar_file_expander and a grouper of one's own, as the open_clip family does it."""
    streams = wds.tariterators.url_opener([{"url": f"{directory}/good-000.tar"}, {"url": f"{directory}/good-001.tar"}],
                                          handler=wds.reraise_exception)
    files = wds.tariterators.tar_file_expander(streams, handler=wds.reraise_exception)
    groups = []
    for file in files:
        if not file:
            groups.append("end")
            continue
        key, suffix = wds.tariterators.base_plus_ext(file["fname"])
        groups.append([key, suffix.lower(), file["data"], file["__url__"]])
    return groups


@case
def grouping_of_files(wds, directory):
    files = [{"fname": name, "data": name.encode(), "__url__": "u"} for name in
             ["a.x", "a.y", "b.X", "none", "c.x.y", "c.z"]]
    return list(wds.tariterators.group_by_keys(iter(files)))


@case
def grouping_with_suffixes(wds, directory):
    files = [{"fname": name, "data": b"", "__url__": "u"} for name in ["a.x", "a.y", "b.x", {}, "b.y"] if name]
    return list(wds.tariterators.group_by_keys(iter(files), suffixes={"y"}))


@case
def split_names(wds, directory):
    from corpus import ODD_NAMES
    return [wds.tariterators.base_plus_ext(name) for name in ODD_NAMES]


@case
def valid_samples(wds, directory):
    return [wds.tariterators.valid_sample(x) for x in (None, {}, {"a": 1}, {"a": 1, "__bad__": True}, [1])]


@case
def select_files(wds, directory):
    return list(dataset(wds, f"{directory}/good-000.tar", select_files=lambda name: name.endswith("cls")))


@case
def rename_files(wds, directory):
    return list(dataset(wds, f"{directory}/good-000.tar", rename_files=lambda name: name.replace("d0/", "e0/")))


@case
def bad_shards_left_out(wds, directory):
    urls = [f"{directory}/{name}" for name in ("absent.tar", "good-000.tar", "no-tar.tar", "good-001.tar")]
    return keys(dataset(wds, urls, handler=wds.ignore_and_continue))


@case
def bad_shard_ends(wds, directory):
    urls = [f"{directory}/{name}" for name in ("good-000.tar", "absent.tar", "good-001.tar")]
    return keys(dataset(wds, urls, handler=wds.ignore_and_stop))


@case
def doubled_field_first_wins(wds, directory):
    return list(dataset(wds, f"{directory}/doubled.tar", handler=wds.ignore_and_continue))


@case
def scattered_sample_goes_on(wds, directory):
    return list(dataset(wds, f"{directory}/scattered.tar", handler=wds.ignore_and_continue))


# -- shards ----------------------------------------------------------------------------------------------------

@case
def expanded(wds, directory):
    with environment(WDS_root="r-${deep}", WDS_deep="d"):
        return [wds.shardlists.expand_urls(text) for text in (
            "a.tar", "a-{000..003}.tar", "{a,b}-{0..1}.tar", "a::b-{1..2}", "x-{8..11}.tar", "${root}/{0..1}.tar",
            "{a,{b,c}}.tar", "{3..1}", "n{a..c}", "{single}", "no}brace{", "{00..10..5}")]


@case
def shard_list(wds, directory):
    shards = wds.SimpleShardList("a-{0..4}.tar")
    return [list(shards), len(shards), list(wds.SimpleShardList(["x", "y"]))]


@case
def shard_list_with_seed(wds, directory):
    return list(wds.SimpleShardList("a-{00..19}.tar", seed=5))


@case
def split_by_rank(wds, directory):
    with environment(RANK="1", WORLD_SIZE="3"):
        return list(wds.split_by_node(iter(range(10)))), list(wds.split_by_worker(iter(range(4))))


@case
def split_among_workers(wds, directory):
    with environment(WORKER="2", NUM_WORKERS="4"):
        return list(wds.split_by_worker(iter(range(10))))


@case
def worker_seed(wds, directory):
    with environment(RANK="3", WORLD_SIZE="4", WORKER="2", NUM_WORKERS="4"):
        return wds.utils.pytorch_worker_seed(), wds.utils.pytorch_worker_info()


@case
def several_ranks_need_a_splitter(wds, directory):
    with environment(RANK="0", WORLD_SIZE="2"):
        return list(dataset(wds, good(directory)))


@case
def ranks_with_a_splitter(wds, directory):
    with environment(RANK="1", WORLD_SIZE="2"):
        return keys(dataset(wds, good(directory), nodesplitter=wds.split_by_node))


@case
def shard_shuffle_with_seed(wds, directory):
    return keys(wds.WebDataset(good(directory), shardshuffle=10, seed=3))


@case
def det_shuffle(wds, directory):
    shuffled = wds.WebDataset(good(directory), shardshuffle=10, detshuffle=True, seed=3)
    return [keys(shuffled), keys(shuffled)]


@case
def resampled_shards_come_from_the_list(wds, directory):
    urls = ["a", "b", "c"]
    drawn = [source["url"] for source in wds.ResampledShards(urls, nshards=100)]
    return [len(drawn), set(drawn) <= set(urls)]


@case
def empty_dataset_is_an_error(wds, directory):
    with environment(WORKER="5", NUM_WORKERS="6"):
        return list(dataset(wds, good(directory)))


@case
def empty_dataset_is_allowed(wds, directory):
    with environment(WORKER="5", NUM_WORKERS="6"):
        return list(dataset(wds, good(directory), empty_check=False))


# -- stages ----------------------------------------------------------------------------------------------------

@case
def shuffle_with_seed(wds, directory):
    return [keys(dataset(wds, good(directory)).shuffle(size, initial=initial, seed=11))
            for size, initial in ((1, 1), (4, 2), (10, 5), (100, 100))]


@case
def shuffle_function_with_rng(wds, directory):
    return list(wds.filters._shuffle(iter(range(50)), 12, 6, rng=random.Random(4)))


@case
def shuffle_of_zero_is_none(wds, directory):
    return keys(dataset(wds, good(directory)).shuffle(0))


@case
def tuples(wds, directory):
    source = dataset(wds, f"{directory}/good-000.tar")
    return [list(source.to_tuple("txt", "cls")), list(source.to_tuple("txt cls __key__")), list(source.to_tuple("jpg;png", "cls")),
            list(source.to_tuple("jpg;png cls"))]


@case
def tuple_of_missing_field(wds, directory):
    return list(dataset(wds, f"{directory}/missing-field.tar").to_tuple("txt", "cls"))


@case
def tuple_of_missing_field_left_out(wds, directory):
    return list(dataset(wds, f"{directory}/missing-field.tar").to_tuple("txt", "cls", handler=wds.ignore_and_continue))


@case
def tuple_of_missing_field_is_none(wds, directory):
    return list(dataset(wds, f"{directory}/missing-field.tar").to_tuple("txt", "cls", missing_is_error=False))


@case
def mapped(wds, directory):
    source = dataset(wds, f"{directory}/good-000.tar")
    return [list(source.map(lambda sample: {"n": int(sample["cls"])})),
            list(source.map(lambda sample: None if sample["cls"] == b"3" else sample["cls"])),
            list(source.map_dict(cls=int).to_tuple("cls")),
            list(source.to_tuple("cls", "txt").map_tuple(int)),
            list(source.to_tuple("cls", "txt").map_tuple(None, bytes.decode, str))]


@case
def map_error_left_out(wds, directory):
    return list(dataset(wds, f"{directory}/badvalue.tar").map_dict(cls=int, handler=wds.ignore_and_continue))


@case
def map_error_stops(wds, directory):
    return list(dataset(wds, f"{directory}/badvalue.tar").map_dict(cls=int, handler=wds.ignore_and_stop))


@case
def map_error_raises(wds, directory):
    return list(dataset(wds, f"{directory}/badvalue.tar").map_dict(cls=int))


@case
def map_dict_of_missing_field(wds, directory):
    return list(dataset(wds, f"{directory}/missing-field.tar").map_dict(cls=int))


@case
def selected(wds, directory):
    return keys(dataset(wds, good(directory)).select(lambda sample: sample["cls"] in (b"1", b"2")))


@case
def renamed(wds, directory):
    source = dataset(wds, f"{directory}/good-000.tar")
    return [list(source.rename(image="jpg;png", label="cls")), list(source.rename(keep=False, image="png", key="__key__"))]


@case
def renamed_missing(wds, directory):
    return list(dataset(wds, f"{directory}/missing-field.tar").rename(label="cls"))


@case
def renamed_by_glob(wds, directory):
    source = dataset(wds, f"{directory}/good-000.tar")
    return [list(source.rename_keys(image="*png", key="__key__", must_match=False)),
            list(source.rename_keys(("i", "*png"), ("c", "cls"), keep_unselected=True))]


@case
def extracted_by_glob(wds, directory):
    source = dataset(wds, f"{directory}/good-000.tar")
    return [list(source.extract_keys("*.png", "cls")), list(source.extract_keys("*.jpg", "cls", ignore_missing=True))]


@case
def extracted_missing(wds, directory):
    return list(dataset(wds, f"{directory}/good-000.tar").extract_keys("*.jpg"))


@case
def batches(wds, directory):
    source = dataset(wds, good(directory)).decode("rgb8").to_tuple("png", "cls", "txt")
    return [list(source.batched(7)), list(source.batched(7, partial=False)), list(source.batched(8)),
            list(source.batched(5, collation_fn=None)), list(source.batched(100))]


@case
def batches_of_dicts(wds, directory):
    return list(dataset(wds, good(directory)).decode("torchrgb").batched(9))


@case
def batches_and_back(wds, directory):
    source = dataset(wds, good(directory)).decode("rgb8").to_tuple("png", "cls")
    return list(source.batched(5).unbatched())


@case
def dict_batches_and_back(wds, directory):
    return list(dataset(wds, good(directory)).decode("rgb8").batched(5).unbatched())


@case
def lists_and_back(wds, directory):
    source = dataset(wds, good(directory)).to_tuple("cls")
    return [list(source.listed(10)), list(source.listed(10).unlisted())]


@case
def batch_of_unequal_shapes(wds, directory):
    return wds.filters.default_collation_fn([(np.zeros(2),), (np.zeros(3),)])


@case
def collation(wds, directory):
    f = wds.filters.default_collation_fn
    return [f([(1, "a", np.ones(2)), (2, "b", np.zeros(2))]), f([{"x": 1.5, "y": [1]}, {"x": 2.5, "y": [2]}]),
            f([(1,), (2,)], combine_scalars=False)]


@case
def sliced(wds, directory):
    return [keys(dataset(wds, good(directory)).slice(5)), keys(dataset(wds, good(directory)).slice(3, 20, 4))]


@case
def epochs(wds, directory):
    return [keys(dataset(wds, good(directory)).with_epoch(nsamples=30)), keys(dataset(wds, good(directory)).repeat(2)),
            keys(dataset(wds, good(directory)).repeat(2, nbatches=30)), len(dataset(wds, good(directory)).with_length(77))]


@case
def associated(wds, directory):
    return list(wds.associate({"d0/0000": {"extra": 1}})(iter(dataset(wds, f"{directory}/good-000.tar").slice(2))))


@case
def composed(wds, directory):
    def doubled(source):
        for sample in source:
            yield sample
            yield sample
    return keys(dataset(wds, f"{directory}/good-000.tar").compose(doubled, wds.slice(5)))


@case
def stage_class(wds, directory):
    class Odd(wds.PipelineStage):
        def run(self, source):
            return (value for value in source if value % 2)
    return list(wds.DataPipeline(list(range(0)) or [range_source], Odd()))


def range_source():
    return iter(range(7))


@case
def filter_of_ones_own(wds, directory):
    def add(source, amount, times=1):
        for value in source:
            yield value + amount * times
    return list(wds.pipelinefilter(add)(3, times=2)(iter([1, 2])))


@case
def glob_decoding(wds, directory):
    source = wds.FluidWrapper([{"__key__": "a", "x.txt": b"text", "y.bin": b"\x01", "z.num": b"7"}])
    return list(source.xdecode(num=lambda stream: int(stream.read())))


@case
def glob_decoding_of_unknown(wds, directory):
    return list(wds.FluidWrapper([{"__key__": "a", "z.num": b"7"}]).xdecode())


@case
def cached_in_memory(wds, directory):
    source = dataset(wds, f"{directory}/good-000.tar").mcached()
    return [keys(source), keys(source)]


@case
def mixtures(wds, directory):
    one, two = [1, 2, 3], ["a"]
    return [list(wds.RoundRobin([one, two])), list(wds.RoundRobin([one, two], longest=True)),
            sorted(map(str, wds.RandomMix([one, two], longest=True)))]


@case
def mock(wds, directory):
    return list(wds.MockDataset({"a": 1}, 3))


# -- decoding --------------------------------------------------------------------------------------------------

for spec in ("l8 rgb8 rgba8 l rgb rgba torchl8 torchrgb8 torchrgba8 torchl torchrgb torch torchrgba pil pill pilrgb "
             "pilrgba").split():
    def decode_images(wds, directory, spec=spec):
        return list(dataset(wds, f"{directory}/images.tar").decode(spec))
    CASES[f"decode_{spec}"] = decode_images


@case
def decode_without_images(wds, directory):
    return list(dataset(wds, f"{directory}/images.tar").decode())


@case
def decode_only(wds, directory):
    return list(dataset(wds, f"{directory}/good-000.tar").decode("rgb8", only=["cls"]))


@case
def decode_unknown_spec(wds, directory):
    return dataset(wds, f"{directory}/good-000.tar").decode("rgb9")


@case
def decode_twice(wds, directory):
    return list(dataset(wds, f"{directory}/good-000.tar").decode("rgb8").decode("rgb8"))


@case
def decode_partially(wds, directory):
    return list(dataset(wds, f"{directory}/good-000.tar").decode("rgb8").decode(partial=True))


@case
def decode_bad_image_left_out(wds, directory):
    return list(dataset(wds, f"{directory}/badimage.tar").decode("rgb8", handler=wds.ignore_and_continue))


@case
def decode_bad_image(wds, directory):
    return list(dataset(wds, f"{directory}/badimage.tar").decode("rgb8"))


@case
def decode_with_own_handlers(wds, directory):
    return list(dataset(wds, f"{directory}/images.tar").decode(
        wds.handle_extension("rgb.png GRAY.png", len), wds.handle_extension("json", bytes.decode)))


@case
def decode_function_form(wds, directory):
    return list(wds.DataPipeline(wds.SimpleShardList(good(directory, 1)), wds.tarfile_to_samples(), wds.decode("rgb8"),
                                 wds.to_tuple("png", "cls"), wds.map_tuple(np.mean, None), wds.batched(4)))


@case
def tensors_as_bytes(wds, directory):
    arrays = [np.arange(6, dtype="f4").reshape(2, 3), np.array([1, 2], "i2"), np.zeros((0, 3), "u1")]
    coded = wds.tenbin.encode_buffer(arrays)
    return [coded, wds.tenbin.decode_buffer(coded), wds.tenbin.decode_buffer(wds.tenbin.encode_buffer(arrays[:1], ["name"]), infos=True)]


# -- loaders -----------------------------------------------------------------------------------------------------

@case
def loader(wds, directory):
    source = dataset(wds, good(directory)).decode("torchrgb").to_tuple("png", "cls").batched(4)
    return list(wds.WebLoader(source, batch_size=None, num_workers=0).unbatched().batched(6).with_epoch(3))


@case
def loader_with_workers(wds, directory):
    source = dataset(wds, good(directory)).to_tuple("__key__", "cls")
    return list(wds.WebLoader(source, batch_size=None, num_workers=2))


# -- writing -----------------------------------------------------------------------------------------------------

def written(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [[entry.name, archive.extractfile(entry).read()] for entry in archive]


SAMPLE = {"__key__": "k", "cls": 3, "txt": "text é", "json": {"b": 1}, "npy": np.arange(3, dtype="i4"), "bin": b"\x00\x01",
          "png": np.full((2, 3, 3), 200, "uint8"), "ten": [np.arange(3, dtype="f4")], "__url__": "u", "_private": "p"}


@case
def writer_to_stream(wds, directory):
    stream = io.BytesIO()
    with wds.TarWriter(stream, mtime=0) as writer:
        sizes = [writer.write(SAMPLE), writer.write({"__key__": "d/l", "txt": b"raw", "x.cls": "4"})]
    return [sizes, written(stream.getvalue())]


@case
def writer_keeps_metadata(wds, directory):
    stream = io.BytesIO()
    with wds.TarWriter(stream, keep_meta=True) as writer:
        writer.write({"__key__": "k", "txt": "t", "__url__": "u"})
    return written(stream.getvalue())


@case
def writer_without_encoder(wds, directory):
    with wds.TarWriter(io.BytesIO(), encoder=False) as writer:
        writer.write({"__key__": "k", "cls": 3})


@case
def writer_without_key(wds, directory):
    with wds.TarWriter(io.BytesIO()) as writer:
        writer.write({"cls": 3})


@case
def writer_of_unknown_type(wds, directory):
    with wds.TarWriter(io.BytesIO()) as writer:
        writer.write({"__key__": "k", "what": object()})


def write_shards(wds, directory, name, **options):
    import shutil
    folder = os.path.join(directory, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    done = []
    with wds.ShardWriter(f"{folder}/s-%04d.tar", verbose=0, post=lambda path: done.append(os.path.basename(path)), **options) as writer:
        for number in range(7):
            writer.write({"__key__": f"{number:03d}", "bin": bytes(100), "cls": number})
    names = sorted(path for path in os.listdir(folder) if path.endswith((".tar", ".gz")))
    return [done, [[path, written(open(f"{folder}/{path}", "rb").read())] for path in names]]


@case
def shards_by_count(wds, directory):
    return write_shards(wds, directory, "by-count", maxcount=3)


@case
def shards_by_size(wds, directory):
    return write_shards(wds, directory, "by-size", maxsize=250)


@case
def shards_from_a_number_on(wds, directory):
    return write_shards(wds, directory, "from-five", maxcount=4, start_shard=5)


@case
def compressed_tar(wds, directory):
    path = os.path.join(directory, "compressed.tar.gz")
    with wds.TarWriter(path) as writer:
        writer.write({"__key__": "k", "txt": "t"})
    data = open(path, "rb").read()
    return [data[:2], written(data)]


@case
def interface_names(wds, directory):
    """Every public name that programs import."""
    wanted = re.split(r"\s+", """Continue Decoder DecodingError gzfilter handle_extension imagehandler torch_audio torch_loads
        torch_video LRUCleanup pipe_cleaner FluidInterface FluidWrapper WebDataset WebLoader MockDataset with_epoch with_length Cached
        associate batched decode detshuffle extract_keys getfirst info map map_dict map_tuple pipelinefilter rename rename_keys rsample
        select shuffle slice to_tuple transform_with unbatched xdecode gopen gopen_schemes ignore_and_continue ignore_and_stop
        reraise_exception warn_and_continue warn_and_stop RandomMix RoundRobin DataPipeline ResampledShards SimpleShardList non_empty
        resampled shardspec single_node_only split_by_node split_by_worker tarfile_samples tarfile_to_samples PipelineStage repeatedly
        ShardWriter TarWriter numpy_dumps torch_dumps tenbin utils""".strip())
    return [name for name in wanted if not hasattr(wds, name)]


# -- where Millrace differs on purpose: the record proves what the other library does ---------------------------------

for shard in ("cut-in-header.tar", "cut-at-header.tar", "scattered.tar"):
    def read_silently(wds, directory, shard=shard):
        return [sorted(key for key in sample if not key.startswith("__")) for sample in dataset(wds, f"{directory}/{shard}")]
    CASES[f"differs_{shard}"] = read_silently


@case
def differs_shard_order_of_epochs(wds, directory):
    """Whether ten epochs with a seed all have one order."""
    shards = wds.WebDataset(good(directory), shardshuffle=10, seed=3)
    return len({tuple(keys(shards)) for _ in range(10)}) == 1


@case
def differs_reach_of_short_epochs(wds, directory):
    """How many of 24 samples 20 epochs of 6 show."""
    short = wds.WebDataset(good(directory), shardshuffle=10, seed=3).with_epoch(6)
    return len({key for _ in range(20) for key in keys(short)})


@case
def differs_decoding_error_says(wds, directory):
    """Whether the error names field, sample and shard."""
    try:
        list(dataset(wds, f"{directory}/badimage.tar").decode("rgb8"))
    except wds.DecodingError as error:
        return all(word in str(error) for word in ("png", "'b'", "badimage.tar"))


@case
def differs_glob(wds, directory):
    return len(keys(dataset(wds, f"{directory}/good-*.tar")))


@case
def differs_half_written_shard(wds, directory):
    """Whether a failed writer leaves a file."""
    path = os.path.join(directory, "half.tar")
    try:
        with wds.TarWriter(path) as writer:
            writer.write({"__key__": "a", "txt": "a"})
            writer.write({"txt": "no key"})
    except ValueError:
        return os.path.exists(path)


@case
def differs_key_with_dot(wds, directory):
    """What is read back of the key a.b."""
    path = os.path.join(directory, "dotted.tar")
    with wds.TarWriter(path) as writer:
        writer.write({"__key__": "a.b", "txt": "a"})
    return keys(dataset(wds, path))


@case
def differs_pickle(wds, directory):
    """Whether reading runs what a pickle says."""
    import pickle
    return list(wds.FluidWrapper([{"__key__": "a", "pyd": pickle.dumps(complex(1, 2))}]).decode())[0]["pyd"] == complex(1, 2)


@case
def differs_pipe(wds, directory):
    return len(keys(dataset(wds, f"pipe:cat {directory}/good-000.tar")))


@case
def differs_uint32_tensors(wds, directory):
    return wds.tenbin.decode_buffer(wds.tenbin.encode_buffer([np.array([7], "uint32")]))


@case
def differs_partial_lists(wds, directory):
    return [len(batch) for batch in wds.FluidWrapper(list(range(5))).listed(2, partial=False)]

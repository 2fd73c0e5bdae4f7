"""What is done with either library, and made plain enough to be written down as JSON.

Each case is a function of the module under test and the corpus directory. `run_all` gives {name: outcome}; an exception
is an outcome too.
"""
import hashlib
import importlib
import os
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


def load():
    """All cases; the other files add theirs."""
    for name in ("cases_stages", "cases_writing", "cases_differ"):
        importlib.import_module(name)
    return CASES


def run_all(wds, directory):
    return {name: outcome(function, wds, directory) for name, function in sorted(load().items())}


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

"""Cases: stages, decoding and loaders."""
import random

import numpy as np
from cases import CASES, case, dataset, good, keys


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

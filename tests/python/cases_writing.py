"""Cases: writers, and the names that programs import."""
import io
import os
import re
import tarfile

import numpy as np
from cases import case


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

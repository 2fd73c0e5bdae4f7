"""Cases where Millrace differs on purpose: the record proves what the other library does."""
import os

import numpy as np
from cases import CASES, case, dataset, good, keys


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

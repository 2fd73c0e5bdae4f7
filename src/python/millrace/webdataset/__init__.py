"""WebDataset's interface over Millrace's engine: `import millrace.webdataset as wds` and go on as before.

What differs on purpose is listed in docs/guide/from-webdataset.md.
"""
from __future__ import annotations

from . import (autodecode, cache, compat, extradatasets, filters, handlers, mix, pipeline, shardlists, tariterators,
               tenbin, utils, writer)
from .autodecode import (Continue, Decoder, DecodingError, ImageHandler, basichandlers, gzfilter, handle_extension,
                         imagehandler, imagespecs, pytorch_weights_only, torch_audio, torch_loads, torch_video)
from .cache import LRUCleanup, cached_tarfile_samples, cached_tarfile_to_samples, pipe_cleaner
from .compat import FluidInterface, FluidWrapper, WebDataset, WebLoader
from .extradatasets import MockDataset, with_epoch, with_length
from .filters import (Cached, LMDBCached, associate, batched, decode, default_collation_fn, detshuffle, extract_keys, getfirst,
                      info, listed, log_keys, map, map_dict, map_tuple, pipelinefilter, rename, rename_keys, rsample,
                      select, shuffle, slice, to_tuple, transform_with, unbatched, unlisted, xdecode)
from .gopen import gopen, gopen_schemes
from .handlers import (ignore_and_continue, ignore_and_stop, reraise_exception, warn_and_continue, warn_and_stop)
from .mix import RandomMix, RoundRobin
from .pipeline import DataPipeline
from .shardlists import (DirectoryShardList, MultiShardSample, ResampledShards, SimpleShardList, expand_urls, non_empty, resampled,
                         shardspec, single_node_only, split_by_node, split_by_worker)
from .tariterators import (base_plus_ext, group_by_keys, tar_file_expander, tarfile_samples, tarfile_to_samples,
                           url_opener, valid_sample)
from .utils import PipelineStage, pytorch_worker_info, pytorch_worker_seed, repeatedly
from .writer import ShardWriter, TarWriter, numpy_dumps, torch_dumps

# The version of WebDataset whose interface this is.
__version__ = "1.0.2"

"""Writes down what the real webdataset does: with the corpus (webdataset.json) and in the examples (examples.json).

    build/peers/webdataset/bin/python tests/python/record_webdataset.py [DIRECTORY]
"""
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import corpus  # noqa: E402
import example_runs  # noqa: E402


def write(path, record):
    """A line per case, so that a difference shows which."""
    lines = (f"{json.dumps(name)}: {json.dumps(record[name], ensure_ascii=False, sort_keys=True)}" for name in sorted(record))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    import webdataset

    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "expected"
    with tempfile.TemporaryDirectory() as directory:
        shards = corpus.build(pathlib.Path(directory))
        outcomes = cases.run_all(webdataset, shards)
        batches = {name: example_runs.run(sys.executable, "webdataset", words, shards) for name, words in example_runs.RUNS.items()}
    write(output / "webdataset.json", outcomes)
    write(output / "examples.json", batches)
    print(f"{len(outcomes)} cases and {len(batches)} runs of webdataset {webdataset.__version__} in {output}")


if __name__ == "__main__":
    main()

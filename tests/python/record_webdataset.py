"""Writes down what the real webdataset does with the corpus: expected/webdataset.json.

    build/peers/webdataset/bin/python tests/python/record_webdataset.py [OUTPUT]
"""
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import corpus  # noqa: E402


def main():
    import webdataset

    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "expected" / "webdataset.json"
    with tempfile.TemporaryDirectory() as directory:
        outcomes = cases.run_all(webdataset, corpus.build(pathlib.Path(directory)))
    record = {"webdataset": webdataset.__version__, "outcomes": outcomes}
    output.write_text(json.dumps(record, indent=0, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(outcomes)} cases of webdataset {webdataset.__version__} in {output}")


if __name__ == "__main__":
    main()

#!/bin/sh
# A throw-away Python environment with webdataset, which sees Debian's numpy, torch and PIL: the live peer of
# tests/python/test_against_webdataset.py, and what tests/python/record_webdataset.py records.
set -eu
cd "$(dirname "$0")/../.."
rm -rf build/peers/webdataset
mkdir -p build/peers
/usr/bin/python3 -m venv --system-site-packages build/peers/webdataset
build/peers/webdataset/bin/pip install --quiet 'webdataset==1.0.2'
build/peers/webdataset/bin/python -c 'import webdataset; print("webdataset", webdataset.__version__)'

#!/bin/sh
# A throw-away Python environment with Dask: the live engine of tests/python/test_dask.py.
set -eu
cd "$(dirname "$0")/../.."
rm -rf build/peers/dask
mkdir -p build/peers
/usr/bin/python3 -m venv --system-site-packages build/peers/dask
build/peers/dask/bin/pip install --quiet 'dask[bag]==2024.12.1' 'distributed==2024.12.1'
build/peers/dask/bin/python -c 'import dask, distributed; print("dask", dask.__version__)'

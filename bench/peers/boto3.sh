#!/bin/sh
# A throw-away Python environment with a current boto3 (1.36 and later send checksum trailers), for the optional lane of
# tests/scenarios/test_clients.py.
set -eu
cd "$(dirname "$0")/../.."
rm -rf build/peers/boto3
mkdir -p build/peers
python3 -m venv build/peers/boto3
build/peers/boto3/bin/pip install --quiet 'boto3>=1.36'
build/peers/boto3/bin/python -c 'import boto3; print("boto3", boto3.__version__)'

#!/bin/sh
# The data parts of training programs that were written for webdataset, unmodified, over millrace.webdataset: each epoch
# must have every sample that was asked for once. Installs them into a throw-away place, without what they depend on.
set -eu
cd "$(dirname "$0")/../.."
rm -rf build/peers/training_programs
/usr/bin/python3 -m pip install --quiet --no-deps --target build/peers/training_programs \
  'open_clip_torch==3.3.0' 'timm==1.0.31' 'braceexpand==0.1.7'
PYTHONPATH=build/python /usr/bin/python3 bench/peers/training_programs.py build/peers/training_programs

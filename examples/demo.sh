#!/usr/bin/env bash
# The story of Millrace on one machine, told with a real data set: 70 000 images of clothes from Debian's
# dataset-fashion-mnist. Every chapter prints the command it runs. Work happens in .demo/, made anew each time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/build:$PATH"
rm -rf .demo && mkdir .demo && cd .demo

chapter() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; eval "$*"; }
started=$(date +%s%N)

chapter "1. A data set becomes shards"
run "../examples/fashion_mnist.py train | millrace shard - --max-samples 10000 -o train-%06d.tar"
run "../examples/fashion_mnist.py test  | millrace shard - --max-samples 10000 -o test-%06d.tar"

chapter "2. Shuffled once, for good: the same seed gives the same bytes on every machine"
run "millrace tar shuffle --seed 7 --memory 64MiB 'train-{000000..000005}.tar' --max-samples 10000 -o shuffled-%06d.tar"

chapter "3. Every shard is checked: structure, fields, index"
run "millrace tar verify --fields png,cls 'shuffled-@000006.tar' test-000000.tar"

chapter "4. What is in them"
run "millrace tar ls shuffled-000000.tar | sed -n 1,5p"
run "millrace tar stat 'shuffled-*.tar'"

chapter "5. They are plain tar: any tool reads them"
run "tar -tf shuffled-000000.tar | sed -n 1,4p"

chapter "6. Damage is found, and what is whole is saved"
run "head -c 3000000 shuffled-000000.tar > cut.tar"
run "millrace tar verify --repair cut.tar || true"
run "millrace tar verify cut.repaired.tar"

chapter "7. A store: one command, plain HTTP"
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
store="http://127.0.0.1:$port"
start_node() {
  printf '\033[2m$ millrace up --data store --listen 127.0.0.1:%s &\033[0m\n' "$port"
  millrace --quiet up --data store --listen "127.0.0.1:$port" &
  node=$!
  trap 'kill -TERM $node 2>/dev/null; wait $node 2>/dev/null || true' EXIT
  until curl -sf "$store/-/ready" > ready.json; do kill -0 $node; done
}
stop_node() {
  kill -TERM $node && wait $node
  trap - EXIT
}
start_node
run "curl -sf -T shuffled-000000.tar $store/train/shuffled-000000.tar"
run "millrace put 'shuffled-{000001..000005}.tar' $store/train/"
run "../examples/fashion_mnist.py test | millrace shard - --max-samples 5000 -o $store/test/test-%06d.tar"

chapter "8. What is there, and a look inside without fetching it whole"
run "millrace ls $store/train/"
run "curl -sfI $store/train/shuffled-000000.tar | grep -i -E 'etag|length|millrace'"
member=$(tar -tf shuffled-000000.tar | sed -n 1p)
run "curl -sf '$store/train/shuffled-000000.tar?member=$member' | od -A n -c | sed -n 1p"
run "curl -sf '$store/train/shuffled-000000.tar?samples=100-101' | tar -t"
run "millrace tar stat '$store/train/shuffled-{000000..000001}.tar' | sed -n 1,3p"

chapter "9. What it did"
run "curl -sf $store/-/metrics | grep -E '^millrace_(request_sent_bytes|request_received_bytes|drive_bytes)' | sed -n 1,8p"
stop_node
run "millrace fsck --deep store/drive"

chapter "10. Batches: fetched, untarred, shuffled, decoded and collated by threads; the report says which stage limits"
start_node
run "millrace load '$store/train/shuffled-{000000..000005}.tar' --spec 'image:png:size=28,channels=gray label:cls' --shuffle 20000 --batch 256"
export PYTHONPATH="$PWD/../build/python"
cat > batch.py <<PYTHON
import millrace
ds = millrace.Dataset("$store/train/shuffled-{000000..000005}.tar", seed=1).shuffle(20_000).image("png", size=28, normalize="half", layout="CHW").label("cls").batch(256)
for images, labels in ds.epoch(0, rank=0, world=2): print(images.shape, images.dtype, labels.shape, labels[:8]); break
PYTHON
run "cat batch.py"
run "/usr/bin/python3 batch.py"
stop_node

chapter "11. Four nodes as one store: one is killed, nothing is lost, and the others heal it"
first=$(/usr/bin/python3 -c 'import random; print(random.randrange(20000, 30000))')
printf '\033[2m$ millrace --json up --nodes 4 --set heal_after=2s --data cluster --listen 127.0.0.1:%s > nodes.json &\033[0m\n' "$first"
millrace --json --quiet up --nodes 4 --set heal_after=2s --data cluster --listen "127.0.0.1:$first" > nodes.json &
node=$!
trap 'kill -TERM $node 2>/dev/null; wait $node 2>/dev/null || true' EXIT
until [ -s nodes.json ]; do kill -0 $node; done
one="http://127.0.0.1:$first"
run "millrace mb $one/train --redundancy copies=2"
run "millrace put shuffled-000000.tar $one/train/"
run "millrace cluster where $one/train/shuffled-000000.tar"
# A node that has a copy is killed, and another one is asked.
read -r lost victim other <<< "$(millrace --json cluster where $one/train/shuffled-000000.tar | /usr/bin/python3 -c '
import json, sys
lost = json.load(sys.stdin)["slots"][0]["address"]
nodes = json.load(open("nodes.json"))["nodes"]
print(lost, *(node["pid"] for node in nodes if node["url"].endswith(lost)), next(node["url"] for node in nodes if not node["url"].endswith(lost)))')"
run "kill -9 $victim"
run "millrace cat $other/train/shuffled-000000.tar | cmp - shuffled-000000.tar && echo 'every byte is there'"
until millrace --json cluster where $other/train/shuffled-000000.tar > where.json && ! grep -q "$lost" where.json; do
  kill -0 $node && sleep 0.2
done
run "millrace cluster where $other/train/shuffled-000000.tar"
run "millrace cluster status $other"
stop_node

chapter "12. The bottleneck, before anything is bought"
run "millrace plan size --gpus 16 --gpu-rate 200MB/s --dataset 100TB"
run "millrace plan show ../examples/plans/petabyte.toml --text -o flow.svg"

chapter "Summary"
millrace tar stat --json 'shuffled-*.tar' > stat.json
ended=$(date +%s%N)
/usr/bin/python3 - "$started" "$ended" <<'PYTHON'
import json, subprocess, sys, time

seconds = (int(sys.argv[2]) - int(sys.argv[1])) / 1e9
stat = json.load(open("stat.json"))
def timed(*command):
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - start
shuffle = timed("millrace", "tar", "shuffle", "train-@000006.tar", "-o", "again-%06d.tar")
verify = timed("millrace", "tar", "verify", "shuffled-@000006.tar")
count, size = stat["samples"]["count"], stat["bytes"]
print(f"{count:,} samples in {stat['shards']} shards, {size / 1e6:.1f} MB, {seconds:.1f} s from idx files to checked shards")
print(f"shuffle (durable): {count / shuffle:10,.0f} samples/s  {size / shuffle / 1e6:8.0f} MB/s")
print(f"verify:            {count / verify:10,.0f} samples/s  {size / verify / 1e6:8.0f} MB/s")
PYTHON
echo "The shards are in .demo/; millrace --help shows what else there is."

"""CPU time per byte at 1, 2, 4 and 8 nodes: what more nodes cost, on a machine whose cores they share.

    ./dev bench cluster_scale

`millrace put` and `millrace get` move objects of 64 MB to and from a bucket without redundancy. CPU time is that of all nodes added up, the
client's is not counted; every figure is a ratio to one node within a round. A plot goes to build/bench-data/cluster-scale.svg.
"""
import random
import shutil
import statistics
import subprocess

import cluster
import verdicts
from cluster import ROOT, Cluster, cpu

COUNTS = [1, 2, 4, 8]
OBJECTS, BYTES = 8, 64_000_000
PLOT = ROOT / "build/bench-data/cluster-scale.svg"


def transfer(*words):
    subprocess.run([cluster.MILLRACE, "--quiet", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def measure(nodes, number, files):
    """CPU seconds per GB of a PUT and of a GET, the requests spread over all nodes."""
    scale = OBJECTS * BYTES / 1e9
    urls = [nodes[i % len(nodes)] for i in range(OBJECTS)]
    put = cpu(nodes, lambda: [transfer("put", file, f"http://127.0.0.1:{node.port}/bench/{number}-{file.name}") for node, file in zip(urls, files)])
    got = cluster.WORK / "got"
    # Asked of another node than the one that took it.
    get = cpu(nodes, lambda: [transfer("get", f"http://127.0.0.1:{nodes[(i + 1) % len(nodes)].port}/bench/{number}-{file.name}", got)
                              for i, file in enumerate(files)])
    return put / scale, get / scale


def draw(medians):
    """A bar a count, PUT and GET side by side, as ratios to one node."""
    width, height, most = 480, 260, max(max(pair) for pair in medians.values()) * 1.15
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             '<text x="12" y="18">CPU time per byte, ratio to one node (PUT dark, GET light)</text>']
    for place, (count, pair) in enumerate(medians.items()):
        for side, (value, colour) in enumerate(zip(pair, ("#2b5f8a", "#8ab8dd"))):
            tall = value / most * 190
            x = 40 + place * 110 + side * 36
            parts.append(f'<rect x="{x}" y="{230 - tall:.0f}" width="32" height="{tall:.0f}" fill="{colour}"/>')
            parts.append(f'<text x="{x + 2}" y="{225 - tall:.0f}">{value:.2f}</text>')
        parts.append(f'<text x="{48 + place * 110}" y="248">{count} node{"s" * (count > 1)}</text>')
    PLOT.write_text("\n".join(parts) + "\n</svg>\n")


def run(table):
    shutil.rmtree(cluster.WORK, ignore_errors=True)
    cluster.WORK.mkdir(parents=True)
    files = []
    for number in range(OBJECTS):
        files.append(cluster.WORK / f"object{number}")
        files[-1].write_bytes(random.Random(number).randbytes(BYTES))
    clusters = {}
    try:
        for count in COUNTS:
            clusters[count] = Cluster(f"scale{count}", count)
            clusters[count].make_bucket("bench", "none")
        ratios = {count: ([], []) for count in COUNTS}
        for number in range(table.rounds):
            costs = {count: measure(clusters[count].nodes, number, files) for count in COUNTS}
            for count in COUNTS:
                for side in range(2):
                    ratios[count][side].append(costs[count][side] / costs[1][side])
    finally:
        for one in clusters.values():
            one.stop()
        shutil.rmtree(cluster.WORK, ignore_errors=True)
    print("\nCPU time of all nodes per byte, ratio to one node")
    for side, name in enumerate(("PUT", "GET")):
        for count in COUNTS[1:]:
            verdicts.judge(table, f"{name} by millrace, {count} nodes", ratios[count][side], verdicts.at_most(1.1))
    draw({count: tuple(statistics.median(side) for side in ratios[count]) for count in COUNTS})
    print(f"  plot: {PLOT}")


if __name__ == "__main__":
    verdicts.main(__doc__, {"cluster_scale": run})

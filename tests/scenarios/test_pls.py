"""millrace pls without MPI: what a simulation says, and its picture."""
import re
import shutil
import xml.etree.ElementTree

import pytest

from archives import put

SIMULATE = ("pls", "simulate", "--samples", "6000", "--ranks", "8", "--epochs", "6")


@pytest.fixture
def rows(millrace, tmp_path):
    for q in ("0.1", "0.3"):
        (tmp_path / f"q{q}.jsonl").write_text(millrace("--json", *SIMULATE, "--q", q).text)
    return ["q0.1.jsonl", "q0.3.jsonl"]


def test_more_exchange_leaves_less_at_home(millrace):
    shares = [millrace.json(*SIMULATE, "--q", q)[-1]["home_share"] for q in ("0", "0.1", "0.3")]
    assert shares[0] == 1 and 0 < shares[2] < shares[1] < 1


def test_mixing_is_told_beside_a_global_shuffle(millrace):
    words = ("pls", "simulate", "--samples", "6400", "--ranks", "16", "--epochs", "8", "--quality", "--batch", "16")
    found = {q: millrace.json(*words, "--q", q)[-1]["quality"] for q in ("0", "0.5")}
    assert set(found["0"]) == {"label_entropy", "global_label_entropy", "pairs_in_batches", "pairs_on_ranks", "order_correlation",
                               "neighbours_kept", "neighbour_entropy", "ranks_seen"}
    assert found["0"]["ranks_seen"]["value"] == 1 < found["0.5"]["ranks_seen"]["value"]
    assert found["0"]["label_entropy"]["value"] < found["0.5"]["label_entropy"]["value"] < found["0"]["label_entropy"]["ideal"]
    assert "global shuffle" in millrace(*words).text


def test_curves_are_drawn_with_their_names(millrace, rows, tmp_path):
    millrace("pls", "plot", *rows, "--figure", "home_share", "-o", "home.svg")
    root = xml.etree.ElementTree.parse(tmp_path / "home.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"q0.1", "q0.3", "epoch", "home_share by epoch"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 2
    if shutil.which("rsvg-convert"):
        millrace("pls", "plot", *rows, "--figure", "home_share", "-o", "home.png")
        assert (tmp_path / "home.png").read_bytes().startswith(b"\x89PNG")
        assert not list(tmp_path.glob("*.part*"))


def test_what_cannot_be_drawn_is_said(millrace, rows, tmp_path):
    assert "no_such_figure" in millrace("pls", "plot", *rows, "--figure", "no_such_figure", "-o", "a.svg", code=1).err
    assert ".svg" in millrace("pls", "plot", *rows, "--figure", "home_share", "-o", "a.gif", code=2).err
    (tmp_path / "broken.jsonl").write_text("{")
    assert "line 1" in millrace("pls", "plot", "broken.jsonl", "-o", "a.svg", code=None).err
    assert not (tmp_path / "a.svg").exists()


def test_stores_of_which_some_are_elsewhere_are_not_simulated(millrace, tmp_path):
    for number in range(40):
        file = tmp_path / "photos" / "ab"[number % 2] / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(number))
    millrace("pls", "ingest", "photos", "-o", "stores", "--ranks", 4)
    words = ("pls", "simulate", "stores", "--quality", "--epochs", 2)
    assert "ranks_seen" in millrace.json(*words)[-1]["quality"]
    shutil.rmtree(tmp_path / "stores" / "rank-00003")
    assert "3 stores hold 30 of 40 samples" in millrace(*words, code=2).err


def test_what_unequal_ranks_leave_out_is_told_and_can_be_levelled(millrace, tmp_path):
    """Six shards on four ranks: two ranks hold twice as many as the others."""
    (tmp_path / "texts").mkdir()
    for number in range(60):
        (tmp_path / "texts" / f"{number:02}.txt").write_text(str(number))
    millrace("shard", "texts", "-o", "s-%d.tar", "--max-samples", 10)
    told = millrace("pls", "ingest", "s-*.tar", "-o", "by-shard", "--ranks", 4, "--partition", "by-shard").err
    assert "ranks hold 10 to 20 samples: an epoch takes 10 of each, 40 of 60 in all; --partition random" in told
    assert "ranks hold" not in millrace("pls", "ingest", "s-*.tar", "-o", "random", "--ranks", 4).err
    millrace("pls", "redeal", "by-shard", "--ranks", 4)
    held = [one["samples"] for one in millrace.json("pls", "stat", "by-shard")[0]["per_rank"]]
    assert held == [15, 15, 15, 15] and millrace.json("pls", "verify", "by-shard")[0]["faults"] == []


def test_dry_runs_tell_what_would_move_and_write_nothing(millrace, tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(60):
        (tmp_path / "texts" / f"{number:02}.txt").write_text(str(number))
    millrace("shard", "texts", "-o", "s-%d.tar", "--max-samples", 10)
    ingest = ("pls", "ingest", "s-*.tar", "-o", "stores", "--ranks", 4)
    told = millrace.json(*ingest, "--partition", "by-shard", "--dry-run")[0]
    assert (told["samples"], sorted(told["per_rank"])) == (60, [10, 10, 20, 20])
    assert "would take 60 samples into the stores of 4 ranks below stores: 15 to 15 each" in millrace(*ingest, "-n").err
    assert not (tmp_path / "stores").exists()
    millrace(*ingest)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("stores/**/*")}
    told = millrace.json("pls", "exchange", "stores", "--q", "0.2", "--dry-run")[0]
    assert told["moved"] == 12 and told["most_sent"] == 3 and told["samples"] == 60
    assert millrace.json("pls", "redeal", "stores", "--ranks", 3, "--dry-run")[0]["moved"] == 15
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("stores/**/*")} == before
    # What was foretold is what happens.
    assert millrace.json("pls", "exchange", "stores", "--q", "0.2")[0]["samples_sent"] == 3
    millrace("plan", "size", "--gpus", 8, "-o", "cluster.toml", "--dry-run")
    assert not (tmp_path / "cluster.toml").exists()


def test_curves_of_a_plot_are_told_apart_and_their_names_do_not_cover_each_other(millrace, tmp_path):
    names = [f"run{number:02}" for number in range(12)]
    for number, name in enumerate(names):
        put(tmp_path / f"{name}.jsonl", "".join(f'{{"epoch": {epoch}, "loss": {5 if number == 0 else 1}}}\n' for epoch in range(3)))
    millrace("pls", "plot", *[f"{name}.jsonl" for name in names], "--figure", "loss", "-o", "loss.svg")
    drawn = (tmp_path / "loss.svg").read_text()
    strokes = re.findall(r'<polyline [^>]*(stroke="#[0-9a-f]+")[^>]*?(?: (stroke-dasharray="[^"]*"))?/>', drawn)
    assert len(strokes) == 12 and len(set(strokes)) == 12
    places = sorted((float(y), float(x)) for x, y in re.findall(r'<text x="([0-9.]+)" y="([0-9.]+)"[^>]*>run', drawn))
    assert len({x for _, x in places}) == 1 and all(b - a >= 14 for (a, _), (b, _) in zip(places, places[1:]))

"""millrace plan as people use it: files in, sentences, tables, JSON and pictures out."""
import pathlib
import re
import shutil
import xml.etree.ElementTree

import pytest

PLANS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "plans"
SMALL = """
name = "small"
[workload]
sample = "100kB"
dataset = "1TB"
[[store]]
name = "shelf"
drive = "rotational"
drives = 12
interface = "10GbE"
[[gpu]]
name = "box"
gpus = 8
gpu = "gpu"
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(SMALL)
    return path


def test_check_says_what_limits_and_what_would_next(millrace, plan):
    said = millrace("plan", "check", plan).text
    assert "The interfaces of shelf limit: 1 x 10GbE at 1.0 GB/s; the GPUs are 42 % busy." in said
    assert "10 000 samples/s" in said and "then the GPUs of box" in said
    [row] = millrace.json("plan", "check", plan)
    assert row["samples_per_second"] == 10_000 and row["epoch_seconds"] == 1000
    assert [rung["limits"] for rung in row["ladder"]][0] == ["interfaces of shelf"]
    assert row["cost_dollars"] == 12 * 320 and row["cost_per_delivered_gb_per_second"] == 12 * 320
    drives = next(one for one in row["resources"] if one["what"] == "drives of shelf")
    assert drives["utilisation"] == pytest.approx(1 / 2.4) and drives["needed"] == 12


def test_values_can_be_changed_without_editing(millrace, plan):
    [row] = millrace.json("plan", "check", plan, "--set", "part.10GbE.rate=10Gb/s", "--set", "store.shelf.drives=6")
    assert row["samples_per_second"] == 12_000 and row["ladder"][0]["limits"] == ["drives of shelf"]


@pytest.mark.parametrize("broken, said, hint", [
    ("drvies = 12", 'plan.toml:9:1: [[store]] has no key "drvies"', 'did you mean "drives"?'),
    ("drives = 0", "plan.toml:9:10: [[store]]: drives is 0", ""),
    ("drives = 12\nprice = \"cheap\"", "plan.toml:10:9: [[store]]: price is \"cheap\"", ""),
    ("drives = 12\nswitch = \"core\"", 'switch "core" is not there', ""),
])
def test_what_is_wrong_is_said_with_its_place(millrace, plan, broken, said, hint):
    plan.write_text(SMALL.lstrip().replace("drives = 12", broken).replace('name = "small"\n', 'name = "small"\n\n'))
    refused = millrace("plan", "check", "plan.toml", code=2)
    assert said in refused.err and hint in refused.err
    assert refused.text == ""


def test_a_missing_file_is_an_error(millrace):
    assert "nowhere.toml" in millrace("plan", "check", "nowhere.toml", code=None).err


def test_size_gives_the_tables_of_the_field(millrace):
    rows = millrace.json("plan", "size", "--gpus", "1,4,8,16,64,256", "--access", "random", "--compression", "4")
    assert [row["drives"] for row in rows] == [4, 15, 30, 60, 240, 960]
    assert [row["interfaces"] for row in rows] == [1, 1, 1, 1, 1, 4]
    assert [row["cores"] for row in rows] == [3, 12, 24, 48, 192, 768]
    [nvme] = millrace.json("plan", "size", "--gpus", "16", "--gpu-rate", "200MB/s", "--dataset", "100TB", "--drive", "nvme")
    assert nvme["drives_dollars"] == 35_000 and nvme["drive_bytes_per_second"] == 300e9


def test_a_size_is_a_plan_that_keeps_the_gpus_busy(millrace):
    millrace("plan", "size", "--gpus", "64", "--gpu-rate", "300MB/s", "--compression", "4", "-o", "sized.toml")
    [row] = millrace.json("plan", "check", "sized.toml")
    assert row["gpu_utilisation"] == 1
    [less] = millrace.json("plan", "check", "sized.toml", "--set", "store.drives.drives=23")
    assert less["gpu_utilisation"] < 1


@pytest.mark.parametrize("words", [
    ["--gpus", "0"], ["--gpu-rate", "300"], ["--drive", "flopy"], ["--compression", "0"], ["--access", "sideways"],
    ["--redundancy", "ec=1"], ["--gpus", "1,2", "-o", "two.toml"], ["--drive", "sata-ssd", "--dataset", "1TB"],
])
def test_sizes_that_make_no_sense_are_refused(millrace, words):
    refused = millrace("plan", "size", *words, code=2)
    assert refused.err and refused.text == ""


def test_place_gives_reasons(millrace):
    [row] = millrace.json("plan", "place", "--dataset", "150GB", "--nodes", "8")
    assert row["place"] == "local-replicated" and len(row["candidates"]) == 5
    assert "lower precision" in row["candidates"][1]["reason"]
    places = [millrace.json("plan", "place", "--dataset", size)[0]["place"] for size in ("7GB", "100GB", "32TB", "240TB", "1PB")]
    assert places == ["gpu", "ram", "local-replicated", "local-partitioned", "distributed"]
    millrace("plan", "place", code=2)


def test_sweep_shows_where_the_bottleneck_changes(millrace, plan):
    rows = millrace.json("plan", "sweep", plan, "--vary", "store.shelf.drives=1..9:4", "-o", "sweep.svg")
    assert [(row["value"], row["limit"]) for row in rows] == [
        ("1", "drives of shelf"), ("5", "interfaces of shelf"), ("9", "interfaces of shelf")]
    xml.etree.ElementTree.parse(millrace.directory / "sweep.svg")
    assert ">from here on limited by the " in (millrace.directory / "sweep.svg").read_text()
    for wrong in ("store.shelf.drives", "store.shelf.drives=", "store.nobody.drives=1", "store.shelf.drives=0..1"):
        assert millrace("plan", "sweep", plan, "--vary", wrong, code=2).text == ""


def test_show_draws_svg_png_and_text(millrace, plan):
    millrace("plan", "show", plan, "-o", "flow.svg")
    root = xml.etree.ElementTree.parse(millrace.directory / "flow.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "interfaces of shelf" in texts and any("limit" in text for text in texts)
    text = millrace("plan", "show", plan, "--text").text
    assert re.search(r"> interfaces of shelf +█+ ", text)
    if shutil.which("rsvg-convert"):
        millrace("plan", "show", plan, "-o", "flow.png")
        assert (millrace.directory / "flow.png").read_bytes().startswith(b"\x89PNG")
    missing = millrace("plan", "show", plan, "-o", "flow2.png", code=1, env={"PATH": "/nowhere"})
    assert "rsvg-convert is not installed" in missing.err and "librsvg2-bin" in missing.err
    assert not list(millrace.directory.glob("*part*"))
    assert "-o flow.svg" in millrace("plan", "show", plan, code=2).err
    assert ".svg" in millrace("plan", "show", plan, "-o", "flow.gif", code=2).err


def test_simulate_shows_what_the_flow_does_not(millrace, plan):
    words = ["plan", "simulate", plan, "--windows", "20000", "--set", "workload.shard=4MB", "--set", "simulate.window=1MB"]
    [few] = millrace.json(*words, "--set", "simulate.readers=1", "--set", "simulate.ahead=1")
    [many] = millrace.json(*words, "--set", "simulate.readers=1000")
    assert few["share_of_expected"] < 0.5 and any("readers" in note for note in few["notes"])
    assert many["share_of_expected"] == pytest.approx(1, abs=0.03)
    assert "of the 10 000 that the flow gives" in millrace(*words).text
    assert "windows" in millrace("plan", "simulate", plan, "--epoch", "--windows", "100", code=None).err


def test_parts_have_sources_and_may_be_ones_own(millrace, plan):
    rows = {row["name"]: row for row in millrace.json("plan", "parts")}
    assert rows["10GbE"]["bytes_per_second"] == 1e9 and all(row["source"] and row["date"] for row in rows.values())
    plan.write_text(SMALL + '[part.tape]\nkind = "drive"\nread = "300MB/s"\nsource = "measured"\n')
    assert {row["name"]: row for row in millrace.json("plan", "parts", plan)}["tape"]["source"] == "measured"
    assert re.search(r"10GbE +link +1.0 GB/s +2 weeks", millrace("plan", "parts").text)


@pytest.mark.parametrize("name", sorted(path.name for path in PLANS.glob("*.toml")))
def test_the_examples_are_plans(millrace, name):
    assert millrace.json("plan", "check", PLANS / name)[0]["gpu_utilisation"] > 0.9


@pytest.mark.parametrize("verb", ["check", "size", "place", "sweep", "show", "simulate", "parts"])
def test_every_verb_has_examples(millrace, verb):
    assert "Examples:" in millrace("plan", verb, "--help").text


def test_size_knows_models_on_gpus_by_name(millrace, tmp_path):
    [row] = millrace.json("plan", "size", "--gpus", "8", "--gpu", "resnet50-h100", "--drive", "nvme", "-o", "made.toml")
    assert row["stored_bytes_per_second"] == pytest.approx(8 * 400 / 0.224 * 114_660) and row["drives"] >= 1
    [checked] = millrace.json("plan", "check", "made.toml")
    assert checked["gpu_utilisation"] == 1
    refused = millrace("plan", "size", "--gpu", "resnet50-h10", code=2).err
    assert 'no gpu is called "resnet50-h10"' in refused and 'did you mean "resnet50-h100"' in refused and "unet3d-b200" in refused


def test_pictures_fit_slides_and_red_is_for_what_keeps_gpus_waiting(millrace, plan, tmp_path):
    busy = ["--set", "store.shelf.interfaces=4", "--set", "store.shelf.drives=40"]
    for words, red in [([], True), (busy, False)]:
        millrace("plan", "show", plan, *words, "-o", "flow.svg")
        drawn = (tmp_path / "flow.svg").read_text()
        width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn).groups())
        assert abs(width - height * 16 / 9) <= 2
        assert ("#c62828" in drawn) == red and "dashed: could carry more than is drawn" in drawn

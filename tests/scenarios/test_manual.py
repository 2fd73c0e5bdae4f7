"""Manual pages and completion scripts: made of the verbs' own texts, and good enough for the programs that read them."""
import os
import re
import subprocess

import pytest

SHELLS = ["bash", "zsh", "fish"]


def verbs_in_help(text):
    """The names under "Subcommands:"."""
    below = text.split("Subcommands:\n", 1)
    return re.findall(r"^  (\S+)", below[1].split("\n\n")[0], re.M) if len(below) == 2 else []


def all_commands(millrace, words=()):
    """Every command by its words, as --help tells them."""
    found = [words]
    for verb in verbs_in_help(millrace(*words, "--help").text):
        found += all_commands(millrace, (*words, verb))
    return found


@pytest.fixture
def pages(millrace, tmp_path):
    millrace("manual", "pages")
    return {path.name: path for path in (tmp_path / "pages").iterdir()}


def test_every_verb_has_a_page_and_no_page_is_left_over(millrace, pages):
    commands = all_commands(millrace)
    assert ("tar", "sort") in commands and ("up",) in commands and ("manual",) in commands
    expected = {"-".join(("millrace", *words)) + ".1" for words in commands}
    assert set(pages) == expected | {"tarshards.1"}


def test_pages_render_without_a_warning(pages):
    everything = [str(path) for path in pages.values()]
    for command in (["mandoc", "-Tlint", "-Wwarning"], ["groff", "-man", "-ww", "-z", "-Tutf8"]):
        done = subprocess.run([*command, *everything], capture_output=True, text=True, timeout=120)
        assert done.stdout + done.stderr == "" and done.returncode == 0


def test_a_broken_page_would_be_noticed(tmp_path):
    (tmp_path / "bad.1").write_text(".TH BAD 1\n.SH NAME\nbad \\- x\n.XX nothing\n")
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", "bad.1"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.stdout + done.stderr != ""


def test_a_page_says_what_help_says(millrace, pages):
    shown = subprocess.run(["mandoc", "-Tutf8", "-Owidth=1000", str(pages["millrace-tar-sort.1"])], capture_output=True, text=True,
                           timeout=60, check=True).stdout
    text = re.sub(r".\x08", "", shown)
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"):
        assert re.search(rf"^{title}", text, re.M), title
    assert "millrace-tar-sort - Order samples by key or by a field" in text
    help_text = millrace("tar", "sort", "--help").text
    for flag in re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_text, re.M):
        assert flag in text, flag
    examples = [line.strip() for line in help_text.split("Examples:\n")[1].splitlines() if line.strip()]
    assert examples
    for example in examples:
        assert example in text
    assert "first-dot|last-dot" in text and "(default: first-dot)" in text


def test_pages_of_one_date_are_the_same_bytes(millrace, tmp_path):
    for name in ("one", "two"):
        millrace("manual", name, env={"SOURCE_DATE_EPOCH": "86400"})
    assert (tmp_path / "one" / "millrace.1").read_bytes() == (tmp_path / "two" / "millrace.1").read_bytes()
    assert b"1970-01-02" in (tmp_path / "one" / "millrace.1").read_bytes()


def test_a_date_or_directory_that_is_none_is_refused(millrace, tmp_path):
    assert "SOURCE_DATE_EPOCH=soon" in millrace("manual", "pages", env={"SOURCE_DATE_EPOCH": "soon"}, code=2).err
    assert "nowhere/pages" in millrace("manual", "nowhere/pages", code=1).err
    (tmp_path / "file").write_text("x")
    assert "file" in millrace("manual", "file", code=1).err


def test_manual_tells_programs_how_many_pages(millrace, tmp_path):
    (row,) = millrace.json("manual", "pages")
    assert row == {"directory": "pages", "pages": len(list((tmp_path / "pages").iterdir()))}


def complete_in_bash(millrace, line):
    """What bash offers at the end of the line, split into words as readline splits it."""
    words = [word for word in re.findall(r"[=:]|[^\s=:]+", line)]
    if line.endswith(" "):
        words.append("")
    script = ('source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _millrace; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", millrace.binary, *words], capture_output=True, text=True,
                          cwd=millrace.directory, timeout=60)
    assert done.stderr == "", done.stderr
    return done.stdout.split()


def complete_in_fish(millrace, line):
    (millrace.directory / "home").mkdir(exist_ok=True)
    (millrace.directory / "millrace.fish").write_bytes(millrace("completion", "fish").out)
    done = subprocess.run(["fish", "--no-config", "-c", 'source millrace.fish; complete -C "$argv[1]"', line], capture_output=True,
                          text=True, cwd=millrace.directory, timeout=60,
                          env={**os.environ, "HOME": str(millrace.directory / "home"), "LC_ALL": "C.UTF-8"})
    assert done.stderr == "", done.stderr
    return [offer.split("\t")[0] for offer in done.stdout.splitlines()]


def complete_in_zsh(millrace, line):
    """zsh completes only at a terminal: what it offers is taken where it would be shown."""
    (millrace.directory / "_millrace").write_bytes(millrace("completion", "zsh").out)
    script = """
      fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D
      _describe() { [[ $1 == -o ]] && shift; print -rl -- ${(P)2%%:*} }
      _files() { if [[ $1 == -/ ]]; then print -rl -- *(/N); else print -rl -- *(N); fi }
      compadd() { shift; print -rl -- $@ }
      compset() { : }
      words=("$@") CURRENT=$#
      _millrace
    """
    words = line.split() + ([""] if line.endswith(" ") else [])
    done = subprocess.run(["zsh", "-f", "-c", script, "zsh", *words], capture_output=True, text=True, cwd=millrace.directory, timeout=60)
    assert done.stderr == "", done.stderr
    last = words[-1].split("=")[-1] if words[-1].startswith("-") and "=" in words[-1] else words[-1]
    return [offer for offer in done.stdout.splitlines() if offer.startswith(last)]


COMPLETE = {"bash": complete_in_bash, "zsh": complete_in_zsh, "fish": complete_in_fish}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_its_script_without_complaint(millrace, tmp_path, shell):
    (tmp_path / "script").write_bytes(millrace("completion", shell).out)
    done = subprocess.run([shell, "-n", "script"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "bad").write_text("if then (\n")
    assert subprocess.run([shell, "-n", "bad"], capture_output=True, cwd=tmp_path, timeout=60).returncode != 0


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_verbs_flags_and_values(millrace, shell):
    def offers(line):
        return sorted(COMPLETE[shell](millrace, line))

    assert set(offers("millrace ")) == set(verbs_in_help(millrace("--help").text))
    assert offers("millrace manu") == ["manual"]
    assert offers("millrace tar sp") == ["split"]
    assert offers("millrace --ca-file up tar sp") == ["split"]
    assert offers("millrace tar sort --by-and") == []
    assert "--number" in offers("millrace tar sort --n") and "--max-sample" in offers("millrace tar sort --m")
    assert offers("millrace tar sort --js") == ["--json"]
    assert offers("millrace load x.tar --end ") == ["drop", "exact", "pad"]
    assert offers("millrace load --end dr") == ["drop"]
    assert offers("millrace completion ") == ["bash", "fish", "zsh"]
    assert offers("millrace keys create --note ") == []
    assert "--max-bytes" in offers("tarshards --max-b")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_files_where_a_path_is_wanted(millrace, tmp_path, shell):
    (tmp_path / "shard.tar").write_bytes(b"")
    (tmp_path / "shards").mkdir()

    def offers(line):
        return sorted(offer.rstrip("/") for offer in COMPLETE[shell](millrace, line))

    assert offers("millrace tar ls sha") == ["shard.tar", "shards"]
    assert offers("millrace tar ls first.tar sha") == ["shard.tar", "shards"]
    assert offers("millrace tar ls a.tar --key-rule first-dot sha") == ["shard.tar", "shards"]
    assert offers("millrace manual sha") == ["shards"]
    assert offers("millrace up --drive sha") == ["shards"]
    assert offers("millrace up --config sha") == ["shard.tar", "shards"]
    assert offers("millrace bucket sha") == []


def test_bash_completes_behind_an_equals_sign_and_an_address(millrace):
    assert complete_in_bash(millrace, "millrace load --end=d") == ["drop"]
    assert complete_in_bash(millrace, "millrace load --end=") == ["drop", "exact", "pad"]
    assert complete_in_bash(millrace, "millrace load http://host/a.tar --end d") == ["drop"]


def test_a_script_for_another_shell_is_refused(millrace):
    assert "csh" in millrace("completion", "csh", code=2).err

"""Finds the functions of C++ source text: their names, lines and parameters. For tools/tidy.

Not a parser: it follows brackets outside of comments, strings and preprocessor lines, and looks at what stands before each
opening brace. That is exact enough for formatted code, and takes a second for the whole tree. Lambdas count as part of the
function that they stand in."""
import re
from typing import Iterator, NamedTuple, Tuple, Union

UNSEEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*""",
    re.S | re.M)
CLOSING = {"(": ")", "{": "}", "[": "]"}
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|\balignas\s*\([^)]*\)|\bMR_[A-Z_]+(\s*\([^()]*\))?|\[\[.*?\]\]", re.S)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()=]*$")
NAME = re.compile(r"(operator\s*(?:\(\s*\)|[^\s\w(]+|[\w:]+(?:\s*[&*]+)?)|~?\w+(?:\s*<[^;(){}]*>)?)\s*\(")
NO_NAMES = {"if", "for", "while", "switch", "catch", "return", "decltype", "noexcept", "explicit", "sizeof", "requires", "static_assert"}


class Function(NamedTuple):
    name: str
    line: int
    lines: int
    parameters: int


def without_unseen(text: str) -> str:
    """Comments, strings and preprocessor lines as blanks: every place stays where it is."""
    return UNSEEN.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def closing(code: str, at: int) -> int:
    """Where the bracket that opens at `at` closes."""
    waiting = []
    for place in range(at, len(code)):
        letter = code[place]
        if letter in CLOSING:
            waiting.append(CLOSING[letter])
        elif letter in ")}]":
            if not waiting or waiting.pop() != letter:
                return len(code)
            if not waiting:
                return place
    return len(code)


def closing_angle(code: str, at: int) -> int:
    depth = 0
    for place in range(at, len(code)):
        if code[place] == "<":
            depth += 1
        elif code[place] == ">" and code[place - 1] != "-":
            depth -= 1
            if depth == 0:
                return place
    return len(code)


def without_template(head: str) -> str:
    """What stands behind template <…> requires …"""
    found = re.match(r"\s*template\s*<", head)
    while found:
        head = head[closing_angle(head, found.end() - 1) + 1:]
        wanted = re.match(r"\s*requires\s*(\(|[\w:]+\s*<)", head)
        if wanted:
            close = closing if wanted.group(1) == "(" else closing_angle
            head = head[close(head, wanted.end() - 1) + 1:]
        found = re.match(r"\s*template\s*<", head)
    return head


def count_parameters(inside: str) -> int:
    if inside.strip() in ("", "void"):
        return 0
    depth = commas = 0
    for place, letter in enumerate(inside):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and inside[place - 1] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            commas += 1
    return commas + 1


def read_head(head: str) -> Union[None, str, Tuple[str, int]]:
    """Of what stands before a brace: (name, parameters) of a function; "member" where the brace initialises a member in a
    constructor's list; None: something else."""
    for found in NAME.finditer(head):
        name, before = found.group(1).strip(), head[:found.start()]
        if name in NO_NAMES or before.count("(") != before.count(")"):
            continue
        if re.search(r"[^=!<>]=[^=]", before):
            return None
        opened = found.end() - 1
        shut = closing(head, opened)
        behind = head[shut + 1:]
        if re.match(r"\s*:(?!:)", behind) and re.search(r"[\w>]\s*$", behind):
            return "member"
        return name, count_parameters(head[opened + 1:shut])
    return None


def functions(text: str) -> Iterator[Function]:
    code = without_unseen(text)
    yield from _functions_between(code, 0, len(code))


def _functions_between(code: str, at: int, end: int) -> Iterator[Function]:
    start = at
    while at < end:
        letter = code[at]
        if letter in "([":
            at = closing(code, at)
        elif letter in ";}" or (letter == ":" and code[at + 1] != ":" and re.search(r"\b(public|private|protected)\s*$", code[start:at])):
            start = at + 1
        elif letter == "{":
            stop = closing(code, at)
            head = without_template(ATTRIBUTE.sub(" ", code[start:at]))
            found = read_head(head)
            if isinstance(found, tuple):
                blanks = len(code[start:at]) - len(code[start:at].lstrip())
                first, last = (code.count("\n", 0, place) + 1 for place in (start + blanks, stop))
                yield Function(found[0], first, last - first + 1, found[1])
            elif found is None and SCOPE.search(head):
                yield from _functions_between(code, at + 1, stop)
            if found != "member" and (found or SCOPE.search(head)):
                start = stop + 1
            at = stop
        at += 1

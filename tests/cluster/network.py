"""Where the processes of a cluster live: each in a network namespace of its own on one bridge, or all on loopback.

The harness itself stays outside, at the bridge's own address, so a client reaches every node whatever is cut between them.
A cut is a pair of addresses: packets from the first to the second are dropped where they arrive (nftables). Names carry a
random word, so that two runs do not meet; close() takes away what this run made and nothing else.
"""
import contextlib
import os
import random
import shutil
import subprocess

from nodes import lasting_port


def run(*words, feed=None):
    done = subprocess.run(list(map(str, words)), input=feed, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Place:
    """Where one process listens. `before`: the words that start a command there."""

    def __init__(self, name, host, before=()):
        self.name, self.host, self.before = name, host, tuple(before)

    def port(self, usual):
        """The port that everybody expects, where the address belongs to this place alone."""
        return usual if self.before else lasting_port()


class Loopback:
    """All at one address: nothing can be cut or slowed down."""

    has_cuts = False

    def __init__(self, why):
        self.why = why

    def add(self, name):
        return Place(name, "127.0.0.1")

    def close(self):
        pass


class Bridge:
    has_cuts = True
    why = ""

    def __init__(self):
        self.word = f"mr{random.SystemRandom().randrange(1 << 24):06x}"
        self.places, self.cuts, self.slowed = {}, set(), set()
        taken = run("ip", "route")
        while True:
            self.net = f"10.{random.SystemRandom().randrange(100, 250)}.{random.SystemRandom().randrange(1, 250)}"
            if self.net + "." not in taken:
                break
        run("ip", "link", "add", self.word, "type", "bridge")
        try:
            run("ip", "addr", "add", f"{self.net}.254/24", "dev", self.word)
            run("ip", "link", "set", self.word, "up")
        except BaseException:
            self.close()
            raise

    def add(self, name):
        number = len(self.places) + 1
        namespace, link = f"{self.word}-{name}", f"{self.word}v{number}"
        run("ip", "netns", "add", namespace)
        place = Place(name, f"{self.net}.{number}", ["ip", "netns", "exec", namespace])
        place.namespace = namespace
        self.places[name] = place
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        run("ip", "link", "set", link, "master", self.word, "up")
        run(*place.before, "ip", "addr", "add", f"{place.host}/24", "dev", "eth0")
        run(*place.before, "ip", "link", "set", "eth0", "up")
        run(*place.before, "ip", "link", "set", "lo", "up")
        self._enter_cuts(place)
        return place

    def set_cuts(self, cuts):
        """Exactly these pairs (from, to) of names are cut from now on."""
        cuts = set(cuts)
        changed = {to for _, to in cuts ^ self.cuts}
        self.cuts = cuts
        for name in sorted(changed):
            self._enter_cuts(self.places[name])

    def _enter_cuts(self, place):
        sources = sorted(self.places[one].host for one, to in self.cuts if to == place.name)
        rule = f"ip saddr {{ {', '.join(sources)} }} drop" if sources else ""
        # One transaction: there is no moment without the rules that stay.
        run(*place.before, "nft", "-f", "-", feed=f"""table inet chaos
delete table inet chaos
table inet chaos {{
  chain arrive {{
    type filter hook input priority 0
    {rule}
  }}
}}
""")

    def slow(self, name, rate):
        """What the place sends gets `rate` (as tc writes it) at most; None: no limit."""
        before = self.places[name].before
        if name in self.slowed:
            run(*before, "tc", "qdisc", "del", "dev", "eth0", "root")
            self.slowed.discard(name)
        if rate:
            run(*before, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
            self.slowed.add(name)

    def close(self):
        for place in self.places.values():
            with contextlib.suppress(OSError):
                run("ip", "netns", "del", place.namespace)
        self.places = {}
        with contextlib.suppress(OSError):
            run("ip", "link", "del", self.word)


def missing():
    """Why there can be no namespaces here; empty where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    lacking = [name for name in ("ip", "nft", "tc") if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def open_network():
    """A bridge, or loopback with the reason in `why`."""
    why = missing()
    if why:
        return Loopback(why)
    bridge = None
    try:
        bridge = Bridge()
        bridge.add("probe")
        return bridge
    except OSError as error:
        if bridge is not None:
            bridge.close()
        return Loopback(str(error))

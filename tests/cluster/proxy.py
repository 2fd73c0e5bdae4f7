#!/usr/bin/python3
"""A bad line in front of a node: what other nodes send passes through here, and is delayed, damaged, cut or swallowed.

    proxy.py HOST PORT TO_PORT CONTROL      forwards connections to HOST:PORT to HOST:TO_PORT

CONTROL is a file with one line, MODE and a number, that may change at any time: `pass`; `delay` SECONDS for each piece of a stream;
`flip` and `sever`: one of so many pieces has a bit flipped, or is where the connection is cut; `half-open`: what the node answers is
kept back, and the connection stays.
"""
import asyncio
import pathlib
import random
import sys

PIECE = 64 << 10
LOOK_SECONDS = 0.05


class Control:
    def __init__(self, path):
        self.path, self.mode, self.number = path, "pass", 0.0

    async def follow(self):
        while True:
            words = self.path.read_text().split() if self.path.exists() else []
            if len(words) == 2:  # not while it is being written
                self.mode, self.number = words[0], float(words[1])
            await asyncio.sleep(LOOK_SECONDS)

    def strikes(self, mode):
        return self.mode == mode and random.random() < 1 / self.number


async def forward(control, reader, writer, is_answer):
    """Until the end of the stream, in one direction."""
    while piece := await reader.read(PIECE):
        if control.mode == "delay":
            await asyncio.sleep(control.number)
        while is_answer and control.mode == "half-open":
            await asyncio.sleep(LOOK_SECONDS)
        if control.strikes("sever"):
            raise ConnectionAbortedError
        if control.strikes("flip"):
            at = random.randrange(len(piece))
            piece = piece[:at] + bytes([piece[at] ^ 1 << random.randrange(8)]) + piece[at + 1:]
        writer.write(piece)
        await writer.drain()
    writer.write_eof()


async def serve(control, host, to_port, reader, writer):
    try:
        to_reader, to_writer = await asyncio.open_connection(host, to_port)
    except OSError:
        writer.transport.abort()
        return
    both = [asyncio.ensure_future(forward(control, reader, to_writer, False)), asyncio.ensure_future(forward(control, to_reader, writer, True))]
    try:
        await asyncio.gather(*both)
    except OSError:
        pass
    finally:
        for one in both:
            one.cancel()
        writer.transport.abort()
        to_writer.transport.abort()


async def main(host, port, to_port, control):
    control = Control(pathlib.Path(control))
    server = await asyncio.start_server(lambda reader, writer: serve(control, host, int(to_port), reader, writer), host, int(port))
    async with server:
        await control.follow()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

#!/usr/bin/env python3
"""Draws what `peerlane top` shows of a recording as an animated SVG, a frame a second.

usage: cast.py PEERLANE RECORDING.jsonl OUT.svg [SECONDS]

Needs pyte (PyPI), which emulates the terminal: 100 columns, 11 lines.
"""

import fcntl
import html
import os
import pty
import select
import struct
import sys
import termios
import time

import pyte

program, recording, out = sys.argv[1:4]
most = float(sys.argv[4]) if len(sys.argv) > 4 else 30.0
COLUMNS, LINES, WIDTH, HEIGHT = 100, 11, 8.4, 17
COLOURS = {"green": "#3fb950", "cyan": "#39c5cf", "brown": "#d29922", "yellow": "#d29922", "red": "#f85149"}

screen = pyte.Screen(COLUMNS, LINES)
stream = pyte.ByteStream(screen)
child, terminal = pty.fork()
if child == 0:
    os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS))
    os.execv(program, [program, "top", recording])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))


def drawn():
    """The screen as pieces of alike text: line, column, text, colour, weight."""
    pieces = []
    for y in range(LINES):
        row, x = screen.buffer[y], 0
        while x < COLUMNS:
            cell = row[x]
            look = (COLOURS.get(cell.fg, "#c9d1d9"), cell.bold)
            text = ""
            while x < COLUMNS and (COLOURS.get(row[x].fg, "#c9d1d9"), row[x].bold) == look:
                text += row[x].data
                x += 1
            if text.strip():
                pieces.append((y, x - len(text.lstrip()), text.strip(), *look))
    return pieces


frames, began = [], time.monotonic()
while time.monotonic() - began < most:
    until = began + len(frames) + 0.9
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                stream.feed(os.read(terminal, 65536))
            except OSError:  # the recording is over
                most = 0
                break
    if most:
        frames.append(drawn())

seen, length = len(frames), max(len(frames), 1)
print(f"{seen} frames", file=sys.stderr)
with open(out, "w") as file:
    w, h = COLUMNS * WIDTH + 20, LINES * HEIGHT + 20
    file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h}" font-family="monospace" font-size="14">\n')
    file.write('<rect width="100%" height="100%" rx="6" fill="#0d1117"/>\n')
    for i, frame in enumerate(frames):
        # each frame is seen in its second
        values = ";".join("visible" if k == i else "hidden" for k in range(length))
        file.write(f'<g visibility="{"visible" if i == length - 1 else "hidden"}">')
        file.write(f'<animate attributeName="visibility" values="{values}" dur="{length}s" calcMode="discrete" repeatCount="indefinite"/>\n')
        for y, x, text, colour, bold in frame:
            weight = ' font-weight="bold"' if bold else ""
            file.write(
                f'<text x="{10 + x * WIDTH:.0f}" y="{10 + (y + 0.8) * HEIGHT:.0f}" fill="{colour}"{weight} '
                f'textLength="{len(text) * WIDTH:.0f}" xml:space="preserve">{html.escape(text)}</text>\n'
            )
        file.write("</g>\n")
    file.write("</svg>\n")

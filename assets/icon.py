#!/usr/bin/env python3
"""Draws icon.svg and icon.png of the packages, from one list of shapes: three shards' logs, and the cut that they have in common.

Needs nothing but Python: python3 assets/icon.py
"""
import os
import struct
import zlib

SIZE = 128
# x, y, width, height, radius of the corners, colour; later shapes lie over earlier ones.
SHAPES = [
    (0, 0, 128, 128, 24, "#1d2b3a"),
    (18, 28, 92, 16, 8, "#56677a"),
    (18, 56, 70, 16, 8, "#56677a"),
    (18, 84, 82, 16, 8, "#56677a"),
    (18, 28, 50, 16, 8, "#3fc1a5"),
    (18, 56, 50, 16, 8, "#3fc1a5"),
    (18, 84, 50, 16, 8, "#3fc1a5"),
    (65, 16, 6, 96, 3, "#ffd166"),
]
SAMPLES = 4


def svg():
    rows = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" viewBox="0 0 {SIZE} {SIZE}">']
    rows += [f'  <rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{r}" fill="{c}"/>' for x, y, w, h, r, c in SHAPES]
    return "\n".join(rows + ["</svg>", ""])


def is_inside(px, py, x, y, w, h, r):
    if not (x <= px < x + w and y <= py < y + h):
        return False
    dx = max(x + r - px, 0, px - (x + w - r))
    dy = max(y + r - py, 0, py - (y + h - r))
    return dx * dx + dy * dy <= r * r


def pixel(column, row):
    red = green = blue = opaque = 0
    for i in range(SAMPLES * SAMPLES):
        px, py = column + (i % SAMPLES + 0.5) / SAMPLES, row + (i // SAMPLES + 0.5) / SAMPLES
        for *shape, colour in reversed(SHAPES):
            if is_inside(px, py, *shape):
                red += int(colour[1:3], 16)
                green += int(colour[3:5], 16)
                blue += int(colour[5:7], 16)
                opaque += 1
                break
    if opaque == 0:
        return bytes(4)
    return bytes([red // opaque, green // opaque, blue // opaque, 255 * opaque // (SAMPLES * SAMPLES)])


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"".join(pixel(column, row) for column in range(SIZE)) for row in range(SIZE))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIZE, SIZE, 8, 6, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "icon.svg"), "w", encoding="utf-8") as file:
        file.write(svg())
    with open(os.path.join(folder, "icon.png"), "wb") as file:
        file.write(png())

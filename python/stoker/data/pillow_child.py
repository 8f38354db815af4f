# SPDX-License-Identifier: Apache-2.0
"""A process that reads pictures with Pillow for a native plan: `python -m stoker.data.pillow_child --fd N`.

The bytes on the socket: docs/formats/pillow-child.md. One picture at a time, each within limits of CPU time and memory
that the kernel keeps, since Pillow's decoders do not look at a clock; whoever reaches one ends, and is replaced. Imports
nothing but Pillow: it should be there in a tenth of a second.
"""

import io
import os
import resource
import signal
import socket
import struct
import sys
import time
import warnings

REQUEST = struct.Struct("<QII")  # bytes, flags, 0
REPLY = struct.Struct("<IIIIQqQ")  # answer, flags, width, height, bytes that follow, CPU ns, 0
SCALE_GRAY16 = 1  # flag of a request
CLIPPED_GRAY16 = 1  # flag of a reply
PIXELS, UNKNOWN, NO_PILLOW, TRUNCATED, CORRUPT, TOO_LARGE, UNSUPPORTED = range(7)

MOST_PIXELS = 178_956_970  # as in src/image/decode.h: where Pillow itself refuses
MOST_CPU_S = 20
MOST_MESSAGE = 4096
FIRST_BYTES = 512 << 20  # memory for reading a header, beside the file; some formats decode then
BYTES_PER_PIXEL = 24  # Pillow's picture, its copy as RGB, the bytes of both


class Refused(Exception):
    def __init__(self, answer: int, message: str):
        super().__init__(message)
        self.answer = answer


def read_exactly(channel, count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view.nbytes:
        got = channel.recv_into(view)
        if got == 0:
            raise EOFError
        view = view[got:]
    return data


def limit_memory(more: int) -> None:
    """What is mapped now and so much more."""
    with open("/proc/self/statm", "rb") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + more, resource.RLIM_INFINITY))


def no_limit(kind: int) -> None:
    resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def limit_cpu() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    whole = int(used.ru_utime + used.ru_stime) + 1 + MOST_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (whole, resource.RLIM_INFINITY))


def high_bytes(image):
    """16-bit gray as 8-bit gray, or None: each value's high byte."""
    width = 4 if image.mode == "I" else 2
    if image.mode == "I" and image.format != "PPM":
        return None  # 32-bit numbers of any range
    at = 0 if image.mode == "I;16B" else 1
    from PIL import Image

    return Image.frombytes("L", image.size, image.tobytes()[at::width])


def pixels_of(data, scale_gray16: bool):
    """(width, height, RGB bytes, whether 16-bit gray was clipped), as torchvision's loader reads a picture."""
    from PIL import Image

    limit_memory(FIRST_BYTES + 4 * len(data))
    image = Image.open(io.BytesIO(data))
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise Refused(TOO_LARGE, f"the header says {width} x {height} pixels; the limit is {MOST_PIXELS}")
    limit_memory((256 << 20) + 4 * len(data) + BYTES_PER_PIXEL * width * height)
    wide = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PPM", "PNG"))
    if wide and scale_gray16:
        image.load()
        scaled = high_bytes(image)
        if scaled is not None:
            image, wide = scaled, False
    rgb = image.convert("RGB")
    return rgb.width, rgb.height, rgb.tobytes(), wide


def answer_of(error: BaseException) -> "tuple[int, str]":
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, Refused):
        return error.answer, str(error)
    if isinstance(error, UnidentifiedImageError):
        return UNKNOWN, "Pillow does not know it either"  # its own words hold an address
    text = f"Pillow: {str(error) or type(error).__name__}"
    if isinstance(error, (MemoryError, Image.DecompressionBombError)):
        return TOO_LARGE, text
    if isinstance(error, EOFError) or "truncated" in text.lower():
        return TRUNCATED, text
    if "not available" in text or "unsupported" in text.lower():
        return UNSUPPORTED, text
    return CORRUPT, text


def answer(data, scale_gray16: bool, missing: str) -> tuple:
    """(answer, flags, width, height, what follows)."""
    try:
        if missing:
            return NO_PILLOW, 0, 0, 0, missing.encode()
        width, height, pixels, clipped = pixels_of(data, scale_gray16)
        return PIXELS, CLIPPED_GRAY16 if clipped else 0, width, height, pixels
    except Exception as error:  # whatever a decoder raises is the picture's
        no_limit(resource.RLIMIT_AS)
        number, message = answer_of(error)
        return number, 0, 0, 0, message.encode("utf-8", "replace")[:MOST_MESSAGE]
    finally:
        no_limit(resource.RLIMIT_AS)


def serve(channel, missing: str) -> None:
    while True:
        count, flags, _ = REQUEST.unpack(read_exactly(channel, REQUEST.size))
        data = read_exactly(channel, count)
        limit_cpu()
        begun = time.process_time_ns()
        number, out, width, height, payload = answer(data, bool(flags & SCALE_GRAY16), missing)
        spent = time.process_time_ns() - begun
        channel.sendall(REPLY.pack(number, out, width, height, len(payload), spent, 0))
        channel.sendall(payload)
        del data, payload


def prepare() -> str:
    """Loads Pillow; why it is not there, or ""."""
    warnings.simplefilter("ignore")  # they would be the picture's, and nobody could tell which
    try:
        from PIL import Image
    except ImportError as error:
        return f"Pillow, which may know it, is not installed for {sys.executable}: {error}"
    Image.preinit()
    try:
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # threads are the worker's to count, and reserve much memory
    except ImportError:
        pass
    from PIL import EpsImagePlugin

    EpsImagePlugin.gs_binary = False  # a program of its own that runs what the file says
    return ""


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
    channel.setblocking(True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        serve(channel, prepare())
    except (EOFError, ConnectionError):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()

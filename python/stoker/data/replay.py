# SPDX-License-Identifier: Apache-2.0
"""`stoker data replay CURSOR.json`: which samples come next after a loader's state, from where, with which random parameters.

A cursor names its plan by hash. The plan is found in the cache folder, where state_dict() leaves it, or given with --plan
(the JSON of `loader.explain().plan`). The source is where it was, or --root says where it is on this machine.
"""

import argparse
import itertools
import json
import os
import sys

import numpy

from stoker import _native
from stoker.data import cursor as cursors
from stoker.data import fluent_order, interpreter, kept_plans, seeding, unreadable

_FLOAT_OPS = ("to_float", "normalize")
_USAGE = 64  # what `stoker` ends with where something was typed wrong


class ReplayError(Exception):
    """What cannot be replayed, and what to do."""


class NoSuchRow(ReplayError):
    """The batch is shorter."""


def replay(state: dict, row: int = 0, plan_text: str | None = None, item: int | None = None, root: str | None = None) -> dict:
    """What stands in row `row` of the batch that comes next. `item`: for orders that are a sampler of the user's. `root`: the folder
    of the plan's source, where it is not where it was."""
    if state.get("format") != cursors.FORMAT:
        raise ReplayError(f"not a cursor of a map-style loader: its format is {state.get('format')!r}")
    plan = _plan_of(state, plan_text)
    epoch, batch = state["epoch"], state["batch"]
    if state["finished"]:
        epoch, batch = epoch + 1, 0
    size = state["batch_size"] or 1
    value = _value_of(plan, root)
    _refuse_an_end(state, batch, size)
    if state["order"] == cursors.EXPLICIT:
        if item is None:
            raise ReplayError("the order is a sampler of your own, which only your script has: name the item with --item")
        place = batch * size + row
        position = epoch * cursors.EXPLICIT_STRIDE + place
    else:
        place = batch * size + row
        steps = fluent_order.steps_of(state["order"], state["order_seed"])
        if steps is None and item is None:
            raise ReplayError(f"the cursor does not spell out its order ({state['order']}): name the item with --item")
        if row >= size or place >= state["items"]:
            raise NoSuchRow(f"row {row}: the batch has {max(0, min(size, state['items'] - batch * size))} rows, from 0 on")
        position = epoch * state["items"] + place
        item = _item_at(state, value, steps, epoch, place) if item is None else item
    found = {"plan": plan.hash, "kind": value["kind"], "name": state["name"], "epoch": epoch, "batch": batch, "row": row}
    return {**found, "position": position, "item": item, **_sample(value, plan, position, item)}


def _refuse_an_end(state: dict, batch: int, size: int) -> None:
    """Of the state after an epoch's last batch, which another batch comes after only in the next epoch."""
    if state["order"] == cursors.EXPLICIT or state["items"] is None:
        return
    batches = state["items"] // size if state["drop_last"] else -(-state["items"] // size)
    if batch >= batches:
        raise ReplayError(
            f"epoch {state['epoch']} is at its end: all of its {batches} batches have been given. The next iter() gives none and the one after it "
            "begins another epoch: take the state there"
        )


def picture(state: dict, found: dict, plan_text: str | None = None, root: str | None = None) -> numpy.ndarray:
    """The sample's picture as the trainer gets it, before it becomes floats: uint8 [H, W, 3] or [H, W]."""
    value = _value_of(_plan_of(state, plan_text), root)
    if value["kind"] != "native":
        raise ReplayError(f"a plan of kind {value['kind']} holds no picture that could be made here")
    ops = list(itertools.takewhile(lambda op: op["op"] not in _FLOAT_OPS, value["ops"]))
    plan = _native.pipeline.Plan.parse(json.dumps({**value, "ops": ops, "output": "uint8"}))
    producer = _native.pipeline.Producer.open(plan, _manifest(value["source"]).bytes(), None, interpreter.pillow())
    at, item = (numpy.array([found[key]], numpy.int64) for key in ("position", "item"))
    pixels = producer.produce(at, item)[0][0].transpose(1, 2, 0)
    return numpy.ascontiguousarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _plan_of(state: dict, text):
    text = text or kept_plans.find(state["plan"])
    if text is None:
        raise ReplayError(
            f"the plan {state['plan'][:12]} is not in {kept_plans.cache_folder()}/plans: give it with --plan FILE "
            "(json.dump(loader.explain().plan, file) writes it)"
        )
    plan = _native.pipeline.Plan.parse(json.dumps({**json.loads(text), "seed": state["seed"]}))
    if plan.hash != state["plan"]:
        raise ReplayError(f"the plan given is {plan.hash[:12]}, the cursor names {state['plan'][:12]}")
    return plan


def _value_of(plan, root: str | None) -> dict:
    """The plan's fields, its source under `root` if that is given."""
    value = json.loads(plan.json)
    if root is None:
        return value
    if value["kind"] != "native":
        raise ReplayError(f"--root is for native plans of pictures; this plan is of kind {value['kind']!r}")
    if not os.path.isdir(root):
        raise ReplayError(f"--root {root}: there is no such folder")
    value["source"]["root"] = os.path.abspath(root)
    return value


def _item_at(state: dict, plan: dict, steps, epoch: int, place: int) -> int:
    starts = None
    if any(step[0] == "block" for step in steps):
        if plan["kind"] != "native":
            raise ReplayError("where the shards of this source begin is not in its plan: name the item with --item")
        starts = list(_manifest(plan["source"]).file_starts)
    items = plan["source"]["items"] if plan["kind"] == "native" else plan["items"]
    order = fluent_order.Order(items, steps, starts)
    return int(order.at(epoch, place, 1)[0])


def _sample(value: dict, plan, position: int, item: int) -> dict:
    """Locator, label and parameters, as far as the plan knows them."""
    if value["kind"] == "arrays":
        return {"columns": {column["name"]: column["content"] for column in value["columns"]}, "parameters": []}
    if value["kind"] == "python":
        of_random, of_numpy, of_torch = seeding.seeds_at(value["seed"], position)
        return {
            "dataset": value["name"],
            "version": value["version"],
            "seeds": {"random": of_random, "numpy": list(of_numpy), "torch": of_torch},
        }
    source, manifest = value["source"], _manifest(value["source"])
    reader = _native.pipeline.ItemReader(manifest, os.fsencode(source["root"]))
    located = {"path": reader.path(item)}
    try:
        if source["kind"] in ("members", "tfrecord"):
            located["offset"] = reader.offset(item)
            member = _member(located["path"], located["offset"])
            if member:
                located["member"] = member
        stored = _stored(source, manifest, item)
    except OSError as error:
        if os.path.exists(located["path"]):
            raise
        raise ReplayError(
            f"{error}. When the state was taken the files were in {source['root']}: say with --root FOLDER where that folder is now"
        ) from None
    width, height = _size(stored["image"])
    parameters = json.loads(plan.parameters(position, item, width, height))
    return {**located, "label": stored["label"], "size": [width, height], "parameters": parameters}


def _manifest(source: dict):
    try:
        return _native.pipeline.Manifest.of_cache(source["manifest"])
    except Exception as error:  # no such file in the cache, or a damaged one
        cause = error
    root, listed = source["root"], f"the list of files {source['manifest'][:12]} is not in {kept_plans.cache_folder()}"
    if source["kind"] not in ("image_folder", "files"):
        raise ReplayError(f"{listed}: make the loader once more on this machine, and call its state_dict(), which keeps the list") from cause
    if not os.path.isdir(root):
        raise ReplayError(f"{listed}, and its folder {root} is not on this machine: say with --root FOLDER where that is now") from cause
    from stoker.data import source as sources

    try:
        manifest = sources.image_folder(root)
        if manifest.hash == source["manifest"]:
            return manifest
    except (OSError, ValueError):  # no folder of classes
        if source["kind"] == "image_folder":
            raise
    if source["kind"] == "image_folder":
        raise ReplayError(f"{root} holds other files than when the state was taken")
    raise ReplayError(
        f"{listed}, and it is not that of all pictures in the folders of {root}: make the loader once more on this machine and call its "
        "state_dict(), which keeps the list"
    )


def _stored(source: dict, manifest, item: int) -> dict:
    from stoker.data.pictures import PictureSource

    features = (source["picture"], source["label"]) if source["kind"] == "tfrecord" else None
    return PictureSource("replay", source["kind"], source["root"], manifest, None, features)[item]


def _size(data: bytes):
    from stoker.data import image

    try:
        header = image.read_header(data)
        return header.width, header.height
    except image.ImageError:
        from stoker.data.pictures import _picture

        return _picture(data, "").size


def _member(path: str, offset: int) -> str:
    """The name in the tar header before a member's bytes; "" where that is no plain one."""
    if offset < 512 or path.endswith(("gz", "tfrecord", "mds")):
        return ""
    with open(path, "rb") as file:
        file.seek(offset - 512)
        block = file.read(512)
    if block[257:262] != b"ustar":
        return ""
    name, prefix = (os.fsdecode(part.split(b"\0")[0]) for part in (block[:100], block[345:500]))
    return f"{prefix}/{name}" if prefix and block[257:263] == b"ustar\0" else name


def as_text(found: dict) -> str:
    lines = [f"epoch {found['epoch']}, batch {found['batch']}, row {found['row']}: position {found['position']}, item {found['item']}"]
    if "path" in found:
        where = found["path"] + (f", byte {found['offset']}" if "offset" in found else "")
        lines.append(f"  {where}" + (f", member {found['member']}" if "member" in found else ""))
        lines.append(f"  {found['size'][0]} x {found['size'][1]}, label {found['label']}")
    for name, content in found.get("columns", {}).items():
        lines.append(f"  {name}: row {found['item']} of {content}")
    if "seeds" in found:
        lines.append(f"  {found['dataset']}: its samples come from Python code, which no plan holds; seeds of this position:")
        lines.extend(f"    {name} {seed}" for name, seed in found["seeds"].items())
    for op in found.get("parameters", []):
        did = "; ".join(" ".join(f"{key} {value}" if key != "do" else value for key, value in one.items()) for one in op["did"])
        if did == op["op"] or op["op"] == "decode_rgb":
            did = "done"
        lines.append(f"  {op['op']}: {did or 'not this time'}")
    lines.append(f"  plan {found['plan'][:12]}")
    return "\n".join(lines)


class _UsageError(Exception):
    """What was typed wrong."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise _UsageError(f"{message}; `stoker data replay --help` shows what it takes")


def main(words=None) -> int:
    words = sys.argv[1:] if words is None else words
    as_json = "--json" in itertools.takewhile(lambda word: word != "--", words)
    parser = _Parser(prog="stoker data replay", description="Shows a sample that comes after a loader's state.", allow_abbrev=False)
    parser.add_argument("cursor", metavar="CURSOR.json", help="loader.state_dict() as JSON; - for standard input")
    parser.add_argument("--row", type=int, default=0, metavar="K", help="of the batch that comes next (0)")
    parser.add_argument("--plan", metavar="FILE", help="the plan as JSON, where the cache has it not")
    parser.add_argument("--root", metavar="FOLDER", help="of the pictures, where it is not as when the state was taken")
    parser.add_argument("--item", type=int, help="where the order is a sampler of your own")
    parser.add_argument("--png", metavar="FILE", help="write the picture, after the ops and before it becomes floats")
    parser.add_argument("--json", action="store_true", help="print JSON")
    try:
        arguments = parser.parse_args(words)
        if arguments.row < 0:
            raise _UsageError(f"argument --row: {arguments.row} is negative, but rows count from 0")
    except _UsageError as error:
        return _fail("invalid", str(error), as_json, _USAGE)
    try:
        state, _ = _read(arguments.cursor, "a loader's state: json.dump(loader.state_dict(), file)")
        plan = None
        if arguments.plan is not None:
            _, plan = _read(arguments.plan, "a plan: json.dump(loader.explain().plan, file)")
        found = replay(state, arguments.row, plan, arguments.item, arguments.root)
        if arguments.png:
            from stoker.data.array_ops import png_of

            data = png_of(picture(state, found, plan, arguments.root))
            with open(arguments.png, "wb") as file:
                file.write(data)
    except (ReplayError, OSError, ValueError, KeyError, TypeError) as error:
        text = f"the cursor has no field {error}" if isinstance(error, KeyError) else error
        code = _USAGE if isinstance(error, NoSuchRow) else 1
        return _fail(_kind_of(error), f"replay of {arguments.cursor}: {text}", as_json, code)
    print(json.dumps(found) if arguments.json else as_text(found))
    return 0


def _fail(kind: str, message: str, as_json: bool, code: int) -> int:
    """As `stoker` itself tells errors (docs/guide/jobs.md)."""
    text = json.dumps({"error": {"kind": kind, "message": message}}) if as_json else f"stoker: {message}"
    print(text, file=sys.stderr)
    return code


def _kind_of(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "not_found"
    if isinstance(error, PermissionError):
        return "denied"
    return "unavailable" if isinstance(error, OSError) else "invalid"


def _read(path: str, wanted: str) -> tuple:
    """(the JSON object in a file, its text)."""
    try:
        with unreadable.named(path, wanted):
            if path == "-":
                text = sys.stdin.read()
            else:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
        found = json.loads(text)
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON
        raise ReplayError(f"{path} holds no JSON ({error}); wanted is {wanted}") from None
    if not isinstance(found, dict):
        raise ReplayError(f"{path} holds JSON, but no object; wanted is {wanted}")
    return found, text


if __name__ == "__main__":
    sys.exit(main())

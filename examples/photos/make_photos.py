# SPDX-License-Identifier: Apache-2.0
"""Makes the example's pictures: crops of photographs that two Debian packages carry.

    python examples/photos/make_photos.py OUT [--each 13] [--cache DIR]

The packages are downloaded and unpacked, not installed; nothing of them lies in this repository. One photograph is
one class; a class holds `--each` seeded crops of it. Same packages and same Pillow give the same bytes. OUT is
replaced as a whole, or left alone when it holds just these pictures already.
"""
import argparse
import glob
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys

PHOTOS = {
    "lomiri-wallpapers-16.04": (
        "usr/share/backgrounds/{}.jpg",
        {
            "bridge": "Bridge_by_Sander_Klootwijk",
            "brook": "life_by_Aitzol_Berasategi",
            "clock": "greentock_by_Peter_Nerlich",
            "colours": "Picture_1A_by_freespace",
            "dogs": "friends_by_Aitzol_Berasategi",
            "dragonfly": "Dragonfly_by_Bolly",
            "fig": "Picture_0B_by_freespace",
            "mountain": "aitzgorri_by_Aitzol_Berasategi",
            "peaks": "picosdeeuropa_by_Aitzol_Berasategi",
            "seeding": "seeding_by_Clements_Engelhardt",
            "sunset": "sunset_by_Aitzol_Berasategi",
            "wine": "Wine_by_Jakkub_Mede",
        },
    ),
    "palapeli-data": (
        "usr/share/palapeli/collection/{}.jpg",
        {
            "bee": "european-honey-bee",
            "castle": "castle-maintenon",
            "citrus": "citrus-fruits",
            "suspension": "cincinnati-bridge",
        },
    ),
}
RECIPE = "photos/1"


def fetch(package, cache):
    """The folder in which the package's files lie."""
    unpacked = os.path.join(cache, package)
    if not os.path.isdir(unpacked):
        download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package]
        if subprocess.run(download, cwd=cache, stderr=subprocess.DEVNULL).returncode != 0:
            # The lists may never have been fetched on this machine.
            subprocess.run(["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", "update"])
            if subprocess.run(download, cwd=cache).returncode != 0:
                sys.exit(f"make_photos: apt-get could not download {package}; run `apt-get update` as root, then again")
        (archive,) = glob.glob(os.path.join(cache, package + "_*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive, unpacked + ".part"], check=True)
        os.rename(unpacked + ".part", unpacked)
        os.unlink(archive)
    return unpacked


def crop(photo, rng, side):
    """A window of 50 to 90 % of the shorter side, made small; never enlarged."""
    from PIL import Image

    width, height = photo.size
    ratio = rng.choice([4 / 3, 3 / 2, 1.0, 3 / 4])
    short = min(width, height) * rng.uniform(0.5, 0.9)
    w, h = (short * ratio, short) if ratio >= 1 else (short, short / ratio)
    fit = min(1.0, width / w, height / h)
    w, h = w * fit, h * fit
    x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
    scale = min(1.0, side / min(w, h))
    return photo.resize((round(w * scale), round(h * scale)), Image.LANCZOS, box=(x, y, x + w, y + h))


def main():
    import PIL
    from PIL import Image

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--each", type=int, default=13)
    parser.add_argument("--side", type=int, default=320, help="shorter side of a picture")
    parser.add_argument("--cache", help="where packages are unpacked (default: OUT-packages)")
    args = parser.parse_args()
    out = os.path.abspath(args.out)
    cache = os.path.abspath(args.cache or out + "-packages")
    recipe = f"{RECIPE} each={args.each} side={args.side} pillow={PIL.__version__}"
    try:
        with open(os.path.join(out, "..", os.path.basename(out) + ".json")) as file:
            there = json.load(file)
        if there["recipe"] == recipe and os.path.isdir(out):
            return say(there["files"], args.out)
    except (OSError, ValueError, KeyError):
        pass

    os.makedirs(cache, exist_ok=True)
    part = out + ".part"
    shutil.rmtree(part, ignore_errors=True)
    files = []
    labels, done = sum(len(names) for _, names in PHOTOS.values()), 0
    for package, (pattern, names) in PHOTOS.items():
        print(f"fetching {package} …", flush=True)
        folder = fetch(package, cache)
        for label, name in sorted(names.items()):
            done += 1
            print(f"cutting {label}, {done} of {labels} …", flush=True)
            os.makedirs(os.path.join(part, label))
            photo = Image.open(os.path.join(folder, pattern.format(name))).convert("RGB")
            for i in range(args.each):
                path = os.path.join(label, f"{i:03d}.jpg")
                picture = crop(photo, random.Random(f"{label}/{i}"), args.side)
                picture.save(os.path.join(part, path), quality=92)
                with open(os.path.join(part, path), "rb") as file:
                    files.append({"path": path, "photo": f"{package}: {name}", "sha256": hashlib.sha256(file.read()).hexdigest()})
    # The list lies beside the folder, not in it: the folder holds classes and nothing else.
    shutil.rmtree(out, ignore_errors=True)
    os.rename(part, out)
    with open(out + ".json", "w") as file:
        json.dump({"recipe": recipe, "files": files}, file, indent=0)
    say(files, args.out)


def say(files, out):
    print(f"{len(files)} pictures of {len({f['photo'] for f in files})} photographs in {out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)

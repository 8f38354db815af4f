# SPDX-License-Identifier: Apache-2.0
"""AutoAugment, RandAugment and TrivialAugmentWide of torchvision as choices among `augment` ops of a plan.

The magnitudes are those that the transform's own tables give; where they grow with the picture they become shares of its
side.
"""

_NAMES = {
    "Identity": "identity",
    "ShearX": "shear_x",
    "ShearY": "shear_y",
    "TranslateX": "translate_x",
    "TranslateY": "translate_y",
    "Rotate": "rotate",
    "Brightness": "brightness",
    "Color": "color",
    "Contrast": "contrast",
    "Sharpness": "sharpness",
    "Posterize": "posterize",
    "Solarize": "solarize",
    "AutoContrast": "autocontrast",
    "Equalize": "equalize",
    "Invert": "invert",
}
_WARPS = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
_SIDE = 331 * 1024  # torchvision's translations are 150/331 of a side


def rand_augment(t, v1, look) -> list:
    """`look`: the fields `filter` and `fill` of ops that move pixels."""
    table = _table(t, v1, t.num_magnitude_bins)
    branches = [[_augment(name, table, t.magnitude, look)] for name in table]
    return [_choice(branches) for _ in range(t.num_ops)]


def trivial_augment(t, v1, look) -> list:
    table = _table(t, v1, t.num_magnitude_bins)
    return [_choice([[_augment(name, table, None, look)] for name in table])]


def auto_augment(t, v1, look) -> list:
    table = _table(t, v1, 10)

    def step(name, p, level):
        return {"op": "random_apply", "p": p, "ops": [_augment(name, table, level, look)]}

    policies = t.policies if v1 else t._policies
    return [_choice([[step(*one) for one in policy] for policy in policies])]


def _choice(branches) -> dict:
    return {"op": "random_choice", "weights": [1] * len(branches), "branches": branches}


def _augment(name, table, level, look) -> dict:
    """One step, with the magnitude of that level, or any of them (None)."""
    magnitudes, signed, of_side = table[name]
    op = {"op": "augment", "what": _NAMES[name]}
    if magnitudes is not None:
        op["magnitudes"] = magnitudes if level is None else [magnitudes[level]]
    if signed and magnitudes is not None:
        op["signed"] = True
    if of_side:
        op["of_side"] = True
    return {**op, **look} if name in _WARPS else op


def _table(t, v1, bins) -> dict:
    """name -> (magnitudes or None, whether half of them are negated, whether they are shares of a side)."""
    near, far = _at_side(t, v1, bins, _SIDE), _at_side(t, v1, bins, 2 * _SIDE)
    table = {}
    for name, (magnitudes, signed) in near.items():
        of_side = magnitudes != far[name][0]
        if of_side:
            magnitudes = [x / _SIDE for x in magnitudes]
        if name == "Solarize" and not v1:  # a share of the largest value there
            magnitudes = [255.0 * x for x in magnitudes]
        table[name] = magnitudes, signed, of_side
    return table


def _at_side(t, v1, bins, side) -> dict:
    if not v1:
        made = {name: (make(bins, side, side), signed) for name, (make, signed) in type(t)._AUGMENTATION_SPACE.items()}
    elif type(t).__name__ == "TrivialAugmentWide":
        made = t._augmentation_space(bins)
    else:
        made = t._augmentation_space(bins, (side, side))
    return {name: (None if x is None or x.ndim == 0 else [float(y) for y in x], signed) for name, (x, signed) in made.items()}

# SPDX-License-Identifier: Apache-2.0
"""The demo's result as a picture: two bars, the bound, the prediction. Plain SVG."""

WIDTH, LEFT, RIGHT = 720, 190, 90
BLUE, ORANGE, GREEN, INK, FAINT = "#3b6ea5", "#d9822b", "#2e7d4f", "#222222", "#8a8a8a"


def text(x, y, content, size=14, anchor="start", colour=INK, weight="normal"):
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
        f'font-weight="{weight}">{content}</text>'
    )


def draw(result):
    alone, fed = result["alone.step_ms"], result["fed.step_ms"]
    scale = (WIDTH - LEFT - RIGHT) / alone
    parts = [text(20, 32, f"{result['speedup']:.1f}x faster, {result['price_performance']:.0%} cheaper per step", 18, weight="bold")]
    accelerator = " (accelerator emulated)" if result["accelerator"] == "emulated" else ""
    parts.append(text(20, 54, f"make demo: mean step, {result['images']} photographs{accelerator}", 13, colour=FAINT))
    for y, name, machines, value, colour, right in (
        (80, "alone", "p3.2xlarge", alone, BLUE, alone),
        (140, "with a helper", "p3.2xlarge + c5.9xlarge", fed, ORANGE, max(fed, result["bound"], result["predicted"])),
    ):
        parts.append(text(LEFT - 10, y + 16, name, anchor="end", weight="bold"))
        parts.append(text(LEFT - 10, y + 32, machines, 11, anchor="end", colour=FAINT))
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="36" rx="3" fill="{colour}"/>')
        parts.append(text(LEFT + right * scale + 8, y + 23, f"{value:.0f} ms"))
    marks = (
        (result["bound"], "what the CPU quotas allow", INK, "none", 202),
        (result["predicted"], "what `stoker advise` predicted", GREEN, "4 3", 220),
    )
    labels = LEFT + max(value for value, *_ in marks) * scale + 10
    for value, name, colour, dashes, y in marks:
        x = LEFT + value * scale
        stroke = f'stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"'
        parts.append(f'<polyline points="{x:.1f},134 {x:.1f},{y - 4} {labels - 4:.1f},{y - 4}" fill="none" {stroke}/>')
        parts.append(text(labels, y, f"{name}: {value:.0f} ms", 12, colour=colour))
    cost = f"100 steps: ${result['alone.cost_per_100_steps']:.4f} alone, ${result['fed.cost_per_100_steps']:.4f} with the helper"
    parts.append(text(20, 250, cost, 13, colour=FAINT))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="270" viewBox="0 0 {WIDTH} 270" '
        f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )

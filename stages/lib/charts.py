"""Numbers -> the geometry of small charts: plain dicts of coordinates that a template draws as SVG."""
import math

WIDTH, HEIGHT = 320, 180  # of a chart in its own units; a page scales it
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 26  # room for the labels of the axes


def ticks(low, high, most=4):
    """Round numbers between low and high, at most about `most` of them: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [tick * step + 0.0 for tick in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def logarithmic(low, high):
    """1, 2 and 5 times powers of ten from low to high; low and high themselves where none lies between."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [value for power in powers for value in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)
            if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)] or sorted({low, high})


def short(value):
    """A number as an axis shows it: 0.25, 40, 1e-05."""
    return f"{value:.4g}"


def line_chart(series, include=(), whole_x=True, log_x=False):
    """A chart of `series`: dicts {points: [(x, y)], kind, label} -> {width, height, lines, x_ticks, y_ticks}, or None without points.

    kind names the style of a line (a CSS class). include: y values that must be in sight. A y of None breaks nothing: it is left out.
    """
    drawn = [{**line, "points": [(x, y) for x, y in line["points"] if y is not None]} for line in series]
    drawn = [line for line in drawn if line["points"]]
    if not drawn:
        return None
    across = math.log10 if log_x else float
    xs, ys = ([point[axis] for line in drawn for point in line["points"]] for axis in (0, 1))
    low_x, high_x = across(min(xs)), across(max(xs))
    low, high = min(*ys, *include, ys[0]), max(*ys, *include, ys[0])
    pad = (high - low) * 0.06 or abs(high) * 0.1 or 1
    low, high = low - (pad if low < 0 or low > pad else low), high + pad

    def place(x, y):
        share = (across(x) - low_x) / (high_x - low_x) if high_x > low_x else 0.5
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1), round(TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    x_values = logarithmic(min(xs), max(xs)) if log_x else [x for x in ticks(low_x, high_x, 5) if not whole_x or float(x).is_integer()]
    return {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM,
            "lines": [{"kind": line["kind"], "label": line.get("label", ""), "points": thin([place(*point) for point in line["points"]])} for line in drawn],
            "x_ticks": [{"at": place(x, low)[0], "label": short(x)} for x in x_values],
            "y_ticks": [{"at": place(xs[0], y)[1], "label": short(y)} for y in ticks(low, high)]}


def thin(points, most=80):
    """At most about `most` of the points, evenly chosen, both ends among them."""
    if len(points) <= most:
        return points
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


def mean_by(rows, key, value):
    """[(number, mean of `value`)] over the rows (dicts of strings) of each `key`, in order; rows without a value are left out."""
    found = {}
    for row in rows:
        if row[value] != "":
            found.setdefault(float(row[key]), []).append(float(row[value]))
    return [(place, sum(values) / len(values)) for place, values in sorted(found.items())]

"""Checks Cadre's models of the flights against an independent fit with pandas and numpy.

    check_models.py FLIGHTS.csv MODELS

MODELS is a folder with manifest.json and the safetensors files it names. Every slice is fitted
again from the stated model: rows with a missing arr_delay or feature left out; days of the month
divisible by 5 held out; numeric columns standardised by the slice's training mean and population
deviation (deviation 0: coefficient 0); dest one-hot over the levels in training; ridge with
alpha 1 on all coefficients and a free intercept. Every coefficient must agree within 1e-9 of the
slice's largest one, every error within 1e-9 of itself. One line per failure, then
"N passed, N failed"; status 1 when something failed.
"""
import hashlib
import json
import math
import pathlib
import sys

import numpy
import pandas
from safetensors import safe_open

TARGET = "arr_delay"
NUMERIC = ["dep_delay", "distance", "hour", "month"]
CATEGORICAL = "dest"
ALPHA = 1.0
TOLERANCE = 1e-9


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, condition, message):
        if condition:
            self.passed += 1
        else:
            self.failed += 1
            print("failed:", message)
        return condition


def fit(rows):
    """The model of one slice; None with a reason when there are too few rows."""
    rows = rows.dropna(subset=[TARGET, CATEGORICAL] + NUMERIC)
    held_out = rows["day"] % 5 == 0
    train, test = rows[~held_out], rows[held_out]
    levels = sorted(train[CATEGORICAL].unique())
    features = len(NUMERIC) + len(levels)
    if len(train) < features + 1 or len(test) == 0:
        return None
    mean = train[NUMERIC].mean().to_numpy()
    deviation = train[NUMERIC].std(ddof=0).to_numpy()

    def design(part):
        with numpy.errstate(divide="ignore", invalid="ignore"):
            numeric = (part[NUMERIC].to_numpy(dtype=float) - mean) / deviation
        numeric[:, deviation == 0] = 0
        one_hot = part[CATEGORICAL].to_numpy()[:, None] == numpy.array(levels, dtype=object)
        return numpy.hstack([numeric, one_hot.astype(float)])

    x, y = design(train), train[TARGET].to_numpy(dtype=float)
    # Least squares over [centred x; sqrt(alpha) I] by a QR factor: better conditioned than the
    # normal equations, and another road than the one under test.
    centre, target_mean = x.mean(axis=0), y.mean()
    tall = numpy.vstack([x - centre, math.sqrt(ALPHA) * numpy.eye(features)])
    right = numpy.concatenate([y - target_mean, numpy.zeros(features)])
    q, r = numpy.linalg.qr(tall)
    coefficients = numpy.linalg.solve(r, q.T @ right)
    intercept = target_mean - centre @ coefficients
    observed = test[TARGET].to_numpy(dtype=float)
    predicted = intercept + design(test) @ coefficients
    return {
        "features": NUMERIC + [f"{CATEGORICAL}={level}" for level in levels],
        "coefficients": coefficients,
        "intercept": intercept,
        "mean": mean,
        "deviation": deviation,
        "rows_train": len(train),
        "rows_test": len(test),
        "error": math.sqrt(numpy.mean((observed - predicted) ** 2)),
        "error_mean": math.sqrt(numpy.mean((observed - target_mean) ** 2)),
    }


def close(value, expected, scale):
    return abs(value - expected) <= TOLERANCE * scale


def check_model(checks, name, entry, folder, expected):
    path = folder / entry["file"]
    if not checks.check(path.is_file(), f"{name}: {path} is not there"):
        return 0, 0
    if "sha256" in entry:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        checks.check(digest == entry["sha256"], f"{name}: the manifest has another SHA-256")
    with safe_open(path, "numpy") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}
        metadata = file.metadata()
    features = json.loads(metadata["features"])
    metrics = json.loads(metadata["metrics"])
    checks.check(metadata["name"] == name, f"{name}: the file is of model {metadata['name']}")
    if not checks.check(features == expected["features"],
                        f"{name}: features {features}, expected {expected['features']}"):
        return 0, 0
    largest = max(numpy.abs(expected["coefficients"]).max(), abs(expected["intercept"]))
    worst = 0
    values = [*tensors["coefficients"], tensors["intercept"][0]]
    wanted = [*expected["coefficients"], expected["intercept"]]
    scale = numpy.abs(expected["coefficients"]).max()
    for feature, value, want in zip([*features, "intercept"], values, wanted):
        limit = scale if feature != "intercept" else largest
        worst = max(worst, abs(value - want) / limit)
        checks.check(close(value, want, limit), f"{name}: {feature} is {value!r}, expected {want!r}")
    for key in "mean", "deviation":
        for column, value, want in zip(NUMERIC, tensors[key], expected[key]):
            checks.check(close(value, want, max(abs(want), 1)),
                         f"{name}: {key} of {column} is {value!r}, expected {want!r}")
    for key in "rows_train", "rows_test":
        checks.check(metrics[key] == expected[key],
                     f"{name}: {key} is {metrics[key]}, expected {expected[key]}")
    worst_error = 0
    for key in "error", "error_mean":
        for source, found in ("model", metrics), ("manifest", entry):
            if source == "manifest" and key not in found:
                continue
            worst_error = max(worst_error, abs(found[key] - expected[key]) / expected[key])
            checks.check(close(found[key], expected[key], expected[key]),
                         f"{name}: {key} in the {source} is {found[key]!r}, "
                         f"expected {expected[key]!r}")
    return worst, worst_error


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    flights = pandas.read_csv(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    manifest = json.loads((folder / "manifest.json").read_text())
    models = {entry["name"]: entry for entry in manifest["models"]}
    refused = {entry["name"]: entry for entry in manifest["refused"]}
    checks = Checks()
    worst = worst_error = 0
    seen = set()
    for (carrier, origin), rows in flights.groupby(["carrier", "origin"]):
        name = f"{carrier}/{origin}"
        seen.add(name)
        expected = fit(rows)
        if expected is None:
            if checks.check(name in refused and name not in models,
                            f"{name}: too small for a model, and not listed as refused"):
                checks.check(refused[name].get("message"), f"{name}: refused without a reason")
            continue
        if not checks.check(name in models, f"{name}: no model"):
            continue
        one, other = check_model(checks, name, models[name], folder, expected)
        worst, worst_error = max(worst, one), max(worst_error, other)
    for name in {**models, **refused}:
        checks.check(name in seen, f"{name}: there is no such slice")
    checks.check(len(models) > 0, "there is no model")
    print(f"{len(models)} models, {len(refused)} refused; coefficients agree within {worst:.1e} of "
          f"the slice's largest, errors within {worst_error:.1e}")
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

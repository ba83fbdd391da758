"""Gradients against differences of values in a random direction."""

import numpy


def check(test, gradients, arrays, value, tolerance):
    """value() is of the arrays, double; the difference has an error of step² and one of 1e-16·|value|/step."""
    for name, array in arrays.items():
        direction, step = numpy.random.default_rng(4).standard_normal(array.shape), tolerance
        array += step * direction
        above = value()
        array -= 2 * step * direction
        below = value()
        array += step * direction
        test.assertAlmostEqual((gradients[name] * direction).sum(), (above - below) / (2 * step), delta=tolerance, msg=name)

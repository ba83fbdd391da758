"""The layer on arrays, against the paper's equations in numpy and against differences."""

import copy
import unittest

import crosstalk
import differences
import numpy


def talking_heads(p, X, M, causal, bias=0):
    """The paper's equations, in our layouts."""
    Q = numpy.einsum("bnd,dhk->bhnk", X, p["P_q"])
    K = numpy.einsum("bmd,dhk->bhmk", M, p["P_k"])
    V = numpy.einsum("bmd,dhv->bhmv", M, p["P_v"])
    J = numpy.einsum("bhnk,bhmk->bhnm", Q, K)
    L = numpy.einsum("bknm,kh->bhnm", J, p["P_l"]) + bias
    if causal:
        L = numpy.where(numpy.tril(numpy.ones(L.shape[-2:], bool)), L, -numpy.inf)
    W = numpy.exp(L - L.max(-1, keepdims=True))
    W /= W.sum(-1, keepdims=True)
    U = numpy.einsum("bhnm,hv->bvnm", W, p["P_w"])
    O = numpy.einsum("bhnm,bhmv->bhnv", U, V)
    return numpy.einsum("bhnv,hvd->bnd", O, p["P_o"]), W


def some(*shape, seed=1, dtype="float64"):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


class AttentionTest(unittest.TestCase):
    def layer(self, **options):
        return crosstalk.Attention(**{"d_X": 8, "d_M": 6, "d_Y": 10, "h_k": 2, "h": 3, "h_v": 4, "d_k": 5, "d_v": 7,
                                      "mixing": ["P_l", "P_w"], "dtype": "float64", **options})

    def test_it_computes_the_papers_equations(self):
        layer = self.layer()
        X, M, bias = some(2, 5, 8), some(2, 4, 6, seed=2), some(3, 5, 4, seed=3)
        Y, W = layer(X, M, bias=bias, weights=True)
        expected, weights = talking_heads(layer.parameters, X, M, causal=False, bias=bias)
        numpy.testing.assert_allclose(Y, expected, rtol=0, atol=1e-12)  # sums of some 100 terms of size 1
        numpy.testing.assert_allclose(W, weights.transpose(0, 2, 3, 1), rtol=0, atol=1e-13)

    def test_the_fused_layer_computes_them_in_float(self):
        layer = crosstalk.Attention(d_model=16, attention="talking", heads=4, causality="causal")
        self.assertEqual(layer.description["implementation"], "fused")
        X = some(2, 9, 16, dtype="float32")
        expected, _ = talking_heads(layer.parameters, X, X, causal=True)
        numpy.testing.assert_allclose(layer(X), expected, rtol=0, atol=1e-5)

    def test_gradients_are_those_of_differences(self):
        layer = self.layer()
        X, M, dY = some(2, 5, 8), some(2, 4, 6, seed=2), some(2, 5, 10, seed=3)
        forward = layer.forward(X, M)
        gradients = forward.backward("Y", dY)
        self.assertEqual(set(gradients), {"X", "M"} | set(layer.parameters))
        differences.check(self, gradients, {"X": X, "M": M, **layer.parameters}, lambda: (layer(X, M) * dY).sum(), 1e-6)
        with self.assertRaisesRegex(crosstalk.UsageError, "has given its gradients"):
            forward.backward("Y", dY)

    def test_masks_hide(self):
        layer = self.layer()
        X, M = some(1, 5, 8), some(1, 4, 6, seed=2)
        padding = numpy.array([[True, True, False, True]])
        numpy.testing.assert_allclose(layer(X, M, key_padding_mask=padding), layer(X, M[:, [0, 1, 3]]), atol=1e-12)

    def test_a_cache_computes_position_by_position(self):
        layer = crosstalk.Attention(d_model=16, attention="dynamic", heads=2, causality="causal", dtype="float64")
        X = some(2, 6, 16)
        cache = layer.decode()
        steps = [cache.step(X[:, :2])] + [cache.step(X[:, i:i + 1]) for i in range(2, 6)]
        numpy.testing.assert_allclose(numpy.concatenate(steps, 1), layer(X), atol=1e-12)

    def test_its_configuration_makes_the_same_layer(self):
        layer = self.layer(causality="none", seed=7)
        configuration = layer.description["configuration"]
        again = crosstalk.Attention(**configuration, seed=7, dtype="float64")
        numpy.testing.assert_array_equal(again.parameters["P_l"], layer.parameters["P_l"])

    def test_an_assignment_to_a_parameter_writes_it(self):
        layer = self.layer()
        parameters = layer.parameters
        parameters["P_l"] = numpy.eye(2, 3)
        parameters["P_l"] *= 2
        layer.parameters.update(P_w=numpy.ones((3, 4)))
        numpy.testing.assert_array_equal(layer.parameters["P_l"], 2 * numpy.eye(2, 3))
        self.assertTrue((parameters["P_w"] == 1).all())
        for name, values, says in (("P_l", numpy.eye(3), r"P_l: is float64\[2, 3\], and cannot be set to float64\[3, 3\]"),
                                   ("P_l", numpy.eye(2, 3, dtype="float32"), r"to float32\[2, 3\]; .*astype\(\"float64\"\)"),
                                   ("P_l", 0.0, r"to float64\[\]"),
                                   ("P_L", numpy.eye(2, 3), "there is no parameter 'P_L'; there are P_q, ")):
            with self.assertRaisesRegex(crosstalk.UsageError, says):
                layer.parameters[name] = values
        with self.assertRaisesRegex(TypeError, "fixed"):
            del layer.parameters["P_l"]
        own = copy.deepcopy(parameters)  # a dict of arrays that are nobody else's
        own["P_l"] = None
        self.assertTrue((layer.parameters["P_w"] == 1).all() and "P_l" in layer.parameters)

    def test_it_is_shown_as_what_it_is(self):
        layer = self.layer()
        self.assertEqual(repr(layer), f"<crosstalk.Attention: {layer.description['description']}>")
        self.assertEqual(repr(crosstalk.Tensor(some(2, 3))), "<crosstalk.Tensor: float64[2, 3]>")
        self.assertEqual(repr(layer.forward(some(1, 5, 8), some(1, 4, 6))), "<crosstalk.Pass>")
        layer.close()
        self.assertEqual(repr(layer), "<crosstalk.Attention, closed>")

    def test_errors_say_what_and_where(self):
        layer = self.layer()
        with self.assertRaisesRegex(crosstalk.UsageError, "X: is float32, and the layer computes in float64: convert it, or "
                                                          "make the layer with dtype = float32"):
            layer(some(2, 5, 8, dtype="float32"))
        with self.assertRaisesRegex(crosstalk.UsageError, "X: is int64, and the layer computes in float64: convert it$"):
            layer(numpy.zeros((2, 5, 8), int))
        with self.assertRaisesRegex(crosstalk.UsageError, r"head: is not a key .*; did you mean \"heads\"\?"):
            crosstalk.Attention(d_model=8, head=2)
        with self.assertRaisesRegex(ValueError, "d_X"):
            layer(some(2, 5, 9), some(2, 4, 6))
        with self.assertRaises(crosstalk.UsageError) as raised:
            crosstalk.Attention(d_model=8, heads=2, head_count=3)
        self.assertEqual(raised.exception.field, "head_count")
        with self.assertRaises(crosstalk.UsageError) as raised:
            crosstalk.Attention(d_model=8, heads=2, dtype="float64", implementation="fused")
        self.assertEqual(raised.exception.field, "implementation")
        with self.assertRaisesRegex(crosstalk.UsageError, "NUL"):
            layer.forward(some(2, 5, 8), some(2, 4, 6)).backward("Y\0")

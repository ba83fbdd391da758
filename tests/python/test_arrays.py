"""Arrays go into the library and come out without copies, and are given back."""

import copy
import gc
import sys
import unittest
import weakref

import crosstalk
import numpy


class ArraysTest(unittest.TestCase):
    def test_an_array_is_seen_and_not_copied(self):
        for dtype in ("float32", "float64", "int32", "int64", "bool"):
            array = numpy.zeros((2, 3), dtype)
            tensor = crosstalk.Tensor(array)
            array[1, 2] = 1
            seen = tensor.numpy()
            self.assertEqual(seen.dtype, array.dtype)
            self.assertEqual(seen[1, 2], 1)
            seen[0, 0] = 1
            self.assertEqual(array[0, 0], 1)

    def test_strides_with_gaps_are_kept_and_backward_ones_copied_and_read_only_stays_so(self):
        array = numpy.arange(24, dtype="float32").reshape(4, 6)
        gaps = crosstalk.Tensor(array[::2, ::3])
        numpy.testing.assert_array_equal(gaps.numpy(), array[::2, ::3])
        self.assertTrue(numpy.shares_memory(gaps.numpy(), array))
        numpy.testing.assert_array_equal(crosstalk.Tensor(array.T).numpy(), array.T)
        backward = crosstalk.Tensor(array[::-1]).numpy()
        numpy.testing.assert_array_equal(backward, array[::-1])
        self.assertFalse(numpy.shares_memory(backward, array))
        array.flags.writeable = False
        self.assertFalse(crosstalk.Tensor(array).numpy().flags.writeable)

    def test_other_types_are_refused(self):
        remedies = {"float16": "float32", "uint8": "int64", "complex64": "bool$", ">f4": "float32", "object": "bool$"}
        for dtype, remedy in remedies.items():
            with self.assertRaisesRegex(crosstalk.UsageError, "an array of .*" + remedy):
                crosstalk.Tensor(numpy.zeros(2, dtype))

    def test_the_array_is_kept_as_long_as_it_is_needed_and_no_longer(self):
        array = numpy.zeros(3, "float32")
        watch = weakref.ref(array)
        tensor = crosstalk.Tensor(array)
        del array
        gc.collect()
        self.assertIsNotNone(watch())
        tensor.close()
        gc.collect()
        self.assertIsNone(watch())

    def test_what_the_library_made_is_kept_by_the_array_over_it(self):
        layer = crosstalk.Attention(d_model=8, heads=2)
        parameters = layer.parameters
        del layer
        gc.collect()
        self.assertTrue(numpy.isfinite(parameters["P_q"]).all())

    def test_dlpack_goes_both_ways(self):
        array = numpy.arange(6, dtype="float32").reshape(2, 3)
        tensor = crosstalk.Tensor(array)
        back = numpy.from_dlpack(tensor)
        self.assertTrue(numpy.shares_memory(back, array))

        class Other:  # that has DLPack, and is no array
            def __dlpack__(self, **_):
                return array.__dlpack__()

        self.assertTrue(numpy.shares_memory(crosstalk.Tensor(Other()).numpy(), array))

    def test_versioned_capsules_come_back_and_those_that_nobody_takes_are_given_back(self):
        array = numpy.arange(6, dtype="float32")
        watch = weakref.ref(array)
        tensor = crosstalk.Tensor(array)
        del array

        class Again:
            def __dlpack__(self, max_version=None):
                return tensor.__dlpack__(max_version=max_version)

        again = crosstalk.Tensor(Again())
        self.assertTrue(numpy.shares_memory(again.numpy(), watch()))
        for version in (None, (1, 0)):
            capsule = tensor.__dlpack__(max_version=version)
            del capsule
        tensor.close()
        again.close()
        gc.collect()
        self.assertIsNone(watch())

    def test_an_object_is_neither_copied_nor_used_when_closed(self):
        tensor = crosstalk.Tensor(numpy.zeros(3, "float32"))
        with self.assertRaises(TypeError):
            copy.copy(tensor)
        tensor.close()
        tensor.close()
        with self.assertRaisesRegex(crosstalk.UsageError, "closed"):
            tensor.numpy()

    def test_calls_leak_no_references(self):
        layer = crosstalk.Attention(d_model=8, heads=2)
        X = numpy.ones((1, 3, 8), "float32")
        layer(X)
        before = sys.getrefcount(X)
        for _ in range(10):
            layer.forward(X).backward("Y", X)
        gc.collect()
        self.assertEqual(sys.getrefcount(X), before)

// The shared library exports CROSSTALK_PUBLIC names. All others are hidden, by -fvisibility=hidden.
#pragma once

// On the namespace of a public header, it holds for all that stands in it:
//
//   namespace CROSSTALK_PUBLIC crosstalk {
//
// A function template outside a class, which its .cc instantiates, needs it by itself.
#define CROSSTALK_PUBLIC [[gnu::visibility("default")]]

// Within such a namespace: a template of which each program may have its own instances.
#define CROSSTALK_LOCAL [[gnu::visibility("hidden")]]

// The shared library exports what public headers declare. All other names are hidden, by -fvisibility=hidden.
#pragma once

// A public header has the pragma around its namespace, for all that stands in it:
//
//   #pragma GCC visibility push(default)
//   namespace crosstalk {
//   …
//   }  // namespace crosstalk
//   #pragma GCC visibility pop
//
// To clang an attribute of this namespace would say nothing of a definition, whose namespace has none.
// A function template outside a class, which its .cc instantiates, needs this by itself.
#define CROSSTALK_PUBLIC [[gnu::visibility("default")]]

// Between these pragmas: a template of which each program may have its own instances.
#define CROSSTALK_LOCAL [[gnu::visibility("hidden")]]

// The version of these headers, for a program's #if. The Makefile reads it from here; Version() in platform.h is that
// of the library that is linked. docs/embedding.md says what a change of version promises.
#pragma once

#define CROSSTALK_VERSION_MAJOR 0
#define CROSSTALK_VERSION_MINOR 2
#define CROSSTALK_VERSION_PATCH 0

# What packagers and other build systems ask of make. Included by the Makefile; docs/packaging.md is its manual.

# For tools/cmake/CMakeLists.txt: the soname, and what libcrosstalk.a is linked with.
.PHONY: cmake-values
cmake-values:
	@echo '$(SONAME);$(filter-out -lpthread,$(STATIC_LIBS))'

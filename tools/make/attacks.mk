# Attacks on the code: races, file calls and allocations that fail, hostile input, faults in the sources. Included by the
# Makefile; docs/reliability/README.md says what each has found last.

# In a build of its own: the pool, counted memory, batches made ahead, the kernels that share work, whole steps, and the
# handles of C.
THREAD_TESTS := runtime/planted_race runtime/parallel runtime/storage kernels/attention/attention_call_test \
    nn/attention/attention_test nn/attention/fused_test models/training/objectives/batches models/training/loop \
    models/training/ranks/reducer models/bindings/c/ bits/
.PHONY: test-threads
test-threads:  ## run the tests of what threads share under ThreadSanitizer
	@TSAN_OPTIONS="allocator_may_return_null=1 $$TSAN_OPTIONS" \
	  $(MAKE) --no-print-directory test BUILD=$(BUILD)-thread SANITIZE=thread ONLY='$(THREAD_TESTS)'

.PHONY: test-systems
test-systems:  ## make and make test as a newcomer on fresh Debians, by other compilers, in odd circumstances: ONLY=
	@sh tools/make/test_systems.sh $(BUILD)-systems $(ONLY)

# tests/faults: a library that is preloaded to make calls fail, the program that sweeps over them, and one of its
# subjects. The library stands below all else and links nothing of ours.
INJECTOR_SOURCES := tests/faults/injector.cc tests/faults/file_faults.cc
SWEEP_SOURCES := tests/faults/sweep.cc tests/faults/subjects.cc
$(BUILD)/tests/faults/libfaults.so: $(call object,$(INJECTOR_SOURCES))
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CXX) -shared $(LDFLAGS) $^ -ldl -o $@
$(BUILD)/tests/faults/sweep: $(call object,$(SWEEP_SOURCES)) $(BUILD)/lib/libtestsupport.a $(call archives_for,models)
$(BUILD)/tests/faults/host: $(call object,tests/faults/host.cc) $(call archives_for,models)
$(BUILD)/tests/faults/sweep $(BUILD)/tests/faults/host:
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CXX) $(REQUIRED_LDFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

.PHONY: faults
faults: $(COMMAND) $(FAULTS)  ## fail every file call and allocation of short runs, kill before and after each: [FAULT=train:file:17:EIO]
	@$(BUILD)/tests/faults/sweep --jobs $(JOBS) $(if $(filter FAULT,$(GIVEN)),--only '$(FAULT)')

# A program of libFuzzer for each tests/fuzz/NAME_target.cc, in a build of its own: clang with its counters of coverage,
# sanitizers, and libstdc++'s checks of indices.
FUZZ_TARGETS := $(patsubst tests/fuzz/%_target.cc,%,$(wildcard tests/fuzz/*_target.cc))
FUZZ_CHOSEN := $(or $(if $(filter TARGET,$(GIVEN)),$(TARGET)),$(FUZZ_TARGETS))
FUZZ_SECONDS := $(if $(filter SECONDS,$(GIVEN)),$(SECONDS),60)
FUZZ_PROGRAMS := $(FUZZ_TARGETS:%=$(BUILD)/fuzz/%)
FUZZ_CXX := $(if $(filter command environment,$(firstword $(origin CXX))),$(CXX),clang++)

.PHONY: fuzz
fuzz:  ## look for inputs that break it: TARGET=json SECONDS=60; by default each target in turn for a minute
	@$(if $(filter-out $(FUZZ_TARGETS),$(FUZZ_CHOSEN)),echo "make fuzz: TARGET is one of $(FUZZ_TARGETS)" >&2; exit 1)
	@echo '$(FUZZ_SECONDS)' | grep -qx '[1-9][0-9]*' || { echo "make fuzz: SECONDS is a number of seconds" >&2; exit 1; }
	@$(FUZZ_CXX) --version 2>/dev/null | grep -q clang || { echo "make fuzz: CXX='$(FUZZ_CXX)' is not clang++" >&2; exit 1; }
	@$(MAKE) --no-print-directory fuzz-programs BUILD=$(BUILD)-fuzz CXX='$(FUZZ_CXX)' \
	  SANITIZE=fuzzer-no-link,address,undefined CXXFLAGS='-O1 -g1' CPPFLAGS=-D_GLIBCXX_ASSERTIONS
	@sh tests/fuzz/run.sh $(BUILD)-fuzz $(FUZZ_SECONDS) $(FUZZ_CHOSEN)

.PHONY: fuzz-programs
fuzz-programs: $(FUZZ_CHOSEN:%=$(BUILD)/fuzz/%)

# A build with g++ does not show what clang++ refuses or warns of. One instruction set tells; nothing is written.
.PHONY: fuzz-check
fuzz-check: $(COMMAND)  ## whether clang++ takes the sources that make fuzz compiles
	@echo $(patsubst %,$(BUILD)/units/%unit.cc,$(call rooms,$(filter-out $(SIMD_SOURCES),$(LIBRARY_SOURCES) $(TOOL_SOURCES)))) \
	  $(SIMD_SOURCES) $(filter-out tests/fuzz/driver.cc,$(wildcard tests/fuzz/*.cc)) | \
	  xargs -n 1 -P $(JOBS) $(FUZZ_CXX) -fsyntax-only -Werror $(filter-out --param%,$(REQUIRED_CXXFLAGS)) \
	  $(REQUIRED_CPPFLAGS:-M%=) -DHWY_COMPILE_ONLY_STATIC
	@echo "clang: it takes the sources"

# Kernels see numbers, not files: plain, for clang takes minutes to instrument one. (.ci/run tests them sanitized.)
$(call object,$(call sources,kernels)): private COMPILE := $(filter-out -fsanitize=fuzzer%,$(COMPILE))

# run_folder_target.cc has FuzzRunFolder.
$(FUZZ_PROGRAMS): $(BUILD)/fuzz/%: tests/fuzz/driver.cc $(call object,tests/fuzz/fuzz.cc) \
    $(BUILD)/objects/tests/fuzz/%_target.o $(call archives_for,tools)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(COMPILE) -DCROSSTALK_FUZZ_TARGET=Fuzz$$(echo $* | sed 's/\(^\|_\)\(.\)/\U\2/g') -fsanitize=fuzzer $(LDFLAGS) $^ \
	  $(LDLIBS) -o $@

MUTANTS := $(BUILD)/tests/mutants/mutants
$(MUTANTS): $(BUILD)/objects/tests/mutants/mutants.o $(BUILD)/lib/libtestsupport.a $(call archives_for,runtime)
	@mkdir -p $(@D)
	@$(CXX) $(REQUIRED_LDFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

# With objects that are small and quick to compile: what the tests check does not depend on the compiler's flags.
# Faults that build: N of them, in the order that SEED draws, from the draw FROM on: N=1 FROM=7 tries the seventh again.
# ONLY="kernels/gemm nn/norm": in files with one of these in their paths.
N := 100
SEED := 1
FROM := 1
.PHONY: mutants
mutants: $(MUTANTS)  ## put faults into the sources, one at a time, and see whether the tests notice: N=100 SEED=1 FROM=1
	@env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL CXX='$(CXX)' CXXFLAGS='-O1 -g0' \
	  $(MUTANTS) build-mutants $(N) $(SEED) $(JOBS) $(FROM) $(ONLY)

# Crosstalk. `make help` lists the targets and variables; `make train` and `make test` do all the set-up.

# "0.2.0": runtime/version.h says it.
VERSION := $(shell sed -n 's/^.define CROSSTALK_VERSION_[^ ]* //p' runtime/version.h | paste -sd.)

.DEFAULT_GOAL := all
GOALS := $(or $(MAKECMDGOALS),all)

# ---- What can be set on the command line -------------------------------------------------------------------------
# Compilers, their flags and the place to install may come from the environment too; nothing else does.
BUILD := build
PREFIX ?= /usr/local
LIBDIR := lib
DESTDIR ?=
ifeq ($(origin CXX),default)  # make's own default is no choice of the user's
CXX := g++
endif
SANITIZE :=
CXXFLAGS ?= $(if $(SANITIZE),-Og -g1,-O2)
# Code that computes little itself is compiled sooner: models, except their text, tools, and tests that compare with loops
# of their own; and the other tests even more so.
LIGHT_CXXFLAGS := $(if $(filter file,$(origin CXXFLAGS)),$(if $(SANITIZE),,-O1))
LIGHTEST_CXXFLAGS := $(LIGHT_CXXFLAGS:-O1=-O0)
# UNITY=no compiles each source by itself instead of a room's at once: less to do after a change of one source, three
# times as much from scratch, and the way to see that each includes what it uses.
UNITY := yes
JOBS := $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS := 2
# NP=2 starts the command as so many ranks, with mpirun: docs/distributed.md.
RANK_GOALS := train eval finetune reproduce
ifneq ($(filter NP,$(.VARIABLES)),)
ifneq ($(shell printf '%s\n' '$(subst ','\'',$(NP))' | grep -cx '[1-9][0-9]*'),1)
$(error NP='$(NP)': must be a positive number of ranks)
endif
endif
# CROSSTALK_DATA=FOLDER lets the tests that read real text and tasks run; they skip without it.
MAKE_VARIABLES := BUILD PREFIX LIBDIR DESTDIR CXX CXXFLAGS CPPFLAGS LDFLAGS JOBS TEST_JOBS SANITIZE UNITY CROSSTALK_DATA \
    $(if $(filter test test-arm test-systems sessions-accept mutants,$(GOALS)),ONLY) $(if $(filter test-arm,$(GOALS)),ALL) \
    $(if $(filter $(RANK_GOALS),$(GOALS)),NP) \
    $(if $(filter faults,$(GOALS)),FAULT) $(if $(filter fuzz fuzz-%,$(GOALS)),TARGET SECONDS) \
    $(if $(filter mutants,$(GOALS)),N SEED FROM) $(if $(filter exercise grade,$(GOALS)),N) \
    $(if $(filter exercise grade,$(GOALS)),SUBMISSION)
# These goals turn each other variable into an option of the command: make train D_MODEL=64. ARGS takes any options.
COMMAND_GOALS := demo train eval generate finetune compare reproduce bench bench-scaling trace simulate
# Variables that programs started by make may read from their environment, into which make puts its command line: tests run make.
PROGRAM_VARIABLES := $(if $(filter-out 0,$(MAKELEVEL)),ONLY ALL) MAKEFLAGS SHELL CROSSTALK_SETUP_DONE CROSSTALK_SIMD NO_COLOR \
    OMP_% OPENBLAS_% CCACHE_% LD_LIBRARY_PATH %SAN_OPTIONS

# A variable that nothing would read is a mistake, not something to drop. The goals that start the command ask it
# which options it has, once it is built.
GIVEN := $(sort $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name))))
COMMAND_VARIABLES := $(filter-out $(MAKE_VARIABLES) $(PROGRAM_VARIABLES) ARGS,$(GIVEN))
check_variables = sh tools/make/check_variables.sh $(1) '$(subst ','\'',$(2))' '$(MAKE_VARIABLES)$(3)'
ifeq ($(filter $(COMMAND_GOALS),$(GOALS)),)
UNREAD := $(COMMAND_VARIABLES) $(filter ARGS,$(GIVEN))
ifneq ($(strip $(UNREAD)),)
$(error $(shell $(call check_variables,$(firstword $(GOALS)),$(UNREAD)) 2>&1))
endif
endif
# The same name from wherever it is given, as the compiler's flags hold it.
override BUILD := $(patsubst %/,%,$(subst $(CURDIR)/,,$(BUILD)))
ifneq ($(words $(BUILD)),1)
$(error BUILD='$(BUILD)': make cannot build into a folder without a name or with a space in it)
endif

# ---- Packages, in one place: packages.txt ------------------------------------------------------------------------
# Every goal but these first makes sure of its packages; the look takes a moment and installs only what is missing.
# `make -n` installs nothing.
ifneq ($(filter-out help clean layers uninstall,$(GOALS)),)
ifeq ($(CROSSTALK_SETUP_DONE)$(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),)
PACKAGE_GROUPS := build $(if $(filter test test-% quick net everything faults mutants wheel $(BUILD)/tests/%,$(GOALS)),test) \
    $(if $(filter format format-check,$(GOALS)),check) $(if $(filter deb deb-check,$(GOALS)),deb) \
    $(if $(filter abi abi-dump,$(GOALS)),abi) $(if $(filter arm test-arm,$(GOALS)),arm) $(if $(filter test-systems,$(GOALS)),systems) \
    $(if $(filter fuzz fuzz-%,$(GOALS)),fuzz) $(if $(filter test-browser,$(GOALS)),browser) \
    $(if $(filter mpi test-mpi deb deb-check,$(GOALS))$(filter NP,$(GIVEN)),mpi)
SETUP_STATUS := $(shell sh tools/make/setup.sh packages.txt $(PACKAGE_GROUPS) >&2; echo $$?)
ifneq ($(SETUP_STATUS),0)
$(error not all packages of packages.txt are installed: see the message above)
endif
endif
export CROSSTALK_SETUP_DONE := 1
# One command builds on all processors: -j is the default, not something to remember.
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS))$(filter fuzz-programs,$(GOALS)),)
MAKEFLAGS += -j$(JOBS)
endif
endif

# ---- Sources -----------------------------------------------------------------------------------------------------
FOLDERS := runtime kernels autograd nn models
sources = $(sort $(shell find $(1) -name '*.cc' 2>/dev/null))
LIBRARY_SOURCES := $(foreach layer,$(FOLDERS),$(call sources,$(layer)))
# tools/mpi is a library of its own, the only one that needs MPI.
MPI_SOURCES := $(call sources,tools/mpi)
TOOL_SOURCES := $(filter-out tools/crosstalk.cc $(MPI_SOURCES),$(call sources,tools))
# planted_race_test holds races that ThreadSanitizer must find.
TEST_SOURCES := $(filter-out $(if $(filter thread,$(SANITIZE)),,tests/runtime/planted_race_test.cc), \
    $(filter %_test.cc,$(call sources,tests)))
TEST_SUPPORT_SOURCES := $(filter-out %_test.cc tests/install/% tests/faults/% tests/mpi/% tests/fuzz/driver.cc \
    tests/mutants/mutants.cc tests/course/%,$(call sources,tests))
# The course has only the programs of its pages here: tools/make/course.mk.
EXAMPLE_SOURCES := $(filter-out $(addprefix examples/course/,exercises/% solutions/% checker/%),$(call sources,examples))
# A file of sessions is a program of its folder by another name.
SESSIONS := $(sort $(wildcard tests/sessions/*.session))
C_EXAMPLE_SOURCES := $(sort $(wildcard examples/*.c))
# These include themselves once for each SIMD target, and stay by themselves; of the others a room's are one unit. So do
# those of tests/support, of which a test program links what it uses.
SIMD_SOURCES := $(shell grep -rl '^.include "hwy/foreach_target.h"' $(FOLDERS) --include='*.cc')

object = $(patsubst %.cc,$(BUILD)/objects/%.o,$(1))
# The room of a source: its layer, or in models/ one of the folders there, of which some are small and share one; in
# kernels/ and elsewhere its own folder.
SMALL_ROOMS := bert decoding inspection lm t5
layer_of = $(firstword $(subst /, ,$(1)))
room_in_models = models/$(addsuffix /,$(filter-out $(SMALL_ROOMS),$(word 2,$(subst /, ,$(dir $(1))))))
room = $(if $(filter models,$(layer_of)),$(room_in_models),$(if $(filter runtime autograd nn,$(layer_of)),$(layer_of)/,$(dir \
    $(1))))
rooms = $(sort $(foreach source,$(1),$(call room,$(source))))
# The objects of sources; the units among them are called $(2).
objects = $(if $(filter no,$(UNITY)),$(call object,$(1)),$(call object,$(filter $(SIMD_SOURCES),$(1))) \
    $(patsubst %,$(BUILD)/objects/%$(2).o,$(call rooms,$(filter-out $(SIMD_SOURCES),$(1)))))
archive = $(BUILD)/lib/lib$(1).a
# A layer's archives, its own first and then those below it, as the linker wants them.
below_runtime := runtime
below_kernels := kernels runtime
below_autograd := autograd kernels runtime
below_nn := nn autograd kernels runtime
below_models := models nn autograd kernels runtime
below_tools := tools models nn autograd kernels runtime
below_install := models nn autograd kernels runtime
archives_for = $(foreach layer,$(below_$(1)),$(call archive,$(layer)))

COMMAND := $(BUILD)/crosstalk
LIBRARIES := $(BUILD)/lib/libcrosstalk.a $(BUILD)/lib/libcrosstalk.so
TESTS := $(patsubst tests/%,$(BUILD)/tests/%,$(basename $(TEST_SOURCES) $(SESSIONS)))
EXAMPLES := $(patsubst examples/%.cc,$(BUILD)/examples/%,$(EXAMPLE_SOURCES))
C_EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(C_EXAMPLE_SOURCES))
FAULTS := $(BUILD)/tests/faults/libfaults.so $(BUILD)/tests/faults/sweep $(BUILD)/tests/faults/host

# ---- Flags -------------------------------------------------------------------------------------------------------
# Portable: SIMD is chosen at run time, so there is no -march here. No -ffast-math: runtime/check.cc refuses it.
# Our own headers are "crosstalk/nn/module.h" here as in a program that has them installed, by way of links to the
# layers' folders; -I. is for tools/ and tests/, which nobody else includes.
COMPILER := $(shell { $(CXX) --version; $(CXX) -dumpmachine; } 2>/dev/null)
# Each SIMD target compiles every kernel once more: on x86 AVX2, the least, as a processor without fused multiply-adds would
# round otherwise, and AVX-512; not the further targets of newer Highways, whose instructions no kernel needs. On ARM every
# processor of 64 bits has NEON: the compiler's baseline is the one target, without choice at run time and without
# attributes on functions. SVE is left out: docs/numerics.md.
SIMD_x86_64 := -DHWY_BASELINE_TARGETS=HWY_AVX2 -DHWY_DISABLED_TARGETS=-1-HWY_AVX2-HWY_AVX3
SIMD_aarch64 := -DTOOLCHAIN_MISS_SYS_AUXV_H -DHWY_DISABLED_TARGETS=HWY_SVE+HWY_SVE2+HWY_SVE_256+HWY_SVE2_128
REQUIRED_CPPFLAGS := -I$(BUILD)/include -I. -MD -MP $(SIMD_$(firstword $(subst -, ,$(lastword $(COMPILER)))))
# Hidden: public headers make what they declare visible (runtime/visibility.h), and the shared library exports nothing else.
REQUIRED_CXXFLAGS := -std=c++20 -fopenmp -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -ffp-contract=off \
    -Wall -Wextra -Wno-missing-field-initializers -Wno-unknown-pragmas -Wno-psabi
# GCC looks for garbage as soon as it has 256 MB, which takes 5 % of the time: from 512 MB.
ifeq ($(findstring clang,$(COMPILER)),)
REQUIRED_CXXFLAGS += --param=ggc-min-heapsize=262144
endif
REQUIRED_LDFLAGS := -fopenmp
LDLIBS := -lhwy -ldl -lsentencepiece -lsentencepiece_train -lutf8proc -lpcre2-8 -lsnappy -lz -lpthread
TEST_LDLIBS := -lgtest
ifneq ($(SANITIZE),)
REQUIRED_CXXFLAGS += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
REQUIRED_LDFLAGS += -fsanitize=$(SANITIZE)
endif

# ---- Build -------------------------------------------------------------------------------------------------------
.PHONY: all
all: $(COMMAND)  ## build the command, build/crosstalk

.PHONY: everything
everything: $(COMMAND) $(EXAMPLES) $(C_EXAMPLES) $(TESTS) $(FAULTS) $(LIBRARIES)

INCLUDE_LINKS := $(FOLDERS:%=$(BUILD)/include/crosstalk/%) $(BUILD)/include/crosstalk/crosstalk.h $(BUILD)/include/crosstalk.h
$(BUILD)/include/crosstalk.h:  # of C
	@mkdir -p $(@D)
	@ln -srfn models/bindings/c/crosstalk.h $@
$(filter-out $(BUILD)/include/crosstalk.h,$(INCLUDE_LINKS)):
	@mkdir -p $(@D)
	@ln -srfn '$(if $(filter %.h,$@),models/)$(@F)' $@

# Pages, style sheets, scripts and data of the command become string literals: #include "embedded/tools/page/page.css.inc".
EMBEDDED := $(patsubst %,$(BUILD)/include/embedded/%.inc,$(sort $(shell find tools -name '*.html' -o -name '*.css' -o -name '*.js' -o -name '*.json')))
$(EMBEDDED): $(BUILD)/include/embedded/%.inc: %
	@mkdir -p $(@D)
	@{ printf 'R"EMBEDDED('; cat $<; printf ')EMBEDDED"\n'; } > $@

# OBJECT_FLAGS: those of some objects.
OBJECT_FLAGS :=
$(BUILD)/objects/%.o: %.cc $(BUILD)/flags | $(INCLUDE_LINKS) $(EMBEDDED)
	@mkdir -p $(@D)
	@echo "  compile $<"
	@$(COMPILE) $(OBJECT_FLAGS) -c $< -o $@

# To check the scopes of a kernel's thousands of vectors takes as long to compile as all the rest of it.
ifneq ($(findstring address,$(SANITIZE)),)
$(BUILD)/objects/kernels/%.o: OBJECT_FLAGS := -fno-sanitize-address-use-after-scope
endif

# A unit: one source that includes those of a room, and is rewritten where its list differs. As includes of headers cost
# more than what most sources say, it compiles three times as fast as they do one by one.
HASH := \#
define unit  # $(1): folder/, $(2): the unit's name, $(3): sources
$(BUILD)/objects/$(1)$(2).o: $(BUILD)/units/$(1)$(2).cc $(BUILD)/flags | $(INCLUDE_LINKS) $(EMBEDDED)
	@mkdir -p $$(@D)
	@echo "  compile $(1)*.cc ($(words $(3)))"
	@$$(COMPILE) $$(OBJECT_FLAGS) -c $$< -o $$@
ifneq ($$(strip $$(subst $$(HASH)include,,$$(file < $(BUILD)/units/$(1)$(2).cc))),$(patsubst %,"%",$(3)))
.PHONY: $(BUILD)/units/$(1)$(2).cc
endif
$(BUILD)/units/$(1)$(2).cc:
	@mkdir -p $$(@D)
	@printf '#include "%s"\n' $(3) > $$@
endef
units = $(foreach folder,$(call rooms,$(1)),$(eval $(call unit,$(folder),$(2),$(strip \
    $(foreach source,$(filter-out $(SIMD_SOURCES),$(1)),$(if $(filter $(folder),$(call room,$(source))),$(source)))))))
ifneq ($(UNITY),no)
$(call units,$(LIBRARY_SOURCES) $(TOOL_SOURCES),unit)
$(call units,$(TEST_SOURCES),tests)
endif
TEST_OBJECTS := $(call objects,$(TEST_SOURCES),tests)
$(TEST_OBJECTS): OBJECT_FLAGS := $(LIGHTEST_CXXFLAGS)
$(filter-out $(BUILD)/objects/models/text/%,$(call objects,$(call sources,models) $(TOOL_SOURCES) tools/crosstalk.cc,unit)) \
    $(filter $(patsubst %,$(BUILD)/objects/tests/%,kernels/% autograd/% nn/%),$(TEST_OBJECTS)): \
    OBJECT_FLAGS := $(LIGHT_CXXFLAGS)

# Objects depend on the flags they were compiled with: the file is rewritten where it differs.
COMPILE := $(strip $(CXX) $(REQUIRED_CPPFLAGS) $(CPPFLAGS) $(REQUIRED_CXXFLAGS) $(CXXFLAGS))
ifneq ($(file < $(BUILD)/flags),$(COMPILE))
.PHONY: $(BUILD)/flags
endif
$(BUILD)/flags:
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(COMPILE))' > $@

define layer_archive
$(call archive,$(1)): $(call objects,$(call sources,$(1)),unit)
	@mkdir -p $$(@D)
	@rm -f $$@
	@ar rcs $$@ $$^
endef
$(foreach layer,$(FOLDERS),$(eval $(call layer_archive,$(layer))))
$(eval $(BUILD)/lib/libtestsupport.a: $(call object,$(TEST_SUPPORT_SOURCES)))
$(eval $(call archive,tools): $(call objects,$(TOOL_SOURCES),unit))
$(BUILD)/lib/libtestsupport.a $(call archive,tools):
	@mkdir -p $(@D)
	@rm -f $@
	@ar rcs $@ $^

$(COMMAND): $(call object,tools/crosstalk.cc) $(call archives_for,tools)
	@echo "  link $@"
	@$(CXX) $(REQUIRED_LDFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

# The tests of a folder are one program, linked with the folder's layer and those below it, and with nothing above. By
# the name of one of its sources, build/tests/FOLDER/…/NAME_test, it runs that source's tests alone.
define test_program  # $(1): tests/FOLDER/…/
$(BUILD)/$(1)all_tests: $(call objects,$(foreach source,$(TEST_SOURCES),$(if $(filter $(1),$(dir \
    $(source))),$(source))),tests) $(BUILD)/lib/libtestsupport.a $(if $(filter tests/course/,$(1)),$(call archive,course)) \
    $(call archives_for,$(or $(filter $(FOLDERS),$(word 2,$(subst /, ,$(1)))),tools))
	@mkdir -p $$(@D)
	@echo "  link $$@"
	@$(CXX) $(REQUIRED_LDFLAGS) $(LDFLAGS) $$^ $(TEST_LDLIBS) $(LDLIBS) -o $$@
endef
$(foreach folder,$(sort $(dir $(TEST_SOURCES))),$(eval $(call test_program,$(folder))))
$(foreach test,$(TESTS),$(eval $(test): $(dir $(test))all_tests))
$(TESTS):
	@ln -sfn all_tests $@

# A static pattern: objects that only an implicit rule names are deleted after the link.
$(EXAMPLES): $(BUILD)/examples/%: $(BUILD)/objects/examples/%.o $(call archives_for,models)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CXX) $(REQUIRED_LDFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

# A program in C is built as a host builds it: with the C compiler beside $(CXX), the one header and the shared library.
C_COMPILER := $(if $(findstring g++,$(CXX)),$(subst g++,gcc,$(subst clang++,clang,$(CXX))),gcc)
$(C_EXAMPLES): $(BUILD)/examples/%: examples/%.c models/bindings/c/crosstalk.h $(BUILD)/lib/libcrosstalk.so $(BUILD)/include/crosstalk.h
	@mkdir -p $(@D)
	@echo "  compile $<"
	@$(C_COMPILER) -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 $(if $(SANITIZE),-fsanitize=$(SANITIZE)) \
	  -I$(BUILD)/include $< -L$(BUILD)/lib -lcrosstalk '-Wl,-rpath,$$ORIGIN/../lib' -o $@

-include $(patsubst %.o,%.d,$(call objects,$(LIBRARY_SOURCES) $(TOOL_SOURCES),unit) \
    $(TEST_OBJECTS) $(call object,$(TEST_SUPPORT_SOURCES) tools/crosstalk.cc $(wildcard tests/faults/*.cc) tests/mutants/mutants.cc \
    $(EXAMPLE_SOURCES)))

include tools/make/course.mk
include tools/make/targets.mk
include tools/packaging/packaging.mk
include tools/make/mpi.mk
include tools/make/attacks.mk
include tools/make/arm.mk

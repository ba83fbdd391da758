# The course, examples/course/: a student's exercises and their grades. Included by the Makefile.

# examples/course/checker checks a solution against the library.
COURSE_MAIN := examples/course/checker/main.cc
COURSE_SOURCES := $(filter-out $(COURSE_MAIN),$(wildcard examples/course/checker/*.cc))
COURSE_OBJECTS := $(call objects,$(COURSE_SOURCES),unit)
ifneq ($(UNITY),no)
$(call units,$(COURSE_SOURCES),unit)
endif
# They compute little.
$(COURSE_OBJECTS) $(call object,$(COURSE_MAIN) $(filter examples/course/%,$(EXAMPLE_SOURCES))): \
    OBJECT_FLAGS := $(LIGHTEST_CXXFLAGS)
$(call archive,course): $(COURSE_OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	@ar rcs $@ $^

# Solutions, stubs and slips as course_test.cc includes them.
COURSE_CASES := $(BUILD)/include/course/cases.inc
$(COURSE_CASES): examples/course/checker/write_cases.sh examples/course/checker/slips.txt $(wildcard examples/course/solutions/*.cc)
	@mkdir -p $(@D)
	@sh examples/course/checker/write_cases.sh > $@.tmp && mv $@.tmp $@
$(call objects,$(filter tests/course/%,$(TEST_SOURCES)),tests): | $(COURSE_CASES)

# A solution is compiled in half a second, and the standard library checks its indices; those of kernels, which are measured,
# run as fast as the compiler makes them. A function without its return is an error: it would crash. Where exercise.h is
# the first that a solution includes, g++ takes it as it was compiled before, except with other flags, as for kernels.
# It is compiled by way of a line that includes it, for g++ warns of a #pragma once in the file that it is given.
COURSE_HEADERS := $(BUILD)/course/headers
COURSE_HEADER := $(COURSE_HEADERS)/examples/course/checker/exercise.h.gch
COURSE_COMPILE := $(CXX) -I$(COURSE_HEADERS) $(REQUIRED_CPPFLAGS) $(CPPFLAGS) $(REQUIRED_CXXFLAGS) $(CXXFLAGS) \
    $(REQUIRED_LDFLAGS) -Wno-unused-parameter -Werror=return-type $(LIGHTEST_CXXFLAGS) -D_GLIBCXX_ASSERTIONS
$(COURSE_HEADER): examples/course/checker/exercise.h $(BUILD)/flags | $(INCLUDE_LINKS)
	@mkdir -p $(@D)
	@echo "  compile $<"
	@echo '#include "$<"' > $(@D)/line.h
	@$(COURSE_COMPILE) -x c++-header $(@D)/line.h -o $@
COURSE_KERNEL_FLAGS := -O3 -march=native -ffp-contract=fast -U_GLIBCXX_ASSERTIONS

# Checks solutions, each loaded as a shared object by a process that has the library's public names: hence all of them.
COURSE_GRADE := $(BUILD)/tests/course/grade
$(COURSE_GRADE): $(call object,$(COURSE_MAIN)) $(call archive,course) $(call archives_for,models) | $(COURSE_HEADER)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CXX) $(REQUIRED_LDFLAGS) $(LDFLAGS) -rdynamic $< -Wl,--whole-archive $(filter %.a,$^) -Wl,--no-whole-archive \
	  $(LDLIBS) -o $@

COURSE_ARGUMENTS = --compile $(call quoted,$(COURSE_COMPILE) -shared) --kernel-flags '$(COURSE_KERNEL_FLAGS)' \
    --work $(BUILD)/course/work --stubs examples/course/exercises --hide examples/course/solutions
# A student's own results stand beside those of a class.
COURSE_RESULT := $(BUILD)/course/$(if $(filter SUBMISSION,$(GIVEN)),grade,own)
COURSE_RESULTS = --json $(COURSE_RESULT).json --table $(COURSE_RESULT).txt $(if $(COURSE_N),--chapters '$(COURSE_N)')

COURSE_EXERCISES := $(subst _,.,$(patsubst examples/course/exercises/%.cc,%,$(sort $(wildcard examples/course/exercises/*.cc))))
COURSE_N := $(if $(filter N,$(GIVEN)),$(N))
ifneq ($(filter exercise,$(GOALS)),)
ifneq ($(words $(COURSE_N)).$(words $(filter $(COURSE_EXERCISES),$(COURSE_N))),1.1)
$(error make exercise: N='$(COURSE_N)' is none of the exercises $(COURSE_EXERCISES); examples/course/README.md has them)
endif
endif
ifneq ($(filter grade,$(GOALS)),)
ifneq ($(COURSE_N),)
ifneq ($(shell printf '%s\n' '$(subst ','\'',$(COURSE_N))' | grep -cx '[1-8]\(,[1-8]\)*'),1)
$(error make grade: N='$(COURSE_N)' must be chapters, as N=3 or N=3,5)
endif
endif
endif
# A student's files: exercises/, or those of the folder that SUBMISSION names.
COURSE_FOLDER := $(or $(if $(filter SUBMISSION,$(GIVEN)),$(patsubst %/,%,$(SUBMISSION))),exercises)
COURSE_STUB := examples/course/exercises/$(subst .,_,$(COURSE_N)).cc
COURSE_FILE := $(COURSE_FOLDER)/$(notdir $(COURSE_STUB))

.PHONY: exercise
exercise: $(COURSE_GRADE) $(COURSE_HEADER)  ## check a solution of the course: N=5.2 checks exercises/5_2.cc, and puts the stub there first
	@mkdir -p $(call quoted,$(COURSE_FOLDER))
	@[ -e $(call quoted,$(COURSE_FILE)) ] || { cp $(COURSE_STUB) $(call quoted,$(COURSE_FILE)) && \
	  echo $(call quoted,$(COURSE_FILE) is yours and says what is asked: write it and make exercise N=$(COURSE_N) again); }
	@$(COURSE_GRADE) $(COURSE_ARGUMENTS) --exercise $(COURSE_N) $(call quoted,$(COURSE_FOLDER))

.PHONY: grade
grade: $(COURSE_GRADE) $(COURSE_HEADER)  ## points of all solutions in exercises/, or of many students: SUBMISSION=FOLDER of folders; N=3,5: chapters
	@$(COURSE_GRADE) $(COURSE_ARGUMENTS) $(COURSE_RESULTS) $(if $(filter SUBMISSION,$(GIVEN)),--students )$(call quoted,$(COURSE_FOLDER))

everything: $(COURSE_GRADE) $(COURSE_HEADER)
-include $(patsubst %.o,%.d,$(COURSE_OBJECTS) $(call object,$(COURSE_MAIN))) $(COURSE_HEADER:.gch=.d)

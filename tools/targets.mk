# What `make` can do beside building: train, test, check, install. Included by the Makefile.

# ---- Using it ----------------------------------------------------------------------------------------------------
# make train DATA=novels/ HEADS=16: each variable becomes an option of the command; ARGS takes any other.
OPTION_NAMES := DATA VALIDATION ATTENTION HEADS STEPS D_MODEL LAYERS BATCH SEED SEEDS THREADS TOKENIZER OUT \
    CHECKPOINT RUN FILTER N REPETITIONS
option_of = --$(subst _,-,$(shell echo '$(1)' | tr A-Z a-z))
quoted = '$(subst ','\'',$(1))'
options = $(foreach name,$(filter $(1),$(OPTION_NAMES)),$(if $($(name)),$(call option_of,$(name)) $(call quoted,$($(name)))))
TRAIN_OPTIONS = $(call options,DATA VALIDATION ATTENTION HEADS STEPS D_MODEL LAYERS BATCH SEED THREADS TOKENIZER OUT)
EVAL_OPTIONS = $(call options,RUN DATA CHECKPOINT BATCH THREADS)
COMPARE_OPTIONS = $(call options,DATA VALIDATION HEADS STEPS D_MODEL LAYERS BATCH SEEDS THREADS TOKENIZER OUT)

# A variable that the target would not look at is a mistake, not something to drop.
comma := ,
refuse = $(foreach name,$(1),$(if $(filter command,$(firstword $(origin $(name)))),$(error make $@ takes no $(name)$(2))))

.PHONY: train
train: $(COMMAND)  ## train a model: DATA= VALIDATION= ATTENTION= HEADS= STEPS= D_MODEL= LAYERS= BATCH= SEED= THREADS= TOKENIZER= OUT= ARGS=
	$(call refuse,SEEDS RUN FILTER)
	@$(COMMAND) train $(TRAIN_OPTIONS) $(ARGS)

.PHONY: eval
eval: $(COMMAND)  ## held-out ln(PPL) of a run: RUN= [DATA= CHECKPOINT= BATCH= THREADS= ARGS=]
	$(call refuse,ATTENTION HEADS STEPS D_MODEL LAYERS SEED SEEDS TOKENIZER OUT VALIDATION,: the run says it)
	@$(COMMAND) eval $(EVAL_OPTIONS) $(ARGS)

.PHONY: compare
compare: $(COMMAND)  ## train the four kinds of attention alike, print the table: SEEDS=1,2,3 and those of train but ATTENTION, SEED
	$(call refuse,ATTENTION SEED,: SEEDS=1$(comma)2 and ARGS="--kinds talking$(comma)dynamic" say what to train)
	@$(COMMAND) compare $(COMPARE_OPTIONS) $(ARGS)

# ---- Measuring it ------------------------------------------------------------------------------------------------
BENCH_OPTIONS = $(call options,BATCH N THREADS REPETITIONS)

.PHONY: bench
bench: $(COMMAND)  ## speed and memory beside the machine's limit, into build/bench.json: FILTER= BATCH= N= THREADS= REPETITIONS= ARGS=
	@env -u OPENBLAS_CORETYPE $(COMMAND) bench $(call options,FILTER) $(BENCH_OPTIONS) --json $(BUILD)/bench.json $(ARGS)

.PHONY: bench-scaling
bench-scaling: $(COMMAND)  ## speed against threads and against n, what an operation and a byte cost: BATCH= N= THREADS= REPETITIONS= ARGS=
	$(call refuse,FILTER,: it measures one layer)
	@env -u OPENBLAS_CORETYPE $(COMMAND) bench --scaling $(BENCH_OPTIONS) --json $(BUILD)/bench-scaling.json $(ARGS)

# ---- Checking it -------------------------------------------------------------------------------------------------
TEST_JOBS ?= 2

.PHONY: test
test: $(COMMAND) $(EXAMPLES) $(TESTS) $(BUILD)/lib/libcrosstalk.a $(BUILD)/lib/libcrosstalk.so  ## build and run every test
	@sh tests/run.sh $(BUILD) $(TEST_JOBS)

.PHONY: layers
layers:  ## check that every include points up the list of layers
	@sh tools/check_layers.sh

HEADERS := $(shell find $(FOLDERS) tools tests/support -name '*.h' 2>/dev/null | sort)
HEADER_CHECKS := $(patsubst %.h,$(BUILD)/headers/%.ok,$(HEADERS))
$(BUILD)/headers/%.ok: %.h $(BUILD)/flags | $(INCLUDE_LINKS)
	@mkdir -p $(@D)
	@echo '#include "$<"' | $(CXX) $(CPPFLAGS) -MF $(@:.ok=.d) -MT $@ $(REQUIRED_CXXFLAGS) -Wno-unused-function \
	  -x c++ -fsyntax-only -
	@touch $@
-include $(HEADER_CHECKS:.ok=.d)

.PHONY: headers
headers: $(HEADER_CHECKS)  ## check that every header compiles alone
	@echo "headers: $(words $(HEADERS)) compile alone"

FORMATTED := $(shell find $(FOLDERS) tools tests examples -name '*.h' -o -name '*.cc' 2>/dev/null | sort)

.PHONY: format
format:  ## rewrite every source in the project's format
	clang-format -i $(FORMATTED)

.PHONY: format-check
format-check:  ## check the format of every source
	@clang-format --dry-run -Werror $(FORMATTED) && echo "format: $(words $(FORMATTED)) files"

# ---- Installing it -----------------------------------------------------------------------------------------------
LIBRARY_OBJECTS := $(call object,$(LIBRARY_SOURCES))
$(BUILD)/lib/libcrosstalk.a: $(LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	@ar rcs $@ $^

SONAME := libcrosstalk.so.$(firstword $(subst ., ,$(VERSION)))
$(BUILD)/lib/libcrosstalk.so: $(LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CXX) -shared -Wl,-soname,$(SONAME) $(LDFLAGS) $^ $(LDLIBS) -o $@

# Installed headers keep their paths, under include/crosstalk: -Iinclude/crosstalk, then "models/t5/t5.h".
PUBLIC_HEADERS := $(filter-out %-inl.h,$(filter-out tools/% tests/%,$(HEADERS)))
INSTALL_ROOT := $(DESTDIR)$(PREFIX)

.PHONY: install
install: $(COMMAND) $(BUILD)/lib/libcrosstalk.a $(BUILD)/lib/libcrosstalk.so  ## install: PREFIX=/usr/local DESTDIR=
	@install -d '$(INSTALL_ROOT)/bin' '$(INSTALL_ROOT)/lib/pkgconfig'
	@install -m 755 $(COMMAND) '$(INSTALL_ROOT)/bin/crosstalk'
	@install -m 644 $(BUILD)/lib/libcrosstalk.a '$(INSTALL_ROOT)/lib/'
	@install -m 755 $(BUILD)/lib/libcrosstalk.so '$(INSTALL_ROOT)/lib/libcrosstalk.so.$(VERSION)'
	@ln -sf libcrosstalk.so.$(VERSION) '$(INSTALL_ROOT)/lib/$(SONAME)'
	@ln -sf $(SONAME) '$(INSTALL_ROOT)/lib/libcrosstalk.so'
	@for header in $(PUBLIC_HEADERS); do \
	  install -D -m 644 $$header '$(INSTALL_ROOT)/include/crosstalk/'$$header || exit 1; \
	done
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(LDLIBS)|' tools/crosstalk.pc.in \
	  > '$(INSTALL_ROOT)/lib/pkgconfig/crosstalk.pc'
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@echo "installed under $(INSTALL_ROOT)"

.PHONY: uninstall
uninstall:  ## remove what `make install` put under DESTDIR PREFIX
	@rm -rf '$(INSTALL_ROOT)/include/crosstalk'
	@rm -f '$(INSTALL_ROOT)/bin/crosstalk' '$(INSTALL_ROOT)/lib/pkgconfig/crosstalk.pc' \
	  '$(INSTALL_ROOT)'/lib/libcrosstalk.a '$(INSTALL_ROOT)'/lib/libcrosstalk.so*

# ---- This list ---------------------------------------------------------------------------------------------------
.PHONY: help
help:  ## this list
	@echo "make TARGET [VARIABLE=value …]"
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  \1|\2/p' Makefile tools/targets.mk | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'
	@echo "Variables:"
	@echo "  BUILD=build      where to build            CXX=g++  CXXFLAGS='-O2 -g1'  SANITIZE=address,undefined"
	@echo "  JOBS=processors  parallel compilations     CROSSTALK_DATA=FOLDER  real data for the tests that use some"
	@echo "  TEST_JOBS=2      test programs at a time"
	@echo "  ARGS=\"…\"         any option of the command: build/crosstalk train --help lists them"

.PHONY: clean
clean:  ## delete what was built (runs/ is yours and stays)
	rm -rf $(BUILD)

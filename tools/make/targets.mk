# Goals of `make` besides building: train, test, check, install. Included by the Makefile.

# ---- Using it ----------------------------------------------------------------------------------------------------
# make train DATA=novels/ HEADS=16: each variable that is not make's own becomes an option of the command, which says
# what options it has; ARGS takes options as they are. Only make's command line counts, not the environment.
option_of = --$(subst _,-,$(shell echo '$(1)' | tr A-Z a-z))
quoted = '$(subst ','\'',$(1))'
options = $(foreach name,$(COMMAND_VARIABLES),$(call option_of,$(name)) $(call quoted,$($(name))))
args = $(if $(filter ARGS,$(GIVEN)),$(ARGS))
check_options = $(call check_variables,$@,$(COMMAND_VARIABLES), ARGS) $(COMMAND) $(1)

# NP=2: as ranks on this machine. Open MPI needs the environment as root and in containers; ranks share the
# processors by themselves.
NEEDED_BY_RANKS := $(if $(filter NP,$(GIVEN)),$(BUILD)/lib/libcrosstalk_mpi.so)
LAUNCH := $(if $(filter NP,$(GIVEN)),env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_btl_vader_single_copy_mechanism=none mpirun --oversubscribe --bind-to none -np $(call quoted,$(NP)) )$(COMMAND)

.PHONY: demo
demo: $(COMMAND)  ## the first three minutes: what talking-heads gain, write and say to each other: [OUT= STEPS= SEED=]
	@$(call check_options,demo)
	@$(COMMAND) demo $(options) $(args)

.PHONY: train
train: $(COMMAND) $(NEEDED_BY_RANKS)  ## train a model: DATA= ATTENTION= HEADS= STEPS= D_MODEL= LAYERS= LEARNING_RATE= OUT= and every other option
	@$(call check_options,train)
	@$(LAUNCH) train $(options) $(args)

.PHONY: eval
eval: $(COMMAND) $(NEEDED_BY_RANKS)  ## held-out ln(PPL) of a run: RUN= [DATA= CHECKPOINT= …]
	@$(call check_options,eval)
	@$(LAUNCH) eval $(options) $(args)

.PHONY: generate
generate: $(COMMAND)  ## let a run's model write: RUN= [TEXT= MAX_LENGTH= TEMPERATURE= BEAMS= SEED= …]
	@$(call check_options,generate)
	@$(COMMAND) generate $(options) $(args)

.PHONY: finetune
finetune: $(COMMAND) $(NEEDED_BY_RANKS)  ## go on with a model on tasks: FROM= TASK= TASK_DATA= [EPOCHS= LEARNING_RATE= SEEDS= OUT= …]
	@$(call check_options,finetune)
	@$(LAUNCH) finetune $(options) $(args)

.PHONY: compare
compare: $(COMMAND)  ## train the four kinds of attention, or VARY=FIELD=a,b, alike and print the table: SEEDS=1,2,3 …
	@$(call check_options,compare)
	@$(COMMAND) compare $(options) $(args)

.PHONY: reproduce
reproduce: $(COMMAND) $(NEEDED_BY_RANKS)  ## a table of the paper beside ours, or one of ours: TABLE=heads, 1 … 10 or all, SCALE=smoke|small|medium|paper SEEDS= DATA= OUT=
	@$(call check_options,reproduce)
	@$(LAUNCH) reproduce $(options) $(args)

# ---- Measuring it ------------------------------------------------------------------------------------------------
.PHONY: bench
bench: $(COMMAND)  ## speed and memory beside the machine's limit, into build/bench.json: FILTER= BATCH= N= THREADS= …
	@$(call check_options,bench)
	@env -u OPENBLAS_CORETYPE $(COMMAND) bench --json $(BUILD)/bench.json $(options) $(args)

.PHONY: trace
trace: $(COMMAND)  ## what the time of a training step goes to, by operation and thread: OUT=trace.html and the options of train
	@$(call check_options,trace)
	@$(COMMAND) trace $(options) $(args)

.PHONY: simulate
simulate: $(COMMAND)  ## how a run would scale over ranks and networks, from a measured step: SHARDS= RANKS= NETWORK= OUT= …
	@$(call check_options,simulate)
	@$(COMMAND) simulate $(options) $(args)

.PHONY: bench-scaling
bench-scaling: $(COMMAND)  ## speed against threads and against n, what an operation and a byte cost: BATCH= N= THREADS= …
	@$(call check_options,bench)
	@env -u OPENBLAS_CORETYPE $(COMMAND) bench --scaling --json $(BUILD)/bench-scaling.json $(options) $(args)

# ---- Checking it -------------------------------------------------------------------------------------------------
# Programs that the tests of a folder run besides their own.
test_needs = $(if $(filter bits/% tools/% sessions/% faults/%,$(1)),$(COMMAND)) \
    $(if $(filter sessions/examples,$(1)),$(EXAMPLES) $(C_EXAMPLES)) \
    $(if $(filter bits/% $(addprefix sessions/,install cmake python),$(1)),$(LIBRARIES)) \
    $(if $(filter $(addprefix sessions/,install cmake python),$(1)),$(BUILD)/share/made) \
    $(if $(filter faults/%,$(1)),$(FAULTS)) \
    $(if $(filter course/% sessions/course,$(1)),$(filter $(BUILD)/examples/course/%,$(EXAMPLES)) $(COURSE_GRADE))
TEST_NAMES := $(TESTS:$(BUILD)/tests/%=%)
ifneq ($(and $(filter ONLY,$(GIVEN)),$(filter test,$(GOALS))),)
tests_named = $(strip $(foreach test,$(TEST_NAMES),$(if $(findstring $(1),$(test)),$(test))))
NAMELESS := $(strip $(foreach part,$(ONLY),$(if $(call tests_named,$(part)),,$(part))))
ifneq ($(NAMELESS)$(if $(strip $(ONLY)),,none),)
$(error make test: ONLY='$(or $(NAMELESS),$(ONLY))' is in the name of no test, such as kernels/softmax_test)
endif
CHOSEN_TESTS := $(sort $(foreach part,$(ONLY),$(call tests_named,$(part))))
else
CHOSEN_TESTS := $(TEST_NAMES)
endif

# Folders of tests, "models/tasks/". A file "passed" that is newer than the file "changed" beside it says that nothing of
# one has changed since it passed.
TEST_FOLDERS := $(sort $(dir $(TEST_NAMES)))

.PHONY: test
test: $(CHOSEN_TESTS:%=$(BUILD)/tests/%) $(call test_needs,$(CHOSEN_TESTS))  ## build and run every test, or those with ONLY="kernels/softmax …" in their names
	@sh tests/run.sh $(BUILD) $(TEST_JOBS) $(CHOSEN_TESTS)
	@$(if $(filter ONLY,$(GIVEN)),,touch $(TEST_FOLDERS:%=$(BUILD)/tests/%changed) && touch $(TEST_FOLDERS:%=$(BUILD)/tests/%passed))

# The folder whose tests are a source folder's: its own, or that of a folder above.
tests_of = $(if $(filter $(1),$(TEST_FOLDERS)),$(1),$(if $(findstring /,$(patsubst %/,%,$(1))),$(call \
    tests_of,$(dir $(patsubst %/,%,$(1))))))
QUICK_SOURCES := $(LIBRARY_SOURCES) $(TOOL_SOURCES)
define quick_folder  # $(1): folder of tests, $(2): sources that it tests
$(BUILD)/tests/$(1)changed: $(call objects,$(foreach source,$(TEST_SOURCES),$(if $(filter tests/$(1),$(dir \
    $(source))),$(source))),tests) $(call objects,$(2),unit) \
    $(if $(filter sessions/,$(1)),$(SESSIONS) $(call objects,$(TOOL_SOURCES),unit))
	@mkdir -p $$(@D)
	@touch $$@
endef
ifneq ($(filter quick,$(GOALS)),)
$(foreach folder,$(TEST_FOLDERS),$(eval $(call quick_folder,$(folder),$(strip $(foreach \
    source,$(QUICK_SOURCES),$(if $(filter $(folder),$(call tests_of,$(dir $(source)))),$(source)))))))
endif
.PHONY: quick
quick: $(TEST_FOLDERS:%=$(BUILD)/tests/%changed)  ## build and run the tests of the folders in which something changed since they passed
	@stale=; for folder in $(TEST_FOLDERS); do \
	  [ $(BUILD)/tests/$${folder}passed -nt $(BUILD)/tests/$${folder}changed ] || stale="$$stale $$folder"; \
	done; \
	if [ -z "$$stale" ]; then echo "nothing changed since all tests passed"; \
	else QUICK_FOLDERS="$$stale" $(MAKE) --no-print-directory quick-folders; fi
QUICK_TESTS := $(foreach test,$(TEST_NAMES),$(if $(filter $(QUICK_FOLDERS),$(dir $(test))),$(test)))
.PHONY: quick-folders
quick-folders: $(QUICK_TESTS:%=$(BUILD)/tests/%) $(call test_needs,$(QUICK_TESTS))
	@sh tests/run.sh $(BUILD) $(TEST_JOBS) $(QUICK_TESTS)
	@touch $(QUICK_FOLDERS:%=$(BUILD)/tests/%passed)

.PHONY: examples
examples: $(EXAMPLES) $(C_EXAMPLES)  ## build the examples, which examples/README.md lists in reading order, into build/examples
	@echo "$(words $(EXAMPLES) $(C_EXAMPLES)) programs in $(BUILD)/examples"

# After a change of bits that is meant: the file's difference is then part of the change.
PUBLISHED_BITS := $(BUILD)/tests/bits/bits_test
.PHONY: published-bits
published-bits: $(PUBLISHED_BITS) $(COMMAND) $(LIBRARIES)  ## rewrite tests/bits/published_bits.txt, after an intended change of bits
	@CROSSTALK_SOURCE='$(CURDIR)' CROSSTALK_BUILD='$(abspath $(BUILD))' CROSSTALK_BITS=publish $(PUBLISHED_BITS) --gtest_brief=1

# Everything that is printed and written of fixtures, the symbols, and the bits: a change that means none shows none.
.PHONY: sessions-accept
sessions-accept:  ## take what the commands of tests/sessions print, or of [ONLY=sessions/train …], after an intended change
	@CROSSTALK_ACCEPT_SESSIONS=1 $(MAKE) --no-print-directory test ONLY='$(or $(if $(filter ONLY,$(GIVEN)),$(ONLY)),sessions/)'
.PHONY: net net-accept
net: $(COMMAND) $(BUILD)/lib/libcrosstalk.so  ## check in half a minute that outputs, files, symbols and bits are as before
	@sh tests/net/net.sh $(BUILD)
	@$(MAKE) --no-print-directory test ONLY='bits/ sessions/continue training/ranks/'
net-accept: $(COMMAND) $(BUILD)/lib/libcrosstalk.so  ## take the outputs of now as tests/net/expected.sha256, after an intended change
	@sh tests/net/net.sh $(BUILD) --accept

# Pages as a reader has them. The pictures are for looking at.
BROWSER_TEST := $(BUILD)/tests/tools/page/report_browser_test
.PHONY: test-browser
test-browser: $(COMMAND) $(BROWSER_TEST)  ## open the pages of a report in headless Chromium; screenshots in build/screenshots
	@rm -rf $(BUILD)/screenshots
	@CROSSTALK_BINARY='$(abspath $(COMMAND))' CROSSTALK_BROWSER=1 CROSSTALK_SCREENSHOTS='$(abspath $(BUILD)/screenshots)' \
	  OMP_WAIT_POLICY=passive $(BROWSER_TEST) --gtest_brief=1
	@echo "look at $(BUILD)/screenshots"

.PHONY: layers
layers:  ## check that every include points up the list of layers
	@sh tools/make/check_layers.sh

.PHONY: graph
graph:  ## draw the includes between the rooms of models/ and of tools/ into docs/images
	@for top in models tools; do sh tools/make/draw_layers.sh $$top > docs/images/$$top.svg; done

# Each source alone, as UNITY=no compiles it, but without code; it includes its own header first, which then compiles
# alone too. The kernels of SIMD are compiled so anyway. The other headers are checked by themselves.
ifneq ($(filter headers,$(GOALS)),)
ALL_HEADERS := $(shell find $(FOLDERS) tools tests/support -name '*.h' | sort)
HEADERS := $(filter-out $(shell sh tools/packaging/headers_of_sources.sh $(FOLDERS) tools tests/support),$(ALL_HEADERS))
LONE_SOURCES := $(filter-out $(SIMD_SOURCES),$(LIBRARY_SOURCES) $(TOOL_SOURCES))
HEADER_CHECKS := $(patsubst %,$(BUILD)/headers/%.ok,$(HEADERS) $(LONE_SOURCES))
-include $(HEADER_CHECKS:.ok=.d)
endif
$(BUILD)/headers/%.ok: % $(BUILD)/flags | $(INCLUDE_LINKS) $(EMBEDDED)
	@mkdir -p $(@D)
	@echo '#include "$<"' | $(COMPILE) -MF $(@:.ok=.d) -MT $@ -Wno-unused-function -x c++ -fsyntax-only -
	@touch $@

.PHONY: headers
headers: $(HEADER_CHECKS)  ## check that every source and every header compiles alone
	@echo "headers: $(words $(LONE_SOURCES)) sources and $(words $(ALL_HEADERS)) headers compile alone"

.PHONY: english
english:  ## check pages, comments, help and messages for the phrases that docs/style.md bans
	@sh tools/make/check_english.sh

.PHONY: docs-check
docs-check: $(COMMAND)  ## check that README.md and docs/ name only existing headers, files, options, goals and commands
	@sh tools/make/check_docs.sh $(COMMAND)

FORMATTED := $(shell find $(FOLDERS) tools tests examples -name '*.h' -o -name '*.cc' -o -name '*.c' 2>/dev/null | sort)

.PHONY: format
format:  ## rewrite every source in the project's format
	clang-format -i $(FORMATTED)

.PHONY: format-check
format-check:  ## check the format of every source
	@clang-format --dry-run -Werror $(FORMATTED) && echo "format: $(words $(FORMATTED)) files"

# ---- Installing it -----------------------------------------------------------------------------------------------
LIBRARY_OBJECTS := $(call objects,$(LIBRARY_SOURCES),unit)
$(BUILD)/lib/libcrosstalk.a: $(LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	@ar rcs $@ $^

# A change of this number says that programs must be compiled again (docs/embedding.md): before 1.0 the minor one does.
version_part = $(word $(1),$(subst ., ,$(VERSION)))
SONAME := libcrosstalk.so.$(call version_part,1)$(if $(filter 0,$(call version_part,1)),.$(call version_part,2))
link_library = $(CXX) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=tools/packaging/exports.map $(REQUIRED_LDFLAGS) \
    $(LDFLAGS) $(1) $(LIBRARY_OBJECTS) $(LDLIBS) -o $@
$(BUILD)/lib/libcrosstalk.so: $(LIBRARY_OBJECTS) tools/packaging/exports.map
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(call link_library)
	@ln -sf $(@F) $(@D)/$(SONAME)  # for programs that run from here

# Installed as <crosstalk/nn/module.h>; models/crosstalk.h, which includes them all, as <crosstalk/crosstalk.h>; that of C,
# models/bindings/c/crosstalk.h, as <crosstalk.h>. The Python package where Debian's interpreter looks.
PUBLIC_HEADERS = $(or $(shell sh tools/make/public_headers.sh),$(error the list of public headers is empty))
INSTALL_ROOT := $(DESTDIR)$(PREFIX)
root = '$(subst ','\'',$(INSTALL_ROOT))'
libroot = '$(subst ','\'',$(INSTALL_ROOT)/$(LIBDIR))'
# The templates *.in of what names the installed files. PROMISED: how a version that this one satisfies begins.
EMPTY :=
UP := $(subst $(EMPTY) ,/,$(patsubst %,..,$(subst /, ,$(LIBDIR)) cmake crosstalk))
PROMISED := $(call version_part,1)[.]$(if $(filter 0,$(call version_part,1)),$(call version_part,2)[.])
STATIC_LIBS := $(LDLIBS) -lgomp
fill_in = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@UP@|$(UP)|' \
    -e 's|@SONAME@|$(SONAME)|' -e 's|@PROMISED@|$(PROMISED)|' -e 's|@LIBS@|$(1)|'
PYTHON_PACKAGE := lib/python3/dist-packages/crosstalk

.PHONY: install
install: $(COMMAND) $(BUILD)/lib/libcrosstalk.a $(BUILD)/lib/libcrosstalk.so $(BUILD)/share/made  ## install: PREFIX=/usr/local LIBDIR=lib DESTDIR=
	@case '$(subst ','\'',$(PREFIX))' in /*) ;; *) echo "make install: PREFIX=FOLDER must begin with /" >&2; exit 1 ;; esac
	@case '/$(subst ','\'',$(LIBDIR))/' in \
	  *[!A-Za-z0-9_./-]*|*//*|*/./*|*/../*) echo "make install: LIBDIR must be a folder below PREFIX, such as lib64" >&2; exit 1 ;; \
	esac
	@{ mkdir -p $(root) && [ -w $(root) ]; } 2>/dev/null || \
	  { echo "make install: cannot write to "$(root)"; be root, or say PREFIX=FOLDER or DESTDIR=FOLDER" >&2; exit 1; }
	@install -d $(root)/bin $(libroot)/pkgconfig $(libroot)/cmake/crosstalk $(root)/share/doc/crosstalk
	@install -m 755 $(COMMAND) $(root)/bin/crosstalk
	@install -m 644 $(BUILD)/lib/libcrosstalk.a $(libroot)/
	@install -m 755 $(BUILD)/lib/libcrosstalk.so $(libroot)/libcrosstalk.so.$(VERSION)
	@ln -sf libcrosstalk.so.$(VERSION) $(libroot)/$(SONAME)
	@ln -sf $(SONAME) $(libroot)/libcrosstalk.so
	@rm -rf $(root)/lib/crosstalk
	@if [ -e $(MPI_PLUGIN) ]; then install -D -m 755 $(MPI_PLUGIN) $(root)/lib/crosstalk/$(notdir $(MPI_PLUGIN)); fi
	@rm -rf $(root)/include/crosstalk
	@install -d $(root)/include/crosstalk
	@for header in $(PUBLIC_HEADERS); do \
	  install -D -m 644 $$header $(root)/include/crosstalk/"$${header#models/crosstalk.h}" || exit 1; \
	done
	@install -m 644 models/bindings/c/crosstalk.h $(root)/include/crosstalk.h
	@rm -rf $(root)/$(PYTHON_PACKAGE)
	@install -d $(root)/$(PYTHON_PACKAGE)
	@install -m 644 models/bindings/python/crosstalk/*.py $(root)/$(PYTHON_PACKAGE)/
	@sed -i 's|^_LIBDIR = .*|_LIBDIR = "$(LIBDIR)"|' $(root)/$(PYTHON_PACKAGE)/_library.py
	@install -m 644 LICENSE $(root)/share/doc/crosstalk/
	@for file in $$(cd $(SHARE) && find . -type f ! -name made); do \
	  install -D -m 644 $(SHARE)/$$file $(root)/share/$$file || exit 1; \
	done
	@$(call fill_in,$(STATIC_LIBS)) tools/packaging/crosstalk.pc.in > $(libroot)/pkgconfig/crosstalk.pc
	@sed -e 's| -std=c++20||' -e 's|^Name: .*|Name: crosstalk-c|' $(libroot)/pkgconfig/crosstalk.pc $(libroot)/pkgconfig/crosstalk-c.pc \
	  > $(libroot)/pkgconfig/crosstalk-c.pc
	@for file in crosstalk-config crosstalk-config-version; do \
	  $(call fill_in,$(subst $(EMPTY) ,;,$(filter-out -lpthread,$(STATIC_LIBS)))) tools/packaging/cmake/$$file.cmake.in \
	    > $(libroot)/cmake/crosstalk/$$file.cmake || exit 1; \
	done
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@echo "installed under "$(root)

.PHONY: uninstall
uninstall:  ## remove what `make install` put under DESTDIR PREFIX
	@rm -rf $(root)/include/crosstalk $(root)/lib/crosstalk $(root)/share/doc/crosstalk $(root)/$(PYTHON_PACKAGE)
	@rm -rf $(libroot)/cmake/crosstalk
	@rm -f $(root)/include/crosstalk.h $(root)/bin/crosstalk $(libroot)/pkgconfig/crosstalk.pc $(libroot)/pkgconfig/crosstalk-c.pc \
	  $(libroot)/libcrosstalk.a $(libroot)/libcrosstalk.so*
	@cd $(root)/share 2>/dev/null && rm -f man/man1/crosstalk.1 man/man1/crosstalk-*.1 zsh/site-functions/_crosstalk \
	  bash-completion/completions/crosstalk fish/vendor_completions.d/crosstalk.fish || true

# ---- This list ---------------------------------------------------------------------------------------------------
.PHONY: help
help:  ## this list
	@echo "make TARGET [VARIABLE=value …]   (a variable that nothing reads is an error)"
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  \1|\2/p' Makefile tools/make/targets.mk tools/packaging/packaging.mk tools/make/mpi.mk tools/make/attacks.mk tools/make/arm.mk tools/make/course.mk | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'
	@echo "Variables:"
	@echo "  BUILD=build      where to build            CXX=g++  CXXFLAGS=-O2  CPPFLAGS=  LDFLAGS=  SANITIZE=address,undefined"
	@echo "  JOBS=processors  parallel compilations     CROSSTALK_DATA=FOLDER  real data for the tests that use some"
	@echo "  TEST_JOBS=2      test programs at a time   ONLY=kernels/softmax   tests of that name"
	@echo "  UNITY=no         compile each source by itself, not a folder's at once: to edit one for long"
	@echo "  LEARNING_RATE=…  train, eval, compare, bench: --learning-rate, and so every option that has a value;"
	@echo "  ARGS=\"…\"         or as the command takes them. build/crosstalk train --help lists them"

.PHONY: clean
clean:  ## delete what was built (runs/ is yours and stays)
	rm -rf $(BUILD)

# ---- Giving it away ----------------------------------------------------------------------------------------------
# The bytes depend on the commit, and on git and gzip: git writes the commit's time into the archive, and gzip none.
DIST := crosstalk-$(VERSION)
.PHONY: dist
dist:  ## the sources of the last commit as an archive, build/crosstalk-VERSION.tar.gz, and its .sha256
	@git ls-tree --name-only HEAD 2> /dev/null | grep -qx Makefile || { echo "make dist: this is no git clone" >&2; exit 1; }
	@mkdir -p $(BUILD)
	@git -c tar.umask=0022 -c tar.tar.gz.command='gzip -n -9' archive --format=tar.gz --prefix=$(DIST)/ \
	  -o $(BUILD)/$(DIST).tar.gz HEAD
	@cd $(BUILD) && sha256sum $(DIST).tar.gz | tee $(DIST).tar.gz.sha256

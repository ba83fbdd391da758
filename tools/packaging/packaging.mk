# Goals for packagers and other build systems. Included by the Makefile; docs/packaging.md is its manual.

# For tools/packaging/cmake/CMakeLists.txt: the soname, and what libcrosstalk.a is linked with.
.PHONY: cmake-values
cmake-values:
	@echo '$(SONAME);$(filter-out -lpthread,$(STATIC_LIBS))'

# ---- Manual and completion ---------------------------------------------------------------------------------------
# From the options of the command itself, for `make install`: below share/.
SHARE := $(BUILD)/share
$(SHARE)/made: $(COMMAND)
	@rm -rf $(SHARE)
	@mkdir -p $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
	  $(SHARE)/fish/vendor_completions.d
	@$(COMMAND) options --man > $(SHARE)/man/man1/crosstalk.1
	@for command in $$($(COMMAND) options | cut -d' ' -f1 | uniq); do \
	  $(COMMAND) options $$command --man > $(SHARE)/man/man1/crosstalk-$$command.1 || exit 1; \
	done
	@$(COMMAND) options --completion bash > $(SHARE)/bash-completion/completions/crosstalk
	@$(COMMAND) options --completion zsh > $(SHARE)/zsh/site-functions/_crosstalk
	@$(COMMAND) options --completion fish > $(SHARE)/fish/vendor_completions.d/crosstalk.fish
	@touch $@

.PHONY: share
share: $(SHARE)/made  ## write the manual's pages and the shells' completion into build/share

# ---- Debian packages ---------------------------------------------------------------------------------------------
SO := $(SONAME:libcrosstalk.so.%=%)
.PHONY: deb
deb: dist  ## Debian packages of the last commit, into build/deb
	@sh tools/packaging/build_deb.sh $(BUILD)/$(DIST).tar.gz $(VERSION) $(SO) $(BUILD)/deb
	@ls $(BUILD)/deb/*.deb

.PHONY: deb-check
deb-check: deb  ## the same again: lintian, equal when built twice, and at work on a fresh Debian 12
	@sh tools/packaging/check_deb.sh $(BUILD)/$(DIST).tar.gz $(VERSION) $(SO) $(BUILD)/deb

# ---- A wheel for Python -------------------------------------------------------------------------------------------
# An RPATH, unlike a RUNPATH, is also where the libraries beside it find theirs.
WHEEL := $(BUILD)/wheel
BESIDE_IT := '-Wl,--disable-new-dtags,-rpath,$$ORIGIN'
$(WHEEL)/libcrosstalk.so: $(LIBRARY_OBJECTS) tools/packaging/exports.map
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(call link_library,$(BESIDE_IT))

.PHONY: wheel
wheel: $(WHEEL)/libcrosstalk.so  ## a wheel for any CPython from 3.9 on of this architecture, into build/wheel
	@rm -f $(WHEEL)/*.whl
	@python3 tools/packaging/build_wheel.py $< $(VERSION) $(WHEEL)

# ---- The binary interface ----------------------------------------------------------------------------------------
# In a build of its own, whose -g says what types are. A record is kept for each soname.
ABI_RECORD := tests/install/abi/$(SONAME).xz
define abi
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-abi CXXFLAGS='-Og -g' $(BUILD)-abi/lib/libcrosstalk.so
	@sh tools/packaging/abi.sh $(1) $(BUILD)-abi/lib/libcrosstalk.so $(ABI_RECORD)
endef
.PHONY: abi abi-dump
abi:  ## check that programs linked with the last release of this soname run without being compiled again
	$(call abi,compare)
abi-dump:  ## rewrite tests/install/abi, at a release
	$(call abi,dump)

# 64-bit ARM from x86: the cross compiler, Debian's libraries for ARM, and an emulator for what is built. Included by the
# Makefile; group arm of packages.txt has the tools.

# The libraries among the packages of the groups build and test, with all that these need. They are unpacked, not
# installed, so that this machine's own packages stay as they are.
ARM_BUILD := $(BUILD)-arm
ARM_ROOT := $(ARM_BUILD)/root
ARM_PACKAGES := libgomp1 $(filter lib% %-dev,$(shell sed -n 's/^\(build\|test\)  *//p' packages.txt))
COMMA := ,
$(ARM_ROOT)/made: packages.txt
	@rm -rf $(ARM_ROOT)
	@mkdir -p $(@D)
	@echo "  unpack $(words $(ARM_PACKAGES)) packages of arm64 and what they need"
	@mmdebstrap --quiet --variant=extract --architectures=arm64 --include=$(subst $(EMPTY) ,$(COMMA),$(ARM_PACKAGES)) \
	  "$$(. /etc/os-release; echo "$$VERSION_CODENAME")" $(ARM_ROOT) \
	  $(firstword $(wildcard /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list))
	@find $(ARM_ROOT) -lname '/*' -exec sh -c 'ln -snf "$$0$$(readlink "$$1")" "$$1"' $(abspath $(ARM_ROOT)) {} \;
	@rm -rf $(ARM_ROOT)/dev $(ARM_ROOT)/etc $(ARM_ROOT)/tmp $(ARM_ROOT)/var  # the emulator looks for each path here first
	@touch $@
ARM_MAKE = $(MAKE) --no-print-directory BUILD=$(ARM_BUILD) CXX='aarch64-linux-gnu-g++ --sysroot=$(ARM_ROOT)'

# What starts programs of ARM, and a command that is started so.
EMULATOR := qemu-aarch64 -L $(abspath $(ARM_ROOT)) -E LD_LIBRARY_PATH=$(abspath $(ARM_ROOT))/usr/lib/aarch64-linux-gnu/openblas-pthread
ARM_COMMAND := $(ARM_BUILD)/emulated/crosstalk
$(ARM_COMMAND): tools/make/arm.mk
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec %s %s "$$@"\n' '$(EMULATOR)' '$(abspath $(ARM_BUILD))/crosstalk' > $@
	@chmod +x $@

.PHONY: arm
arm: $(ARM_ROOT)/made $(ARM_COMMAND)  ## build for 64-bit ARM on x86, into build-arm; build-arm/emulated/crosstalk runs there
	+@$(ARM_MAKE) $(ARM_BUILD)/crosstalk $(ARM_BUILD)/lib/libcrosstalk.so

# Kernels, the bits of every model, and runs that go from one architecture to the other, in a few minutes. ALL=1: every test
# but those that start the host's make, compilers, interpreters or emulators on what is built, attack it, need ranks of MPI,
# or start what the command prints of itself; that compare targets, of which ARM has one; or that reserve a terabyte, for
# which the emulator takes gigabytes itself.
ARM_CANNOT := sessions/abi sessions/cmake sessions/course sessions/english sessions/examples sessions/install sessions/make \
    sessions/python sessions/processors sessions/reproduce sessions/errors course/% faults/% fuzz/% mpi/% mutants/% \
    tools/page/report_browser_test kernels/target_bits_test runtime/shapes_only_test
ARM_CAN := $(filter-out $(ARM_CANNOT),$(TEST_NAMES))
ARM_TESTS := $(or $(if $(filter ONLY,$(GIVEN)),$(ONLY)),$(if $(filter ALL,$(GIVEN)),$(ARM_CAN)),$(filter kernels/% \
    bits/% models/bindings/c/%,$(ARM_CAN)))
.PHONY: test-arm
test-arm: $(ARM_ROOT)/made $(ARM_COMMAND) $(COMMAND)  ## build for 64-bit ARM and test it under emulation, in a few minutes; ALL=1, ONLY=
	+@CROSSTALK_EMULATOR='$(EMULATOR)' CROSSTALK_OTHER_COMMAND='$(abspath $(COMMAND))' \
	  $(if $(filter ONLY ALL,$(GIVEN)),,CROSSTALK_BITS=few) $(ARM_MAKE) test ONLY='$(ARM_TESTS)'

# The plug-in that the command loads where mpirun has started it, and its tests. Included by the Makefile.

MPI_PLUGIN := $(BUILD)/lib/libcrosstalk_mpi.so
# Asked of pkg-config when something needs them: the packages are installed only for these goals.
MPI_PACKAGE := ompi
MPI_CPPFLAGS = -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX $(shell pkg-config --cflags $(MPI_PACKAGE))
MPI_LDLIBS = $(shell pkg-config --libs $(MPI_PACKAGE))

.PHONY: mpi
mpi: $(MPI_PLUGIN)  ## build the plug-in for mpirun, build/lib/libcrosstalk_mpi.so

MPI_OBJECTS := $(call object,$(MPI_SOURCES))
$(MPI_OBJECTS): OBJECT_FLAGS = $(MPI_CPPFLAGS)
$(MPI_PLUGIN): $(MPI_OBJECTS)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CXX) -shared -Wl,--no-undefined $(filter -fsanitize=%,$(REQUIRED_LDFLAGS)) $(LDFLAGS) $^ \
	  $(MPI_LDLIBS) -lpthread -o $@

# It lies beside lib/, as the command does.
MPI_CHECK := $(BUILD)/mpi/transport_check
MPI_CHECK_OBJECTS := $(call object,tests/mpi/transport_check.cc)
$(MPI_CHECK): $(MPI_CHECK_OBJECTS) $(call archives_for,tools)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CXX) $(REQUIRED_LDFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

-include $(patsubst %.o,%.d,$(MPI_OBJECTS) $(MPI_CHECK_OBJECTS))

.PHONY: test-mpi
test-mpi: $(MPI_PLUGIN) $(MPI_CHECK) $(COMMAND) $(BUILD)/tests/sessions/mpi  ## run what needs MPI: messages between ranks, ranks that stop or die
	@CROSSTALK_MPI=1 sh tests/run.sh $(BUILD) 1 sessions/mpi

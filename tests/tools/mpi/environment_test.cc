// What the command knows of MPI without MPI: the launchers' variables, and the watch for silent ranks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "tools/cli/ranks.h"
#include "tools/mpi/watch.h"

namespace crosstalk {
namespace {

constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID",
                                      "SLURM_STEP_NUM_TASKS"};

int SizeWith(std::initializer_list<std::pair<const char*, const char*>> environment) {
  for (const char* variable : kVariables) unsetenv(variable);
  for (const auto& [name, value] : environment) setenv(name, value, 1);
  const int size = MpiSizeFromEnvironment();
  EXPECT_EQ(StartedByMpi(), size > 1);
  for (const char* variable : kVariables) unsetenv(variable);
  return size;
}

TEST(MpiEnvironmentTest, EachLauncherSaysHowManyRanksThereAre) {
  EXPECT_EQ(SizeWith({}), 1);
  EXPECT_EQ(SizeWith({{"PMI_SIZE", "4"}}), 4);
  EXPECT_EQ(SizeWith({{"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "5"}}), 5);
  EXPECT_EQ(SizeWith({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "5"}}), 1);  // without PMIx by themselves
  EXPECT_EQ(SizeWith({{"OMPI_COMM_WORLD_SIZE", "3"}}), 3);
  for (const char* value : {"1", "", "x", "3x", "-3", "0", "99999999999"}) {
    EXPECT_EQ(SizeWith({{"OMPI_COMM_WORLD_SIZE", value}}), 1) << value;
  }
}

TEST(SilenceWatchTest, ARankThatSaysNothingIsLost) {
  mpi::SilenceWatch watch(3, 2);
  for (int i = 0; i < 199; ++i) {
    watch.Advance(0.01);
    watch.Hear(1);
  }
  EXPECT_FALSE(watch.IsLost(2));
  for (int i = 0; i < 2; ++i) watch.Advance(0.01);
  EXPECT_TRUE(watch.IsLost(2));
  EXPECT_FALSE(watch.IsLost(1));
}

TEST(SilenceWatchTest, NoRankIsLostInAPauseOfTheWatcherOrWithoutATimeOut) {
  mpi::SilenceWatch watch(2, 2), patient(2, 0);
  watch.Advance(3600);
  EXPECT_FALSE(watch.IsLost(1));
  for (int i = 0; i < 100'000; ++i) patient.Advance(1);
  EXPECT_FALSE(patient.IsLost(1));
}

}  // namespace
}  // namespace crosstalk

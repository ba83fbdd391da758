#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "crosstalk/runtime/measure.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace energy_test {

class EnergyTest : public ::testing::Test {
 protected:
  void Write(const std::string& counter, const std::string& microjoules) const {
    std::filesystem::create_directories(dir_ / counter);
    std::ofstream(dir_ / (counter + "/energy_uj")) << microjoules << "\n";
    std::ofstream(dir_ / (counter + "/max_energy_range_uj")) << "1000000\n";
  }
  TempDir dir_;
};

TEST_F(EnergyTest, IsThatOfAllProcessorsAndOfNoPartTwice) {
  Write("intel-rapl:0", "500");
  Write("intel-rapl:1", "999000");
  Write("intel-rapl:0:0", "1");
  Write("dtpm", "7");
  EnergyMeter meter(dir_.path());
  EXPECT_EQ(meter.Joules(), 0);
  Write("intel-rapl:0", "250500");
  Write("intel-rapl:0:0", "100000");
  Write("intel-rapl:1", "1000");  // it wrapped around
  EXPECT_DOUBLE_EQ(meter.Joules().value(), 0.25 + 0.002);
  EXPECT_EQ(meter.Joules(), 0);
}

TEST_F(EnergyTest, IsUnknownWhereACounterCannotBeRead) {
  EXPECT_EQ(EnergyMeter(dir_ / "nothing").Joules(), std::nullopt);
  EXPECT_EQ(EnergyMeter(dir_.path()).Joules(), std::nullopt);
  Write("intel-rapl:0", "500");
  EnergyMeter meter(dir_.path());
  Write("intel-rapl:1", "none");
  EXPECT_EQ(EnergyMeter(dir_.path()).Joules(), std::nullopt);  // the sum would be that of one of two
  EXPECT_EQ(meter.Joules(), 0);
  std::filesystem::remove(dir_ / "intel-rapl:0/energy_uj");
  EXPECT_EQ(meter.Joules(), std::nullopt);
  Write("intel-rapl:0", "600");
  EXPECT_EQ(meter.Joules(), std::nullopt);  // what it missed is lost
}

}  // namespace energy_test
}  // namespace crosstalk

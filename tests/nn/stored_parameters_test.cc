#include <gtest/gtest.h>

#include <string>

#include "crosstalk/nn/init.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace stored_parameters_test {

class MayLeaveHeads : public StoredParameters {
 public:
  using StoredParameters::StoredParameters;

 protected:
  bool IsOptional(const std::string& name) const override { return name.starts_with("head."); }
};

TensorFile FileOf(const std::vector<std::string>& names) {
  TensorFile file = {.path = "file", .tensors = {}, .metadata = {}};
  for (const std::string& name : names) file.tensors.push_back({name, Tensor::Zeros({2}, DType::kFloat32)});
  return file;
}

TEST(StoredParametersTest, WhatIsLeftAndMayNotBeIsNamed) {
  MayLeaveHeads stored(FileOf({"head.W", "tail.W"}), "the test");
  EXPECT_TRUE(testing::Contains(testing::MessageOf([&] { stored.CheckAllTaken(); }, ErrorKind::kData),
                                "tensor 'tail.W' is not a parameter of the model that the test asks for"));
  stored.Take("tail.W", {2}, DType::kFloat32);
  EXPECT_NO_THROW(stored.CheckAllTaken());
  const StoredParameters strict(FileOf({"head.W"}), "the test");
  EXPECT_TRUE(testing::Contains(testing::MessageOf([&] { strict.CheckAllTaken(); }, ErrorKind::kData), "'head.W'"));
}

}  // namespace stored_parameters_test
}  // namespace crosstalk

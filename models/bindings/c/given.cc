#include "crosstalk/models/bindings/c/given.h"

namespace crosstalk::c {

Given::Given(const char* text) {
  try {
    object_ = ParseJson(text == nullptr ? "{}" : text, "configuration");
  } catch (const Error& error) {
    Fail(ErrorKind::kUsage, error.what());
  }
  CROSSTALK_CHECK(object_.is_object(), "configuration: must be an object, but is ", Name(object_.type()));
  read_.resize(object_.AsObject().size());
}

void Given::CheckAllRead() const {
  for (size_t i = 0; i < read_.size(); ++i) {
    const std::string key = Excerpt(object_.AsObject()[i].first);
    CROSSTALK_CHECK_FIELD(read_[i], key, "is not a key that is known here");
  }
}

}  // namespace crosstalk::c

// What the tests of tasks that an encoder learns and answers share.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// Byte b is b + 3, [CLS] 259, [SEP] 260, pad 0.
inline std::shared_ptr<const Tokenizer> Bytes() { return MakeByteTokenizer(0, MaskTokens::kYes); }

// A task of a form, without files.
inline TaskType TaskOfForm(TaskForm form, std::vector<const char*> labels = {}) {
  TaskType type = {};
  type.name = "test";
  type.form = form;
  type.labels = std::move(labels);
  return type;
}

}  // namespace crosstalk

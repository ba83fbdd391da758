// The object of a model's handle: one that was read, or that of a training.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk::c {

class ModelObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kModel;
  ModelObject(std::shared_ptr<const Model> of_it, std::shared_ptr<const Tokenizer> its_tokenizer, std::string from,
              std::shared_ptr<Lock> lock, std::vector<std::string> said = {})
      : Object(kKind, std::move(lock)),
        model(std::move(of_it)),
        tokenizer(std::move(its_tokenizer)),
        source(std::move(from)),
        remarks(std::move(said)) {}

  Json Describe() const override;
  std::vector<NamedTensor> Parameters() const override;
  // Error(kUsage) without one.
  const Tokenizer& RequireTokenizer() const;

  const std::shared_ptr<const Model> model;
  const std::shared_ptr<const Tokenizer> tokenizer;  // null: there is none
  const std::string source;                          // the folder or checkpoint
  const std::vector<std::string> remarks;            // on what is not read of its tokenizer: sentences
};

}  // namespace crosstalk::c

// What the fuzz targets share. A target is a function of any bytes: it hands them to the library as a user's file or
// words, and holds what is accepted to its promises. The same functions run under libFuzzer (driver.cc, `make fuzz`)
// and over the kept inputs of tests/fuzz/corpus (fuzz_test.cc, `make test`).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
class Tensor;
class Tokenizer;
struct NamedTensor;
}  // namespace crosstalk

namespace crosstalk::fuzz {

void FuzzCInterface(std::string_view input);   // calls of crosstalk.h
void FuzzCommandLine(std::string_view input);  // OptionTable and --config of every command
void FuzzConfig(std::string_view input);       // training and model configurations
void FuzzCorpus(std::string_view input);       // text files, JSONL, folders of them
void FuzzEinsum(std::string_view input);       // equations with shapes
void FuzzJson(std::string_view input);
void FuzzNumpy(std::string_view input);      // .npy and .npz
void FuzzPublished(std::string_view input);  // config.json, weights and index of published models
void FuzzRunFolder(std::string_view input);  // the files of a run and of its checkpoints
void FuzzSafetensors(std::string_view input);
void FuzzTasks(std::string_view input);            // files of tasks and of their predictions
void FuzzTensorBundle(std::string_view input);     // TensorFlow's checkpoints and their configurations
void FuzzTokenizer(std::string_view input);        // SentencePiece models and descriptors
void FuzzTokenizerFolder(std::string_view input);  // published tokenizers and what lies beside them

// A promise that was broken. Not an Error, which is how the library refuses an input.
class Finding : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <typename... Parts>
void Require(bool holds, const Parts&... parts) {
  if (!holds) throw Finding(StrCat(parts...));
}

// However large the input, an error is something to read.
inline constexpr size_t kMaxMessageBytes = 4096;

// True if use() returned, false if it refused the input with an Error. Any other exception is a finding and goes on.
template <typename Use>
bool Accepts(const Use& use) {
  try {
    use();
    return true;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    Require(!message.empty(), "an error without a message");
    Require(message.size() <= kMaxMessageBytes, "an error's message of ", message.size(),
            " bytes, which begins: ", message.substr(0, 400));
    return false;
  }
}

// The tokenizer encodes and decodes any text, the characters of `input` among them, and is the same one again from the
// file that a run keeps. Of the targets tokenizer and tokenizer_folder.
void RequireTokenizer(const Tokenizer& tokenizer, std::string_view input);

uint64_t BytesOf(const Tensor& tensor);
// Names, types, shapes and bytes are the same.
void RequireSameTensors(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b);

// The first line of `input`, without its end, and what follows.
struct FirstLine {
  std::string_view line;
  std::string_view rest;
};
FirstLine SplitFirstLine(std::string_view input);

}  // namespace crosstalk::fuzz

#include "crosstalk/models/text/corpus.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "crosstalk/models/text/example_key.h"
#include "crosstalk/models/text/permutation.h"
#include "crosstalk/models/text/text_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/utf8.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxWordScan = 256;  // bytes to look through for a space

// Sections of text one after the other, entered anywhere, and joined at the ends into a ring.
class FileSource : public TextSource {
 public:
  FileSource(std::string name, std::vector<TextSection> sections) : name_(std::move(name)) {
    for (TextSection& section : sections) {
      if (section.size() == 0) continue;
      starts_.push_back(size_);
      size_ += section.size();
      sections_.push_back(std::move(section));
    }
    if (size_ == 0) Fail(ErrorKind::kData, name_, ": there is no text in it");
  }

  std::string Describe() const override {
    return StrCat(name_, " (", sections_.size(), sections_.size() == 1 ? " file, " : " files, ", size_, " bytes)");
  }
  std::optional<int64_t> num_bytes() const override { return size_; }

  std::string ReadSegment(uint64_t seed, int64_t example, int64_t stride, int64_t min_bytes,
                          Order order) const override {
    CROSSTALK_CHECK(example >= 0 && stride >= 1, "corpus: example ", example, " with a stride of ", stride,
                    " bytes: must be at least 0 and 1");
    if (min_bytes > size_) {
      Fail(ErrorKind::kData, name_, ": too short: ", size_, " bytes of text where ", min_bytes, " are needed");
    }
    const int64_t per_epoch = std::max<int64_t>(1, size_ / stride);
    int64_t position = example % per_epoch * stride;
    if (order == Order::kShuffled) {
      const int64_t epoch = example / per_epoch;
      const RandomKey key = ExampleKey(seed, "models.text.corpus", epoch);
      const auto offset = static_cast<int64_t>(UniformInt(key, ~uint64_t{0}, size_));
      position = (PermutedIndex(example % per_epoch, per_epoch, key) * stride + offset) % size_;
    }
    return ReadWords(position, min_bytes);
  }

 private:
  // At least `count` bytes, from the first word that begins at or after `position` to the end of a word.
  std::string ReadWords(int64_t position, int64_t count) const {
    std::string text = ReadRing(position == 0 ? size_ - 1 : position - 1, count + 2 * kMaxWordScan + 1);
    const auto scan = [&](size_t from) { return std::min(text.size(), from + static_cast<size_t>(kMaxWordScan)); };
    size_t begin = 1;
    if (position != 0) {
      begin = 0;
      while (begin < scan(0) && !IsAsciiSpace(text[begin])) ++begin;
      while (begin < scan(0) && IsAsciiSpace(text[begin])) ++begin;
      if (begin == scan(0)) begin = 1;  // no word begins there: start at a character
    }
    while (begin < text.size() && IsUtf8Continuation(text[begin])) ++begin;
    size_t end = std::min(text.size(), begin + static_cast<size_t>(count));
    const size_t limit = std::min(text.size(), end + static_cast<size_t>(kMaxWordScan));
    size_t stop = end;
    while (stop < limit && !IsAsciiSpace(text[stop])) ++stop;
    if (stop < limit) {
      end = stop;
    } else {
      while (end < text.size() && IsUtf8Continuation(text[end])) ++end;
    }
    return text.substr(begin, end - begin);
  }

  std::string ReadRing(int64_t position, int64_t count) const {
    std::string text;
    text.reserve(count);
    auto section =
        static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), position) - starts_.begin() - 1);
    position -= starts_[section];
    while (static_cast<int64_t>(text.size()) < count) {
      sections_[section].Read(position, count - static_cast<int64_t>(text.size()), &text);
      section = (section + 1) % sections_.size();
      position = 0;
    }
    return text;
  }

  std::string name_;
  std::vector<TextSection> sections_;
  std::vector<int64_t> starts_;  // of each section in the whole
  int64_t size_ = 0;
};

struct InputFile {
  std::shared_ptr<const MappedFile> file;
  std::string relative_path;
};

std::vector<InputFile> OpenFiles(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) Fail(ErrorKind::kData, path, ": there is no such file or folder");
  std::vector<InputFile> files;
  if (!fs::is_directory(status)) {
    files.push_back({std::make_shared<MappedFile>(path), fs::path(path).filename().string()});
  } else {
    std::vector<std::string> names;
    fs::recursive_directory_iterator entry(path, error);
    for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name[0] == '.') {
        entry.disable_recursion_pending();
        continue;
      }
      const std::string extension = entry->path().extension().string();
      if ((extension == ".txt" || extension == ".jsonl") && entry->is_regular_file()) {
        names.push_back(entry->path().lexically_relative(path).generic_string());
      }
    }
    if (error) Fail(ErrorKind::kData, path, ": the folder cannot be read: ", error.message());
    if (names.empty()) Fail(ErrorKind::kData, path, ": the folder has no .txt or .jsonl files");
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      files.push_back({std::make_shared<MappedFile>((fs::path(path) / name).string()), name});
    }
  }
  for (const InputFile& input : files) CheckText(*input.file);
  return files;
}

TextSection Whole(const InputFile& input) { return TextSection(input.file, 0, input.file->bytes().size()); }

std::shared_ptr<const TextSource> MakeSource(const std::string& name, const std::vector<InputFile>& files) {
  std::vector<TextSection> sections;
  for (const InputFile& input : files) sections.push_back(Whole(input));
  return std::make_shared<FileSource>(name, std::move(sections));
}

// True for the files that are held out; see OpenFileCorpus.
std::vector<bool> ChooseHeldOut(const std::vector<InputFile>& files, uint64_t seed, double share) {
  struct Candidate {
    uint32_t hash;
    size_t index;
  };
  std::vector<Candidate> candidates;
  double total = 0;
  size_t smallest = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const RandomKey key{seed, StreamId("models.text.held_out"), StreamId(files[i].relative_path)};
    candidates.push_back({key.Bits(0), i});
    total += static_cast<double>(files[i].file->bytes().size());
    if (files[i].file->bytes().size() < files[smallest].file->bytes().size()) smallest = i;
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.index < b.index;
  });
  std::vector<bool> held_out(files.size(), false);
  double taken = 0;
  for (const Candidate& candidate : candidates) {
    if (taken >= share * total) break;
    const auto size = static_cast<double>(files[candidate.index].file->bytes().size());
    if (taken + size > 2 * share * total) continue;
    held_out[candidate.index] = true;
    taken += size;
  }
  if (taken == 0) held_out[smallest] = true;
  return held_out;
}

// Where the held-out end of a single file begins.
size_t HeldOutBegin(const MappedFile& file, double share) {
  const std::string_view bytes = file.bytes();
  const auto wanted = static_cast<size_t>(std::floor(static_cast<double>(bytes.size()) * (1 - share)));
  const std::string_view marks[] = {"\n\n", "\r\n\r\n", "\n", " "};
  for (const std::string_view mark : marks) {
    if (FormatOf(file.path()) == TextFormat::kJsonl && mark != "\n") continue;
    const size_t found = bytes.find(mark, wanted);
    if (found != std::string_view::npos && bytes.find_first_not_of(" \t\r\n", found) != std::string_view::npos) {
      return found + mark.size();
    }
  }
  // No mark follows: cut at the last one before.
  const char last_mark = FormatOf(file.path()) == TextFormat::kJsonl ? '\n' : ' ';
  const size_t end = bytes.find_last_not_of(" \t\r\n");
  const size_t found = end == std::string_view::npos ? end : bytes.substr(0, end).find_last_of(StrCat(last_mark, '\n'));
  if (found == std::string_view::npos) {
    Fail(ErrorKind::kData, file.path(),
         ": too short to hold a part out for validation: give more text, or a validation text of its own");
  }
  return found + 1;
}

}  // namespace

TextCorpus OpenFileCorpus(const FileCorpusOptions& options) {
  CROSSTALK_CHECK(options.validation_share > 0 && options.validation_share < 1, "corpus: a validation share of ",
                  options.validation_share, " is not between 0 and 1");
  const std::vector<InputFile> files = OpenFiles(options.path);
  TextCorpus corpus;
  if (!options.validation_path.empty()) {
    corpus.training = MakeSource(options.path, files);
    corpus.validation = OpenTextSource(options.validation_path);
  } else if (files.size() == 1) {
    const std::shared_ptr<const MappedFile>& file = files[0].file;
    const size_t cut = HeldOutBegin(*file, options.validation_share);
    const auto part = [&](const std::string& name, size_t begin, size_t end) {
      std::vector<TextSection> sections;
      sections.emplace_back(file, begin, end);
      return std::make_shared<FileSource>(StrCat(file->path(), name), std::move(sections));
    };
    corpus.training = part(StrCat(", bytes 0 to ", cut), 0, cut);
    corpus.validation = part(StrCat(", bytes ", cut, " to the end"), cut, file->bytes().size());
  } else {
    const std::vector<bool> held_out = ChooseHeldOut(files, options.seed, options.validation_share);
    std::vector<InputFile> training, validation;
    for (size_t i = 0; i < files.size(); ++i) (held_out[i] ? validation : training).push_back(files[i]);
    corpus.training = MakeSource(options.path, training);
    std::string names;
    for (const InputFile& input : validation) names += (names.empty() ? "" : ", ") + input.relative_path;
    corpus.validation = MakeSource(StrCat(options.path, ": ", names), validation);
  }
  corpus.description =
      StrCat("training on ", corpus.training->Describe(), ", validation on ", corpus.validation->Describe());
  return corpus;
}

std::shared_ptr<const TextSource> OpenTextSource(const std::string& path) { return MakeSource(path, OpenFiles(path)); }

}  // namespace crosstalk

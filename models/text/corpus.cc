#include "crosstalk/models/text/corpus.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/text_file.h"
#include "crosstalk/models/text/text_section.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

std::string TextSource::WholeText() const {
  Fail(ErrorKind::kUsage, Describe(), ": has no text with an end, which is read here whole");
}

// The part of a corpus held out for validation, where no text is named for it; see OpenFileCorpus.

struct InputFile {
  std::shared_ptr<const TextFile> file;
  std::string relative_path;
};

// True for each file that is held out, of several.
std::vector<bool> ChooseHeldOut(const std::vector<InputFile>& files, uint64_t seed, double share);

// The place in a single file where its held-out end begins. Error(kData) if there is no place to cut it at.
size_t HeldOutBegin(const TextFile& file, double share);

namespace {

constexpr size_t kLongestWord = 256;  // in bytes

}  // namespace

std::vector<bool> ChooseHeldOut(const std::vector<InputFile>& files, uint64_t seed, double share) {
  struct Candidate {
    uint32_t hash;
    size_t index;
  };
  std::vector<Candidate> candidates;
  double total = 0;
  size_t smallest = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const RandomKey key{seed, StreamId("models.text.held_out"), StreamId(WithoutGz(files[i].relative_path))};
    candidates.push_back({key.Bits(0), i});
    total += static_cast<double>(files[i].file->size());
    if (files[i].file->size() < files[smallest].file->size()) smallest = i;
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.index < b.index;
  });
  std::vector<bool> held_out(files.size(), false);
  double taken = 0;
  for (const Candidate& candidate : candidates) {
    if (taken >= share * total) break;
    const auto size = static_cast<double>(files[candidate.index].file->size());
    if (taken + size > 2 * share * total) continue;
    held_out[candidate.index] = true;
    taken += size;
  }
  if (taken == 0) held_out[smallest] = true;
  return held_out;
}

size_t HeldOutBegin(const TextFile& file, double share) {
  constexpr std::string_view kSpaces = " \t\r\n";
  constexpr size_t npos = std::string_view::npos;
  const bool jsonl = file.format() == TextFormat::kJsonl;
  const auto wanted = static_cast<size_t>(std::floor(static_cast<double>(file.size()) * (1 - share)));
  for (const std::string_view mark : {"\n\n", "\r\n\r\n", "\n", " "}) {
    if (jsonl && mark != "\n") continue;
    const size_t found = file.Find(mark, wanted);
    if (found != npos && file.FindFirstNotOf(kSpaces, found) != npos) return found + mark.size();
  }
  // No mark follows: cut at the last one before.
  const size_t last = file.FindLastNotOf(kSpaces, npos);
  if (last != npos && last > 0) {
    const size_t found = file.FindLastOf(jsonl ? "\n" : " \n", last - 1);
    if (found != npos) return found + 1;
    // No word is that long: it is a script without spaces, which is cut at a character.
    if (!jsonl && last >= kLongestWord) {
      size_t cut = std::min(wanted, last);
      while (IsUtf8Continuation(file.Read(cut, 1)[0])) --cut;
      if (cut > 0) return cut;
    }
  }
  Fail(ErrorKind::kData, file.path(),
       ": too short to hold a part out for validation: give more text, or a validation text of its own");
}

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
  std::optional<uint64_t> checksum() const override {
    Crc64 checksum;
    for (const TextSection& section : sections_) {
      const std::string& field = section.file().text_field();
      checksum.Update(StrCat(section.file().checksum(), " ", section.begin(), " ", section.size(), "\n",
                             field == kTextField ? "" : field));
    }
    return checksum.value();
  }

  std::string WholeText() const override {
    std::string text = ReadRing(0, size_).text;
    text.resize(text.size() - TextSection::kDocumentEnd.size());
    return text;
  }

  TextSegment ReadDocuments(uint64_t seed, int64_t example, int64_t stride, int64_t min_bytes,
                            Order order) const override {
    CROSSTALK_CHECK(example >= 0 && stride >= 1, "corpus: example ", example, " with a stride of ", stride,
                    " bytes: must be at least 0 and 1");
    if (min_bytes > size_) {
      Fail(ErrorKind::kData, name_, ": too short: ", size_, " bytes of text where ", min_bytes, " are needed");
    }
    return ReadWords(PlaceInRing(size_, stride, seed, example, order), min_bytes);
  }

 private:
  // At least `count` bytes, from the first word that begins at or after `position` to the end of a word.
  TextSegment ReadWords(int64_t position, int64_t count) const {
    TextSegment read = ReadRing(position == 0 ? size_ - 1 : position - 1, count + 2 * kMaxWordScan + 1);
    const std::string& text = read.text;
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
    TextSegment segment;
    for (const int64_t document : read.document_begins) {
      const auto at = static_cast<size_t>(document);
      if (at >= end) break;
      // White space at a document's beginning is no part of its first word.
      const bool before = at < begin;
      if (before && !std::all_of(text.begin() + document, text.begin() + static_cast<int64_t>(begin), IsAsciiSpace)) {
        continue;
      }
      const auto here = static_cast<int64_t>(before ? 0 : at - begin);
      if (segment.document_begins.empty() || segment.document_begins.back() != here) {
        segment.document_begins.push_back(here);
      }
    }
    segment.text = text.substr(begin, end - begin);
    return segment;
  }

  TextSegment ReadRing(int64_t position, int64_t count) const {
    TextSegment segment;
    segment.text.reserve(count);
    auto section =
        static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), position) - starts_.begin() - 1);
    position -= starts_[section];
    while (static_cast<int64_t>(segment.text.size()) < count) {
      sections_[section].Read(position, count - static_cast<int64_t>(segment.text.size()), &segment.text,
                              &segment.document_begins);
      section = (section + 1) % sections_.size();
      position = 0;
    }
    return segment;
  }

  std::string name_;
  std::vector<TextSection> sections_;
  std::vector<int64_t> starts_;  // of each section in the whole
  int64_t size_ = 0;
};

[[noreturn]] void FailReading(const std::string& path, const std::error_code& error) {
  Fail(ErrorKind::kData, path, ": cannot be read: ", error.message());
}

// The text files of a folder and of those within it, relative to it, in the order of their names without ".gz".
std::vector<std::string> ListTexts(const std::string& folder, const StopRequest& stop) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    ThrowIfStopped(stop);
    if (entry->path().filename().native()[0] == '.') {
      entry.disable_recursion_pending();
      continue;
    }
    const std::string path = entry->path().string();
    const std::string_view name = WithoutGz(path);
    const bool is_text = name.ends_with(".txt") || name.ends_with(".jsonl");
    std::error_code unknown;
    const bool is_link = entry->is_symlink(unknown);
    if (!is_text && !is_link) continue;
    const fs::file_status status = entry->status(unknown);
    // A link that no text is named for may lead nowhere.
    if (status.type() == fs::file_type::none && is_text) FailReading(path, unknown);
    if (is_link && fs::is_directory(status)) {
      Fail(ErrorKind::kData, path,
           ": is a link to a folder, whose texts would be left out; put the folder in its place, ",
           "or give its own path");
    }
    if (!is_text) continue;
    if (!fs::is_regular_file(status)) {
      Fail(ErrorKind::kData, path, ": ",
           status.type() == fs::file_type::not_found ? "is a link to a file that is not there"
           : fs::is_directory(status)                ? "is a folder under the name of a text"
                                                     : "is no regular file",
           "; remove or rename it");
    }
    names.push_back(entry->path().lexically_relative(folder).generic_string());
  }
  if (error) FailReading(folder, error);
  if (names.empty()) {
    Fail(ErrorKind::kData, folder, ": the folder has no .txt or .jsonl files, packed by gzip (.gz) or not");
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(WithoutGz(a), std::string_view(a)) < std::pair(WithoutGz(b), std::string_view(b));
  });
  for (size_t i = 1; i < names.size(); ++i) {
    if (WithoutGz(names[i]) != WithoutGz(names[i - 1])) continue;
    Fail(ErrorKind::kData, folder, ": has ", names[i - 1], " and ", names[i], ", the same text twice; remove one");
  }
  return names;
}

std::vector<InputFile> OpenInputs(const std::string& path, const std::string& text_field, const StopRequest& stop) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) Fail(ErrorKind::kData, path, ": there is no such file or folder");
  if (status.type() == fs::file_type::none) FailReading(path, error);
  const auto open_files = std::make_shared<OpenFiles>();
  if (!fs::is_directory(status)) {
    return {{std::make_shared<TextFile>(path, open_files, text_field, stop), fs::path(path).filename().string()}};
  }
  std::vector<InputFile> files;
  for (std::string& name : ListTexts(path, stop)) {
    auto file = std::make_shared<TextFile>((fs::path(path) / name).string(), open_files, text_field, stop);
    files.push_back({std::move(file), std::move(name)});
  }
  return files;
}

std::shared_ptr<const TextSource> MakeSource(const std::string& name, const std::vector<InputFile>& files,
                                             const StopRequest& stop) {
  std::vector<TextSection> sections;
  for (const InputFile& input : files) sections.emplace_back(input.file, 0, input.file->size(), stop);
  return std::make_shared<FileSource>(name, std::move(sections));
}

TextCorpus Described(TextCorpus corpus) {
  corpus.description =
      StrCat("training on ", corpus.training->Describe(), ", validation on ", corpus.validation->Describe());
  return corpus;
}

// A field that no file is read by would be given in vain.
void CheckTextField(const std::string& text_field, std::initializer_list<const std::vector<InputFile>*> groups) {
  if (text_field == kTextField) return;
  for (const std::vector<InputFile>* files : groups) {
    for (const InputFile& input : *files) {
      if (input.file->format() == TextFormat::kJsonl) return;
    }
  }
  FailField(ErrorKind::kUsage, "text_field", text_field,
            " is a field of JSON lines, and no file of the text is of them");
}

// "a.txt, b.txt and 3 more"
std::string NamesOf(const std::vector<InputFile>& files) {
  constexpr size_t kMostNamed = 8;
  std::string names;
  for (size_t i = 0; i < std::min(files.size(), kMostNamed); ++i) {
    names += (i == 0 ? "" : ", ") + files[i].relative_path;
  }
  return files.size() <= kMostNamed ? names : StrCat(names, " and ", files.size() - kMostNamed, " more");
}

}  // namespace

TextCorpus OpenFileCorpus(const FileCorpusOptions& options, const StopRequest& stop) {
  CROSSTALK_CHECK(options.validation_share > 0 && options.validation_share < 1, "corpus: a validation share of ",
                  options.validation_share, " is not between 0 and 1");
  const std::vector<InputFile> files = OpenInputs(options.path, options.text_field, stop);
  std::vector<InputFile> of_validation;
  if (!options.validation_path.empty()) of_validation = OpenInputs(options.validation_path, options.text_field, stop);
  CheckTextField(options.text_field, {&files, &of_validation});
  TextCorpus corpus;
  if (!options.validation_path.empty()) {
    corpus.training = MakeSource(options.path, files, stop);
    corpus.validation = MakeSource(options.validation_path, of_validation, stop);
  } else if (files.size() == 1) {
    const std::shared_ptr<const TextFile>& file = files[0].file;
    const size_t cut = HeldOutBegin(*file, options.validation_share);
    const auto part = [&](const std::string& name, size_t begin, size_t end) {
      std::vector<TextSection> sections;
      sections.emplace_back(file, begin, end, stop);
      return std::make_shared<FileSource>(StrCat(file->path(), name), std::move(sections));
    };
    corpus.training = part(StrCat(", bytes 0 to ", cut), 0, cut);
    corpus.validation = part(StrCat(", bytes ", cut, " to the end"), cut, file->size());
  } else {
    const std::vector<bool> held_out = ChooseHeldOut(files, options.seed, options.validation_share);
    std::vector<InputFile> training, validation;
    for (size_t i = 0; i < files.size(); ++i) (held_out[i] ? validation : training).push_back(files[i]);
    corpus.training = MakeSource(options.path, training, stop);
    corpus.validation = MakeSource(StrCat(options.path, ": ", NamesOf(validation)), validation, stop);
  }
  return Described(std::move(corpus));
}

namespace {

class IdSource : public TextSource {
 public:
  explicit IdSource(std::vector<int32_t> ids) : ids_(std::move(ids)) {}

  std::string Describe() const override { return StrCat(ids_.size(), " token ids"); }
  std::optional<int64_t> num_bytes() const override { return std::nullopt; }
  TextSegment ReadDocuments(uint64_t, int64_t, int64_t, int64_t, Order) const override {
    Fail(ErrorKind::kUsage, "token ids have no text, which is read here; give text");
  }
  const std::vector<int32_t>* ids() const override { return &ids_; }

 private:
  std::vector<int32_t> ids_;
};

}  // namespace

TextCorpus MakeIdCorpus(const std::vector<int32_t>& ids) {
  if (ids.size() < 2) Fail(ErrorKind::kData, "token ids: there are ", ids.size(), ", and must be at least 2");
  const auto wanted = static_cast<int64_t>(std::ceil(static_cast<double>(ids.size()) * kValidationShare));
  const auto cut = ids.end() - wanted;
  TextCorpus corpus;
  corpus.training = std::make_shared<IdSource>(std::vector<int32_t>(ids.begin(), cut));
  corpus.validation = std::make_shared<IdSource>(std::vector<int32_t>(cut, ids.end()));
  return Described(std::move(corpus));
}

std::shared_ptr<const TextSource> OpenTextSource(const std::string& path, const StopRequest& stop,
                                                 const std::string& text_field) {
  const std::vector<InputFile> files = OpenInputs(path, text_field, stop);
  return MakeSource(path, files, stop);
}

}  // namespace crosstalk

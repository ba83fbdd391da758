#include "crosstalk/models/training/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/record.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr char kManifestName[] = "manifest.json";
constexpr char kStepPrefix[] = "step-";
constexpr int64_t kMaxStep = 999'999'999'999;
constexpr uint64_t kMaxManifestBytes = 16 << 20;
constexpr size_t kReadBytes = 1 << 20;

std::string StepName(int64_t step) {
  char text[32];
  std::snprintf(text, sizeof(text), "%s%08lld", kStepPrefix, static_cast<long long>(step));
  return text;
}

// The step of a directory's name, none if it is not exactly the name of a checkpoint.
std::optional<int64_t> StepOfName(const std::string& name) {
  const std::string_view prefix = kStepPrefix;
  if (name.size() < prefix.size() + 8 || name.size() > prefix.size() + 12 || name.compare(0, prefix.size(), prefix)) {
    return std::nullopt;
  }
  int64_t step = 0;
  for (size_t i = prefix.size(); i < name.size(); ++i) {
    if (!IsAsciiDigit(name[i])) return std::nullopt;
    step = step * 10 + (name[i] - '0');
  }
  return StepName(step) == name ? std::optional<int64_t>(step) : std::nullopt;
}

void CheckFileName(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= 200 && name[0] != '.' && name != kManifestName &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return IsAsciiLetter(c) || IsAsciiDigit(c) || c == '.' || c == '-' || c == '_';
                     });
  CROSSTALK_CHECK(plain, "checkpoint: '", name, "' cannot be the name of a file in it");
}

struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  std::string checksum;

  static FieldTable<ManifestFile> Fields() {
    return {{"name", &ManifestFile::name},
            {"bytes", &ManifestFile::bytes, {.range = {0, 0x1p62}}},
            {"checksum", &ManifestFile::checksum}};
  }
};

struct Manifest {
  int64_t step = 0;
  std::optional<double> score;
  std::vector<ManifestFile> files;  // by name
  // The checksum of the manifest's own text with an empty string in this place: no bit of it can change unseen.
  std::string checksum = {};

  static FieldTable<Manifest> Fields() {
    return {MakeConstantField<Manifest>("format", 1),
            {"step", &Manifest::step, {.range = {0, kMaxStep}}},
            {"score", &Manifest::score},
            {"files", &Manifest::files},
            {"checksum", &Manifest::checksum}};
  }
};

std::string ManifestText(Manifest manifest) {
  manifest.checksum = "";
  manifest.checksum = ChecksumText(Crc64Of(ToJson(manifest).DumpPretty()));
  return ToJson(manifest).DumpPretty();
}

Manifest ReadManifest(const std::string& path) {
  const std::string text = ReadFile(path, kMaxManifestBytes);
  Manifest manifest = FromJson<Manifest>(ParseJson(text, path), path);
  if (ManifestText(manifest) != text) {
    Fail(ErrorKind::kData, path, ": altered: its text does not have the checksum that stands in it");
  }
  return manifest;
}

// The checksum of the file's bytes, a piece at a time.
uint64_t ChecksumOf(const FileReader& file) {
  std::string buffer(static_cast<size_t>(std::min<uint64_t>(kReadBytes, file.size())), '\0');
  Crc64 crc;
  for (uint64_t at = 0; at < file.size();) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(buffer.size(), file.size() - at));
    file.ReadAt(at, buffer.data(), size);
    crc.Update(buffer.data(), size);
    at += size;
  }
  return crc.value();
}

enum class Depth { kSizes, kEveryByte };

void VerifyFile(const std::string& path, const ManifestFile& expected, Depth depth) {
  const FileReader file(path);
  if (file.size() != expected.bytes) {
    Fail(ErrorKind::kData, path, ": ", file.size() < expected.bytes ? "truncated" : "too long", ": has ", file.size(),
         " bytes, the manifest says ", expected.bytes);
  }
  if (depth == Depth::kSizes) return;
  const std::string checksum = ChecksumText(ChecksumOf(file));
  if (checksum != expected.checksum) {
    Fail(ErrorKind::kData, path, ": altered: has the checksum ", checksum, ", the manifest says ", expected.checksum);
  }
}

Checkpoint CheckpointOf(const Manifest& manifest, const std::string& path) {
  Checkpoint checkpoint{manifest.step, path, manifest.score, {}};
  for (const ManifestFile& file : manifest.files) checkpoint.checksums.emplace(file.name, file.checksum);
  return checkpoint;
}

Checkpoint VerifyDirectory(const std::string& path, Depth depth) {
  const std::vector<std::string> names = ListDirectory(path);
  if (!std::binary_search(names.begin(), names.end(), kManifestName)) {
    Fail(ErrorKind::kData, path, ": has no ", kManifestName, ": not a checkpoint, or not a whole one");
  }
  const Manifest manifest = ReadManifest(path + "/" + kManifestName);
  std::set<std::string> expected = {kManifestName};
  for (const ManifestFile& file : manifest.files) {
    expected.insert(file.name);
    if (!std::binary_search(names.begin(), names.end(), file.name)) {
      Fail(ErrorKind::kData, path, "/", file.name, ": missing, but in the manifest");
    }
    VerifyFile(path + "/" + file.name, file, depth);
  }
  for (const std::string& name : names) {
    if (expected.count(name) == 0) {
      Fail(ErrorKind::kData, path, "/", name, ": a foreign file: it is not in the manifest");
    }
  }
  return CheckpointOf(manifest, path);
}

// Whether a damaged checkpoint had the better score, as far as that can be told.
bool MayBeBetter(const std::string& path, const std::optional<Checkpoint>& best) {
  try {
    const Manifest manifest = ReadManifest(path + "/" + kManifestName);
    if (!manifest.score) return false;
    if (!best || *manifest.score < *best->score) return true;
    return *manifest.score == *best->score && manifest.step < best->step;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    return true;
  }
}

bool IsDirectory(const std::string& path) { return KindOf(path) == PathKind::kDirectory; }

}  // namespace

CheckpointFile BytesFile(std::string name, std::string bytes) {
  return {std::move(name), [bytes = std::move(bytes)](FileWriter& file) { file.Write(bytes); }};
}

bool HasManifest(const std::string& path) {
  return KindOf(path) == PathKind::kDirectory && KindOf(path + "/" + kManifestName) != PathKind::kNothing;
}

Checkpoint VerifyCheckpoint(const std::string& path) { return VerifyDirectory(path, Depth::kEveryByte); }

std::string CheckpointStore::PathOf(int64_t step) const { return directory_ + "/" + StepName(step); }

Checkpoint CheckpointStore::Save(int64_t step, std::span<const CheckpointFile> files, std::optional<double> score) {
  CROSSTALK_CHECK(step >= 0 && step <= kMaxStep, "checkpoint: step ", step, " is not 0 … ", kMaxStep);
  Manifest manifest{step, score && std::isfinite(*score) ? score : std::nullopt, {}};
  const std::string path = PathOf(step);
  DirectoryTransaction transaction(path, OldDirectory::kReplaced);
  std::set<std::string> names;
  for (const CheckpointFile& file : files) {
    CheckFileName(file.name);
    CROSSTALK_CHECK(names.insert(file.name).second, "checkpoint: two files are called '", file.name, "'");
    FileWriter writer(transaction.temporary_path() + "/" + file.name, path + "/" + file.name);
    file.write(writer);
    writer.Finish();
    manifest.files.push_back({file.name, writer.bytes_written(), ChecksumText(writer.crc64())});
  }
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const ManifestFile& a, const ManifestFile& b) { return a.name < b.name; });
  FileWriter writer(transaction.temporary_path() + "/" + kManifestName, path + "/" + kManifestName);
  writer.Write(ManifestText(manifest));
  writer.Finish();
  transaction.Commit();
  trusted_.insert(step);
  return CheckpointOf(manifest, path);
}

std::vector<int64_t> CheckpointStore::Steps() const {
  std::vector<int64_t> steps;
  if (!IsDirectory(directory_)) return steps;
  for (const std::string& name : ListDirectory(directory_)) {
    const std::optional<int64_t> step = StepOfName(name);
    if (step && IsDirectory(directory_ + "/" + name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Checkpoint CheckpointStore::Verify(int64_t step) const {
  const Depth depth = trusted_.count(step) > 0 ? Depth::kSizes : Depth::kEveryByte;
  Checkpoint checkpoint = VerifyDirectory(PathOf(step), depth);
  if (checkpoint.step != step) {
    Fail(ErrorKind::kData, PathOf(step), "/", kManifestName, ": is of step ", checkpoint.step,
         ", but stands in the directory of step ", step);
  }
  trusted_.insert(step);
  return checkpoint;
}

std::optional<Checkpoint> CheckpointStore::VerifyOrSkip(int64_t step, std::vector<SkippedCheckpoint>* skipped) const {
  try {
    return Verify(step);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    if (IsDirectory(PathOf(step))) skipped->push_back({PathOf(step), error.what()});
    return std::nullopt;
  }
}

FoundCheckpoint CheckpointStore::FindNewestGood() const {
  for (std::vector<int64_t> steps = Steps();;) {
    FoundCheckpoint found;
    for (auto step = steps.rbegin(); step != steps.rend() && !found.checkpoint; ++step) {
      found.checkpoint = VerifyOrSkip(*step, &found.skipped);
    }
    if (found.checkpoint) return found;
    // Where another process saves and prunes, all that were there may be gone, and newer ones have come.
    const std::vector<int64_t> before = std::exchange(steps, Steps());
    if (steps == before) return found;
  }
}

FoundCheckpoint CheckpointStore::FindBest() const {
  FoundCheckpoint found;
  std::optional<Checkpoint>& best = found.checkpoint;
  for (int64_t step : Steps()) {
    const std::optional<Checkpoint> checkpoint = VerifyOrSkip(step, &found.skipped);
    if (checkpoint && checkpoint->score && (!best || *checkpoint->score < *best->score)) best = checkpoint;
  }
  for (const SkippedCheckpoint& one : found.skipped) {
    if (!found.better && MayBeBetter(one.path, best)) found.better = one;
  }
  return found;
}

CheckpointStore::Pruned CheckpointStore::Prune(int keep_last) {
  CROSSTALK_CHECK(keep_last >= 1, "checkpoint: at least 1 must be kept, not ", keep_last);
  Pruned result;
  try {
    result.failed = RemoveStale().failed;
    std::vector<Checkpoint> good;
    for (int64_t step : Steps()) {
      try {
        good.push_back(Verify(step));
      } catch (const Error&) {
        // Stays.
      }
    }
    const Checkpoint* best = nullptr;
    for (const Checkpoint& checkpoint : good) {
      if (checkpoint.score && (best == nullptr || *checkpoint.score < *best->score)) best = &checkpoint;
    }
    for (size_t i = 0; i + static_cast<size_t>(keep_last) < good.size(); ++i) {
      if (&good[i] == best) continue;
      try {
        RemoveAtomically(good[i].path);
        trusted_.erase(good[i].step);
        result.removed.push_back(good[i].step);
      } catch (const Error& error) {
        result.failed.push_back(error.what());
      }
    }
  } catch (const Error& error) {
    result.failed.push_back(error.what());
  }
  return result;
}

RemovedTemporaries CheckpointStore::RemoveStale() {
  return IsDirectory(directory_) ? RemoveTemporaries(directory_) : RemovedTemporaries();
}

std::vector<NamedTensor> ParameterTensors(const Module& module) {
  std::vector<NamedTensor> tensors;
  for (const NamedParameter& parameter : module.Parameters()) {
    tensors.push_back({parameter.name, parameter.value.value()});
  }
  return tensors;
}

void LoadParameters(const TensorFile& file, Module& module) {
  StoredParameters stored(file, "the module");
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const NamedParameter& parameter : module.Parameters()) {
    const Tensor& value = parameter.value.value();
    copies.emplace_back(value, stored.Take(parameter.name, value.shape(), value.dtype()));
  }
  stored.CheckAllTaken();
  for (const auto& [value, tensor] : copies) value.CopyFrom(tensor);
}

std::string NonFiniteValue(const Module& module) {
  for (const NamedTensor& parameter : ParameterTensors(module)) {
    const float* values = parameter.tensor.data<float>();
    for (int64_t i = 0; i < parameter.tensor.num_elements(); ++i) {
      if (!std::isfinite(values[i])) return StrCat(parameter.name, "[", i, "] is ", values[i]);
    }
  }
  return "";
}

}  // namespace crosstalk

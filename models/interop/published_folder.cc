#include "crosstalk/models/interop/published_folder.h"

#include <utility>

#include "crosstalk/models/interop/hugging_face_folder.h"
#include "crosstalk/models/interop/mesh/mesh_folder.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

constexpr uint64_t kMaxOtherBytes = 256 << 20;

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

PublishedFolder::PublishedFolder(std::string path) : path_(WithoutSlashes(std::move(path))) {}

std::optional<std::string> PublishedFolder::Contents(const std::string& name) const {
  if (KindOf(FilePath(name)) == PathKind::kNothing) return std::nullopt;
  return ReadFile(FilePath(name), kMaxOtherBytes);
}

bool IsPublished(const std::string& path) { return IsHuggingFaceFolder(path) || IsMeshCheckpoint(path); }

std::unique_ptr<PublishedFolder> OpenPublishedFolder(const std::string& path, const MeshOptions& mesh) {
  if (!IsHuggingFaceFolder(path) && IsMeshCheckpoint(path)) return std::make_unique<MeshFolder>(path, mesh);
  const auto check = [&](const char* field, bool given) {
    CROSSTALK_CHECK_FIELD(!given, field, "is of checkpoints of Mesh TensorFlow, and ", path, " is none");
  };
  check("feed_forward", mesh.feed_forward.has_value());
  check("dynamic", mesh.dynamic.has_value());
  check("vocabulary", mesh.vocabulary.has_value());
  return std::make_unique<HuggingFaceFolder>(path);
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace crosstalk

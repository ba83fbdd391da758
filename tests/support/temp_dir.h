// A directory of a test's own that is gone when the test is over.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace crosstalk {

// Writes a file, with the folders that it stands in; its path. A new one each time: some file systems flush a file that
// is emptied and written again.
inline std::string PutFile(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::filesystem::remove(path);
  if (!(std::ofstream(path, std::ios::binary) << bytes).flush()) throw std::runtime_error(path + " cannot be written");
  return path;
}

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "crosstalk-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // The path of a name in it.
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file of it; its path.
  std::string Put(const std::string& name, std::string_view bytes) const { return PutFile(*this / name, bytes); }

 private:
  std::string path_;
};

}  // namespace crosstalk

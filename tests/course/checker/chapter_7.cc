#include "tests/course/checker/checker.h"
namespace course {
std::vector<Exercise> Chapter7() { return {}; }
}  // namespace course

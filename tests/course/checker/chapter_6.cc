#include "tests/course/checker/checker.h"
namespace course {
std::vector<Exercise> Chapter6() { return {}; }
}  // namespace course

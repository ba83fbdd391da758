#include "tests/course/checker/checker.h"
namespace course {
std::vector<Exercise> Chapter2() { return {}; }
}  // namespace course

#include "tests/course/checker/checker.h"
namespace course {
std::vector<Exercise> Chapter8() { return {}; }
}  // namespace course

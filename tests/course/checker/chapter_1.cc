#include "tests/course/checker/checker.h"
namespace course {
std::vector<Exercise> Chapter1() { return {}; }
}  // namespace course

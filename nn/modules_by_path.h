// The shared state of copies of an Initializer. Private to nn/init.cc and nn/module.cc.
#pragma once

#include <map>
#include <string>

#include "crosstalk/nn/init.h"

namespace crosstalk {

class Module;

struct Initializer::ModulesByPath {
  std::map<std::string, const Module*> modules;
};

}  // namespace crosstalk

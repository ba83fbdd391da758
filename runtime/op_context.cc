#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

// Outside of all scopes. Never destroyed: ops may run while the process ends.
union Outermost {
  constexpr Outermost() : context() {}
  ~Outermost() {}
  OpContext context;
};
constinit const Outermost outermost;

}  // namespace

namespace internal {
constinit thread_local const OpContext* current_context = &outermost.context;
}  // namespace internal

ContextScope InLayer(const std::string& name) {
  const std::string& outer = CurrentLayer();
  return ContextScope(&OpContext::layer,
                      std::make_shared<const std::string>(outer.empty() ? name : outer + '.' + name));
}

const std::string& CurrentLayer() {
  static const std::string none;
  const std::shared_ptr<const std::string>& layer = CurrentContext().layer;
  return layer == nullptr ? none : *layer;
}

}  // namespace crosstalk

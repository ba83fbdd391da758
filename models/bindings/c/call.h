// What every function of crosstalk.h does around its work: a context of its own, errors as a status and the thread's
// last error, texts that outlive the call.
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <string>

#include "crosstalk/models/bindings/c/crosstalk.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk::c {

// Makes the exception that is being handled this thread's last error. Throws nothing, without memory too.
ct_status NoteError() noexcept;

// body(), with every exception as a status. A thread that is cancelled in a callback must be let go.
template <typename Body>
ct_status Call(const Body& body) {
  try {
    const ContextScope own{OpContext()};  // a callback's caller may have another
    body();
    return CT_OK;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return NoteError();
  }
}

template <typename T>
void CheckGiven(T* pointer, const char* name) {
  CROSSTALK_CHECK(pointer != nullptr, name, " is NULL");
}

// Keeps the text for this thread, and gives it. Either pointer may be null.
void GiveText(std::string text, const char** to, size_t* length = nullptr);

}  // namespace crosstalk::c

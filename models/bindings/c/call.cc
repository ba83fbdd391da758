#include "crosstalk/models/bindings/c/call.h"

#include <exception>
#include <new>
#include <utility>

#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"

namespace crosstalk::c {
namespace {

struct LastError {
  ct_status status = CT_OK;
  std::string message, field;
  const char* constant = nullptr;  // instead of the message, where there was no memory for one
};

thread_local LastError last_error;
thread_local std::string last_text;

ct_status Note(ct_status status, const char* message, const std::string& field = "") noexcept {
  last_error.status = status;
  last_error.constant = nullptr;
  try {
    last_error.message = message;
    last_error.field = field;
  } catch (...) {
    last_error.message.clear();
    last_error.field.clear();
    last_error.constant = "out of memory, also for the message of an error";
  }
  return status;
}

}  // namespace

ct_status NoteError() noexcept {
  try {
    throw;
  } catch (const Interrupted& error) {
    return Note(CT_STOPPED, error.what());
  } catch (const Error& error) {
    return Note(static_cast<ct_status>(error.kind()), error.what(), error.field());
  } catch (const std::bad_alloc&) {
    return Note(CT_RESOURCE, "out of memory");
  } catch (const std::exception& error) {
    return Note(CT_FAILURE, error.what());
  } catch (...) {
    return Note(CT_FAILURE, "a callback threw what is no std::exception");
  }
}

void GiveText(std::string text, const char** to, size_t* length) {
  last_text = std::move(text);
  if (to != nullptr) *to = last_text.c_str();
  if (length != nullptr) *length = last_text.size();
}

}  // namespace crosstalk::c

extern "C" {

const char* ct_version() { return crosstalk::Version(); }

const char* ct_last_error() {
  using crosstalk::c::last_error;
  return last_error.constant != nullptr ? last_error.constant : last_error.message.c_str();
}

ct_status ct_last_status() { return crosstalk::c::last_error.status; }

const char* ct_last_error_field() { return crosstalk::c::last_error.field.c_str(); }

ct_status ct_set_threads(int threads) {
  return crosstalk::c::Call([&] { crosstalk::SetNumThreads(threads); });
}

}  // extern "C"

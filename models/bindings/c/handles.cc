#include "crosstalk/models/bindings/c/handles.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"

namespace crosstalk::c {
namespace {

// A handle's bits: mark, kind, generation of the slot, slot. With the mark it is no address that a process can have on
// x86-64 or ARM: there these have the same upper bits throughout, or a tag that is 0 unless the program sets it.
constexpr uint64_t kMark = 0xC7;
constexpr int kMarkShift = 56, kKindShift = 48, kGenerationShift = 24;
constexpr uint64_t kMostSlots = uint64_t{1} << kGenerationShift;
constexpr uint64_t kMostGenerations = uint64_t{1} << (kKindShift - kGenerationShift);
static_assert(sizeof(void*) == sizeof(uint64_t));

struct Slot {
  std::shared_ptr<Object> object;  // null: free
  uint64_t generation = 0;         // handles of this slot that were given back
};

struct Table {
  std::mutex mutex;
  std::vector<Slot> slots;
  std::vector<uint64_t> free;  // has room for all slots, so that giving one back never allocates
};

// Never destroyed: hosts may free handles after any destructor of ours has run.
Table& GetTable() {
  static Table* const table = [] {
    // As fork() copies the lock as it is (see runtime/storage.cc).
    pthread_atfork([] { GetTable().mutex.lock(); }, [] { GetTable().mutex.unlock(); },
                   [] { GetTable().mutex.unlock(); });
    return new Table;
  }();
  return *table;
}

void* HandleOf(uint64_t slot, uint64_t generation, Kind kind) {
  return reinterpret_cast<void*>(kMark << kMarkShift | static_cast<uint64_t>(kind) << kKindShift |
                                 generation << kGenerationShift | slot);
}

// The slot of a handle that is alive. The table's mutex is held.
Slot& SlotOf(Table& table, const void* handle, const char* argument) {
  CROSSTALK_CHECK(handle != nullptr, argument, " is NULL");
  const auto bits = reinterpret_cast<uint64_t>(handle);
  const uint64_t slot = bits % kMostSlots, generation = bits >> kGenerationShift & (kMostGenerations - 1);
  const auto kind = static_cast<Kind>(bits >> kKindShift & 0xFF);
  const bool known = slot < table.slots.size() && bits >> kMarkShift == kMark && kind >= Kind::kTensor &&
                     kind <= Kind::kOptimizer && generation <= table.slots[slot].generation;
  CROSSTALK_CHECK(known, argument, " is no handle of this library's");
  Slot& found = table.slots[slot];
  CROSSTALK_CHECK(found.object != nullptr && generation == found.generation, argument, " was freed; it was ",
                  Name(kind));
  CROSSTALK_CHECK(found.object->kind() == kind, argument, " is no handle of this library's");
  return found;
}

void* Publish(std::shared_ptr<Object> object) {
  const Kind kind = object->kind();
  Table& table = GetTable();
  const std::lock_guard<std::mutex> lock(table.mutex);
  if (table.free.empty()) {
    if (table.slots.size() == kMostSlots) Fail(ErrorKind::kResource, "too many handles: ", kMostSlots, " are in use");
    if (table.free.capacity() <= table.slots.size()) table.free.reserve(2 * table.slots.size() + 1);
    table.slots.emplace_back();
    table.free.push_back(table.slots.size() - 1);
  }
  const uint64_t slot = table.free.back();
  table.free.pop_back();
  table.slots[slot].object = std::move(object);
  return HandleOf(slot, table.slots[slot].generation, kind);
}

void Release(const void* handle) {
  std::shared_ptr<Object> object;  // destroyed after the lock is: a host's `release` may call the library
  Table& table = GetTable();
  const std::lock_guard<std::mutex> lock(table.mutex);
  Slot& slot = SlotOf(table, handle, "handle");
  object.swap(slot.object);
  // A slot whose generations are used up stays empty.
  if (++slot.generation < kMostGenerations) table.free.push_back(static_cast<uint64_t>(&slot - table.slots.data()));
}

struct Held {
  const Lock* lock;
  Access access;
};
thread_local std::vector<Held> held;  // by the calls that this thread is in, the outermost first

}  // namespace

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kTensor:
      return "a tensor";
    case Kind::kTensors:
      return "a list of tensors";
    case Kind::kAttention:
      return "an attention layer";
    case Kind::kCache:
      return "a cache";
    case Kind::kPass:
      return "a pass";
    case Kind::kModel:
      return "a model";
    case Kind::kTraining:
      return "a training";
    case Kind::kDataset:
      return "a dataset";
    case Kind::kBatches:
      return "batches";
    case Kind::kOptimizer:
      return "an optimizer";
  }
  return "nothing";
}

Json Object::Describe() const { Fail(ErrorKind::kUsage, Name(kind_), " has no description"); }

const Module& Object::module() const { Fail(ErrorKind::kUsage, Name(kind_), " has no parameters"); }

NewHandle::NewHandle(std::shared_ptr<Object> object) : handle_(Publish(std::move(object))) {}

NewHandle::~NewHandle() {
  if (handle_ != nullptr) Release(handle_);
}

void* NewHandle::Take() { return std::exchange(handle_, nullptr); }

std::shared_ptr<Object> FindObject(const void* handle, const char* argument) {
  Table& table = GetTable();
  const std::lock_guard<std::mutex> lock(table.mutex);
  return SlotOf(table, handle, argument).object;
}

std::shared_ptr<Object> FindObject(const void* handle, Kind kind, const char* argument) {
  std::shared_ptr<Object> object = FindObject(handle, argument);
  CROSSTALK_CHECK(object->kind() == kind, argument, " is ", Name(object->kind()), ", and should be ", Name(kind));
  return object;
}

Use::Use(const Object& object, Access access) : lock_(object.lock()), access_(access) {
  for (const Held& one : held) {
    if (one.lock != lock_.get()) continue;
    CROSSTALK_CHECK(one.access == Access::kShared && access == Access::kShared, Name(object.kind()),
                    " is in use by the call whose callback this is");
    again_ = true;
  }
  held.push_back({lock_.get(), access});
  if (again_) return;
  if (access == Access::kAlone) {
    lock_->lock();
  } else {
    lock_->lock_shared();
  }
}

Use::~Use() {
  held.pop_back();
  if (again_) return;
  if (access_ == Access::kAlone) {
    lock_->unlock();
  } else {
    lock_->unlock_shared();
  }
}

}  // namespace crosstalk::c

extern "C" ct_status ct_free(void* handle) {
  return crosstalk::c::Call([&] {
    if (handle != nullptr) crosstalk::c::Release(handle);
  });
}

namespace crosstalk::c {
namespace {

struct LastError {
  ct_status status = CT_OK;
  std::string message, field;
  const char* constant = nullptr;  // instead of the message, if there was no memory for one
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

ct_status ct_threads(int* threads) {
  return crosstalk::c::Call([&] {
    crosstalk::c::CheckGiven(threads, "threads");
    *threads = crosstalk::NumThreads();
  });
}

}  // extern "C"

namespace crosstalk::c {

Given ParseGiven(const char* text) {
  try {
    return Given(ParseJson(text == nullptr ? "{}" : text, "configuration"));
  } catch (const Error& error) {
    Fail(ErrorKind::kUsage, error.what());
  }
}

}  // namespace crosstalk::c

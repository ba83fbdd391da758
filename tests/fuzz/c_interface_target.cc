#include <array>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/bindings/c/crosstalk.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {
namespace {

constexpr size_t kMostCalls = 64;
constexpr int64_t kBuffer = 4096;  // elements of the host's memory, of 8 bytes

// A run of one small step and its model, which every input finds.
struct Fixture {
  TempDir folder;
  ct_training* training = nullptr;
  ct_model* model = nullptr;
  ct_attention* attention = nullptr;

  Fixture() {
    constexpr char kRun[] = R"({"model": "lm", "tokenizer": "bytes", "d_model": 8, "heads": 2, "d_ff": 8, "layers": 1,
        "input_length": 8, "batch": 2, "steps": 1000000, "eval_every": 1000000, "eval_batches": 1, "log_every": 1000000,
        "checkpoint_every": 1000000})";
    const std::string run = folder / "run";
    const bool made = ct_training_open(run.c_str(), kRun, nullptr, nullptr, &training) == CT_OK &&
                      ct_training_model(training, &model) == CT_OK &&
                      ct_attention_create(R"({"d_model": 8, "heads": 2, "causality": "causal"})", &attention) == CT_OK;
    Require(made, "no fixture: ", ct_last_error());
  }
};

Fixture& GetFixture() {
  static Fixture* const fixture = new Fixture;  // the run's folder stays until the process is gone
  return *fixture;
}

// A call whose arguments are taken in their order, as within braces they are on every compiler.
template <auto Function>
struct Ordered {
  template <typename... Arguments>
  explicit Ordered(Arguments... arguments) : status(Function(arguments...)) {}
  ct_status status;
};

// The input as a host that calls: each call's function and arguments are the next bytes.
class Host {
 public:
  explicit Host(std::string_view input) : input_(input), memory_(kBuffer) {
    const Fixture& fixture = GetFixture();
    handles_ = {nullptr,         this, reinterpret_cast<void*>(~uintptr_t{0}), fixture.model, fixture.attention,
                fixture.training};
    first_own_ = handles_.size();
  }
  ~Host() {
    for (size_t i = first_own_; i < handles_.size(); ++i) ct_free(handles_[i]);
  }

  void Run() {
    for (size_t calls = 0; calls < kMostCalls && !input_.empty(); ++calls) {
      const ct_status status = Call(Byte() % 40);
      Require(status >= CT_OK && status <= CT_STOPPED, "status ", static_cast<int>(status));
      if (status == CT_OK) continue;
      const std::string_view message = ct_last_error();
      Require(ct_last_status() == status, "the last status is another");
      Require(!message.empty() && message.size() <= kMaxMessageBytes, "a message of ", message.size(), " bytes");
      Require(status != CT_FAILURE, "a failure that is nobody's: ", message);
    }
  }

 private:
  uint8_t Byte() {
    if (input_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(input_[0]);
    input_.remove_prefix(1);
    return byte;
  }

  // Small, or one of those that break sums.
  int64_t Size() {
    constexpr std::array<int64_t, 8> kSpecial = {-1, INT64_MAX, INT64_MIN, int64_t{1} << 62, int64_t{1} << 32, 0, 8, 1};
    const uint8_t byte = Byte();
    return byte < 248 ? byte % 12 : kSpecial[byte - 248];
  }

  // NULL, or a text of the input's up to its next line end; numbers of many digits would ask for all memory.
  const char* Text() {
    const uint8_t length = Byte();
    if (length == 255) return nullptr;
    text_ = std::string(input_.substr(0, length));
    input_.remove_prefix(text_.size());
    int digits = 0;
    for (char& letter : text_) {
      digits = letter >= '0' && letter <= '9' ? digits + 1 : 0;
      if (digits > 3) letter = 'd';
    }
    return text_.c_str();
  }

  const char* Name() {
    constexpr const char* kNames[] = {
        "X", "M",    "key_padding_mask", "attention_mask", "bias",    "input_ids",      "labels",
        "Y", "loss", "logits",           "inputs",         "targets", "embedding.table"};
    const uint8_t byte = Byte();
    return byte < std::size(kNames) ? kNames[byte] : Text();
  }

  void* Handle() { return handles_[Byte() % handles_.size()]; }
  template <typename T>
  T* As() {
    return static_cast<T*>(Handle());
  }
  // Where a call writes its handle: kept, or NULL.
  template <typename T>
  T* Out(T* place) {
    return Byte() % 16 == 15 ? nullptr : place;
  }
  template <typename T>
  ct_status Keep(ct_status status, T* made) {
    if (status == CT_OK || status == CT_STOPPED) {
      if (made != nullptr) handles_.push_back(made);
    }
    return status;
  }

  // What a host can say of its memory: what reaches beyond it is said of no memory.
  ct_array Array() {
    ct_array array = {
        memory_.data(), static_cast<ct_dtype>(Byte() % 7), static_cast<int32_t>(Byte() % 11) - 1, shape_, strides_,
        Byte() % 2};
    __int128 reach = 1;
    for (int i = 0; i < 10; ++i) {
      shape_[i] = Size();
      strides_[i] = Size();
      if (i < array.rank && shape_[i] > 0) {
        const __int128 step = static_cast<__int128>(shape_[i] - 1) * strides_[i];
        reach += step < 0 ? -step : step;
        if (reach > kBuffer) reach = kBuffer + 1;
      }
    }
    if (Byte() % 2) {
      array.strides = nullptr;
      reach = 1;
      for (int i = 0; i < array.rank && i < 10 && reach <= kBuffer; ++i) reach *= shape_[i] < 0 ? 1 : shape_[i];
    }
    if (reach > kBuffer) array.data = nullptr;
    if (Byte() % 16 == 15) array.shape = nullptr;
    return array;
  }

  static int Hear(void* self, const char*, size_t length, int) {
    Host& host = *static_cast<Host*>(self);
    ct_free(nullptr);
    return length % 7 == 6 || host.Byte() % 8 == 7;
  }

  ct_status Call(int function);

  std::string_view input_;
  std::vector<double> memory_;
  std::vector<void*> handles_;
  size_t first_own_ = 0;
  std::string text_;
  int64_t shape_[10] = {}, strides_[10] = {};
};

ct_status Host::Call(int function) {
  const char* text = nullptr;
  size_t size = 0;
  ct_tensor* tensor = nullptr;
  ct_tensors* tensors = nullptr;
  ct_pass* pass = nullptr;
  ct_cache* cache = nullptr;
  ct_attention* attention = nullptr;
  ct_model* model = nullptr;
  ct_training* training = nullptr;
  ct_dataset* dataset = nullptr;
  ct_batches* batches = nullptr;
  ct_optimizer* optimizer = nullptr;
  int64_t count = 0;
  int more = 0;
  switch (function) {
    case 0: {
      const size_t index = Byte() % handles_.size();
      // The fixture's stay; what was freed stays in the list, as a handle that is no longer one.
      return index < 3 || index >= first_own_ ? ct_free(handles_[index]) : CT_OK;
    }
    case 1:
      return ct_describe(Handle(), Out(&text));
    case 2:
      return Keep(ct_parameters(Handle(), Out(&tensors)), tensors);
    case 3: {
      const ct_array array = Array();
      __int128 count = 1;
      for (int i = 0; i < array.rank && i < 10; ++i) count *= shape_[i] > 1 && count < (1 << 24) ? shape_[i] : 1;
      if (count > (1 << 20) && count < (__int128{1} << 60)) return CT_OK;  // that much memory may be there
      return Keep(ct_tensor_create(&array, Out(&tensor)), tensor);
    }
    case 4:
    case 5:
    case 6: {
      const ct_array array = Array();
      return Keep(ct_tensor_wrap(&array, nullptr, nullptr, Out(&tensor)), tensor);
    }
    case 7: {
      ct_array array;
      return ct_tensor_array(As<ct_tensor>(), Byte() % 8 == 7 ? nullptr : &array);
    }
    case 8: {
      void* managed = nullptr;
      const auto form = static_cast<ct_dlpack>(Byte() % 3);
      const ct_status status = ct_tensor_to_dlpack(As<ct_tensor>(), form, &managed);
      if (status != CT_OK) return status;
      const ct_status back = ct_tensor_from_dlpack(managed, form, &tensor);
      Require(back == CT_OK, "what went out does not come back: ", ct_last_error());
      return Keep(back, tensor);
    }
    case 9:
      return Keep(ct_tensors_create(Out(&tensors)), tensors);
    case 10:
    case 11:
    case 12:
      return Ordered<ct_tensors_add>{As<ct_tensors>(), Name(), As<ct_tensor>()}.status;
    case 13:
      return ct_tensors_size(As<ct_tensors>(), Out(&size));
    case 14:
      return Keep(ct_tensors_at(As<ct_tensors>(), Byte() % 16, Out(&text), Out(&tensor)), tensor);
    case 15:
      return Keep(Ordered<ct_tensors_find>{As<ct_tensors>(), Name(), Out(&tensor)}.status, tensor);
    case 16:
      return Keep(ct_attention_create(Text(), Out(&attention)), attention);
    case 17:
    case 18: {
      const auto* const layer = As<ct_attention>();
      const auto* const inputs = As<ct_tensors>();
      ct_pass** const made = Out(&pass);
      const char* const options = Byte() % 2 ? nullptr : "{\"weights\": true}";
      return Keep(Keep(ct_attention_forward(layer, inputs, options, Out(&tensors), made), tensors), pass);
    }
    case 19:
      return Keep(Ordered<ct_attention_begin>{As<ct_attention>(), As<ct_tensor>(), Out(&cache)}.status, cache);
    case 20:
      return Keep(
          Ordered<ct_attention_step>{As<ct_attention>(), As<ct_cache>(), As<ct_tensors>(), Out(&tensors)}.status,
          tensors);
    case 21:
    case 22:
      return Keep(Ordered<ct_backward>{As<ct_pass>(), Name(), As<ct_tensor>(), Out(&tensors)}.status, tensors);
    case 23:
      return Keep(ct_model_open("/dev/null/none", Text(), Out(&model)), model);
    case 24:
      return Keep(
          Keep(Ordered<ct_model_forward>{As<ct_model>(), As<ct_tensors>(),
                                         Byte() % 2 ? nullptr : "{\"detail\": \"all\"}", Out(&tensors), Out(&pass)}
                   .status,
               tensors),
          pass);
    case 25: {
      const auto* const of = As<ct_model>();
      const char* const prompt = Text();
      const size_t length = prompt == nullptr ? Byte() % 2 : text_.size();
      const std::string kept = prompt == nullptr ? "" : text_;
      return ct_model_generate(of, prompt == nullptr ? nullptr : kept.data(), length, "{\"max_length\": 6}", Hear, this,
                               Out(&text), Out(&size));
    }
    case 26:
      return Ordered<ct_model_search>{As<ct_model>(), As<ct_tensors>(), "{\"max_length\": 3, \"beams\": 2}", Out(&text)}
          .status;
    case 27: {
      const auto* const of = As<ct_model>();
      const char* const given = Text();
      return Keep(ct_model_encode(of, given, given == nullptr ? 0 : text_.size(), Out(&tensor)), tensor);
    }
    case 28:
      return Ordered<ct_model_decode>{As<ct_model>(), As<ct_tensor>(), Out(&text), Out(&size)}.status;
    case 29:
      return Keep(ct_training_open(Byte() % 2 ? nullptr : "", Text(), "none", nullptr, Out(&training)), training);
    case 30:
      return ct_training_step(As<ct_training>(), Out(&more));
    case 32:
      return Keep(Keep(Ordered<ct_model_loss>{As<ct_model>(), As<ct_tensors>(),
                                              Byte() % 2 ? nullptr : "{\"training\": false}", Out(&tensors), Out(&pass)}
                           .status,
                       tensors),
                  pass);
    case 33:
      return Keep(Ordered<ct_dataset_create>{As<ct_model>(), As<ct_tensor>(), Text(), Out(&dataset)}.status, dataset);
    case 34:
      return Keep(Ordered<ct_batches_create>{As<ct_dataset>(), Text(), Out(&batches)}.status, batches);
    case 35:
      return Byte() % 8 ? Keep(Ordered<ct_batches_at>{As<ct_batches>(), Size(), Out(&tensors)}.status, tensors)
                        : ct_batches_size(As<ct_batches>(), Out(&count));
    case 36:
      return Keep(Ordered<ct_optimizer_create>{Handle(), Text(), Out(&optimizer)}.status, optimizer);
    case 37:
      return Ordered<ct_optimizer_step>{As<ct_optimizer>(), As<ct_tensors>(), Text(), Out(&text)}.status;
    case 38:
      return Byte() % 2 ? Keep(ct_optimizer_state(As<ct_optimizer>(), Out(&tensors)), tensors)
                        : Ordered<ct_optimizer_load>{As<ct_optimizer>(), As<ct_tensors>()}.status;
    case 39:
      return Ordered<ct_model_save>{As<ct_model>(), "", As<ct_optimizer>()}.status;
    default:
      return ct_training_metrics(As<ct_training>(), Out(&text));
  }
}

}  // namespace

// A host's calls of the C interface, with handles that are freed, of another kind or none, sizes that are wrong, and
// NULL: each ends with a status, and one that is not CT_OK with a message.
void FuzzCInterface(std::string_view input) { Host(input).Run(); }

}  // namespace crosstalk::fuzz

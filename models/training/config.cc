#include "crosstalk/models/training/config.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/adamw.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

namespace {

// Whether a field decides bits of the trained model.
enum class Decides { kBits, kNothing };

// The one list of fields: visit(key, field, Decides).
template <typename Config, typename Visitor>
void VisitFields(Config& config, Visitor&& visit) {
  visit("data", config.data, Decides::kNothing);
  visit("validation", config.validation, Decides::kNothing);
  visit("tokenizer", config.tokenizer, Decides::kBits);
  visit("vocabulary", config.vocabulary, Decides::kBits);
  visit("input_length", config.input_length, Decides::kBits);
  visit("attention", config.attention.kind, Decides::kBits);
  visit("encoder_self", config.encoder_self_kind, Decides::kBits);
  visit("decoder_self", config.decoder_self_kind, Decides::kBits);
  visit("encoder_decoder", config.encoder_decoder_kind, Decides::kBits);
  visit("heads", config.attention.heads, Decides::kBits);
  visit("key_heads", config.attention.key_heads, Decides::kBits);
  visit("value_heads", config.attention.value_heads, Decides::kBits);
  visit("key_size", config.attention.key_size, Decides::kBits);
  visit("value_size", config.attention.value_size, Decides::kBits);
  visit("dynamic", config.attention.dynamic, Decides::kBits);
  visit("attention_scale", config.attention_scale, Decides::kBits);
  visit("mixing_init", config.mixing_init, Decides::kBits);
  visit("keys_values", config.keys_values, Decides::kBits);
  visit("implementation", config.implementation, Decides::kBits);
  visit("d_model", config.d_model, Decides::kBits);
  visit("d_ff", config.d_ff, Decides::kBits);
  visit("layers", config.layers, Decides::kBits);
  visit("decoder_layers", config.decoder_layers, Decides::kBits);
  visit("feed_forward", config.feed_forward, Decides::kBits);
  visit("classifier", config.classifier, Decides::kBits);
  visit("dropout", config.dropout, Decides::kBits);
  visit("steps", config.steps, Decides::kBits);
  visit("batch", config.batch, Decides::kBits);
  visit("accumulate", config.accumulate, Decides::kBits);
  visit("optimizer", config.optimizer, Decides::kBits);
  visit("schedule", config.schedule, Decides::kBits);
  visit("learning_rate", config.learning_rate, Decides::kBits);
  visit("warmup", config.warmup, Decides::kBits);
  visit("decay", config.decay, Decides::kBits);
  visit("weight_decay", config.weight_decay, Decides::kBits);
  visit("clip", config.clip, Decides::kBits);
  visit("z_loss", config.z_loss, Decides::kBits);
  visit("loss_denominator", config.loss_denominator, Decides::kBits);
  visit("activations", config.activations, Decides::kNothing);
  visit("seed", config.seed, Decides::kBits);
  visit("eval_every", config.eval_every, Decides::kNothing);
  visit("eval_batches", config.eval_batches, Decides::kNothing);
  visit("checkpoint_every", config.checkpoint_every, Decides::kNothing);
  visit("keep", config.keep, Decides::kNothing);
  visit("log_every", config.log_every, Decides::kNothing);
}

Json FieldToJson(const std::string& value) { return Json(value); }
Json FieldToJson(int64_t value) { return Json(value); }
Json FieldToJson(uint64_t value) { return Json(value); }
Json FieldToJson(double value) { return Json(value); }
template <typename T>
Json FieldToJson(const std::optional<T>& value) {
  return value ? FieldToJson(*value) : Json();
}

void FieldFromJson(const JsonReader& reader, const char* key, std::string* value) { *value = reader.String(key); }
void FieldFromJson(const JsonReader& reader, const char* key, int64_t* value) { *value = reader.Int(key); }
void FieldFromJson(const JsonReader& reader, const char* key, uint64_t* value) {
  *value = static_cast<uint64_t>(reader.Int(key, 0, INT64_MAX));
}
void FieldFromJson(const JsonReader& reader, const char* key, double* value) { *value = reader.Double(key); }
template <typename T>
void FieldFromJson(const JsonReader& reader, const char* key, std::optional<T>* value) {
  value->reset();
  if (reader.Value(key).is_null()) return;
  T present{};
  FieldFromJson(reader, key, &present);
  *value = present;
}

void CheckChoice(const char* option, const std::string& value, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
  Fail(ErrorKind::kUsage, option, ": \"", value, "\" is none of ", list);
}

void CheckAtLeast(const char* option, int64_t value, int64_t low) {
  CROSSTALK_CHECK(value >= low, option, ": ", value, " is less than ", low);
  CROSSTALK_CHECK(value <= int64_t{1} << 40, option, ": ", value, " is too large");
}

void CheckRange(const char* option, double value, double low, double high) {
  CROSSTALK_CHECK(std::isfinite(value) && value >= low && value <= high, option, ": ", value, " is not between ", low,
                  " and ", high);
}

AttentionConfig MakeLayer(const TrainingConfig& config, const std::optional<std::string>& kind) {
  AttentionOptions options = config.attention;
  if (kind) options.kind = *kind;
  AttentionConfig layer = MakeAttentionConfig(options, config.d_model);
  if (config.attention_scale == "explicit" && layer.d_k > 0) {
    layer.scale = 1.0 / std::sqrt(static_cast<double>(layer.d_k));
  }
  if (config.keys_values == "tied") layer.key_value = KeyValueProjection::kTied;
  // Only a layer that has P_l or P_w can start with the identity.
  if (config.mixing_init == "identity" && (layer.mixing.P_l || layer.mixing.P_w)) {
    layer.mixing_init = MixingInit::kIdentity;
  }
  layer.dropout_rate = config.dropout;
  layer.implementation = ParseAttentionImplementation(config.implementation);
  layer.Validate();
  return layer;
}

}  // namespace

void TrainingConfig::Resolve() {
  CheckAtLeast("--vocabulary", vocabulary, 16);
  CROSSTALK_CHECK(vocabulary <= 1'000'000, "--vocabulary: ", vocabulary, " is too large");
  CheckAtLeast("--input-length", input_length, 4);
  CheckAtLeast("--d-model", d_model, 1);
  CheckAtLeast("--d-ff", d_ff, 1);
  CheckAtLeast("--layers", layers, 1);
  if (!decoder_layers) decoder_layers = layers;
  CheckAtLeast("--decoder-layers", *decoder_layers, 1);
  CheckAtLeast("--steps", steps, 1);
  CROSSTALK_CHECK(steps < int64_t{1} << 31, "--steps: ", steps, " is too large");
  CheckAtLeast("--batch", batch, 1);
  CheckAtLeast("--accumulate", accumulate, 1);
  CROSSTALK_CHECK(batch % accumulate == 0, "--batch ", batch, " cannot be cut into --accumulate ", accumulate,
                  " equal parts");
  CheckChoice("--attention-scale", attention_scale, {"folded", "explicit"});
  CheckChoice("--mixing-init", mixing_init, {"random", "identity"});
  CheckChoice("--keys-values", keys_values, {"separate", "tied"});
  CheckChoice("--feed-forward", feed_forward, {"relu", "gated-gelu"});
  CheckChoice("--classifier", classifier, {"tied", "untied"});
  CheckChoice("--optimizer", optimizer, {"adafactor", "adamw"});
  CheckChoice("--loss-denominator", loss_denominator, {"tokens", "positions"});
  CheckChoice("--activations", activations, {"keep", "recompute"});
  if (!schedule) schedule = optimizer == "adafactor" ? "inverse-square-root" : "linear";
  if (!learning_rate) learning_rate = optimizer == "adafactor" ? 0.3 : 1e-3;
  if (!warmup) warmup = std::min(std::max<int64_t>(30, steps / 50), std::max<int64_t>(1, steps / 2));
  CheckAtLeast("--warmup", *warmup, 1);
  CheckRange("--learning-rate", *learning_rate, 0, 1e30);
  CheckRange("--dropout", dropout, 0, 0.99);
  CheckRange("--decay", decay, 0, 1);
  CheckRange("--weight-decay", weight_decay, 0, 1e6);
  CheckRange("--clip", clip, 0, 1e30);
  CheckRange("--z-loss", z_loss, 0, 1e6);
  CROSSTALK_CHECK(seed <= static_cast<uint64_t>(INT64_MAX), "--seed: ", seed, " is too large");
  if (!eval_every) eval_every = std::max<int64_t>(1, steps / 8);
  CheckAtLeast("--eval-every", *eval_every, 0);
  if (!checkpoint_every) checkpoint_every = *eval_every;
  CheckAtLeast("--checkpoint-every", *checkpoint_every, 0);
  CheckAtLeast("--eval-batches", eval_batches, 1);
  CheckAtLeast("--keep", keep, 1);
  CROSSTALK_CHECK(keep <= 1'000'000, "--keep: ", keep, " is too large");
  CheckAtLeast("--log-every", log_every, 1);
  MakeSchedule(*this).Validate();
  MakeT5Config(*this, vocabulary + 100).Validate();
}

Json ToJson(const TrainingConfig& config) {
  Json json = Json::MakeObject();
  VisitFields(config, [&](const char* key, const auto& field, Decides) { json.Set(key, FieldToJson(field)); });
  return json;
}

TrainingConfig TrainingConfigFromJson(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  TrainingConfig config;
  VisitFields(config, [&](const char* key, auto& field, Decides) { FieldFromJson(reader, key, &field); });
  reader.RejectUnread();
  return config;
}

std::vector<std::string> Differences(const TrainingConfig& here, const TrainingConfig& there) {
  const Json here_json = ToJson(here);
  const Json there_json = ToJson(there);
  std::vector<std::string> differences;
  VisitFields(here, [&](const char* key, const auto&, Decides decides) {
    const Json& a = here_json.At(key);
    const Json& b = there_json.At(key);
    if (decides == Decides::kBits && a != b) {
      differences.push_back(StrCat(key, ": ", a.Dump(), " here, ", b.Dump(), " there"));
    }
  });
  return differences;
}

T5Config MakeT5Config(const TrainingConfig& config, int64_t vocabulary) {
  T5Config model;
  model.vocabulary = vocabulary;
  model.d_model = config.d_model;
  model.d_ff = config.d_ff;
  model.encoder_layers = config.layers;
  model.decoder_layers = config.decoder_layers.value_or(config.layers);
  model.feed_forward = ParseFeedForwardKind(config.feed_forward);
  model.classifier = ParseClassifierKind(config.classifier);
  model.dropout_rate = config.dropout;
  model.SetAttention(MakeLayer(config, config.encoder_self_kind), MakeLayer(config, config.decoder_self_kind),
                     MakeLayer(config, config.encoder_decoder_kind));
  return model;
}

std::unique_ptr<Optimizer> MakeOptimizer(const TrainingConfig& config, std::vector<NamedParameter> parameters) {
  if (config.optimizer == "adafactor") return std::make_unique<Adafactor>(std::move(parameters));
  AdamWConfig adamw;
  adamw.weight_decay = config.weight_decay;
  return std::make_unique<AdamW>(std::move(parameters), adamw);
}

ScheduleConfig MakeSchedule(const TrainingConfig& config) {
  ScheduleConfig schedule;
  schedule.kind = ParseScheduleKind(config.schedule.value_or("inverse-square-root"));
  schedule.scale = config.learning_rate.value_or(1.0);
  schedule.warmup_steps = config.warmup.value_or(1);
  schedule.total_steps = config.steps;
  schedule.decay_fraction = config.decay;
  return schedule;
}

}  // namespace crosstalk

#include "crosstalk/models/training/ranks/session.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Rank 0's commands to the others.
constexpr char kRun[] = "run", kMeasure[] = "measure", kStep[] = "step", kEvaluate[] = "evaluate",
               kOptimizerState[] = "optimizer state", kEndOfRun[] = "end of run", kEnd[] = "end";

// Values that must be equal on all ranks, by their names in errors.
Json SameEverywhere(const TrainingConfig& config, const std::string& fingerprint) {
  Json json = Json::MakeObject({{"version of crosstalk", Version()}});
  if (config.optimization.precision == Precision::kBFloat16) json.Set("bfloat16 unit", kernels::BFloat16UnitName());
  return json.Set("fingerprint of the data", fingerprint);
}

// Where a rank computes, for run.json.
std::string PlaceOfThisRank(const RankGroup& group) {
  return Json::MakeObject({{"host", group.transport().host(group.rank())},
                           {"threads", NumThreads()},
                           {"simd_target", kernels::SimdTargetName()}})
      .Dump();
}

// A rank's answer to a run: what it has, or why it has not.
Json FailureJson(const Error& error) {
  return Json::MakeObject({{"error", error.what()}, {"kind", static_cast<int64_t>(error.kind())}});
}

// From the answers of all, on every rank the same: the error where one differs from rank 0's or is a failure.
std::optional<Error> DifferenceOf(RankGroup& group, const Json& here) {
  const std::vector<std::string> answers = group.AllGather(here.Dump());
  std::vector<Json> all;
  for (const std::string& text : answers) all.push_back(ParseJson(text, "a rank's answer"));
  for (int rank = 0; rank < group.size(); ++rank) {
    const Json& answer = all[static_cast<size_t>(rank)];
    const Json* error = answer.Find("error");
    if (error == nullptr) continue;
    return Error(static_cast<ErrorKind>(answer.At("kind").AsInt()),
                 StrCat(group.NameOf(rank), ": ", error->AsString()));
  }
  for (int rank = 1; rank < group.size(); ++rank) {
    for (const auto& [name, value] : all[0].AsObject()) {
      const Json* other = all[static_cast<size_t>(rank)].Find(name);
      if (other != nullptr && *other == value) continue;
      return Error(ErrorKind::kUsage,
                   StrCat(name, ": ", other == nullptr ? "none" : other->AsString(), " on ", group.NameOf(rank), ", ",
                          value.AsString(), " on ", group.NameOf(0), "; a run needs the same on every rank"));
    }
  }
  return std::nullopt;
}

// The slots of the parameters that a rank owns, and what belongs to no parameter: "step", "carried_steps", and what the
// optimizer refuses.
std::vector<NamedTensor> StateOf(int rank, const std::vector<NamedParameter>& parameters,
                                 const std::vector<int>& owners, const std::vector<NamedTensor>& state) {
  std::map<std::string, int> owner_of;
  for (size_t i = 0; i < parameters.size(); ++i) owner_of[parameters[i].name] = owners[i];
  std::vector<NamedTensor> own;
  for (const NamedTensor& tensor : state) {
    const auto owner = owner_of.find(tensor.name.substr(0, tensor.name.rfind('.')));
    if (owner == owner_of.end() || owner->second == rank) own.push_back(tensor);
  }
  return own;
}

// The optimizer's state of the parameters that a rank owns, in the order in which it is written.
std::vector<NamedTensor> SlotsAsInFile(const Optimizer& optimizer) {
  std::vector<NamedTensor> slots = optimizer.State();
  std::erase_if(slots, [](const NamedTensor& one) { return one.name == "step" || one.name == "carried_steps"; });
  SortAsInFile(slots);
  return slots;
}

void Take(StateTransfer transfer, std::vector<NamedTensor> state, Optimizer& optimizer) {
  if (transfer == StateTransfer::kLoad) optimizer.LoadState(state);
  if (transfer == StateTransfer::kCarryOver) optimizer.CarryOver(std::move(state));
}

// The shares of all ranks.
std::vector<EvaluationSums> SumsOfAll(RankGroup& group, const Model& model, const EvaluationBatches& batches) {
  const auto share = [&](int rank) { return rank * batches.num_batches() / group.size(); };
  const EvaluationSums here = SumsOf(model, batches, share(group.rank()), share(group.rank() + 1));
  MessageWriter message;
  message.Int(here.tokens).Int(here.examples);
  for (const std::vector<MetricSum>& batch : here.batches) WriteSums(batch, message);
  std::vector<EvaluationSums> all;
  for (const std::string& of_rank : group.AllGather(message.bytes())) {
    MessageReader reader(of_rank);
    EvaluationSums& sums = all.emplace_back();
    sums.tokens = reader.Int();
    sums.examples = reader.Int();
    while (!reader.done()) sums.batches.push_back(ReadSums(reader));
  }
  return all;
}

// A model and its tokenizer for every rank, as one JSON object; and what a rank makes of it.
Json TrainedJson(const TrainingConfig& config, const Model& model, const Tokenizer& tokenizer) {
  return Json::MakeObject({{"configuration", ToJson(config)},
                           {"model", model.config().ToJson()},
                           {"tokenizer_file", tokenizer.FileName()},
                           {"tokenizer", EncodeBase64(tokenizer.FileContents())}});
}
TrainingConfig ConfigFrom(const Json& json) {
  return TrainingConfigFromJson(json.At("configuration"), "the configuration of rank 0");
}
std::shared_ptr<const Tokenizer> TokenizerFrom(const Json& json, const TrainingConfig& config) {
  return LoadTokenizer(DecodeBase64(json.At("tokenizer").AsString()).value(), json.At("tokenizer_file").AsString(),
                       ObjectiveOf(config).tokenizer.sentinels);
}
// Whose parameters come later.
std::unique_ptr<Model> ModelFrom(const Json& json, const TrainingConfig& config) {
  return MakeModel(ReadModelConfig(json.At("model"), "the model of rank 0"), config.optimization.seed);
}
void ReceiveParameters(RankGroup& group, const TrainingConfig& config, Model& model) {
  LoadParameters({.path = "the parameters of rank 0", .tensors = group.ReceiveTensors(0), .metadata = {}}, model);
  PrepareModel(config.optimization, model);
}

// The identity of an evaluation text.
std::string FingerprintOf(const TextSource& text, const EvaluationBatches& batches) {
  const std::optional<uint64_t> checksum = text.checksum();
  return StrCat(checksum ? std::to_string(*checksum) : text.Describe(), ", ", batches.num_examples(), " examples");
}

// Another rank's part of EvaluateOnRanks.
void Measure(RankGroup& group) {
  const Json json = ParseJson(group.Broadcast(""), "a measurement of rank 0");
  TrainingConfig config;
  std::unique_ptr<Model> model;
  std::unique_ptr<EvaluationBatches> batches;
  Json answer;
  try {
    config = ConfigFrom(json);
    const std::shared_ptr<const Tokenizer> tokenizer = TokenizerFrom(json, config);
    const std::string& path = json.At("text").AsString();
    const std::shared_ptr<const TextSource> text =
        path.empty() ? OpenCorpus(config).validation : OpenTextSource(path, {}, config.data.text_field);
    batches = MakeEvaluation(config, text, tokenizer, static_cast<EvaluationExtent>(json.At("extent").AsInt()));
    model = ModelFrom(json, config);
    answer = SameEverywhere(config, FingerprintOf(*text, *batches));
  } catch (const Error& error) {
    answer = FailureJson(error);
  }
  if (DifferenceOf(group, answer)) return;  // rank 0 says so
  ReceiveParameters(group, config, *model);
  SumsOfAll(group, *model, *batches);
}

// Rank 0's reducer, which tells the others that a step begins.
class LeadingReducer : public RankReducer {
 public:
  LeadingReducer(RankGroup& group, const std::vector<NamedParameter>& parameters, int64_t parts)
      : RankReducer(group, parameters, parts), group_(group) {}

  void Start() override {
    group_.SetTogether(false);
    group_.Broadcast(kStep);
    RankReducer::Start();
  }
  void ShareParameters() override {
    RankReducer::ShareParameters();
    group_.SetTogether(true);
  }
  std::string ShareText(std::string text) override {
    text = RankReducer::ShareText(std::move(text));
    group_.SetTogether(true);
    return text;
  }

 private:
  RankGroup& group_;
};

// Another rank's part of a run.
class RankRun {
 public:
  explicit RankRun(RankGroup& group);

  // One of rank 0's calls.
  void Do(const std::string& call);

 private:
  void Open(const Json& run);

  RankGroup& group_;
  TrainingConfig config_;
  TrainingData data_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<RankReducer> reducer_;
  std::unique_ptr<BatchSource> batches_;
  std::unique_ptr<EvaluationBatches> held_out_;  // of text
  std::optional<Loop> loop_;
};

RankRun::RankRun(RankGroup& group) : group_(group) {
  const Json run = ParseJson(group_.Broadcast(""), "a run of rank 0");
  Json answer;
  try {
    Open(run);
    answer = SameEverywhere(config_, data_.fingerprint);
  } catch (const Error& error) {
    answer = FailureJson(error);
  }
  if (DifferenceOf(group_, answer)) return;  // rank 0 says so
  ReceiveParameters(group_, config_, *model_);
  const auto transfer = static_cast<StateTransfer>(run.At("transfer").AsInt());
  optimizer_ = MakeOptimizer(config_.optimization, OwnedBy(group_.rank(), model_->Parameters(), group_.size()));
  if (transfer != StateTransfer::kNone) Take(transfer, group_.ReceiveTensors(0), *optimizer_);
  group_.AllGather(PlaceOfThisRank(group_));
  reducer_ = std::make_unique<RankReducer>(group_, model_->Parameters(), config_.optimization.shards);
  batches_ = MakeBatches(config_, data_, reducer_->parts());
  if (data_.tasks == nullptr) held_out_ = MakeEvaluation(config_, data_.corpus.validation, data_.tokenizer);
  loop_.emplace(*model_, *batches_, *optimizer_, *reducer_, MakeLoopOptions(config_.optimization));
}

void RankRun::Open(const Json& run) {
  config_ = ConfigFrom(run);
  data_ = OpenTrainingData(config_, TokenizerFrom(run, config_));
  model_ = ModelFrom(run, config_);
}

void RankRun::Do(const std::string& call) {
  if (call == kStep) {
    try {
      loop_->Step();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNumerical) throw;  // else rank 0 says so, and ends the run
    }
  } else if (call == kEvaluate) {
    SumsOfAll(group_, *model_, *held_out_);
  } else if (call == kOptimizerState) {
    group_.SendTensors(0, SlotsAsInFile(*optimizer_));
  } else {
    Fail(ErrorKind::kFailure, "rank 0 asks for ", Quoted(call), ", which is none of a run's calls");
  }
}

}  // namespace

std::unique_ptr<Optimizer> MakeOwnOptimizer(const TrainingConfig& config, const Model& model, int rank, int ranks,
                                            StateTransfer transfer, const std::vector<NamedTensor>& state) {
  const std::vector<NamedParameter> parameters = model.Parameters();
  const auto trainable = std::count_if(parameters.begin(), parameters.end(),
                                       [](const NamedParameter& parameter) { return parameter.trainable; });
  CROSSTALK_CHECK(ranks <= trainable, "training: ", ranks, " ranks, and parameters that are trained: ", trainable,
                  "; each rank updates at least one");
  std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config.optimization, OwnedBy(rank, parameters, ranks));
  Take(transfer, StateOf(rank, parameters, OwnersOf(parameters, ranks), state), *optimizer);
  return optimizer;
}

RankLeader::RankLeader(RankGroup& group, const ResolvedConfig& config, const TrainingData& data, const Model& model,
                       StateTransfer transfer, const std::vector<NamedTensor>& state)
    : group_(group) {
  const int64_t parts = config->optimization.shards;
  CROSSTALK_CHECK_FIELD(group.size() <= parts, "shards", group.size(), " ranks cannot share the ",
                        parts == 1 ? "one part" : StrCat(parts, " parts"), " of a step; at least ", group.size(),
                        " are needed. The number of parts decides the result, the number of ranks does not; smaller "
                        "parts are computed more slowly");
  group_.SetTogether(false);
  group_.Broadcast(kRun);
  group_.Broadcast(TrainedJson(*config, model, *data.tokenizer).Set("transfer", static_cast<int64_t>(transfer)).Dump());
  const std::optional<Error> difference = DifferenceOf(group_, SameEverywhere(*config, data.fingerprint));
  if (difference) {
    group_.SetTogether(true);
    throw *difference;
  }
  const std::vector<NamedParameter> parameters = model.Parameters();
  const std::vector<int> owners = OwnersOf(parameters, group_.size());
  for (int rank = 1; rank < group_.size(); ++rank) {
    group_.SendTensors(rank, ParameterTensors(model));
    if (transfer != StateTransfer::kNone) group_.SendTensors(rank, StateOf(rank, parameters, owners, state));
  }
  for (const std::string& of_rank : group_.AllGather(PlaceOfThisRank(group_))) {
    places_.Append(ParseJson(of_rank, "a rank's place"));
  }
  reducer_ = std::make_unique<LeadingReducer>(group_, parameters, parts);
  group_.SetTogether(true);
}

RankLeader::~RankLeader() {
  reducer_.reset();
  try {
    if (group_.together()) group_.Broadcast(kEndOfRun);
  } catch (const std::exception&) {
    // The others are lost.
  }
}

EvaluationResult RankLeader::Evaluate(const Model& model, const EvaluationBatches& batches) {
  const Stopwatch watch;
  group_.SetTogether(false);
  group_.Broadcast(kEvaluate);
  const std::vector<EvaluationSums> shares = SumsOfAll(group_, model, batches);
  group_.SetTogether(true);
  EvaluationResult result = ResultOf(shares);
  result.seconds = watch.seconds();
  return result;
}

void RankLeader::WriteOptimizerState(const std::vector<NamedTensor>& own, FileWriter& file) {
  group_.SetTogether(false);
  group_.Broadcast(kOptimizerState);
  std::vector<TensorSource> all;
  for (const NamedTensor& one : own) {
    all.push_back({one.name, one.tensor.dtype(), one.tensor.shape(), [&one] { return one.tensor; }});
  }
  for (int rank = 1; rank < group_.size(); ++rank) {
    for (TensorSource& source : group_.IncomingTensors(rank)) all.push_back(std::move(source));
  }
  WriteSafetensors(file, std::move(all));
  group_.SetTogether(true);
}

EvaluationResult EvaluateOnRanks(RankGroup& group, const ResolvedConfig& config, const Tokenizer& tokenizer,
                                 const Model& model, const EvaluationBatches& batches, const TextSource& text,
                                 const std::string& path, EvaluationExtent extent) {
  const Stopwatch watch;
  group.SetTogether(false);
  group.Broadcast(kMeasure);
  group.Broadcast(
      TrainedJson(*config, model, tokenizer).Set("text", path).Set("extent", static_cast<int64_t>(extent)).Dump());
  const std::optional<Error> difference = DifferenceOf(group, SameEverywhere(*config, FingerprintOf(text, batches)));
  std::vector<EvaluationSums> shares;
  if (!difference) {
    for (int rank = 1; rank < group.size(); ++rank) group.SendTensors(rank, ParameterTensors(model));
    shares = SumsOfAll(group, model, batches);
  }
  group.SetTogether(true);
  if (difference) throw *difference;
  EvaluationResult result = ResultOf(shares);
  result.seconds = watch.seconds();
  return result;
}

void ServeRanks(RankGroup& group) {
  std::optional<RankRun> run;
  for (std::string call; (call = group.Broadcast("")) != kEnd;) {
    if (call == kRun) {
      run.emplace(group);
    } else if (call == kEndOfRun) {
      run.reset();
    } else if (call == kMeasure) {
      Measure(group);
    } else {
      CROSSTALK_CHECK(run.has_value(), "rank 0 asks for ", Quoted(call), " without a run");
      run->Do(call);
    }
  }
}

void EndRanks(RankGroup& group) { group.Broadcast(kEnd); }

}  // namespace crosstalk

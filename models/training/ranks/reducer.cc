#include "crosstalk/models/training/ranks/reducer.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk {

void AddTo(LossSum& left, LossSum right) {
  left.loss += right.loss;
  AddSums(left.metrics, right.metrics);
}

void AddTo(Tensor& left, Tensor right) {
  if (!left.defined()) {
    left = std::move(right);
  } else if (right.defined()) {
    math::AddInPlace(left, right);
  }
}

int MostGradientsKept(int64_t parts) { return std::bit_width(static_cast<uint64_t>(parts)) - 1; }

bool AreBesideEachOther(int64_t parts, const std::vector<NamedParameter>& parameters) {
  const int64_t threads = NumThreads();
  if (threads == 1 || parts == 1) return false;
  const int64_t places = RoundUp(parts, threads);
  if (8 * (places - parts) > places) return false;
  int64_t bytes = 0;
  for (const NamedParameter& parameter : parameters) {
    if (parameter.trainable)
      bytes += BytesOf(parameter.value.value().num_elements(), ResultDType(parameter.value.dtype()));
  }
  return bytes <= kMostApartBytes / parts;
}

LocalReducer::LocalReducer(int64_t parts) : parts_(static_cast<size_t>(parts)), loss_(parts) {
  std::iota(parts_.begin(), parts_.end(), 0);
}

StepCounts LocalReducer::Begin(const StepCounts& here, size_t parameters) {
  gradients_.assign(parameters, PartTree<Tensor>(std::ssize(parts_)));
  loss_.Take();
  return here;
}

StepSum LocalReducer::Finish() {
  StepSum sum{.gradients = {}, .loss = std::move(loss_.Take()[0].sum)};
  for (PartTree<Tensor>& tree : gradients_) sum.gradients.push_back(std::move(tree.Take()[0].sum));
  return sum;
}

namespace {

// Where a step is traced.
double TraceTime() {
  const std::shared_ptr<Trace>& trace = CurrentContext().trace;
  return trace ? trace->seconds() : 0;
}
void TraceMessage(const char* name, double begin, const Tensor& tensor) {
  const std::shared_ptr<Trace>& trace = CurrentContext().trace;
  if (!trace) return;
  const double end = trace->seconds();
  trace->Add({.kind = TraceEvent::Kind::kMessage,
              .name = name,
              .begin = std::min(begin, end),
              .end = end,
              .bytes = tensor.defined() ? std::ssize(BytesIn(tensor)) : 0});
}

}  // namespace

std::vector<int> OwnersOf(const std::vector<NamedParameter>& parameters, int ranks) {
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto elements = [&](size_t i) { return parameters[i].value.value().num_elements(); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return elements(a) > elements(b); });
  std::vector<int> owners(parameters.size(), -1);
  std::vector<int64_t> owned(static_cast<size_t>(ranks));
  for (const size_t i : order) {
    if (!parameters[i].trainable) continue;
    const auto least = std::min_element(owned.begin(), owned.end());
    owners[i] = static_cast<int>(least - owned.begin());
    *least += elements(i);
  }
  return owners;
}

std::vector<NamedParameter> OwnedBy(int rank, const std::vector<NamedParameter>& parameters, int ranks) {
  const std::vector<int> owners = OwnersOf(parameters, ranks);
  std::vector<NamedParameter> owned;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (owners[i] == rank) owned.push_back(parameters[i]);
  }
  return owned;
}

std::vector<int64_t> PartsOf(int rank, int ranks, int64_t parts) {
  std::vector<int64_t> of_rank;
  for (int64_t part = rank * parts / ranks; part < (rank + 1) * parts / ranks; ++part) of_rank.push_back(part);
  return of_rank;
}

std::vector<PartNode> NodesOf(int rank, int ranks, int64_t parts) {
  PartTree<LossSum> tree(parts);
  for (const int64_t part : PartsOf(rank, ranks, parts)) tree.Add({0, part, {}});
  std::vector<PartNode> nodes;
  for (const PartTree<LossSum>::Node& node : tree.Take()) nodes.push_back({node.level, node.index});
  return nodes;
}

RankReducer::RankReducer(RankGroup& group, const std::vector<NamedParameter>& parameters, int64_t parts)
    : group_(group),
      parameters_(parameters),
      owners_(OwnersOf(parameters, group.size())),
      all_parts_(parts),
      parts_(PartsOf(group.rank(), group.size(), parts)) {
  CROSSTALK_CHECK(group.size() <= parts, "training: ", group.size(), " ranks for the ", parts, " parts of a step");
  for (size_t i = parameters.size(); i-- > 0;) {
    if (!owns(i)) continue;
    for (int rank = 0; rank < group.size(); ++rank) {
      if (rank == group.rank()) continue;
      for (const PartNode& node : NodesOf(rank, group.size(), parts)) expected_.push_back({i, rank, node});
    }
  }
}

RankReducer::~RankReducer() {
  try {
    for (Receiving& one : receiving_) group_.transport().Wait(one.request);
    for (Sending& one : sending_) group_.transport().Wait(one.request);
  } catch (const std::exception&) {
    // The transport is lost, and touches these bytes no more.
  }
}

void RankReducer::Start() { exchange_ = {}; }

StepCounts RankReducer::Begin(const StepCounts& here, size_t parameters) {
  gradients_.assign(parameters, PartTree<Tensor>(all_parts_));
  complete_here_.assign(parameters, std::numeric_limits<double>::infinity());
  losses_.clear();
  const Stopwatch watch;
  StepCounts all;
  for (const std::string& of_rank : group_.AllGather(
           MessageWriter().Int(here.targets).Int(here.positions).Int(here.examples).Int(here.tokens).bytes())) {
    MessageReader reader(of_rank);
    all.targets += reader.Int();
    all.positions += reader.Int();
    all.examples += reader.Int();
    all.tokens += reader.Int();
  }
  exchange_.waited_seconds += watch.seconds();
  next_expected_ = 0;
  exchange_began_.reset();
  ReceiveMore();
  return all;
}

Transport::Request RankReducer::Send(int to, int tag, std::span<const std::byte> bytes) {
  exchange_.bytes_sent += std::ssize(bytes);
  return group_.transport().Send(to, tag, bytes);
}

void RankReducer::ReceiveMore() {
  while (std::ssize(receiving_) < kMostReceiving && next_expected_ < expected_.size()) {
    const Expected& next = expected_[next_expected_++];
    const Tensor& value = parameters_[next.parameter].value.value();
    Tensor buffer = Tensor::Empty(value.shape(), value.dtype());
    const Transport::Request request = group_.transport().Receive(next.from, tag_of(next.parameter), BytesIn(buffer));
    receiving_.push_back({next, std::move(buffer), request});
  }
}

// An empty message is a gradient that no part has reached.
void RankReducer::TakeFront() {
  Receiving front = std::move(receiving_.front());
  receiving_.pop_front();
  const bool reached = group_.transport().Wait(front.request) > 0;
  TraceMessage("gradient from another rank", complete_here_[front.what.parameter], front.buffer);
  AddNode(front.what.parameter,
          {front.what.node.level, front.what.node.index, reached ? std::move(front.buffer) : Tensor()});
}

void RankReducer::Poll() {
  while (!receiving_.empty() && group_.transport().Test(receiving_.front().request)) {
    TakeFront();
    ReceiveMore();
  }
  while (!sending_.empty() && group_.transport().Test(sending_.front().request)) {
    FinishSending();
  }
}

void RankReducer::FinishSending() {
  const Sending& front = sending_.front();
  group_.transport().Wait(front.request);
  TraceMessage("gradient to another rank", front.begin, front.tensor);
  sending_.pop_front();
}

void RankReducer::AddGradient(int64_t part, size_t parameter, Tensor gradient) {
  AddNode(parameter, {0, part, std::move(gradient)});
  if (part != parts_.back() || owners_[parameter] < 0) return;
  if (!exchange_began_) exchange_began_.emplace();
  complete_here_[parameter] = TraceTime();
  if (!owns(parameter)) {
    for (PartTree<Tensor>::Node& node : gradients_[parameter].Take()) {
      const std::span<const std::byte> bytes = node.sum.defined() ? BytesIn(node.sum) : std::span<const std::byte>();
      const Transport::Request request = Send(owners_[parameter], tag_of(parameter), bytes);
      sending_.push_back({std::move(node.sum), request, complete_here_[parameter]});
    }
  }
  Poll();
}

void RankReducer::AddLoss(int64_t part, LossSum sum) {
  MessageWriter message;
  message.Int(part).Double(sum.loss);
  WriteSums(sum.metrics, message);
  losses_ += message.bytes();
}

void RankReducer::WaitForAll() {
  while (!receiving_.empty()) {
    TakeFront();
    ReceiveMore();
  }
  while (!sending_.empty()) FinishSending();
}

StepSum RankReducer::Finish() {
  const Stopwatch watch;
  const std::vector<std::string> losses = group_.AllGather(losses_);
  WaitForAll();
  exchange_.waited_seconds += watch.seconds();
  if (exchange_began_) exchange_.exchange_seconds = exchange_began_->seconds();
  MarkTrace(TraceEvent::Kind::kPhase, kExchangeOfGradients);
  PartTree<LossSum> tree(all_parts_);
  for (const std::string& of_rank : losses) {
    for (MessageReader reader(of_rank); !reader.done();) {
      const int64_t part = reader.Int();
      LossSum sum{.loss = reader.Double(), .metrics = {}};
      sum.metrics = ReadSums(reader);
      tree.Add({0, part, std::move(sum)});
    }
  }
  StepSum sum{.gradients = std::vector<Tensor>(parameters_.size()), .loss = std::move(tree.Take()[0].sum)};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (owns(i)) sum.gradients[i] = std::move(gradients_[i].Take()[0].sum);
  }
  return sum;
}

void RankReducer::ShareSquares(std::vector<double>& squares) {
  const Stopwatch watch;
  MessageWriter here;
  for (size_t i = 0; i < squares.size(); ++i) {
    if (owns(i)) here.Int(static_cast<int64_t>(i)).Double(squares[i]);
  }
  for (const std::string& of_rank : group_.AllGather(here.bytes())) {
    for (MessageReader reader(of_rank); !reader.done();) {
      const auto parameter = static_cast<size_t>(reader.Int());
      squares[parameter] = reader.Double();
    }
  }
  exchange_.waited_seconds += watch.seconds();
}

void RankReducer::ShareParameters() {
  const Stopwatch watch;
  std::vector<Transport::Request> requests;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (owners_[i] < 0) continue;
    const std::span<std::byte> bytes = BytesIn(parameters_[i].value.value());
    if (!owns(i)) {
      requests.push_back(group_.transport().Receive(owners_[i], tag_of(i), bytes));
      continue;
    }
    // The next rank first, so that not all send to the same.
    for (int step = 1; step < group_.size(); ++step) {
      requests.push_back(Send((group_.rank() + step) % group_.size(), tag_of(i), bytes));
    }
  }
  for (const Transport::Request request : requests) group_.transport().Wait(request);
  exchange_.waited_seconds += watch.seconds();
  MarkTrace(TraceEvent::Kind::kPhase, "exchange of parameters");
}

std::string RankReducer::ShareText(std::string text) {
  const std::vector<std::string> all = group_.AllGather(text);
  const auto first = std::find_if(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
  return first == all.end() ? "" : *first;
}

}  // namespace crosstalk

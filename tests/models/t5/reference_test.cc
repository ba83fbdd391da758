// A whole T5 against the equations of the paper in plain loops: one position at a time, no shared code with the model
// but the names of its parameters. Multi-head attention; the rest of the family has its own reference in tests/nn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/models/t5/t5.h"
#include "tests/support/t5_cases.h"

namespace crosstalk {
namespace reference_test {

using Vector = std::vector<double>;
using Sequence = std::vector<Vector>;  // [position][d]

constexpr size_t kD = 10, kHeads = 3, kKey = 4, kValue = 5;

class PlainT5 {
 public:
  explicit PlainT5(const T5& model) : config_(model.config()) {
    for (const NamedParameter& p : model.Parameters()) weights_[p.name] = p.value.value().ToVector<double>();
  }

  Sequence Encode(const std::vector<int>& ids) const {
    Sequence x = Embed(ids);
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string block = "encoder.block_" + std::to_string(layer);
      Attend(block + ".self_attention", x, nullptr, "encoder.relative_bias.table", false);
      FeedForward(block + ".feed_forward", x);
    }
    return Norm("encoder.final_norm.scale", x);
  }

  // Logits [position][id] for decoder inputs `ids` over the encoder's output.
  Sequence Decode(const std::vector<int>& ids, const Sequence& encoded) const {
    Sequence x = Embed(ids);
    for (int64_t layer = 0; layer < config_.decoder_layers; ++layer) {
      const std::string block = "decoder.block_" + std::to_string(layer);
      Attend(block + ".self_attention", x, nullptr, "decoder.relative_bias.table", true);
      Attend(block + ".cross_attention", x, &encoded, "", false);
      FeedForward(block + ".feed_forward", x);
    }
    const bool tied = config_.classifier == ClassifierKind::kTied;
    const Vector& table = weights_.at(tied ? "embedding.table" : "classifier.table");
    Sequence logits;
    for (const Vector& hidden : Norm("decoder.final_norm.scale", x)) {
      Vector row(static_cast<size_t>(config_.vocabulary), 0.0);  // rows beyond are no classes
      for (size_t id = 0; id < row.size(); ++id) {
        for (size_t k = 0; k < kD; ++k) row[id] += hidden[k] * table[id * kD + k] / (tied ? std::sqrt(1.0 * kD) : 1.0);
      }
      logits.push_back(row);
    }
    return logits;
  }

 private:
  Sequence Embed(const std::vector<int>& ids) const {
    const Vector& table = weights_.at("embedding.table");
    Sequence x;
    for (const int id : ids)
      x.emplace_back(table.begin() + id * static_cast<int>(kD), table.begin() + (id + 1) * static_cast<int>(kD));
    return x;
  }

  Sequence Norm(const std::string& scale, const Sequence& x) const {
    Sequence y = x;
    for (Vector& row : y) {
      double squares = 0;
      for (const double value : row) squares += value * value;
      for (size_t k = 0; k < kD; ++k) {
        row[k] *= weights_.at(scale)[k] / std::sqrt(squares / static_cast<double>(kD) + 1e-6);
      }
    }
    return y;
  }

  // v[heads][size] = x·P[d, heads, size]
  Sequence Project(const Vector& x, const Vector& P, size_t size) const {
    Sequence v(kHeads, Vector(size, 0.0));
    for (size_t k = 0; k < kD; ++k) {
      for (size_t h = 0; h < kHeads; ++h) {
        for (size_t i = 0; i < size; ++i) v[h][i] += x[k] * P[(k * kHeads + h) * size + i];
      }
    }
    return v;
  }

  // The sequences here are far shorter than 8, the last exact bucket of a direction.
  static size_t Bucket(size_t query, size_t key, bool causal) {
    if (causal) return query - key;
    return key > query ? 16 + (key - query) : query - key;
  }

  // x += attention(norm(x), memory); memory null: over norm(x) itself, with position bias.
  void Attend(const std::string& layer, Sequence& x, const Sequence* memory, const std::string& bias,
              bool causal) const {
    const Sequence normed = Norm(layer + "_norm.scale", x);
    const Sequence& M = memory != nullptr ? *memory : normed;
    for (size_t i = 0; i < x.size(); ++i) {
      const Sequence q = Project(normed[i], weights_.at(layer + ".P_q"), kKey);
      const size_t visible = causal ? i + 1 : M.size();
      for (size_t h = 0; h < kHeads; ++h) {
        Vector weight(visible);
        double total = 0;
        for (size_t j = 0; j < visible; ++j) {
          const Sequence k = Project(M[j], weights_.at(layer + ".P_k"), kKey);
          double logit = 0;
          for (size_t c = 0; c < kKey; ++c) logit += q[h][c] * k[h][c];
          if (memory == nullptr) logit += weights_.at(bias)[h * 32 + Bucket(i, j, causal)];
          total += weight[j] = std::exp(logit);
        }
        for (size_t j = 0; j < visible; ++j) {
          const Sequence v = Project(M[j], weights_.at(layer + ".P_v"), kValue);
          const Vector& P_o = weights_.at(layer + ".P_o");  // [heads, value, d]
          for (size_t c = 0; c < kValue; ++c) {
            for (size_t k = 0; k < kD; ++k) x[i][k] += weight[j] / total * v[h][c] * P_o[(h * kValue + c) * kD + k];
          }
        }
      }
    }
  }

  void FeedForward(const std::string& layer, Sequence& x) const {
    const bool gated = config_.feed_forward == FeedForwardKind::kGatedGelu;
    const Sequence normed = Norm(layer + "_norm.scale", x);
    const size_t d_ff = static_cast<size_t>(config_.d_ff);
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t f = 0; f < d_ff; ++f) {
        double first = 0, second = 0;
        for (size_t k = 0; k < kD; ++k) {
          first += normed[i][k] * weights_.at(layer + (gated ? ".wi_0" : ".wi"))[k * d_ff + f];
          if (gated) second += normed[i][k] * weights_.at(layer + ".wi_1")[k * d_ff + f];
        }
        const double cubic = first + 0.044715 * first * first * first;
        const double hidden =
            gated ? first / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * cubic)) * second : std::max(first, 0.0);
        for (size_t k = 0; k < kD; ++k) x[i][k] += hidden * weights_.at(layer + ".wo")[f * kD + k];
      }
    }
  }

  ModelConfig config_ = BaseT5();
  std::map<std::string, Vector> weights_;
};

std::vector<int> RealIds(const Tensor& ids, int64_t row) {
  std::vector<int> real;
  for (int64_t i = 0; i < ids.size(1); ++i) {
    const int id = static_cast<int>(ids.At({row, i}));
    if (id != kPadId) real.push_back(id);
  }
  return real;
}

void ExpectModelMatchesEquations(FeedForwardKind feed_forward, ClassifierKind classifier) {
  const T5 model(TinyT5("multihead", feed_forward, classifier), 1, DType::kFloat64);
  for (const NamedParameter& parameter : model.Parameters()) {  // norms start at 1, where a missing one would not show
    if (parameter.value.rank() == 1) FillNormal(parameter.value.value(), {.seed = 3}, 1.0, 0.5);
  }
  const PlainT5 plain(model);
  const Tensor inputs = TinyIds(3, 8, 40, 1, 2), targets = TinyIds(3, 7, 40, 2, 2);
  const Tensor mask = NotPadding(inputs, kPadId);
  const Variable encoded = model.Encode(inputs, {});
  const Tensor logits = model.Logits(model.Decode(encoded, mask, ShiftRight(targets, kPadId), {})).value();
  for (int64_t row = 0; row < 3; ++row) {
    std::vector<int> shifted = RealIds(targets, row);
    shifted.insert(shifted.begin(), kPadId);
    shifted.pop_back();
    const Sequence expected = plain.Decode(shifted, plain.Encode(RealIds(inputs, row)));
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t id = 0; id < expected[i].size(); ++id) {
        // Logits of order 1 to 10 in double, after four layers of sums in another order.
        ASSERT_NEAR(logits.At({row, static_cast<int64_t>(i), static_cast<int64_t>(id)}), expected[i][id], 1e-11)
            << "row " << row << " position " << i << " id " << id;
      }
    }
  }
}

TEST(T5ReferenceTest, PublishedFormMatchesTheEquations) {
  ExpectModelMatchesEquations(FeedForwardKind::kRelu, ClassifierKind::kTied);
}

TEST(T5ReferenceTest, GatedUntiedFormMatchesTheEquations) {
  ExpectModelMatchesEquations(FeedForwardKind::kGatedGelu, ClassifierKind::kUntied);
}

}  // namespace reference_test
}  // namespace crosstalk

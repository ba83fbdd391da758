// SentencePiece models written field by field, for what no trainer would write.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace crosstalk {

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string ProtoField(int number, const std::string& value) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) + Varint(value.size()) + value;
}
inline std::string Number(int number, uint64_t value) {
  return Varint(static_cast<uint64_t>(number) << 3) + Varint(value);
}
inline std::string Score(float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return Varint(2 << 3 | 5) + bytes;
}
inline std::string Piece(const std::string& text, float score, int type) {
  return ProtoField(1, ProtoField(1, text) + Score(score) + Number(3, type));
}
// pad, eos, unk and two letters; unigram.
inline std::string SmallModel(const std::string& more = "", const std::string& normalizer = "") {
  return Piece("<pad>", 0, 3) + Piece("</s>", 0, 3) + Piece("<unk>", 0, 2) + Piece("a", -1, 1) +
         Piece("\xE2\x96\x81", -2, 1) + more +
         ProtoField(2, Number(3, 1) + Number(40, 2) + Number(41, uint64_t(-1)) + Number(42, 1) + Number(43, 0)) +
         ProtoField(3, ProtoField(1, "identity") + normalizer);
}

// The normaliser's table: a double-array trie of `trie_bytes` bytes and the texts that it leads to.
inline std::string CharsMap(uint32_t trie_bytes, const std::string& trie, const std::string& texts) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &trie_bytes, 4);
  return ProtoField(2, bytes + trie + texts);
}

// The table that replaces `letter`, twice of it, … up to `rules` times by `text`. Its last node leads on to node number
// `on_to`.
inline std::string NestedTable(char letter, int rules, const std::string& text, int on_to) {
  const uint32_t value = uint32_t{1} << 31, units = 256 * static_cast<uint32_t>(rules + 2);
  std::string trie(4 * units, '\0');
  const auto set = [&](uint32_t i, uint32_t unit) { std::memcpy(trie.data() + 4 * i, &unit, 4); };
  for (uint32_t i = 0; i < units; ++i) set(i, value);  // of the text at 0; no letter leads there
  const auto base = [](int node) { return 256 * static_cast<uint32_t>(node + 1); };  // a block of units for each
  set(0, base(0) << 10);
  for (int node = 0; node < rules; ++node) {
    const uint32_t from = base(node) ^ static_cast<unsigned char>(letter),
                   to = base(node + 1 < rules ? node + 1 : on_to);
    set(from, (from ^ to) << 10 | 1 << 8 | static_cast<unsigned char>(letter));
  }
  return CharsMap(static_cast<uint32_t>(trie.size()), trie, text + '\0');
}

}  // namespace crosstalk

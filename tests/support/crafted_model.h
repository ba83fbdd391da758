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

}  // namespace crosstalk
